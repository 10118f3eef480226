"""How long making a change plan takes: joins of several tables, one of which changed, or all of them. No Spark job runs.

A plan is made once for a definition and a set of facts and then kept, so this is what a refresh pays the first time it meets
that set. *size* is the number of tables joined; *bind* is the text read again, which a process does once for a stream table.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

from benchmarks.bench import FEED, Bench
from benchmarks.part import Options, Part
from benchmarks.plot import Rows, figure
from benchmarks.results import Measured
from runnel.algebra import Facts
from runnel.differentiate import differentiate
from runnel.execute.prepare import rebind

WARM = 3


def measure(bench: Bench, options: Options) -> Iterator[Measured]:
    with bench.schema("plans"):
        for number in range(int(max(options.sizes))):
            bench.rn.sql(f"CREATE TABLE t{number} {FEED} AS SELECT id AS k{number}, id AS f{number}, id AS v{number} FROM range(10)")
        for tables in map(int, options.sizes):
            yield from _one(bench, options, tables)


def _one(bench: Bench, options: Options, tables: int) -> Iterator[Measured]:
    rn, name = bench.rn, f"joined_{tables}"
    joins = " ".join(f"JOIN t{i} ON t{i - 1}.f{i - 1} = t{i}.k{i}" for i in range(1, tables))
    rn.create(name, f"SELECT t0.v0, SUM(t{tables - 1}.v{tables - 1}) AS total FROM t0 {joins} GROUP BY t0.v0", mode="DIFFERENTIAL")
    definition = rn._engine.backing(rn._name(name)).definition
    root, lookup = rn._engine.root(definition), rn._engine.lookup()
    sources = sorted(root.sources)
    first, every = frozenset(sources[:1]), frozenset(sources)
    ways: dict[str, Callable[[], object]] = {
        "one changed": lambda: differentiate(root, Facts(first, small=True, held=first)),
        "all changed": lambda: differentiate(root, Facts(every, small=True, held=every)),
        "bind": lambda: rebind(definition, lookup, rn.settings),
    }
    for way, make in ways.items():
        runs = [_ms(make) for _ in range(WARM + options.rounds)][WARM:]
        yield Measured({"size": tables, "way": way}, round(statistics.median(runs), 2), 0, 0, 0, runs)


def _ms(make: Callable[[], object]) -> float:
    before = time.perf_counter()
    make()
    return round((time.perf_counter() - before) * 1000, 2)


def figures(found: list[Measured], note: str) -> dict[str, str]:
    lines = [f"{m.labels['size']} tables, {m.labels['way']}" for m in found]
    return {
        "": figure("Making a change plan", note, [Rows("joins of several tables", "ms", lines, {"ms": [m.ms for m in found]}, label=220)], 1, 900)
    }


PART = Part(
    name="plans",
    title="making a change plan",
    quick=Options(sizes=(2, 6), rounds=20),
    full=Options(sizes=(2, 4, 6, 8), rounds=50),
    measure=measure,
    figures=figures,
    against="",
)
