"""Spark jobs under a name: every job says which stream table and which stage it belongs to, and is counted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote


class Jobs:
    """Names and counts the jobs of one refresh. On Spark Connect, where jobs cannot be counted, `count` is None."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        self.table = table
        self.group = f"runnel-{uuid.uuid4().hex}"
        self.context = None if is_remote() else spark.sparkContext

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        if self.context is None:
            yield
            return
        self.context.setJobGroup(self.group, f"{self.table}: {name}")
        self.context.setJobDescription(f"{self.table}: {name}")
        try:
            yield
        finally:
            for key in ("spark.jobGroup.id", "spark.job.description"):
                self.context.setLocalProperty(key, None)  # type: ignore[arg-type]

    @property
    def count(self) -> int | None:
        return len(self.context.statusTracker().getJobIdsForGroup(self.group)) if self.context is not None else None
