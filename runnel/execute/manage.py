"""Create, replace, alter, drop and repair stream tables: the changes of what exists, each leaving nothing half done."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import SparkSession

from runnel.bind.expand import split_key
from runnel.definition import Definition
from runnel.errors import DefinitionError, RunnelError
from runnel.execute.engine import Engine, graph_of
from runnel.execute.lookup import quoted
from runnel.execute.prepare import Prepared, prepare
from runnel.execute.publication import republish, seen, settle, view
from runnel.execute.refresh import entry_of
from runnel.execute.unit import cut_for, refresh_unit
from runnel.observe.record import Action, Mode, RefreshRecord
from runnel.schedule.schedules import Cron
from runnel.sources.delta import FEED
from runnel.sources.delta_log import local_path
from runnel.sources.stream_table import REFRESHES
from runnel.tables.backing import BackingTable, CommitNote
from runnel.tables.content import quote
from runnel.tables.view import drop_view

log = logging.getLogger("runnel")


def create(
    engine: Engine,
    folder: str,
    name: str,
    query: str,
    mode: Mode,
    comment: str = "",
    properties: dict[str, str] | None = None,
    or_replace: bool = False,
    schedule: str = "",
) -> RefreshRecord:
    """Define a stream table and load it. When the load fails, nothing is left of it and what was there before stays."""
    if engine.catalog.get(name) is not None:
        if not or_replace:
            raise DefinitionError(
                f'stream table "{name}" exists already', code="NAME_TAKEN", hint="Use CREATE OR REPLACE STREAM TABLE, or another name."
            )
        return redefine(engine, name, query, mode, comment, properties, keep=False, schedule=schedule)
    _check_name_free(engine.spark, name)
    prepared = _prepared(engine, name, query, mode, comment, properties, schedule)
    return _build(engine, folder, prepared)


def redefine(
    engine: Engine,
    name: str,
    query: str,
    mode: Mode | None = None,
    comment: str | None = None,
    properties: dict[str, str] | None = None,
    keep: bool = True,
    schedule: str | None = None,
) -> RefreshRecord:
    """Give a stream table another query. `keep` leaves options that are not given as they are.

    A query that means the same is not computed again. Another one is computed beside the old result and takes its place in one commit,
    so that readers never see less than one of the two, and stream tables above receive the difference.
    """
    backing = engine.backing(name)
    old = backing.definition
    prepared = _prepared(
        engine,
        name,
        query,
        mode or (old.mode if keep else Mode.AUTO),
        old.comment if comment is None and keep else comment or "",
        {**old.properties, **(properties or {})} if keep else properties,
        old.schedule if schedule is None and keep else schedule or "",
    )
    if _same_query(engine, old, prepared):
        return _only_options(engine, backing, prepared.definition)
    unit = graph_of(engine.definitions() | {name: prepared.definition}).unit_of[name]
    try:
        records = refresh_unit(engine, unit, cut_for(engine, [unit], prepared.definition), become=prepared)
    finally:
        settle(engine)
        view(engine, name, seen(engine, name))
    return next(r for r in records if r.stream_table == name)


def _prepared(engine: Engine, name: str, query: str, mode: Mode, comment: str, properties: dict[str, str] | None, schedule: str) -> Prepared:
    paths = {e.name: e.path for e in engine.known().entries.values()}
    prepared = prepare(engine.spark, engine.lookup(), engine.settings, name, query, mode, paths, comment, properties)
    prepared = replace(prepared, definition=replace(prepared.definition, schedule=schedule))
    _check_cycle(engine, prepared.definition)
    feed(engine, prepared.definition)
    return prepared


def _same_query(engine: Engine, old: Definition, prepared: Prepared) -> bool:
    """Whether two queries have one normal form: the text that stands on its own, or the tree that is maintained."""
    new = prepared.definition
    if (old.layout, old.source_keys, old.refused) != (new.layout, new.source_keys, new.refused):
        return False
    return old.sql == new.sql or (prepared.root is not None and engine.root(old).maintained == prepared.root.maintained)


def _only_options(engine: Engine, backing: BackingTable, new: Definition) -> RefreshRecord:
    """Change mode, comment, properties and schedule, whatever of them differs; the content stays."""
    old = backing.definition
    changed = replace(old, mode=new.mode, comment=new.comment, properties=new.properties, schedule=new.schedule)
    if changed != old:
        with engine.catalog.lease(old.name, wait=engine.settings.lock_wait_seconds, ttl=engine.settings.lock_lease_seconds):
            backing.set_definition(changed)
            engine.catalog.put(entry_of(backing))
        settle(engine)
        view(engine, old.name, seen(engine, old.name))
    version, note = backing.note()
    reason = "the query is the same" if changed == old else "the query is the same, its options changed"
    return RefreshRecord(old.name, note.epoch, Action.SKIP, reason, frontier=note.versions(), version=version)


def _build(engine: Engine, folder: str, prepared: Prepared) -> RefreshRecord:
    """Make the backing table and load it."""
    definition = prepared.definition
    path = f"{folder}/{'.'.join(split_key(definition.name)[-2:])}-{definition.id[:8]}"
    backing = BackingTable.create(path, definition, prepared.schema)
    try:
        engine.catalog.put(entry_of(backing))
        record = _load(engine, definition.name)
        view(engine, definition.name, seen(engine, definition.name))
        return record
    except BaseException:
        engine.catalog.remove(definition.name)
        settle(engine)
        drop_view(engine.spark, split_key(definition.name))
        _delete(path)
        raise


def _load(engine: Engine, name: str) -> RefreshRecord:
    """The first load. A table in which several ways from a source meet is loaded together with those, at one cut."""
    unit = engine.graph().unit_of[name]
    records = refresh_unit(engine, unit, cut_for(engine, [unit]))
    return next(r for r in records if r.stream_table == name)


def feed(engine: Engine, definition: Definition) -> None:
    """Turn the change data feed of Delta sources on, where it is off and Runnel may."""
    for source in definition.sources:
        if source.kind != "delta" or not definition.incremental or engine.log(source.path).properties().get(FEED) == "true":
            continue
        if not engine.settings.enable_change_feed:
            log.warning("the change data feed of %s is off: its changes are the difference of rewritten files", source.key)
            continue
        engine.spark.sql(f"ALTER TABLE delta.{quote(source.path)} SET TBLPROPERTIES ('{FEED}' = 'true')")
        log.warning("turned the change data feed of %s on (%s = true)", source.key, FEED)


def alter(
    engine: Engine,
    name: str,
    mode: Mode | None = None,
    properties: dict[str, str] | None = None,
    schedule: str | None = None,
    comment: str | None = None,
    unset: Collection[str] = (),
) -> Definition:
    """Change the refresh mode, the schedule, the comment, or some properties; the content stays."""
    backing = engine.backing(name)
    if mode is not None and mode.applies_changes and not backing.definition.incremental:
        raise DefinitionError(
            f'"{name}" cannot be maintained incrementally',
            code="NOT_INCREMENTAL",
            detail=f"{backing.definition.refused}.",
            hint="Keep mode AUTO or FULL.",
        )
    with engine.catalog.lease(name, wait=engine.settings.lock_wait_seconds, ttl=engine.settings.lock_lease_seconds):
        old = backing.definition
        when = old.schedule if schedule is None else schedule
        said = old.comment if comment is None else comment
        kept = {key: value for key, value in old.properties.items() if key not in unset}
        backing.set_definition(replace(old, mode=mode or old.mode, comment=said, properties={**kept, **(properties or {})}, schedule=when))
        engine.catalog.put(entry_of(backing))
        if when != old.schedule and isinstance(backing.definition.when, Cron):  # its times begin now; those before were not missed
            engine.catalog.schedules.change(name, lambda state: replace(state, anchor=engine.now().timestamp()))
    settle(engine)
    return backing.definition


def readers(engine: Engine, key: str) -> list[str]:
    """The stream tables that read a table directly."""
    return list(engine.graph().readers.get(key, ()))


def drop(engine: Engine, name: str, cascade: bool = False, if_exists: bool = False, going: frozenset[str] = frozenset()) -> list[str]:
    """Remove a stream table, and with `cascade` those that read it; the names removed. `going` are those that are being removed above."""
    if engine.catalog.get(name) is None and if_exists:
        return []
    backing = engine.backing(name)
    above = [r for r in readers(engine, name) if r != name and r not in going]
    if above and not cascade:
        raise DefinitionError(
            f'"{name}" is read by {", ".join(above)}',
            code="HAS_READERS",
            hint="Drop them first, or use CASCADE (in Python cascade=True) to drop them too.",
        )
    dropped = [d for reader in above for d in drop(engine, reader, cascade=True, if_exists=True, going=going | {name})]
    with engine.catalog.lease(name, wait=engine.settings.lock_wait_seconds, ttl=engine.settings.lock_lease_seconds):
        drop_view(engine.spark, split_key(name))
        engine.catalog.remove(name)
        engine.forget(backing.definition.id)
        _delete(backing.path)
    settle(engine)
    return [*dropped, name]


def repair(engine: Engine, folder: str) -> list[str]:
    """Rebuild the catalog from the backing tables: definitions, and the history that their logs still hold."""
    found: dict[str, BackingTable] = {}
    for entry in sorted(os.scandir(folder), key=lambda e: e.name) if os.path.isdir(folder) else ():
        try:
            backing = BackingTable.open(entry.path)
            if backing is None or backing.note()[1].epoch == 0:
                continue
        except RunnelError as error:
            log.warning("left %s out: %s", entry.path, error.message)
            continue
        rival = found.get(backing.definition.name)
        if rival is None or rival.definition.created_at < backing.definition.created_at:
            found[backing.definition.name] = backing
    engine.catalog.clear()
    for backing in found.values():
        engine.catalog.put(entry_of(backing))
        for record in logged_history(backing):
            engine.catalog.record(record)
    republish(engine)
    return sorted(found)


def logged_history(backing: BackingTable) -> list[RefreshRecord]:
    """The refreshes that the log of a backing table tells of, oldest first."""
    records = []
    for version in range(backing.log.version() + 1):
        try:
            written = backing.log.commit(version).runnel
        except FileNotFoundError:
            continue
        if not written or written.get("kind") not in REFRESHES:
            continue
        note = CommitNote.from_dict(written)
        assert note.action is not None
        records.append(
            RefreshRecord(
                backing.definition.name,
                note.epoch,
                note.action,
                note.reason,
                frontier=note.versions(),
                version=version,
                rows_in=note.rows_in,
                rows_out=note.rows_out,
                started_at=note.started_at,
            )
        )
    return records


def _check_name_free(spark: SparkSession, name: str) -> None:
    if spark.catalog.tableExists(quoted(tuple(split_key(name)))):
        raise DefinitionError(f'a table or view "{name}" exists already', code="NAME_TAKEN", hint="Choose another name, or drop that table first.")


def _check_cycle(engine: Engine, definition: Definition) -> None:
    """A replaced definition must not read what reads it, unless cycles are allowed."""
    if engine.settings.allow_circular:
        return
    cycle = engine.graph().with_table(definition.name, definition.source_keys).path(definition.name, definition.name)
    if cycle is not None:
        raise DefinitionError(
            f'"{definition.name}" would read itself',
            code="CYCLE",
            detail=f"{' -> '.join(cycle)}.",
            hint="Break the cycle at one of these tables, or allow cycles with the setting allow_circular.",
        )


def _delete(path: str) -> None:
    local = local_path(path)
    if local is not None:
        shutil.rmtree(local, ignore_errors=True)
