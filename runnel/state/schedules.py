"""What schedulers and their operators remember: states of runs, gates, watermarks and their groups, the pause, who leads.

`revision` moves with every word of an operator, so that a daemon sees with one small query that nobody said anything. What a daemon
itself remembers does not move it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, delete, select

from runnel.errors import DefinitionError
from runnel.schedule.run_state import RunState
from runnel.schedule.watermarks import WatermarkGroup
from runnel.state.database import Database
from runnel.state.lease import _dead as is_dead
from runnel.state.tables import gate, lease, run_state, value, watermark, watermark_group

T = TypeVar("T")
PAUSED, REVISION, DAEMON = "paused", "operations", "daemon"


@dataclass(frozen=True)
class Gate:
    """A source that the scheduler does not read on from."""

    source: str
    since: str
    note: str = ""


@dataclass(frozen=True)
class Watermark:
    """How far a source is loaded, in the time of its data, and when somebody said so."""

    source: str
    moment: datetime
    advanced_at: str


class Schedules:
    """One short transaction a call, like the catalog that it belongs to."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def revision(self) -> int:
        return int(self._value(REVISION) or 0)

    # -- runs ------------------------------------------------------------------------------------------------------------

    def states(self) -> dict[str, RunState]:
        rows = self._database.read(lambda connection: connection.execute(select(run_state)).all())
        return {row.name: self._state(row.name, row.state) for row in rows}

    def state(self, name: str) -> RunState:
        row = self._database.read(lambda connection: connection.execute(select(run_state.c.state).where(run_state.c.name == name)).first())
        return self._state(name, row.state) if row is not None else RunState()

    def remember(self, states: Mapping[str, RunState]) -> None:
        """Keep what a daemon found. A suspension that a user asked for meanwhile stays."""

        def work(connection: Connection) -> None:
            rows = connection.execute(select(run_state).where(run_state.c.name.in_(states))).all()
            stored = {row.name: self._state(row.name, row.state) for row in rows}
            for name, state in states.items():
                asked = stored[name].suspended if name in stored else None
                kept = asked is not None and asked.by == "user" and state.suspended is None
                self._upsert(connection, run_state, "name", name, state=json.dumps((replace(state, suspended=asked) if kept else state).as_dict()))

        if states:
            self._database.write(work)

    def change(self, name: str, how: Callable[[RunState], RunState]) -> RunState:
        """Change a state by the word of an operator; the new one."""

        def work(connection: Connection) -> RunState:
            row = connection.execute(select(run_state.c.state).where(run_state.c.name == name)).first()
            new = how(self._state(name, row.state) if row is not None else RunState())
            self._upsert(connection, run_state, "name", name, state=json.dumps(new.as_dict()))
            return new

        return self._operate(work)

    # -- gates -----------------------------------------------------------------------------------------------------------

    def gates(self) -> dict[str, Gate]:
        rows = self._database.read(lambda connection: connection.execute(select(gate).order_by(gate.c.source)).all())
        return {row.source: Gate(row.source, row.since, row.note) for row in rows}

    def close_gate(self, found: Gate) -> None:
        """Gate a source; one that is gated already keeps its time."""

        def work(connection: Connection) -> None:
            row = connection.execute(select(gate.c.since).where(gate.c.source == found.source)).first()
            self._upsert(connection, gate, "source", found.source, since=row.since if row else found.since, note=found.note)

        self._operate(work)

    def open_gate(self, source: str) -> bool:
        """Whether it was gated."""
        return self._operate(lambda connection: connection.execute(delete(gate).where(gate.c.source == source)).rowcount > 0)

    # -- watermarks ------------------------------------------------------------------------------------------------------

    def watermarks(self) -> dict[str, Watermark]:
        rows = self._database.read(lambda connection: connection.execute(select(watermark).order_by(watermark.c.source)).all())
        return {row.source: Watermark(row.source, datetime.fromisoformat(row.moment), row.advanced_at) for row in rows}

    def advance(self, mark: Watermark) -> bool:
        """Move a watermark forward; False when it was there already. Backwards is an error."""

        def work(connection: Connection) -> bool:
            row = connection.execute(select(watermark.c.moment).where(watermark.c.source == mark.source)).first()
            before = datetime.fromisoformat(row.moment) if row is not None else None
            if before is not None and mark.moment < before:
                raise DefinitionError(
                    f"the watermark of {mark.source} cannot go back",
                    code="WATERMARK",
                    detail=f"It is {before.isoformat()}; {mark.moment.isoformat()} is earlier.",
                    hint="Advance it to a later moment.",
                )
            self._upsert(connection, watermark, "source", mark.source, moment=mark.moment.isoformat(), advanced_at=mark.advanced_at)
            return before != mark.moment

        return self._operate(work)

    def groups(self) -> dict[str, WatermarkGroup]:
        rows = self._database.read(lambda connection: connection.execute(select(watermark_group).order_by(watermark_group.c.name)).all())
        return {row.name: WatermarkGroup(row.name, tuple(json.loads(row.sources)), row.tolerance) for row in rows}

    def put_group(self, group: WatermarkGroup) -> None:
        values = {"sources": json.dumps(group.sources), "tolerance": group.tolerance}
        self._operate(lambda connection: self._upsert(connection, watermark_group, "name", group.name, **values))

    def drop_group(self, name: str) -> bool:
        return self._operate(lambda connection: connection.execute(delete(watermark_group).where(watermark_group.c.name == name)).rowcount > 0)

    # -- the whole -------------------------------------------------------------------------------------------------------

    def paused(self) -> str:
        """Since when nothing is started, or nothing."""
        return self._value(PAUSED) or ""

    def pause(self, since: str) -> None:
        self._operate(lambda connection: self._upsert(connection, value, "name", PAUSED, value=since))

    def unpause(self) -> bool:
        return self._operate(lambda connection: connection.execute(delete(value).where(value.c.name == PAUSED)).rowcount > 0)

    def daemon(self) -> dict[str, Any]:
        """What the leading daemon last said of itself."""
        text = self._value(DAEMON)
        return dict(json.loads(text)) if text else {}

    def put_daemon(self, facts: Mapping[str, Any]) -> None:
        self._database.write(lambda connection: self._upsert(connection, value, "name", DAEMON, value=json.dumps(facts)))

    def holder(self, name: str) -> str | None:
        """Who holds a lease now, unless its process is known to be dead."""
        held = select(lease.c.owner).where(lease.c.name == name, lease.c.expires_at >= self._database.clock)
        owner = self._database.read(lambda connection: connection.execute(held).scalar())
        return owner if owner is not None and not is_dead(owner) else None

    # -- inside ----------------------------------------------------------------------------------------------------------

    def _operate(self, work: Callable[[Connection], T]) -> T:
        def counted(connection: Connection) -> T:
            found = work(connection)
            before = connection.execute(select(value.c.value).where(value.c.name == REVISION)).scalar()
            self._upsert(connection, value, "name", REVISION, value=str(int(before or 0) + 1))
            return found

        return self._database.write(counted)

    def _value(self, name: str) -> str | None:
        return self._database.read(lambda connection: connection.execute(select(value.c.value).where(value.c.name == name)).scalar())

    def _upsert(self, connection: Connection, table: Table, key: str, which: str, **values: Any) -> None:
        statement = self._database.insert(table).values({key: which, **values})
        connection.execute(statement.on_conflict_do_update(index_elements=[key], set_=values))

    def _state(self, name: str, text: str) -> RunState:
        try:
            return RunState.from_dict(json.loads(text))
        except (ValueError, TypeError, KeyError):
            raise self._database.corrupt(f'The schedule state of "{name}" cannot be read') from None
