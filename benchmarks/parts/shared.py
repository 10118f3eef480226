"""What it is worth that stream tables which read the same source share one reading of its change.

*size* is the number of stream tables, a tenth as many sources. One row of each source changes, then one tick refreshes all of them:

- *shared*: the first to need a change reads it, the others are given it;
- *each*: everyone reads it from its files (`disabled_optimisations` = `shared_reads`);
- *in jobs*: everyone's own Spark job reads it (`held_changes` is off too).

`reads` counts how often the change of a source was read in a tick. The ways take turns on the same tables and workers.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from benchmarks.bench import FEED, Bench
from benchmarks.part import Options, Part
from benchmarks.plot import Rows, figure
from benchmarks.results import Measured
from runnel.execute.daemon import SparkEffects
from runnel.execute.engine import Engine
from runnel.execute.workers import Workers
from runnel.schedule.daemon import Event, Limits, Scheduler
from runnel.sources import delta

WARM = 1
LINES = 10_000
WAYS: dict[str, tuple[str, ...]] = {"shared": (), "each": ("shared_reads",), "in jobs": ("shared_reads", "held_changes")}
QUERIES = (
    "SELECT k % {n} AS bucket, SUM(x) AS total, COUNT(*) AS n FROM {source} GROUP BY k % {n}",
    "SELECT k, x * {n} AS y FROM {source} WHERE x % {n} = 0",
)


def measure(bench: Bench, options: Options) -> Iterator[Measured]:
    with bench.schema("shared"):
        for size in map(int, options.sizes):
            yield from _one(bench, options, size)


def _one(bench: Bench, options: Options, size: int) -> Iterator[Measured]:
    rn = bench.rn
    sources, tables = [f"s{i}" for i in range(max(1, size // 10))], [f"t{i:03d}" for i in range(size)]
    for source in sources:
        rn.sql(f"CREATE TABLE {source} {FEED} AS SELECT id AS k, id AS x FROM range({LINES})")
    for number, table in enumerate(tables):
        query = QUERIES[number % 2].format(n=number % 7 + 2, source=sources[number % len(sources)])
        rn.create(table, query, mode="DIFFERENTIAL", schedule="on update")
    runs: dict[str, list[float]] = {way: [] for way in WAYS}
    reads: dict[str, set[float]] = {way: set() for way in WAYS}
    pools = {way: _Pool(bench, off) for way, off in WAYS.items()}
    for round_ in range(WARM + options.rounds):
        for way in list(WAYS)[round_ % len(WAYS) :] + list(WAYS)[: round_ % len(WAYS)]:
            for source in sources:
                rn.spark.sql(f"UPDATE {source} SET x = x + 1 WHERE k = 1")
            with _counted() as count:
                took = pools[way].tick(size)
            if round_ >= WARM:
                runs[way].append(took)
                reads[way].add(len(count) / len(sources))
    for pool in pools.values():
        pool.workers.close()
    for way, times in runs.items():
        yield Measured({"size": size, "way": way}, round(statistics.median(times), 1), 0, 0, 0, times, {"reads": max(reads[way])})
    if size <= options.verify_up_to:
        for table in tables[:: max(1, size // 5)]:
            bench.check(table)


class _Pool:
    """Workers that have some optimisations off; they are kept, so that their sessions are warm."""

    def __init__(self, bench: Bench, off: tuple[str, ...]) -> None:
        self.engine: Engine = replace(bench.rn._engine, settings=replace(bench.rn.settings, disabled_optimisations=off))
        self.workers = Workers(self.engine, bench.rn.settings.workers)

    def tick(self, size: int) -> float:
        """One tick over everything; its milliseconds. A scheduler of its own, since other ways moved the tables meanwhile."""
        woken, told = threading.Event(), list[Event]()
        scheduler = Scheduler(SparkEffects(self.engine, self.workers, woken.set, told.append, lambda: None), Limits())
        scheduler.step(plan=False)
        before = time.perf_counter()
        scheduler.step(everything=True)
        while not scheduler.idle:
            woken.wait(1.0)
            woken.clear()
            scheduler.step(plan=False)
        took = round((time.perf_counter() - before) * 1000, 1)
        done = [e for e in told if e.record is not None and e.record.action == "DIFFERENTIAL"]
        assert len(done) == len(told) == size, [str(e.record or e) for e in told if e not in done]
        return took


@contextmanager
def _counted() -> Iterator[list[str]]:
    """How often changes of plain sources are read: from their files by this process, or by a Spark job."""
    found: list[str] = []
    hold, change = delta.hold, delta.DeltaSource.change
    with (
        mock.patch.object(delta, "hold", lambda *rest: found.append("files") or hold(*rest)),
        mock.patch.object(delta.DeltaSource, "change", lambda *rest: found.append("job") or change(*rest)),
    ):
        yield found


def figures(found: list[Measured], note: str) -> dict[str, str]:
    lines = [f"{m.labels['size']} stream tables, {m.labels['way']}, {m.facts['reads']:g} reads a source" for m in found]
    bars = Rows("all refreshed", "ms", lines, {"ms": [m.ms for m in found]}, label=320)
    return {"": figure("A tick in which one row of every source changed", note, [bars], 1, 900)}


PART = Part(
    name="shared",
    title="one reading of a change for all who need it",
    quick=Options(sizes=(50,), rounds=3),
    full=Options(sizes=(50, 200), rounds=10),
    measure=measure,
    figures=figures,
    against="each",
)
