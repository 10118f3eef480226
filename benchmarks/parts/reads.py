"""What reading a stream table costs beside reading a plain Delta table of the same rows.

Three states: *compacted*; an *insert-only tail* of 5 % of the rows; a *mixed tail* that 1 % of the rows were updated by. Each is read as
users read it, by `rn.table` and by its name in SQL, and so is the plain table, all by the same session; a read sums up every
column, so that all of them are decoded. Two shapes: *rows* and *groups*.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame

from benchmarks.bench import FEED, Bench
from benchmarks.measure import Work, in_turn, median, turn
from benchmarks.part import Options, Part
from benchmarks.plot import Columns, figure
from benchmarks.results import Measured, one, values

QUERIES = {
    "rows": "SELECT id, k, x, concat('name ', id % 1000) AS name FROM facts",
    "groups": "SELECT k, SUM(x) AS total, COUNT(*) AS n FROM facts GROUP BY k",
}
STATES = {
    "compacted": None,
    "insert-only tail of 5 %": "INSERT INTO facts SELECT id, id % {groups}, id % 1000 FROM range({size}, {size} + {size} DIV 20)",
    "mixed tail of 1 %": "UPDATE facts SET x = x + 1 WHERE id % 100 = 7",
}


def measure(bench: Bench, options: Options) -> Iterator[Measured]:
    for size in map(int, options.sizes):
        for query in options.queries:
            with bench.schema(f"reads_{size}_{query}"):
                yield from _one(bench, options, size, query)


def _one(bench: Bench, options: Options, size: int, query: str) -> Iterator[Measured]:
    rn, groups = bench.rn, max(1, size // 2)
    rn.sql(f"CREATE TABLE facts {FEED} AS SELECT id, id % {groups} AS k, id % 1000 AS x FROM range({size})")
    rn.create("stream", QUERIES[query], mode="DIFFERENTIAL")
    for state, change in STATES.items():
        rn.compact("stream")
        if change:
            rn.sql(change.format(size=size, groups=groups))
            rn.refresh("stream")
        rn.sql(f"CREATE OR REPLACE TABLE plain USING delta AS {QUERIES[query]}")
        status = rn.status("stream")
        ways: dict[str, Work] = {
            "plain": lambda: total(rn.spark.table("plain")),
            "rn.table": lambda: total(rn.table("stream")),
            "by name": lambda: total(rn.spark.table("stream")),
        }
        spent = in_turn(options.rounds, lambda _: None, {query: lambda r, ways=ways: turn(bench.meter, ways, r)})[query]
        for way, runs in spent.items():
            facts = {k: status[k] for k in ("base_rows", "tail_rows", "tail_files")} if way != "plain" else {}
            yield Measured.of({"query": query, "rows": size, "state": state, "way": way}, median(runs), [s.ms for s in runs], facts)
        if size <= options.verify_up_to:
            bench.check("stream")
            assert spent["plain"][-1].result == spent["rn.table"][-1].result == spent["by name"][-1].result, f"{query}, {state}: reads differ"


def total(table: DataFrame) -> tuple[int, ...]:
    """Read everything: the number of rows, and a sum over every column."""
    sums = [f"SUM(CAST(pmod(xxhash64(`{c}`), 1000003) AS BIGINT))" for c in table.columns]
    return tuple(table.selectExpr("COUNT(*)", *sums).first() or ())


def figures(found: list[Measured], note: str) -> dict[str, str]:
    """One chart per shape and size: the states, every way of reading a bar."""
    charts = []
    for query in values(found, "query"):
        for size in values(found, "rows"):
            states = values(found, "state")
            series = {w: [one(found, query=query, rows=size, state=s, way=w) for s in states] for w in values(found, "way")}
            charts.append(Columns(f"{query}, {size:,} source rows", "ms, log scale", states, series))
    return {"": figure("Reading a stream table beside a plain Delta table of the same rows", note, charts, min(2, len(charts)), 620)}


PART = Part(
    name="reads",
    title="reading a stream table",
    quick=Options(sizes=(1_000_000,), queries=tuple(QUERIES), rounds=3),
    full=Options(sizes=(1_000_000, 5_000_000), queries=tuple(QUERIES), rounds=7),
    measure=measure,
    figures=figures,
    against="plain",
)
