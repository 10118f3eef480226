"""Shared by all tiers: the switch that refills expected results, and one Runnel on one Spark session."""

from __future__ import annotations

import os

import pytest

os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC")
# For every Spark that a test starts, in processes of its own too: two of them share the cores, and one thread collects their little
# garbage as fast as many. Compilers are left alone: with the simple one alone, eleven tests took 188 s instead of 161 s.

TINY = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.default.parallelism": "2",
    # Parquet read by threads of its own is counted for no task, and a test counts bytes.
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
}
"""Settings for tables of ten rows: compiling a plan takes longer than interpreting it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="refill the expected parts of fixtures; read the diff slowly")


@pytest.fixture(scope="session")
def rewrite(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture(scope="session")
def rn(tmp_path_factory: pytest.TempPathFactory):
    """Runnel with an embedded Spark session and a warehouse of its own."""
    import runnel

    return runnel.connect(warehouse=str(tmp_path_factory.mktemp("warehouse")), config=TINY)


@pytest.fixture(scope="session")
def there(rn):
    """The same with another connection, which leaves even the smallest tables to Spark, as large ones are."""
    import runnel

    return runnel.connect(spark=rn.spark, warehouse=rn.folder, settings={"disabled_optimisations": ("rows_here",)})
