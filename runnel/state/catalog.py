"""The catalog: which stream tables exist, what their refreshes did, and who is refreshing one."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, delete, insert, literal_column, select, update

from runnel.errors import DefinitionError
from runnel.observe.record import RefreshRecord
from runnel.schedule.cut import Cut
from runnel.state import tables
from runnel.state.database import Database
from runnel.state.lease import Lease, Leases
from runnel.state.schedules import Schedules
from runnel.state.tables import entry as entries
from runnel.state.tables import history, published, revision
from runnel.state.url import parse

RETIRE_SECONDS = 3600.0  # between two looks for old records
RETIRE_ROWS = 5_000  # deleted in one transaction, which other writers wait for

# Statements that every refresh makes are built once. SQLite finds the few running records by their index only when the status is part
# of the text, and when it is not asked to sort.
_RUNNING = history.c.status == literal_column("'RUNNING'")
_ALL_RUNNING = select(history).where(_RUNNING)
_RUNNING_OF_ONE = _ALL_RUNNING.where(history.c.stream_table == bindparam("table"))
_FINISH = update(history).where(history.c.stream_table == bindparam("table"), history.c.started_at == bindparam("start"), _RUNNING)
_REVISION = select(revision.c.number)
_ALL_PUBLISHED = select(published)


@dataclass(frozen=True)
class Entry:
    """One stream table: `name` is fully qualified, `path` is its backing table's, `created_at` ISO in UTC."""

    id: str
    name: str
    path: str
    definition: dict[str, Any]
    created_at: str


@dataclass(frozen=True)
class Published:
    """What readers see of a stream table that is published with others: a version of its backing table, and the cut it reflects."""

    version: int
    cut: Cut


class Catalog:
    """What Runnel remembers, in SQLite or PostgreSQL; usable from many threads and processes at once.

    Every call is one short transaction. Open with `Catalog.open`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.url_shown = database.shown
        self.schedules = Schedules(database)
        self._leases = Leases(database)
        self._retire_at = 0.0

    @classmethod
    def open(cls, url: str) -> Catalog:
        """Open, and create on first use; several processes may do so at the same time."""
        database = Database(parse(url))
        try:
            if not database.read(tables.exists):
                database.write(tables.create)
            elif database.read(tables.outdated):
                database.write(tables.migrate)
            if wrong := database.read(tables.check):
                raise database.corrupt(wrong)
        except BaseException:
            database.close()
            raise
        return cls(database)

    def __repr__(self) -> str:
        return f"Catalog({self.url_shown!r})"

    def put(self, entry: Entry) -> None:
        """Insert, or replace by id; under a new name its history goes along."""
        values = {"name": entry.name, "path": entry.path, "definition": json.dumps(entry.definition), "created_at": entry.created_at}

        def work(connection: Connection) -> None:
            holder = connection.execute(select(entries).where(entries.c.name == entry.name)).first()
            if holder is not None and holder.id != entry.id:
                raise _name_taken(entry.name, holder.path)
            renamed = select(entries.c.name).where(entries.c.id == entry.id, entries.c.name != entry.name).scalar_subquery()
            connection.execute(update(history).where(history.c.stream_table == renamed).values(stream_table=entry.name))
            connection.execute(update(published).where(published.c.name == renamed).values(name=entry.name))
            upsert = self._database.insert(entries).values(id=entry.id, **values)
            connection.execute(upsert.on_conflict_do_update(index_elements=["id"], set_=values))
            _count(connection)

        self._database.write(work)

    def swap(self, old_id: str, entry: Entry) -> None:
        """Put a stream table with a new id in the place of an old one; its history and what is published of it stay."""
        values = {"id": entry.id, "name": entry.name, "path": entry.path, "definition": json.dumps(entry.definition), "created_at": entry.created_at}

        def work(connection: Connection) -> None:
            connection.execute(update(entries).where(entries.c.id == old_id).values(values))
            _count(connection)

        self._database.write(work)

    def get(self, name: str) -> Entry | None:
        found = self._entries(select(entries).where(entries.c.name == name))
        return found[0] if found else None

    def entries(self) -> list[Entry]:
        return self._entries(select(entries).order_by(entries.c.name))

    def remove(self, name: str) -> None:
        """Forget a stream table and its records; a name that is not there is fine."""

        def work(connection: Connection) -> None:
            connection.execute(delete(entries).where(entries.c.name == name))
            connection.execute(delete(history).where(history.c.stream_table == name))
            connection.execute(delete(tables.run_state).where(tables.run_state.c.name == name))
            connection.execute(delete(published).where(published.c.name == name))
            _count(connection)

        self._database.write(work)

    def revision(self) -> int:
        """A number that moves whenever an entry changes: as long as it stands still, what `entries` gave is right."""
        return int(self._database.read(lambda connection: connection.execute(_REVISION).scalar()) or 0)

    def publish(self, versions: Mapping[str, int], cut: Cut) -> None:
        """Let readers see these versions, all of them from one moment on."""
        text = json.dumps({"versions": dict(cut.versions), "at": cut.at})

        def work(connection: Connection) -> None:
            connection.execute(delete(published).where(published.c.name.in_(versions)))
            connection.execute(insert(published), [{"name": n, "version": v, "cut": text} for n, v in versions.items()])

        if versions:
            self._database.write(work)

    def published(self, names: Collection[str] | None = None) -> dict[str, Published]:
        """What readers see, of these stream tables or of all; those that are not here are read at their latest version."""
        statement = _ALL_PUBLISHED if names is None else select(published).where(published.c.name.in_(names))
        rows = self._database.read(lambda connection: connection.execute(statement).all())
        return {row.name: self._published(row) for row in rows}

    def follow(self, name: str, old: int, new: int) -> None:
        """Let readers see another version of the same content, unless something else was published meanwhile."""
        mine = (published.c.name == name) & (published.c.version == old)
        self._database.write(lambda connection: connection.execute(update(published).where(mine).values(version=new)))

    def unpublish(self, names: Collection[str]) -> None:
        """Let readers see the latest versions of these stream tables again."""
        if names:
            self._database.write(lambda connection: connection.execute(delete(published).where(published.c.name.in_(names))))

    def record(self, record: RefreshRecord) -> None:
        """Append to the history, or finish the RUNNING record of the same stream table and start."""

        outcome = _outcome(record)

        def work(connection: Connection) -> None:
            if _finish(connection, record, outcome) == 0:
                connection.execute(insert(history), {"stream_table": record.stream_table, "started_at": record.started_at, **outcome})

        self._database.write(work)

    def finish(self, record: RefreshRecord) -> bool:
        """Finish a RUNNING record; False, and nothing happens, when somebody else has finished it meanwhile."""
        return self._database.write(lambda connection: _finish(connection, record, _outcome(record))) > 0

    def orphans(self, held: str | None = None) -> list[RefreshRecord]:
        """RUNNING records that nobody works on: of the stream table whose lease the caller holds, else of all whose lease is gone."""
        statement, of = (_ALL_RUNNING, {}) if held is None else (_RUNNING_OF_ONE, {"table": held})
        # Records before leases: a refresh that ends in between has finished its record, and `finish` then finds nothing to do.
        rows = self._database.read(lambda connection: connection.execute(statement, of).all())
        if rows and held is None:
            alive = self._leases.holders()
            rows = [row for row in rows if row.stream_table not in alive]
        return [self._record(row) for row in sorted(rows, key=lambda row: row.started_at)]

    def history(self, name: str | None, limit: int = 50, since: str | None = None) -> list[RefreshRecord]:
        """Records of one stream table, or of all, newest first; `since` is the ISO time in UTC of the oldest wanted."""
        statement = select(history).order_by(history.c.started_at.desc(), history.c.id.desc()).limit(max(limit, 0))
        if name is not None:
            statement = statement.where(history.c.stream_table == name)
        if since is not None:
            statement = statement.where(history.c.started_at >= since)
        return [self._record(row) for row in self._database.read(lambda connection: connection.execute(statement).all())]

    def retire(self, days: float) -> int:
        """Forget records older than this many days; how many. Looks once an hour only, so that any refresh may call it."""
        if time.monotonic() < self._retire_at:
            return 0
        self._retire_at = time.monotonic() + RETIRE_SECONDS
        before = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="milliseconds")
        old = select(history.c.id).where(history.c.started_at < before).order_by(history.c.started_at).limit(RETIRE_ROWS)
        gone = 0
        while True:
            batch = self._database.write(lambda connection: connection.execute(delete(history).where(history.c.id.in_(old))).rowcount)
            gone += batch
            if batch < RETIRE_ROWS:
                return gone

    def lease(self, name: str, *, owner: str | None = None, wait: float, ttl: float) -> AbstractContextManager[Lease]:
        """Exclude all other refreshes of `name` for the length of a `with` block; Transient BUSY after `wait` seconds."""
        return self._leases.hold(name, owner=owner, wait=wait, ttl=ttl)

    def clear(self) -> None:
        """Forget all entries and records. Leases stay: they are not memory, and their holders are at work."""

        def work(connection: Connection) -> None:
            connection.execute(delete(entries))
            connection.execute(delete(history))
            connection.execute(delete(published))
            _count(connection)

        self._database.write(work)

    def close(self) -> None:
        self._database.close()

    def _entries(self, statement: Select[Any]) -> list[Entry]:
        return [self._entry(row) for row in self._database.read(lambda connection: connection.execute(statement).all())]

    def _entry(self, row: Row[Any]) -> Entry:
        try:
            return Entry(row.id, row.name, row.path, json.loads(row.definition), row.created_at)
        except ValueError:
            raise self._database.corrupt(f'The definition of "{row.name}" is not JSON') from None

    def _published(self, row: Row[Any]) -> Published:
        try:
            return Published(row.version, Cut(**json.loads(row.cut)))
        except (ValueError, TypeError):
            raise self._database.corrupt(f'The publication of "{row.name}" cannot be read') from None

    def _record(self, row: Row[Any]) -> RefreshRecord:
        try:
            return RefreshRecord.from_dict(json.loads(row.record) | {"stream_table": row.stream_table})
        except (ValueError, KeyError, TypeError):
            raise self._database.corrupt(f'A record of "{row.stream_table}" cannot be read') from None


def _outcome(record: RefreshRecord) -> dict[str, Any]:
    return {"epoch": record.epoch, "action": str(record.action), "status": record.status, "record": record.to_json()}


def _finish(connection: Connection, record: RefreshRecord, outcome: dict[str, Any]) -> int:
    return connection.execute(_FINISH, {"table": record.stream_table, "start": record.started_at, **outcome}).rowcount


def _count(connection: Connection) -> None:
    connection.execute(update(revision).values(number=revision.c.number + 1))


def _name_taken(name: str, path: str) -> DefinitionError:
    return DefinitionError(
        f'"{name}" already exists',
        code="NAME_TAKEN",
        detail=f"It is the stream table stored at {path}.",
        hint="Choose another name, or drop the existing stream table first.",
    )
