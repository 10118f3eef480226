"""The content of a stream table as users read it by `rn.table`, at one version.

The note of a version allows a form of reading (`tables/content.py`). Where this process sees the files, it names them to Spark, which needs
no job then to find them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from runnel.differentiate.layout import BASE, LEVEL, TAIL, Layout
from runnel.execute.engine import Engine
from runnel.tables.backing import BackingTable
from runnel.tables.content import finished_sql, quote

LISTED = 32
"""Files of a level up to which Spark looks for each of them by itself; for more it starts a job, as it does for a Delta table."""
GLOBS = frozenset("{}[]*?\\")
"""What Spark takes in a path for a pattern."""


def content_at(engine: Engine, backing: BackingTable, version: int) -> DataFrame:
    """The finished content in the user's session."""
    facts, layout = engine.log_facts(backing.note_at(version)), backing.layout_at(version)
    paths = _paths(backing, layout, version) if facts is not None else None
    if facts is None or paths is None:
        log = f"(SELECT * FROM delta.{quote(backing.path)} VERSION AS OF {version})"
        return engine.spark.sql(finished_sql(layout, log, facts))
    schema = StructType([f for f in StructType.fromJson(json.loads(backing.log.described(version))).fields if f.name != LEVEL])
    frames = {level: engine.spark.read.schema(schema).parquet(*files) for level, files in paths.items() if files}
    with _views(frames) as views:
        return engine.spark.sql(finished_sql(layout, f"({_log_sql(schema, views)})", facts))


def _paths(backing: BackingTable, layout: Layout, version: int) -> dict[str, list[str]] | None:
    """The files of a log by level, where Spark reads the same table from them: a scan of files takes every column for one that may be NULL,
    and Spark Connect looks at them only when rows are asked for."""
    log = backing.log
    files = log.plain_files(version, partitioned=True) if log.local is not None and not layout.required and not is_remote() else None
    if not files or GLOBS & set(backing.path):
        return None
    paths = {level: [log.full_path(f["path"]) for f in files if f[f"partition.{LEVEL}"] == level] for level in (BASE, TAIL)}
    return paths if max(map(len, paths.values())) <= LISTED else None


def _log_sql(schema: StructType, views: Mapping[str, str]) -> str:
    """The rows of both levels."""
    columns = ", ".join(quote(f.name) for f in schema.fields)
    return " UNION ALL ".join(f"SELECT {columns}, '{level}' AS {LEVEL} FROM {view}" for level, view in views.items())


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
