"""How a refresh grows: with the source, with the number of refreshes, with the change.

*source*: the same number of changed rows, 1 % of the smallest source, over sources of different sizes. *refreshes*: a few rows
changed, again and again, on one table; after 1, 10, 100, ... refreshes the median of the latest ones, a read of the whole table, and
its files. *change*: 1, 10, 100, ... rows over the largest source, maintained against recomputed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import pairwise

from benchmarks.bench import FEED, Bench
from benchmarks.contest import Contest, facts_of, measured
from benchmarks.measure import Meter, Spent, in_turn, median
from benchmarks.part import Options, Part
from benchmarks.plot import Chart, Lines, figure
from benchmarks.results import Measured, pick, values

QUERIES = {
    "additive": "SELECT k, SUM(x) AS total, COUNT(*) AS n FROM facts GROUP BY k",
    "join": "SELECT f.id, f.x, g.name FROM facts f JOIN groups g ON f.k = g.k",
    "window": "SELECT id, k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, id) AS place FROM facts",
}
WAYS = ("differential", "full", "overwrite")
EACH = 100
"""Rows changed before each of many refreshes."""


def measure(bench: Bench, options: Options) -> Iterator[Measured]:
    sizes = [int(s) for s in options.sizes]
    for size in sizes:
        yield from _source(bench, options, size, changed=max(1, sizes[0] // 100))
    for query in options.queries:
        yield from _refreshes(bench, options, sizes[0], query, options.refreshes)
    yield from _change(bench, options, sizes[-1])


def _source(bench: Bench, options: Options, size: int, changed: int) -> Iterator[Measured]:
    with bench.schema(f"growth_source_{size}"):
        load(bench, size)
        contests = {q: Contest(bench, q, QUERIES[q], options.of(WAYS)) for q in options.queries}
        spent = in_turn(options.rounds, lambda r: scattered(bench, size, changed, r), {q: c.turn for q, c in contests.items()})
        for query, ways in spent.items():
            yield from measured({"growth": "source", "query": query, "rows": size, "at": size}, ways)
        bench.say(f"source of {size:,} rows measured")
        _check(contests, size, options)


def _change(bench: Bench, options: Options, size: int) -> Iterator[Measured]:
    with bench.schema(f"growth_change_{size}"):
        load(bench, size)
        contests = {q: Contest(bench, q, QUERIES[q], options.of(WAYS)) for q in options.queries}
        for changed in (10**p for p in range(7) if 10**p <= size):
            spent = in_turn(options.rounds, lambda r, n=changed: scattered(bench, size, n, r), {q: c.turn for q, c in contests.items()})
            for query, ways in spent.items():
                yield from measured({"growth": "change", "query": query, "rows": size, "at": changed}, ways)
            bench.say(f"change of {changed:,} rows measured")
        _check(contests, size, options)


def _refreshes(bench: Bench, options: Options, size: int, query: str, most: int) -> Iterator[Measured]:
    """Refreshes one after the other; each result is the median of those since the result before."""
    rn, meter = bench.rn, bench.meter
    with bench.schema(f"growth_refreshes_{query}"):
        load(bench, size)
        rn.create("stream", QUERIES[query], mode="DIFFERENTIAL")
        _one(bench, size, 0)  # warms up
        for done, until in pairwise([0, *(10**p for p in range(10) if 10**p < most), most]):
            spent = [_one(bench, size, number) for number in range(done + 1, until + 1)]
            labels = {"growth": "refreshes", "query": query, "rows": size, "at": until}
            compacted = sum(facts_of([s.result])["compactions"] for s in spent)
            facts = {"slowest_ms": max(s.ms for s in spent), "compactions": compacted, **_read(bench, meter, options.rounds)}
            yield Measured.of({**labels, "way": "differential"}, median(spent), [s.ms for s in spent[-20:]], facts)
            bench.say(f"{query}: {until} refreshes measured")
        if size <= options.verify_up_to:
            bench.check("stream")


def _one(bench: Bench, size: int, number: int) -> Spent:
    scattered(bench, size, min(EACH, size), number)
    return bench.meter.run(lambda: bench.rn.refresh("stream"))


def _read(bench: Bench, meter: Meter, rounds: int) -> dict[str, float]:
    """The time to read the whole table, and the files of its latest version."""
    reads = [meter.run(lambda: bench.rn.table("stream").write.format("noop").mode("overwrite").save()) for _ in range(rounds + 1)]
    status = bench.rn.status("stream")
    return {
        "read_ms": round(statistics.median(r.ms for r in reads[1:]), 1),
        "files": len(bench.backing("stream").file_uris()),
        "tail_files": status["tail_files"],
        "tail_rows": status["tail_rows"],
    }


def load(bench: Bench, size: int) -> None:
    """Facts in groups of ten, and a name for each group."""
    groups = max(1, size // 10)
    bench.rn.sql(f"CREATE TABLE facts {FEED} AS SELECT id, (id * 7919) % {groups} AS k, id % 1000 AS x FROM range({size})")
    bench.rn.sql(f"CREATE TABLE groups {FEED} AS SELECT id AS k, concat('group ', id) AS name FROM range({groups})")


def scattered(bench: Bench, size: int, changed: int, round_: int) -> None:
    """Exactly `changed` rows, evenly over the whole table."""
    step = size // changed
    bench.rn.sql(f"UPDATE facts SET x = x + 1 WHERE id % {step} = {round_ % step} AND id < {changed * step}")


def _check(contests: dict[str, Contest], size: int, options: Options) -> None:
    if size <= options.verify_up_to:
        for contest in contests.values():
            contest.check()


def figures(found: list[Measured], note: str) -> dict[str, str]:
    """Lines over the source, over the change and over the number of refreshes, one row of charts per query."""
    charts: list[Chart] = []
    for query in values(found, "query"):
        for growth, across in (("source", "rows of the source, always as many of them changed"), ("change", "changed rows")):
            chosen = pick(found, growth=growth, query=query)
            series = {w: [(m.labels["at"], m.ms) for m in chosen if m.labels["way"] == w] for w in values(chosen, "way")}
            charts.append(Lines(f"{query}: by {growth}", across, "ms, log scale", series))
        chosen = pick(found, growth="refreshes", query=query)
        series = {
            "differential": [(m.labels["at"], m.ms) for m in chosen],
            "read": [(m.labels["at"], m.facts["read_ms"]) for m in chosen],
            "files (number)": [(m.labels["at"], m.facts["files"]) for m in chosen],
        }
        charts.append(Lines(f"{query}: by number of refreshes", f"refreshes, {EACH} rows changed before each", "ms or files, log scale", series))
    return {"": figure("How a refresh grows", note, charts, 3, 480)}


PART = Part(
    name="growth",
    title="growth with the source, the change and the number of refreshes",
    quick=Options(sizes=(10_000, 100_000, 1_000_000), queries=("additive",), rounds=1, refreshes=20),
    full=Options(sizes=(100_000, 1_000_000, 10_000_000), queries=tuple(QUERIES), rounds=3, refreshes=1000),
    measure=measure,
    figures=figures,
)
