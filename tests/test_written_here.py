"""Few rows are written by this process instead of Spark: the same rows, whatever their types and however many they turn out to be."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.spark

TYPES = (
    "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h STRING, i BINARY, j DATE, k TIMESTAMP, l TIMESTAMP_NTZ, "
    "m DECIMAL(5,2), n DECIMAL(18,6), o DECIMAL(38,10)"
)
ROWS = (
    "true, 1Y, 2S, 3, 4L, FLOAT('-0.0'), DOUBLE('NaN'), '', X'00FF', DATE '0001-01-01', TIMESTAMP '1500-02-03 04:05:06.789012', "
    "TIMESTAMP_NTZ '0999-12-31 23:59:59.999999', 1.23, -4.000005, 12345678901234567890123456.0123456789",
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "false, -128Y, -32768S, -2147483648, -9223372036854775808L, FLOAT('Infinity'), DOUBLE('-Infinity'), 'ü\\n', X'', DATE '9999-12-31', "
    "TIMESTAMP '1582-10-10 00:00:00', TIMESTAMP_NTZ '9999-12-31 00:00:00', -999.99, 0, -0.0000000001",
)


def writers(rn, name: str) -> set[str]:
    """Who wrote the files of a stream table."""
    folder = Path(rn._engine.backing(rn._name(name)).path)
    return {pq.read_metadata(file).created_by.split()[0] for file in folder.rglob("*.parquet") if "_delta_log" not in file.parts}


def test_rows_of_every_type_are_the_same_rows(rn):
    rn.sql(f"CREATE TABLE kinds ({TYPES}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    rn.create("kept", "SELECT * FROM kinds", mode="DIFFERENTIAL")
    rn.create("greatest", "SELECT d, MAX(k) AS k, MIN(j) AS j, SUM(o) AS o, COUNT(*) AS n FROM kinds GROUP BY d", mode="DIFFERENTIAL")
    for statement in (f"INSERT INTO kinds VALUES ({'), ('.join(ROWS)})", "UPDATE kinds SET c = 7S WHERE d = 3", "DELETE FROM kinds WHERE d < 0"):
        rn.sql(statement)
        for name in ("kept", "greatest"):
            assert rn.refresh(name).action == "DIFFERENTIAL"
            assert rn.verify(name).ok
    assert writers(rn, "kept") == {"parquet-cpp-arrow"}
    rn.compact("kept")
    assert rn.verify("kept").ok
    assert rn.table("kept").exceptAll(rn.spark.table("kinds")).count() == 0


def test_more_rows_than_may_come_here_are_written_by_spark(rn):
    rn.sql("CREATE TABLE many (x INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    rn.create("all_of_them", "SELECT x, sha2(CAST(x AS STRING), 256) AS y FROM many", mode="DIFFERENTIAL")
    rn.sql("INSERT INTO many SELECT id FROM range(5000)")
    conf = rn.spark.sparkContext._jsc.sc().conf()  # what tasks are checked against, also after the start
    conf.set("spark.driver.maxResultSize", "100k")
    try:
        assert rn.refresh("all_of_them").rows_out == 5000
    finally:
        conf.remove("spark.driver.maxResultSize")
    assert writers(rn, "all_of_them") == {"parquet-mr"}
    assert rn.verify("all_of_them").ok
