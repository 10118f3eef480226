"""How everything is measured: wall time, Spark jobs and bytes of one piece of work; ways that take turns on the same change.

Jobs are counted by Spark's scheduler, bytes summed over the stages of those jobs in Spark's status store. Nothing else may run
on the session meanwhile. Counting happens after the clock has stopped.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

Work = Callable[[], Any]
Turn = Callable[[int], dict[str, "Spent"]]
"""Runs all ways of one subject in the given round."""

COUNTABLE = {
    "spark.ui.retainedJobs": "5000",
    "spark.ui.retainedStages": "20000",
    "spark.ui.retainedTasks": "20000",
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
}
"""Session settings without which the counts are too low: the status store forgets old stages, and bytes of Parquet that are read by
threads of their own are added to no task."""


@dataclass(frozen=True)
class Spent:
    """What one run of some work took. `read` and `written` are bytes of files, shuffles not included."""

    ms: float
    jobs: int
    read: int
    written: int
    result: Any = field(default=None, compare=False, repr=False)


class Meter:
    """Measures work on one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
        self._scheduler = context.dagScheduler()
        self._store = context.statusStore()
        self._bus = context.listenerBus()

    def run(self, work: Work) -> Spent:
        first = self._scheduler.numTotalJobs()
        started = time.perf_counter()
        result = work()
        ms = (time.perf_counter() - started) * 1000
        last = self._scheduler.numTotalJobs()
        read, written = self._bytes(range(first, last))
        # Spark counts nothing of what Runnel's own process reads and writes.
        here = getattr(result, "bytes_written", None) if not written else None
        return Spent(round(ms, 1), last - first, read + getattr(result, "bytes_here", 0), here or written, result)

    def _bytes(self, jobs: Iterable[int]) -> tuple[int, int]:
        """Bytes read and written by the stages of some jobs; a stage that two jobs share counts once."""
        self._bus.waitUntilEmpty()
        stages = {stage for job in jobs for stage in self._stages(job)}
        done = [found for found in map(self._stage, stages) if found is not None]
        return sum(d.inputBytes() for d in done), sum(d.outputBytes() for d in done)

    def _stages(self, job: int) -> list[int]:
        ids = self._store.job(job).stageIds()
        return [ids.apply(i) for i in range(ids.size())]

    def _stage(self, stage: int) -> Any:
        """What the store holds about a stage; nothing when all its output was there already and it never ran."""
        try:
            return self._store.lastStageAttempt(stage)
        except Py4JJavaError:
            return None


def turn(meter: Meter, ways: Mapping[str, Work], round_: int) -> dict[str, Spent]:
    """Every way once. Their order moves on by one each round, so that none always profits from files that another has just read."""
    names = list(ways)
    shift = round_ % max(1, len(names))
    took = {name: meter.run(ways[name]) for name in (*names[shift:], *names[:shift])}
    return {name: took[name] for name in names}


def in_turn(rounds: int, change: Callable[[int], None], turns: Mapping[str, Turn]) -> dict[str, dict[str, list[Spent]]]:
    """Each round makes one change, then lets every subject take its turn on it; what each way of each subject spent.

    The first round warms up and is not counted.
    """
    spent: dict[str, dict[str, list[Spent]]] = {subject: {} for subject in turns}
    for round_ in range(rounds + 1):
        change(round_)
        for subject, take in turns.items():
            for way, took in take(round_).items():
                if round_ > 0:
                    spent[subject].setdefault(way, []).append(took)
    return spent


def median(spent: list[Spent]) -> Spent:
    """The median of times and bytes; of jobs the most, since they are to be exact."""
    return Spent(
        ms=round(statistics.median(s.ms for s in spent), 1),
        jobs=max(s.jobs for s in spent),
        read=int(statistics.median(s.read for s in spent)),
        written=int(statistics.median(s.written for s in spent)),
        result=spent[-1].result,
    )
