"""What users read, in every state of the log: the form that the notes allow, the form that is right for any log, and the query agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

import runnel
from runnel.execute import read
from runnel.execute.compact import compact
from runnel.execute.due import Fold
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


GROUPED = {
    "typed": "SELECT s, m, j, k, COUNT(*) AS n, SUM(x) AS total FROM kinds GROUP BY s, m, j, k",
    "doubles": "SELECT d, COUNT(*) AS n, SUM(x) AS total FROM kinds GROUP BY d",
    "one": "SELECT COUNT(*) AS n, SUM(x) AS total FROM kinds",
}
WAYS: tuple[tuple[str, int] | None, ...] = (None, ("IN_PLAN", 0), ("LISTED", 0))
"""New groups looked up here, found by Spark where they are many, and all of it left to Delta where files are many."""
ADA, BOB, CY = (
    "('ada', 1.50, DATE '0001-01-01', TIMESTAMP '1500-02-03 04:05:06.789012', 0.0, 1)",
    "('bob', -0.01, NULL, TIMESTAMP '2026-01-01 00:00:00', DOUBLE('NaN'), 2)",
    "(NULL, NULL, NULL, NULL, NULL, NULL)",
)
DAN, EVE = "('ADA', 1.50, DATE '0001-01-01', TIMESTAMP '1500-02-03 04:05:06.789012', -0.0, 4)", "('eve', NULL, NULL, NULL, 7.0, NULL)"


def joins(rn: runnel.Runnel, name: str) -> int:
    return str(rn.table(name)._jdf.queryExecution().optimizedPlan().toString()).count("Join ")  # type: ignore[operator]


def test_groups_that_only_the_tail_has_are_read_right(rn: runnel.Runnel, monkeypatch: pytest.MonkeyPatch) -> None:
    rn.sql("CREATE SCHEMA new_groups")
    rn.sql("USE new_groups")
    rn.sql(f"CREATE TABLE kinds (s STRING, m DECIMAL(5,2), j DATE, k TIMESTAMP, d DOUBLE, x INT) {FEED}")
    rn.sql(f"INSERT INTO kinds VALUES {ADA}")
    for name, query in GROUPED.items():
        rn.create(name, query, mode="DIFFERENTIAL")

    def changed(statement: str) -> None:
        rn.sql(statement)
        for name, query in GROUPED.items():
            assert rn.refresh(name).action is Action.DIFFERENTIAL
            wanted = Counter(map(str, rn.spark.sql(query).collect()))
            for way in WAYS:
                with monkeypatch.context() as patch:
                    rn._engine.looked_up.forget()
                    if way is not None:
                        patch.setattr(read, *way)
                    assert Counter(map(str, rn.table(name).collect())) == wanted, (name, way, statement)
            rn._engine.looked_up.forget()

    changed(f"INSERT INTO kinds VALUES {BOB}, {CY}")
    assert joins(rn, "typed") == 0, "every row of the tail is a new group"
    changed(f"INSERT INTO kinds VALUES {ADA}, {CY}, {DAN}, {EVE}")
    assert joins(rn, "typed") == 1 < joins(rn, "doubles"), "base and tail are met once where it is known which groups are new"
    changed("DELETE FROM kinds WHERE s = 'eve' OR s = 'ada' OR s IS NULL")
    changed(f"INSERT INTO kinds VALUES {CY}, {EVE}")
    rn.sql("USE default")


def test_a_sum_that_overflowed_is_null_in_a_new_group_too(rn: runnel.Runnel) -> None:
    rn.sql("CREATE SCHEMA overflow")
    rn.sql("USE overflow")
    rn.sql(f"CREATE TABLE t (k INT, x DECIMAL(38,0)) {FEED}")
    rn.sql("INSERT INTO t VALUES (1, 1)")
    rn.spark.conf.set("spark.sql.ansi.enabled", "false")
    lenient = runnel.connect(spark=rn.spark, warehouse=rn.folder)
    lenient.create("sums", "SELECT k, SUM(x) AS s FROM t GROUP BY k", mode="DIFFERENTIAL")
    lenient.create("one", "SELECT SUM(x) AS s, COUNT(*) AS n FROM t", mode="DIFFERENTIAL")
    rn.sql(f"INSERT INTO t VALUES (1, 1), (2, {'9' * 38}BD), (2, {'9' * 38}BD)")
    lenient.refresh("sums")
    found = [sorted(map(tuple, lenient.table("sums").collect()))]
    for _ in range(2):  # each fits, both together do not
        rn.sql(f"INSERT INTO t VALUES (1, {'9' * 37}8BD), (3, {'9' * 38}BD), (2, 1)")
        for name in ("sums", "one"):
            lenient.refresh(name)
    found += [sorted(map(tuple, read("sums").collect())) for read in (lenient.table, rn.spark.table)]
    assert lenient.table("one").collect() == rn.spark.table("one").collect() == [(None, 10)]
    lenient.compact("sums")
    found += [sorted(map(tuple, read("sums").collect())) for read in (lenient.table, rn.spark.table)]
    rn.spark.conf.unset("spark.sql.ansi.enabled")
    lenient.close()
    rn.sql("USE default")
    assert found == [[(1, 2), (2, None)], *[[(1, None), (2, None), (3, None)]] * 4]


def test_the_short_forms_can_be_switched_off(rn: runnel.Runnel, there: runnel.Runnel) -> None:
    rn.sql("CREATE SCHEMA plain_forms")
    rn.sql("USE plain_forms")
    rn.sql(f"CREATE TABLE t {FEED} AS SELECT id, id % 3 AS k FROM range(9)")
    rn.create("counts", "SELECT k, COUNT(*) AS n FROM t GROUP BY k", mode="DIFFERENTIAL")
    rn.sql("INSERT INTO t VALUES (9, 0), (10, 8)")
    rn.refresh("counts")
    general = runnel.connect(spark=rn.spark, warehouse=rn.folder, settings={"disabled_optimisations": ("noted_forms",)})
    ways = {"here": rn, "there": there, "general": general}
    assert len({tuple(sorted(map(str, w.table("counts").collect()))) for w in ways.values()}) == 1
    assert {way: joins(w, "counts") for way, w in ways.items()} == {"here": 1, "there": 3, "general": 3}
    general.close()
    rn.sql("USE default")
