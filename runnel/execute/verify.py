"""Content against the query from scratch at the frontier, as multisets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runnel.algebra import Column
from runnel.bind import clock
from runnel.execute.engine import Engine
from runnel.execute.query import pinned_query
from runnel.sources.reader import SOUND
from runnel.tables.content import finished_sql, quote

SHOWN = 20
SUSPECTS = 1000
"""Rows that differ by rounded text and are looked at one by one; as many as this differ for real."""


@dataclass(frozen=True)
class Verification:
    """`missing` rows are in the query but not in the stream table, `extra` ones the other way round; the first few of each."""

    stream_table: str
    ok: bool
    rows: int
    frontier: dict[str, int]
    missing: tuple[dict[str, Any], ...] = ()
    extra: tuple[dict[str, Any], ...] = ()

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        at = ", ".join(f"{k}@{v}" for k, v in self.frontier.items())
        if self.ok:
            return f"{self.stream_table}: ok, {self.rows} rows equal the query at {at}"
        lines = [f"{self.stream_table}: differs from the query at {at}"]
        lines += [f"  missing {r}" for r in self.missing] + [f"  extra   {r}" for r in self.extra]
        return "\n".join(lines)


def verify(engine: Engine, name: str) -> Verification:
    """Compare; floats agree when they are equal to nine digits. Columns with one of several correct results are left out."""
    backing = engine.backing(name).in_force()
    version, note = backing.note()
    definition, reader = backing.definition, engine.reader
    try:
        with reader.lock, reader.configured(**SOUND), engine.jobs(name).stage("verify"):
            if note.epoch == 0:
                return Verification(name, True, 0, {})
            sources = {s.key: engine.source(s) for s in definition.sources}
            reader.adopt(definition.functions)
            log = reader.register(reader.table(backing.path, version))
            content = reader.session.sql(finished_sql(definition.layout, log, engine.log_facts(note)))
            query = pinned_query(reader, definition, sources, note.versions(), note.extra.get(clock.NOTED))
            checked = tuple(c for c in definition.layout.output if c.name not in definition.unchecked)
            return _compare(name, note.versions(), content, query, definition.layout.output, checked)
    finally:
        reader.clean()


def _compare(
    name: str, frontier: dict[str, int], content: DataFrame, query: DataFrame, output: tuple[Column, ...], columns: tuple[Column, ...]
) -> Verification:
    """Compare `columns`, which are all of `output` but those that cannot be compared."""
    sides = [_counted(frame.toDF(*(c.name for c in output)), columns, sign) for frame, sign in ((query, 1), (content, -1))]
    keys = [f"k{i}" for i in range(len(columns))]
    values = [F.any_value(F.col(f"v{i}")).alias(f"v{i}") for i in range(len(columns))]
    total = sides[0].unionAll(sides[1]).groupBy(*keys).agg(F.sum("n").alias("n"), F.count_if(F.col("n") < 0).alias("rows"), *values)
    rows, differ = total.agg(F.coalesce(F.sum("rows"), F.lit(0)), F.count_if(F.col("n") != 0)).first() or (0, 0)
    different = total.where("n <> 0").select("n", *(f"v{i}" for i in range(len(columns)))).limit(SUSPECTS).collect() if differ else []
    suspects = [(r["n"], {c.name: r[f"v{i}"] for i, c in enumerate(columns)}) for r in different]
    if len(suspects) < SUSPECTS:
        suspects = _unpaired(suspects)
    return Verification(
        name,
        not suspects,
        rows,
        frontier,
        missing=tuple(row for n, row in suspects if n > 0)[:SHOWN],
        extra=tuple(row for n, row in suspects if n < 0)[:SHOWN],
    )


def _unpaired(suspects: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    """Two floats that are equal to nine digits may still round to different texts; rows that agree so pair off."""
    left: list[tuple[int, dict[str, Any]]] = []
    for n, row in suspects:
        for i, (m, other) in enumerate(left):
            if n * m < 0 and all(_close(row[c], other[c]) for c in row):
                del left[i]
                if n + m:
                    left.append((n + m, row))
                break
        else:
            left.append((n, row))
    return left


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9)
    return bool(a == b)


def _counted(frame: DataFrame, columns: tuple[Column, ...], sign: int) -> DataFrame:
    """Rows by a comparable key: floats rounded to nine digits, what cannot be grouped as JSON."""
    keys = [F.expr(_comparable(c)).alias(f"k{i}") for i, c in enumerate(columns)]
    values = [F.col(quote(c.name)).alias(f"v{i}") for i, c in enumerate(columns)]
    return frame.select(*keys, *values, F.lit(sign).alias("n"))


def _comparable(column: Column) -> str:
    name = quote(column.name)
    if column.type in ("float", "double"):
        return f"format_string('%.9e', CAST({name} + CAST(0 AS {column.type}) AS DOUBLE))"
    if column.type == "variant" or "map<" in column.type:
        return f"to_json({name})"
    return name
