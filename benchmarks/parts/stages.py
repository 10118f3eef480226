"""Where the time of a refresh goes: its stages, from the records of refreshes; and what a refresh costs when nothing changed.

The four shapes of work: *linear*, *additive*, a *join* with a table that stays, a *window* by key. A stage is what
`runnel.execute.refresh` calls one; *write* holds the Spark job, in which reading, computing and writing overlap. *rest* is what
the record's total has beyond its stages: the lease, the history.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.bench import FEED, Bench
from benchmarks.measure import in_turn, median, turn
from benchmarks.part import Options, Part
from benchmarks.plot import Rows, figure
from benchmarks.results import Measured, values
from runnel.observe.record import RefreshRecord

QUERIES = {
    "linear": "SELECT id, k, x * 2 AS doubled FROM facts WHERE x >= 200",
    "additive": "SELECT k, SUM(x) AS total, COUNT(*) AS n FROM facts GROUP BY k",
    "join": "SELECT f.id, f.x, g.name FROM facts f JOIN groups g ON f.k = g.k",
    "window": "SELECT id, k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, id) AS place FROM facts",
}


def measure(bench: Bench, options: Options) -> Iterator[Measured]:
    for size in map(int, options.sizes):
        for rate in options.rates:
            with bench.schema(f"stages_{size}_{round(rate * 10_000)}"):
                yield from _one(bench, options, size, rate)


def _one(bench: Bench, options: Options, size: int, rate: float) -> Iterator[Measured]:
    rn, groups, step = bench.rn, max(1, size // 10), round(1 / rate)
    rn.sql(f"CREATE TABLE facts {FEED} AS SELECT id, id % {groups} AS k, id % 1000 AS x FROM range({size})")
    rn.sql(f"CREATE TABLE groups {FEED} AS SELECT id AS k, concat('group ', id) AS name FROM range({groups})")
    for query in options.queries:
        rn.create(query, QUERIES[query], mode="DIFFERENTIAL")

    def change(round_: int) -> None:
        rn.sql(f"UPDATE facts SET x = x + 1 WHERE id % {step} = {round_ % step}")

    def take(query: str, round_: int) -> dict[str, Any]:
        refreshed = turn(bench.meter, {"differential": lambda: rn.refresh(query)}, round_)
        return refreshed | turn(bench.meter, {"nothing": lambda: rn.refresh(query)}, round_)

    spent = in_turn(options.rounds, change, {q: lambda r, q=q: take(q, r) for q in options.queries})
    for query, ways in spent.items():
        for way, runs in ways.items():
            labels = {"query": query, "rows": size, "rate": rate, "way": way}
            yield Measured.of(labels, median(runs), [s.ms for s in runs], {"stages": stages([s.result for s in runs])})
        if size <= options.verify_up_to:
            bench.check(query)


def stages(records: list[RefreshRecord]) -> dict[str, float]:
    """The median of each stage, and of the rest."""
    names = list(dict.fromkeys(s.name for r in records for s in r.stages))
    found = {n: statistics.median(sum(s.ms for s in r.stages if s.name == n) for r in records) for n in names}
    rest = statistics.median(r.ms - sum(s.ms for s in r.stages) for r in records)
    return {name: round(ms, 1) for name, ms in {**found, "rest": rest}.items()}


def figures(found: list[Measured], note: str) -> dict[str, str]:
    """One line per refresh, cut into its stages."""
    charts = []
    for way, title in (("differential", "a refresh"), ("nothing", "a refresh that finds nothing changed")):
        chosen = [m for m in found if m.labels["way"] == way]
        names = list(dict.fromkeys(n for m in chosen for n in m.facts["stages"]))
        lines = [f"{m.labels['query']}, {m.labels['rows']:,} rows, {m.labels['rate']:.1%}" for m in chosen]
        charts.append(Rows(title, "ms", lines, {n: [m.facts["stages"].get(n, 0.0) for m in chosen] for n in names}, label=220))
    sizes = ", ".join(f"{s:,}" for s in values(found, "rows"))
    return {"": figure(f"Where the time of a refresh goes ({sizes} rows)", note, charts, 1, 900)}


PART = Part(
    name="stages",
    title="where the time of a refresh goes",
    quick=Options(sizes=(100_000,), rates=(0.01,), queries=tuple(QUERIES), rounds=3),
    full=Options(sizes=(100_000, 1_000_000, 10_000_000), rates=(0.001, 0.01), queries=tuple(QUERIES), rounds=5),
    measure=measure,
    figures=figures,
    against="",
)
