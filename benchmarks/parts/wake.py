"""How soon a change is visible when a daemon runs: one row goes into a source of a quiet machine, and an additive stream table follows.

*told* commits through the daemon's own process, which wakes it; *found* commits past it, so that its probes have to find the commit.
The time runs from the end of the commit to the end of the refresh. `p95_ms` is kept beside the median.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator

from benchmarks.bench import FEED, Bench
from benchmarks.part import Options, Part
from benchmarks.plot import Rows, figure
from benchmarks.results import Measured
from runnel.schedule.daemon import Event

WARM = 5
LONGEST = 60.0


def measure(bench: Bench, options: Options) -> Iterator[Measured]:
    rn = bench.rn
    with bench.schema("wake"):
        for size in map(int, options.sizes):
            rn.sql(f"CREATE OR REPLACE TABLE events {FEED} AS SELECT id AS account, id AS amount FROM range({size})")
            query = "SELECT account % 100 AS bucket, SUM(amount) AS total, COUNT(*) AS n FROM events GROUP BY account % 100"
            rn.create("balances", query, replace=True, schedule="on update")
            seen = threading.Event()

            def tell(event: Event, seen: threading.Event = seen) -> None:
                if event.kind == "refreshed":
                    seen.set()

            ways: dict[str, Callable[[str], object]] = {"told": rn.sql, "found": rn.spark.sql}
            with rn.start(tell=tell) as daemon:
                daemon.settle()
                for way, commit in ways.items():
                    runs = [_ms(commit, seen) for _ in range(WARM + options.rounds)][WARM:]
                    late = sorted(runs)[max(0, round(0.95 * len(runs)) - 1)]
                    yield Measured({"size": size, "way": way}, round(statistics.median(runs), 1), 0, 0, 0, runs, {"p95_ms": late})
            if size <= options.verify_up_to:
                found = rn.verify("balances")
                assert found.ok, found


def _ms(commit: Callable[[str], object], seen: threading.Event) -> float:
    seen.clear()
    commit("INSERT INTO events VALUES (7, 1)")
    before = time.perf_counter()
    assert seen.wait(LONGEST), "the daemon did not follow"
    return round((time.perf_counter() - before) * 1000, 1)


def figures(found: list[Measured], note: str) -> dict[str, str]:
    lines = [f"{int(m.labels['size']):,} rows, {m.labels['way']}" for m in found]
    bars = {"median": [m.ms for m in found], "p95": [float(m.facts["p95_ms"]) for m in found]}
    return {"": figure("From commit to visible, with a daemon", note, [Rows("one changed row", "ms", lines, bars, label=200)], 1, 900)}


PART = Part(
    name="wake",
    title="from commit to visible, with a daemon",
    quick=Options(sizes=(100_000,), rounds=20),
    full=Options(sizes=(100_000, 10_000_000), rounds=100),
    measure=measure,
    figures=figures,
    against="",
)
