"""The content of a stream table as users read it by `rn.table`, at one version.

The note of a version allows a form of reading (`tables/content.py`). Where this process sees the files, it goes on from there: it names them
to Spark, which needs no job then to find them, and looks up which groups of the tail are new, so that base and tail are met once.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from runnel.differentiate.layout import BASE, LEVEL, TAIL, Layout
from runnel.execute.engine import Engine
from runnel.sources import here
from runnel.sources.here import IN_PLAN, Rows
from runnel.tables.backing import BackingTable
from runnel.tables.content import LogFacts, finished_sql, quote

LISTED = 32
"""Files of a level up to which Spark looks for each of them by itself; for more it starts a job, as it does for a Delta table."""
NEW = "new"
"""The relation of the keys of new groups."""


def content_at(engine: Engine, backing: BackingTable, version: int) -> DataFrame:
    """The finished content in the user's session."""
    facts, layout = engine.log_facts(backing.note_at(version)), backing.layout_at(version)
    paths = _paths(backing, layout, version) if facts is not None else None
    if facts is None or paths is None:
        log = f"(SELECT * FROM delta.{quote(backing.path)} VERSION AS OF {version})"
        return engine.spark.sql(finished_sql(layout, log, facts))
    facts, new = _looked_up(engine, backing, layout, version, facts, paths)
    levels = paths if facts.tail else {BASE: [*paths[BASE], *paths[TAIL]]}
    schema = StructType([f for f in StructType.fromJson(json.loads(backing.log.described(version))).fields if f.name != LEVEL])
    frames = {level: engine.spark.read.schema(schema).parquet(*files) for level, files in levels.items() if files}
    if new is not None and new.count:
        frames[NEW] = engine.reader.rows(new.table, new.schema, engine.spark)
    with _views(frames) as views:
        return engine.spark.sql(finished_sql(layout, f"({_log_sql(layout, schema, views)})", facts))


def _paths(backing: BackingTable, layout: Layout, version: int) -> dict[str, list[str]] | None:
    """The files of a log by level, where Spark reads the same table from them: a scan of files takes every column for one that may be NULL,
    and Spark Connect looks at them only when rows are asked for."""
    log = backing.log
    files = log.plain_files(version, partitioned=True) if log.local is not None and not layout.required and not is_remote() else None
    if not files:
        return None
    paths = {level: [log.full_path(f["path"]) for f in files if f[f"partition.{LEVEL}"] == level] for level in (BASE, TAIL)}
    return paths if max(map(len, paths.values())) <= LISTED else None


def _looked_up(
    engine: Engine, backing: BackingTable, layout: Layout, version: int, facts: LogFacts, paths: Mapping[str, Sequence[str]]
) -> tuple[LogFacts, Rows | None]:
    """The facts of a log whose tail may have new groups, once it is known which they are, and the keys of these. Kept by the files, since a
    version number can come again where a log is put back."""
    if layout.kind != "groups" or not layout.keys or not (facts.tail and facts.grows and engine.reader.here):
        return facts, None
    if facts.nulls is None or not facts.nulls.isdisjoint(layout.partials):  # a sum that overflowed, which zeros would hide
        return facts, None
    return engine.looked_up.get((*paths[BASE], *paths[TAIL]), lambda: _told(facts, here.new_groups(backing.log, version, layout)))


def _told(facts: LogFacts, new: Rows | None) -> tuple[LogFacts, Rows | None]:
    """What new groups make of the facts. Where every row of the tail is one, the log is as good as compacted."""
    if new is not None and new.count == facts.rows:
        return replace(facts, tail=False), None
    return (replace(facts, grows=False), new) if new is not None and new.count <= IN_PLAN else (facts, None)


def _log_sql(layout: Layout, schema: StructType, views: Mapping[str, str]) -> str:
    """The rows of both levels. A new group is one of the base with nothing in it yet, to which the tail adds."""
    zeros = [quote(f.name) if f.name in layout.keys else f"CAST(0 AS {f.dataType.simpleString()}) AS {quote(f.name)}" for f in schema.fields]
    stored = [quote(f.name) for f in schema.fields]
    return " UNION ALL ".join(_level_sql(zeros if part == NEW else stored, BASE if part == NEW else part, view) for part, view in views.items())


def _level_sql(columns: Sequence[str], level: str, view: str) -> str:
    return f"SELECT {', '.join(columns)}, '{level}' AS {LEVEL} FROM {view}"


@contextmanager
def _views(frames: Mapping[str, DataFrame]) -> Iterator[dict[str, str]]:
    """Names for frames while a query over them is analysed; it does not need them later."""
    names = {part: f"__runnel_{part}_{uuid.uuid4().hex}" for part in frames}
    try:
        for part, frame in frames.items():
            frame.createOrReplaceTempView(names[part])
        yield names
    finally:
        for part, frame in frames.items():
            frame.sparkSession.catalog.dropTempView(names[part])
