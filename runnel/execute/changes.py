"""The change feed of a stream table: its columns, `_change_type` and `_commit_version`, in Delta's words."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runnel.algebra import WEIGHT
from runnel.definition import SourceRef
from runnel.errors import DefinitionError
from runnel.execute.engine import Engine
from runnel.sources.facts import Kind, SourceFacts
from runnel.sources.stream_table import ANEW, CONTENTS, REFRESH, StreamTableSource


def changes(engine: Engine, name: str, first: int, last: int | None) -> DataFrame:
    """Rows that came and went in the versions from `first` to `last`, both included."""
    backing = engine.backing(name)
    latest = backing.log.version()
    last = latest if last is None else last
    if not 0 <= first <= last or last > latest:
        raise DefinitionError(
            f"versions {first} to {last} do not exist",
            code="VERSION",
            detail=f"{name} has the versions 0 to {latest}.",
            hint="Choose versions within that range.",
        )
    source = engine.source(SourceRef(name, "stream", backing.path))
    assert isinstance(source, StreamTableSource)
    frames = [
        _one(engine, source, v) for v in range(max(first, 1), last + 1) if _carries_rows(backing.log.commit(v).runnel, backing.log.commit(v).adds)
    ]
    if not frames:
        empty = source.at(engine.reader, latest).limit(0)
        return empty.withColumn("_change_type", F.lit("insert")).withColumn("_commit_version", F.lit(0).cast("bigint"))
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _carries_rows(note: dict[str, object] | None, adds: tuple[dict[str, object], ...]) -> bool:
    kind = (note or {}).get("kind")
    return kind in ANEW or (kind == REFRESH and bool(adds))


def _one(engine: Engine, source: StreamTableSource, version: int) -> DataFrame:
    """One commit, each row as often as it weighs."""
    kind = (source.log.commit(version).runnel or {}).get("kind")
    facts = SourceFacts(source.key, Kind.MIXED, version - 1, version, "", rows=None, via=CONTENTS if kind in ANEW else "log")
    change = source.change(engine.reader, facts)
    columns = [c for c in change.columns if c != WEIGHT]
    net = change.groupBy(*(F.col(f"`{c}`") for c in columns)).agg(F.sum(WEIGHT).alias(WEIGHT)).where(f"{WEIGHT} <> 0")
    expanded = net.withColumn("__runnel_copy", F.explode(F.expr(f"array_repeat(0, CAST(abs({WEIGHT}) AS INT))"))).drop("__runnel_copy")
    type_ = F.when(F.col(WEIGHT) > 0, "insert").otherwise("delete")
    return expanded.withColumn("_change_type", type_).withColumn("_commit_version", F.lit(version).cast("bigint")).drop(WEIGHT)
