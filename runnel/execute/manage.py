"""Create, replace, alter, drop and repair stream tables: the changes of what exists, each leaving nothing half done."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import replace

from pyspark.sql import SparkSession

from runnel.bind.expand import split_key
from runnel.definition import Definition
from runnel.errors import DefinitionError, RunnelError
from runnel.execute.engine import Engine
from runnel.execute.lookup import quoted
from runnel.execute.prepare import Prepared, prepare
from runnel.execute.publication import republish, settle
from runnel.execute.refresh import entry_of
from runnel.execute.unit import cut_for, refresh_unit
from runnel.observe.record import Mode, RefreshRecord
from runnel.sources.delta import FEED
from runnel.sources.delta_log import local_path
from runnel.state import Entry
from runnel.tables.backing import BackingTable, CommitNote
from runnel.tables.content import quote
from runnel.tables.view import create_view, drop_view

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
    old = engine.catalog.get(name)
    if old is not None and not or_replace:
        raise DefinitionError(f'stream table "{name}" exists already', code="NAME_TAKEN", hint="Use CREATE OR REPLACE STREAM TABLE, or another name.")
    if old is None:
        _check_name_free(engine.spark, name)
    paths = {e.name: e.path for e in engine.catalog.entries()}
    prepared = prepare(engine.spark, engine.lookup(), engine.settings, name, query, mode, paths, comment, properties)
    prepared = replace(prepared, definition=replace(prepared.definition, schedule=schedule))
    _check_cycle(engine, prepared.definition)
    feed(engine, prepared.definition)
    return _build(engine, folder, prepared, old)


def _build(engine: Engine, folder: str, prepared: Prepared, old: Entry | None) -> RefreshRecord:
    """Load the new table beside the old one under a name of its own, then give it the name."""
    definition = prepared.definition
    path = f"{folder}/{'.'.join(split_key(definition.name)[-2:])}-{definition.id[:8]}"
    building = definition if old is None else replace(definition, name=f"{definition.name}__building")
    backing = BackingTable.create(path, building, prepared.schema)
    try:
        engine.catalog.put(entry_of(backing))
        record = _load(engine, building.name)
        if old is not None:
            backing.set_definition(definition)
            engine.catalog.remove(building.name)
            engine.catalog.remove(definition.name)
            engine.catalog.put(entry_of(backing))
            engine.catalog.record(replace(record, stream_table=definition.name))
            _delete(old.path)
        create_view(engine.spark, definition, path, split_key(definition.name))
        return replace(record, stream_table=definition.name)
    except BaseException:
        engine.catalog.remove(building.name)
        settle(engine)
        if engine.catalog.get(definition.name) is None:
            drop_view(engine.spark, split_key(definition.name))
            _delete(path)
        elif old is not None and engine.catalog.get(definition.name) == old:
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


def alter(engine: Engine, name: str, mode: Mode | None = None, properties: dict[str, str] | None = None, schedule: str | None = None) -> Definition:
    """Change the refresh mode, the schedule, or some properties; the content stays."""
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
        backing.set_definition(replace(old, mode=mode or old.mode, properties={**old.properties, **(properties or {})}, schedule=when))
        engine.catalog.put(entry_of(backing))
    settle(engine)
    return backing.definition


def readers(engine: Engine, key: str) -> list[str]:
    """The stream tables that read a table directly."""
    return list(engine.graph().readers.get(key, ()))


def drop(engine: Engine, name: str, cascade: bool = False, if_exists: bool = False) -> list[str]:
    """Remove a stream table, and with `cascade` those that read it; the names removed."""
    if engine.catalog.get(name) is None and if_exists:
        return []
    backing = engine.backing(name)
    above = readers(engine, name)
    if above and not cascade:
        raise DefinitionError(
            f'"{name}" is read by {", ".join(above)}',
            code="HAS_READERS",
            hint="Drop them first, or use CASCADE (in Python cascade=True) to drop them too.",
        )
    dropped = [d for reader in above for d in drop(engine, reader, cascade=True, if_exists=True)]
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
            if backing is None or backing.note()[1].epoch == 0 or backing.definition.name.endswith("__building"):
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
        if not written or written.get("kind") != "refresh":
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
    """A replaced definition must not read what reads it."""
    cycle = engine.graph().with_table(definition.name, definition.source_keys).path(definition.name, definition.name)
    if cycle is not None:
        raise DefinitionError(
            f'"{definition.name}" would read itself', code="CYCLE", detail=f"{' -> '.join(cycle)}.", hint="Break the cycle at one of these tables."
        )


def _delete(path: str) -> None:
    local = local_path(path)
    if local is not None:
        shutil.rmtree(local, ignore_errors=True)
