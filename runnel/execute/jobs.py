"""Spark jobs under a name: every job says which stream table and which stage it belongs to, and is counted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

LAG_MS = 200
"""How long to wait for Spark's own book-keeping, which follows its jobs by a few milliseconds."""


@dataclass(frozen=True)
class Spent:
    """What the jobs of one refresh used, as Spark counted it.

    Bytes read are not here: Parquet files are read in threads whose bytes Spark does not see, so it counts a few kilobytes for
    any table. Its rows are right.
    """

    executor_ms: float = 0.0
    rows_read: int = 0
    bytes_written: int = 0


class Jobs:
    """Names and counts the jobs of one refresh. On Spark Connect, where jobs cannot be counted, `count` is None."""

    def __init__(self, spark: SparkSession, table: str, pool: str | None = None) -> None:
        self.table = table
        self.pool = pool
        self.group = f"runnel-{uuid.uuid4().hex}"
        self.context = None if is_remote() else spark.sparkContext
        self._told = False

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Jobs of this thread are ours, and of the stage `name` until `now` says another."""
        with self.stages():
            self.now(name)
            yield

    @contextmanager
    def stages(self) -> Iterator[None]:
        """Jobs of this thread are ours from when `now` says the first stage. Where it never does, Spark is not asked for anything."""
        try:
            yield
        finally:
            self._forget()

    def now(self, name: str) -> None:
        """The next stage that may have jobs begins."""
        if self.context is None:
            return
        if self._told:
            self.context.setJobDescription(f"{self.table}: {name}")
            return
        self._told = True
        self.context.setJobGroup(self.group, f"{self.table}: {name}")
        if self.pool is not None:
            self.context.setLocalProperty("spark.scheduler.pool", self.pool)

    def _forget(self) -> None:
        if self.context is not None and self._told:
            for key in ("spark.jobGroup.id", "spark.job.description", *(("spark.scheduler.pool",) if self.pool is not None else ())):
                self.context.setLocalProperty(key, None)  # type: ignore[arg-type]

    @property
    def count(self) -> int | None:
        if self.context is None:
            return None
        return len(self.context.statusTracker().getJobIdsForGroup(self.group)) if self._told else 0

    def spent(self) -> Spent | None:
        """The sums over all stages, or None where Spark cannot be asked. Costs about a millisecond per stage."""
        if self.context is None:
            return None
        jobs = self.context.statusTracker().getJobIdsForGroup(self.group)
        try:
            spark: Any = self.context._jsc.sc()
            with suppress(Py4JError):  # a busy machine: what is counted so far has to do
                spark.listenerBus().waitUntilEmpty(LAG_MS)
            store = spark.statusStore()
            return _sum([_stage(store, s) for job in jobs for s in str(store.job(job).stageIds().mkString(",")).split(",") if s])
        except Py4JError:
            return None


def _stage(store: Any, stage: str) -> Spent:
    found = store.lastStageAttempt(int(stage))
    took = float(found.executorRunTime())
    return Spent(took, int(found.inputRecords()), int(found.outputBytes())) if took else Spent()


def _sum(stages: list[Spent]) -> Spent:
    return Spent(sum(s.executor_ms for s in stages), sum(s.rows_read for s in stages), sum(s.bytes_written for s in stages))
