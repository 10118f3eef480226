"""Compaction: one marked commit that turns base + tail into a new base. It never alters the sum."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import functions as F

from runnel.algebra import WEIGHT
from runnel.errors import Internal
from runnel.execute.engine import Engine
from runnel.execute.jobs import Jobs
from runnel.settings import Settings
from runnel.tables.backing import BASE, BackingTable
from runnel.tables.content import content_sql

WORTHWHILE = 100_000
"""Below this many tail rows only the number of files counts. A choice, not yet a measurement."""


def due(backing: BackingTable, settings: Settings) -> bool:
    """Whether the tail has outgrown its bound."""
    _, note = backing.note()
    if backing.definition.read_optimised:
        return note.tail_files > 0
    return note.tail_files > settings.compact_tail_files or note.tail_rows > max(WORTHWHILE, settings.compact_tail_ratio * note.base_rows)


def compact(engine: Engine, backing: BackingTable) -> int:
    """Rewrite the content as base; the version it committed. The caller holds the stream table's lease."""
    version, note = backing.note()
    layout, reader = backing.definition.layout, engine.reader
    jobs = Jobs(engine.spark, backing.definition.name)
    try:
        with jobs.stage("compact"):
            _check_weights(engine, backing, version)
            log = reader.register(reader.table(backing.path, version))
            rows = reader.session.sql(content_sql(layout, log, note.log_facts))
            if layout.kind == "rows":
                rows = rows.withColumn(WEIGHT, F.lit(1).cast("bigint"))
            marked = replace(
                note,
                kind="compact",
                action=None,
                reason="",
                rows_in=None,
                rows_out=None,
                negatives=False,
                tail_rows=0,
                tail_files=0,
                tail_negatives=False,
            )
            if not engine.commits_directly(backing):
                return backing.commit_with_spark(engine.spark, version, rows, BASE, marked, overwrite=True)
            written = backing.write(rows, BASE, note.epoch)
            return backing.commit(version, written, replace(marked, base_rows=written.rows), overwrite=True)
    finally:
        reader.clean()


def _check_weights(engine: Engine, backing: BackingTable, version: int) -> None:
    """A row or group that weighs less than nothing means that a refresh was wrong; compacting would hide it."""
    keys = [F.col(f"`{c.name}`") for c in backing.definition.layout.key_columns if not c.type.startswith(("map<", "variant"))]
    log = engine.reader.table(backing.path, version)
    tail = log.where(F.col(WEIGHT) < 0)
    if not keys or tail.isEmpty():
        return
    below = log.groupBy(*keys).agg(F.sum(WEIGHT).alias("total")).where("total < 0").limit(1).collect()
    if below:
        raise Internal(
            f"{backing.definition.name} holds a row of negative weight",
            detail=f"{below[0].asDict()} at version {version}.",
            hint="Refresh it with FULL, and report the query and this text.",
        )
