"""The session in which Runnel reads: a second one on the kernel connector, so that the user's stays untouched."""

from __future__ import annotations

import glob
import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote
from sqlglot import exp

from runnel.sources.held import holdable
from runnel.sources.here import IN_PLAN, Rows

KERNEL = "spark.databricks.delta.v2.enableMode"
FOLLOWED = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.cteRecursionLevelLimit", "spark.sql.cteRecursionRowLimit")
"""Settings of the user's session that change what a query means."""


SOUND = {
    "spark__sql__optimizer__excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}" for rule in ("PushProjectionThroughUnion", "CombineUnions")
    )
}
"""Spark 4.1 fails on EXISTS or IN as a value over a union, as the content of a stream table with a tail is one, unless projections stay
above unions. Where unions meet, CombineUnions pushes them too."""


@dataclass(frozen=True)
class Given:
    """A relation made of rows that this process holds or wrote: how many, and the bytes that it read for them."""

    frame: DataFrame
    rows: int
    bytes: int = 0


class Reader:
    """Reads Delta tables at given versions. `kernel` turns the faster connector on; what it cannot read, the plain one reads. `here` allows
    this process to read small tables itself."""

    def __init__(self, spark: SparkSession, kernel: bool, here: bool = True) -> None:
        self.user = spark
        self.kernel = kernel
        self.here = here
        self.session = self._opened()
        self.lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._registered: dict[int, list[str]] = {}

    def _opened(self) -> SparkSession:
        # Spark Connect has no empty second session, but copies one, with functions and temporary views.
        session: SparkSession = self.user.cloneSession() if is_remote() else self.user.newSession()  # type: ignore[attr-defined]
        for key in FOLLOWED:
            session.conf.set(key, self.user.conf.get(key) or "")
        if self.kernel:
            session.conf.set(KERNEL, "STRICT")
        return session

    def close(self) -> None:
        """Let go of the session. Only a Spark Connect server keeps it otherwise."""
        if is_remote():
            session: Any = self.session  # whose stop() fails in Spark 4.1, because it was copied
            with suppress(Exception):  # the server may be gone already
                session.client.release_session()
            session.client.close()

    def table(self, path: str, version: int) -> DataFrame:
        """The rows of the table at `path` at one version."""
        if not self.kernel:
            return self.through_log(path, version)
        try:
            # By SQL: a DataFrame reader would take the default connector whatever the session says.
            return self.session.sql(f"SELECT * FROM delta.{exp.to_identifier(path, quoted=True).sql('spark')} VERSION AS OF {int(version)}")
        except PySparkException:
            return self.through_log(path, version)

    def through_log(self, path: str, version: int) -> DataFrame:
        """The same through Delta's default connector, which knows every table feature."""
        return self.session.read.format("delta").option("versionAsOf", version).load(path)

    def feed(self, path: str, first: int, last: int) -> DataFrame:
        """Delta's change feed, both versions included."""
        return (
            self.session.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", first)
            .option("endingVersion", last)
            .load(path)
        )

    def rows(self, data: Any, schema: StructType, session: SparkSession | None = None) -> DataFrame:
        """Rows that this process holds, as a frame of this session or of another one. Making it takes the thread's active session over; it is given back."""
        before = SparkSession.getActiveSession() or self.user
        try:
            # Spark 4.1 takes a chunk without rows for the end of a table.
            return (session or self.session).createDataFrame(data.combine_chunks() if isinstance(data, pa.Table) else data, schema)
        finally:
            if not is_remote():
                jvm: Any = before._jvm
                jvm.SparkSession.setActiveSession(before._jsparkSession)
                SparkSession._activeSession = before

    def given(self, data: pa.Table, schema: StructType, folder: str | None) -> DataFrame:
        """Rows that this process holds: in the plan when few, else as a file in `folder`, if the caller has one.

        Spark's optimizer goes over rows in a plan again and again: 200,000 of them cost half a second before anything runs.
        """
        if folder is None or data.num_rows <= IN_PLAN or not holdable(schema):
            return self.rows(data, schema)
        os.makedirs(folder, exist_ok=True)
        path = f"{folder}/{next(self._numbers)}.parquet"
        pq.write_table(data, path, compression="snappy", coerce_timestamps="us", row_group_size=IN_PLAN * 5)
        return self.session.read.schema(schema).parquet(path)

    def giving(self, rows: Rows, folder: str) -> Given:
        """Rows that this process read, as a relation."""
        return Given(self.given(rows.table, rows.schema, folder), rows.count, rows.bytes)

    def adopted(self, frame: DataFrame) -> DataFrame | None:
        """A frame that may be of another reader's session as one of this; None where it has to be made again.

        What it costs to make one is not its rows but the many questions that PySpark asks for it: about 20 ms in a profile.
        """
        if frame.sparkSession is self.session:
            return frame
        if is_remote():
            return None
        plan: Any = frame._jdf.queryExecution().analyzed()
        return DataFrame(self._frames.ofRows(self.session._jsparkSession, plan), self.session)

    @cached_property
    def _frames(self) -> Any:
        jvm: Any = self.session._jvm
        return jvm.org.apache.spark.sql.classic.Dataset

    def stored(self, frame: DataFrame, folder: str, few: bool) -> tuple[DataFrame, int | None]:
        """The rows of a frame, computed now: held by the driver when few, else as files in `folder`; and how many they are, where that is seen."""
        if few:
            try:
                rows = frame.toArrow()
                return self.given(rows, frame.schema, folder), rows.num_rows
            except Exception as error:  # as Spark raised it, or as Py4J hands it on
                if "maxResultSize" not in str(error):
                    raise
        frame.write.parquet(folder)
        written = glob.glob(f"{glob.escape(folder)}/*.parquet")
        return self.session.read.schema(frame.schema).parquet(folder), sum(pq.read_metadata(f).num_rows for f in written) if written else None

    def adopt(self, functions: tuple[str, ...]) -> None:
        """Make functions that the user registered in their session known here."""
        if not functions:
            return
        if is_remote():
            if not all(self.session.catalog.functionExists(name) for name in functions):
                self.close()
                self.session = self._opened()  # the copy was made before
            return
        jvm: Any = self.user.sparkContext._jvm
        theirs, ours = (s._jsparkSession.sessionState().functionRegistry() for s in (self.user, self.session))
        for name in functions:
            identifier = jvm.org.apache.spark.sql.catalyst.FunctionIdentifier(name)
            known, builder = theirs.lookupFunction(identifier), theirs.lookupFunctionBuilder(identifier)
            if known.isDefined() and builder.isDefined():
                ours.registerFunction(identifier, known.get(), builder.get())

    def register(self, frame: DataFrame, name: str | None = None) -> str:
        """A temporary view over a frame in Runnel's own session; its name."""
        name = name or f"__runnel_{next(self._numbers)}"
        frame.createOrReplaceTempView(name)
        self._registered.setdefault(threading.get_ident(), []).append(name)
        return name

    def clean(self) -> None:
        """Drop the views that this thread registered; queries already analysed do not need them."""
        for name in self._registered.pop(threading.get_ident(), []):
            self.session.catalog.dropTempView(name)

    @contextmanager
    def configured(self, **settings: str) -> Iterator[None]:
        """Session settings for the length of one job, in Runnel's own session only."""
        keys = {k.replace("__", "."): v for k, v in settings.items()}
        before = {k: self.session.conf.get(k, None) for k in keys}
        for key, value in keys.items():
            self.session.conf.set(key, value)
        try:
            yield
        finally:
            for key, old in before.items():
                self.session.conf.unset(key) if old is None else self.session.conf.set(key, old)
