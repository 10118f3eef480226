"""The embedded Spark session, and the check that a user's own session can do what Runnel needs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable

from pyspark.sql import SparkSession

from runnel.environment import check_java, jars
from runnel.errors import EnvironmentProblem

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
QUIET = os.path.join(os.path.dirname(__file__), "log4j2.properties")
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


def embedded(warehouse: str, progress: Callable[[str], None] | None = None, config: dict[str, str] | None = None) -> SparkSession:
    """Local Spark with Delta Lake over a warehouse folder; an active session is used as it is. `config` is for Spark."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    check_java()
    local_jars = jars(progress)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # user functions run where their packages are
    if progress:
        progress("starting Spark (about 15 seconds)")
    builder = (
        SparkSession.builder.appName("runnel")
        .master(os.environ.get("RUNNEL_MASTER", "local[*]"))
        .config("spark.jars", ",".join(local_jars))
        .config("spark.sql.extensions", EXTENSION)
        .config("spark.sql.catalog.spark_catalog", CATALOG)
        .config("spark.sql.warehouse.dir", warehouse)
        .config("spark.sql.sources.default", "delta")
        .config("spark.ui.retainedJobs", "100")
        .config("spark.ui.retainedStages", "100")
        .config("spark.sql.ui.retainedExecutions", "20")
        .config("spark.driver.memory", os.environ.get("RUNNEL_DRIVER_MEMORY", "2g"))
        .config("spark.ui.enabled", os.environ.get("RUNNEL_SPARK_UI", "false"))
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.scheduler.mode", "FAIR")  # refreshes that run side by side share the cores instead of queueing
        # Delta replays a table's log in 50 tasks by default; a warehouse on one machine needs two.
        .config("spark.databricks.delta.snapshotPartitions", "2")
    )
    chosen = dict(config or {})
    chosen[JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={QUIET} {chosen.get(JAVA_OPTIONS, '')}".strip()
    for key, value in chosen.items():
        builder = builder.config(key, value)
    # PySpark repeats every analysis error as a page of JSON on the console; ours say it in three lines.
    for noisy in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    return builder.getOrCreate()


def check(spark: SparkSession) -> None:
    """A session without Delta Lake cannot hold stream tables; say so before anything is written."""
    if EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise EnvironmentProblem(
            "the Spark session has no Delta Lake",
            detail=f"spark.sql.extensions does not name {EXTENSION}.",
            hint=f"Start Spark with spark.sql.extensions={EXTENSION} and spark.sql.catalog.spark_catalog={CATALOG}.",
        )
