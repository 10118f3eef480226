"""The embedded Spark session, and the check that a user's own session can do what Runnel needs."""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from runnel.environment import check_java, jars
from runnel.errors import EnvironmentProblem
from runnel.sources.delta_log import local_path

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
        # Spark keeps the code of a hundred plans; a daemon over fifty stream tables would compile all of them anew in each tick.
        .config("spark.sql.codegen.cache.maxEntries", "5000")
        # Delta replays a table's log in 50 tasks by default; a warehouse on one machine needs two.
        .config("spark.databricks.delta.snapshotPartitions", "2")
    )
    chosen = dict(config or {})
    chosen[JAVA_OPTIONS] = java_options(chosen.get(JAVA_OPTIONS, ""))
    for key, value in chosen.items():
        builder = builder.config(key, value)
    quiet()
    return builder.getOrCreate()


def quiet() -> None:
    """PySpark repeats every analysis error as a page of JSON on the console; ours say it in three lines."""
    for noisy in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)


def remote(url: str, config: Mapping[str, str]) -> SparkSession:
    """A session of a Spark Connect server."""
    host, port = _server(url)
    try:
        # Spark tries for minutes to reach a server that is not there.
        socket.create_connection((host, port), timeout=REACH).close()
        quiet()
        return SparkSession.builder.remote(url).config(map=dict(config)).getOrCreate()
    except Exception as error:  # pyspark raises many kinds, most of them about packages that are not installed
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise EnvironmentProblem(
            f"cannot connect to {url}",
            code="REMOTE",
            detail=f"{lines[0].rstrip('.')}.",
            hint="Install pyspark[connect], and check that the server runs and has Delta Lake.",
        ) from error


REACH = 5.0
"""Seconds in which a server has to answer."""
PORT = 15002
"""That of Spark Connect where a URL has none."""


def _server(url: str) -> tuple[str, int]:
    """
    >>> _server("sc://spark.example:15003/;use_ssl=true"), _server("sc://[::1]")
    (('spark.example', 15003), ('::1', 15002))
    """
    try:
        parts = urlsplit(url)
        if parts.scheme == "sc" and parts.hostname:
            return parts.hostname, parts.port or PORT
    except ValueError:  # a port that is no number
        pass
    raise EnvironmentProblem(f"{url} is no Spark Connect server", code="REMOTE", hint="Write it as sc://host:15002.")


def check_shared(spark: SparkSession, folder: str) -> None:
    """A Spark Connect server has to see the files of this process, which writes commits by itself."""
    if not is_remote() or (local := local_path(folder)) is None:
        return
    os.makedirs(f"{local}/_runnel", exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=f"{local}/_runnel", suffix=".seen") as file:
        try:
            spark.read.text(file.name).count()
        except PySparkException as error:
            raise EnvironmentProblem(
                f"the Spark Connect server does not see {folder}",
                code="REMOTE",
                detail="Runnel reads and writes commit logs itself, and Spark reads and writes the files that they name.",
                hint="Name a warehouse that this machine and the server reach under one path, with --warehouse, in Python warehouse=...",
            ) from error


def java_options(given: str) -> str:
    """Options of the driver's JVM, with Runnel's own. In quotes, since Spark splits them at spaces and a folder may have one in its name."""
    return f'"-Dlog4j2.configurationFile={QUIET}" {given}'.strip()


def check(spark: SparkSession) -> None:
    """A session without Delta Lake cannot hold stream tables; say so before anything is written."""
    if EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
        raise EnvironmentProblem(
            "the Spark session has no Delta Lake",
            detail=f"spark.sql.extensions does not name {EXTENSION}.",
            hint=f"Start Spark with spark.sql.extensions={EXTENSION} and spark.sql.catalog.spark_catalog={CATALOG}.",
        )
