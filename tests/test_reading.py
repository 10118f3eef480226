"""What users read, in every state of the log: the form that the notes allow, the form that is right for any log, and the query agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

import runnel
from runnel.execute.compact import Fold, compact
from runnel.observe.record import Action
from runnel.tables.backing import CommitNote

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("reading")]

QUERIES = {
    "apart": "SELECT id, k, x FROM t",
    "copies": "SELECT k, x FROM t",
    "floats": "SELECT id % 5 AS m, d FROM t",
    "groups": "SELECT k, SUM(x) AS total, COUNT(*) AS n FROM t GROUP BY k",
}
FEED = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"


@pytest.fixture(scope="module")
def tables(rn: runnel.Runnel) -> Iterator[runnel.Runnel]:
    rn.sql("CREATE SCHEMA reading")
    rn.sql("USE reading")
    rn.sql(f"CREATE TABLE t {FEED} AS SELECT id, concat('k', id % 4) AS k, CAST(id % 3 AS INT) AS x, CAST(id % 2 AS DOUBLE) AS d FROM range(24)")
    for name, query in QUERIES.items():
        rn.create(name, query, mode="DIFFERENTIAL")
    yield rn
    rn.sql("USE default")


def note(rn: runnel.Runnel, name: str) -> CommitNote:
    return rn._engine.backing(f"spark_catalog.reading.{name}").note()[1]


def check(rn: runnel.Runnel, by_name: bool = False) -> None:
    for name, query in QUERIES.items():
        wanted = Counter(map(str, rn.spark.sql(query).collect()))
        assert Counter(map(str, rn.table(name).collect())) == wanted, name
        if by_name:
            assert Counter(map(str, rn.spark.table(name).collect())) == wanted, name


def follow(rn: runnel.Runnel, *statements: str, by_name: bool = False) -> None:
    for statement in statements:
        rn.sql(statement)
    for name in QUERIES:
        assert rn.refresh(name).action is Action.DIFFERENTIAL
    check(rn, by_name)


def scans(rn: runnel.Runnel, name: str) -> int:
    return str(rn.table(name)._jdf.queryExecution().optimizedPlan().toString()).count("Relation ")  # type: ignore[operator]


def test_every_state_of_the_log_is_read_right(tables: runnel.Runnel) -> None:
    rn = tables
    assert note(rn, "apart").base_distinct and not note(rn, "copies").base_distinct

    follow(rn, "INSERT INTO t VALUES (100, 'k1', 1, 0.0), (101, 'k9', 5, NULL), (101, 'k9', 5, NULL)")
    assert scans(rn, "apart") == scans(rn, "copies") == 2, "rows only came, so base and tail are read as they lie"
    assert note(rn, "groups").tail_nulls == []

    follow(rn, "DELETE FROM t WHERE id IN (3, 100)", "UPDATE t SET x = x + 1, d = -0.0 WHERE id IN (4, 6, 101)", by_name=True)
    assert not note(rn, "apart").tail_net, "two changes, in which rows come and go"

    for name in QUERIES:
        compact(rn._engine, rn._engine.backing(f"spark_catalog.reading.{name}"), Fold.TAIL)
        assert note(rn, name).tail_net and note(rn, name).tail_files == 1
    check(rn)
    assert scans(rn, "apart") < scans(rn, "copies"), "the base is read once where no row is in it twice"


def test_one_mixed_change_after_compaction_is_read_right(tables: runnel.Runnel) -> None:
    rn = tables
    rn.compact("apart")
    assert not note(rn, "apart").base_distinct, "row 101 came twice"
    rn.sql("DELETE FROM t WHERE id = 101")
    for name in QUERIES:
        rn.refresh(name)
        rn.compact(name)
    assert note(rn, "apart").base_distinct

    follow(
        rn,
        "UPDATE t SET x = x + 1, d = 1.0 WHERE id < 6",
        "DELETE FROM t WHERE id BETWEEN 6 AND 8",
        "INSERT INTO t VALUES (200, NULL, 1, DOUBLE('NaN')), (201, NULL, 1, 0.0), (20, 'k0', 2, 0.0), (300, 'new', 7, 7.0)",
        by_name=True,
    )
    (key,) = rn._engine.backing("spark_catalog.reading.groups").definition.layout.keys
    assert note(rn, "apart").tail_net and note(rn, "groups").tail_nulls == [key]
    assert scans(rn, "apart") < scans(rn, "copies")
