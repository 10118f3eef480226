"""Rows that this process reads instead of Spark: the same rows, of every type, in every face, whatever the log of a stream table holds."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

import runnel
from runnel.sources.bounds import Bound
from tests.test_written_here import ROWS, TYPES

pytestmark = pytest.mark.spark

FEED = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"


def bag(frame) -> Counter:
    """Rows by their text: NaN equals NaN, and 0.0 is not -0.0."""
    return Counter(map(repr, frame.collect()))


def source(rn, reader: str, name: str):
    """A table as the stream table that reads it sees it, and its latest version."""
    engine = rn._engine
    found = engine.source(next(s for s in engine.backing(rn._name(reader)).definition.sources if s.key == rn._name(name)))
    return found, found.log.version()


def test_rows_of_every_type_are_the_same_rows(rn, tmp_path):
    rn.sql("CREATE SCHEMA rows_here")
    rn.sql("USE rows_here")
    rn.sql(f"CREATE TABLE kinds ({TYPES}) {FEED}")
    rn.sql(f"INSERT INTO kinds VALUES ({'), ('.join(ROWS)})")
    rn.create("kept", "SELECT * FROM kinds", mode="DIFFERENTIAL")
    rn.create("exact", "SELECT * EXCEPT (f, g) FROM kinds", mode="DIFFERENTIAL")
    rn.create("sums", "SELECT d % 2 AS odd, SUM(o) AS o, COUNT(*) AS n, AVG(m) AS m FROM kinds GROUP BY d % 2", mode="DIFFERENTIAL")
    rn.create("distinct_ones", "SELECT DISTINCT h, j FROM kinds", mode="DIFFERENTIAL")
    rn.create("one", "SELECT COUNT(*) AS n, SUM(d) AS s FROM kinds", mode="DIFFERENTIAL")
    names = ("kept", "exact", "sums", "distinct_ones", "one")
    for name in names:
        rn.create(f"above_{name}", f"SELECT * FROM {name}", mode="DIFFERENTIAL")
    rn.create("above_kinds", "SELECT * FROM kinds", mode="DIFFERENTIAL")
    for statement in ("INSERT INTO kinds SELECT * FROM kinds", "UPDATE kinds SET c = 7S WHERE d = 3", "DELETE FROM kinds WHERE d < 0"):
        rn.sql(statement)
        for name in ("kinds", *names):
            if name != "kinds":
                rn.refresh(name)
            found, version = source(rn, f"above_{name}", name)
            columns = rn.table(name).columns
            given = found.here(rn._engine.reader, version, (), columns, str(tmp_path))
            if given is None:
                assert name == "kept", name  # floats that were netted here could be other zeros
            else:
                assert bag(given.frame.select(*columns)) == bag(found.at(rn._engine.reader, version).select(*columns)), (name, statement)


def test_only_rows_within_bounds_come(rn, tmp_path):
    rn.sql("CREATE SCHEMA rows_bound")
    rn.sql("USE rows_bound")
    rn.sql(f"CREATE TABLE pairs (k INT, v STRING) {FEED}")
    rn.sql("INSERT INTO pairs VALUES (1, 'a'), (2, 'b'), (NULL, 'c'), (3, NULL)")
    rn.create("renamed", "SELECT k AS key, v AS value FROM pairs", mode="DIFFERENTIAL")
    rn.create("ranked", "SELECT k AS key, v, ROW_NUMBER() OVER (PARTITION BY v ORDER BY k) AS n FROM pairs", mode="DIFFERENTIAL")
    rn.create("summed", "SELECT k + 0 AS key, COUNT(v) AS n FROM pairs GROUP BY k + 0", mode="DIFFERENTIAL")
    for name in ("renamed", "ranked", "summed"):
        rn.create(f"above_{name}", f"SELECT * FROM {name}", mode="DIFFERENTIAL")
    rn.sql("UPDATE pairs SET v = 'd' WHERE k = 2")
    for name in ("renamed", "ranked", "summed"):
        rn.refresh(name)
        found, version = source(rn, f"above_{name}", name)
        given = found.here(rn._engine.reader, version, [Bound("key", "number", (2, 3), null=True)], rn.table(name).columns, str(tmp_path))
        assert {r["key"] for r in given.frame.collect()} == {2, 3, None}


def test_a_chunk_without_rows_does_not_end_a_table(rn):
    some = pa.table({"x": pa.array([1, 2])})
    rows = pa.concat_tables([some, some.slice(0, 0), some])
    frame = rn._engine.reader.rows(rows, StructType([StructField("x", LongType())]))
    assert sorted(r["x"] for r in frame.collect()) == [1, 1, 2, 2]


def test_rows_too_many_for_a_plan_are_written_down_and_computed_by_several_tasks(rn, monkeypatch):
    from runnel.execute import sized
    from runnel.sources import here, reader

    rn.sql("CREATE SCHEMA rows_many")
    rn.sql("USE rows_many")
    for table in ("facts", "names"):
        rn.sql(f"CREATE TABLE {table} (k INT, v INT) {FEED}")
        rn.sql(f"INSERT INTO {table} SELECT id % 50, id FROM range(200)")
    rn.create("below", "SELECT k, v FROM names WHERE v >= 0", mode="DIFFERENTIAL")
    rn.create(
        "result",
        "SELECT f.k, f.v, b.v AS other, MAX(f.v) OVER (PARTITION BY f.k) AS most FROM facts f LEFT JOIN below b ON f.k = b.k",
        mode="DIFFERENTIAL",
    )
    monkeypatch.setattr(reader, "IN_PLAN", 20)
    monkeypatch.setattr(here, "IN_PLAN", 20)
    monkeypatch.setattr(sized, "ONE_TASK", 30)
    for day in range(2):
        rn.sql(f"UPDATE names SET v = v + {day + 1} WHERE k < 5")
        rn.sql("DELETE FROM facts WHERE k = 49")
        rn.sql("INSERT INTO facts VALUES (1, 1000), (51, 7)")
        rn.refresh("below")
        assert rn.refresh("result").action == "DIFFERENTIAL"
        assert rn.verify("result").ok


def test_rows_here_can_be_switched_off(rn):
    rn.sql("CREATE SCHEMA rows_there")
    rn.sql("USE rows_there")
    rn.sql(f"CREATE TABLE t (k INT, v INT) {FEED}")
    rn.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
    other = runnel.connect(spark=rn.spark, warehouse=rn.folder, settings={"disabled_optimisations": ("rows_here",)})
    jobs = {}
    for name, connection in (("here", rn), ("there", other)):
        connection.create(name, "SELECT a.k, b.v FROM t a JOIN t b ON a.k = b.k", mode="DIFFERENTIAL")
        rn.sql("UPDATE t SET v = v + 1")
        record = connection.refresh(name)
        assert connection.verify(name).ok
        jobs[name] = record.jobs
    other.close()
    assert jobs["here"] == 1 < jobs["there"]
