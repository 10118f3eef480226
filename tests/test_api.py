"""The public API: statements, names, and clear errors for bad input that lose nothing."""

from __future__ import annotations

import pytest

from runnel.errors import RunnelError, Transient
from runnel.state import Catalog
from runnel.tables.backing import BackingTable, conflict
from tests.support.shop import LARGE, TOTALS, Shop

pytestmark = pytest.mark.spark


def test_statements_round_trip(rn) -> None:
    shop = Shop(rn)
    rn.sql(f"CREATE STREAM TABLE totals COMMENT 'per customer' TBLPROPERTIES ('team' = 'sales') REFRESH MODE DIFFERENTIAL AS {TOTALS}")
    rn.sql(f"CREATE STREAM TABLE IF NOT EXISTS totals AS {LARGE}")
    rn.sql(f"CREATE MATERIALIZED VIEW {shop.schema}.large AS {LARGE};")
    shown = {r["name"]: r for r in rn.sql("SHOW STREAM TABLES").collect()}
    assert shown[shop.name("totals")]["mode"] == "DIFFERENTIAL" and shown[shop.name("totals")]["comment"] == "per customer"
    assert rn._engine.backing(shop.name("totals")).definition.properties == {"team": "sales"}
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    assert rn.sql("REFRESH STREAM TABLE totals").first()["action"] == "DIFFERENTIAL"
    assert rn.sql("REFRESH STREAM TABLE totals FULL").first()["action"] == "FULL"
    assert dict(rn.sql("DESCRIBE STREAM TABLE totals").collect())["fresh"] == "True"
    assert "== plan ==" in rn.sql("EXPLAIN STREAM TABLE totals").first()["plan"]
    assert rn.sql(f"SELECT COUNT(*) FROM {shop.schema}.totals JOIN orders USING (customer)").first()[0] == 4
    assert rn.table(shop.name("totals")).count() == rn.spark.table(f"{shop.schema}.totals").count() == 4
    rn.sql(f"CREATE OR REPLACE STREAM TABLE totals AS {LARGE}")
    shop.check("totals")
    rn.alter("totals", mode="FULL")
    rn.sql("DELETE FROM orders WHERE id = 9")
    assert shop.refresh("totals", "FULL").reason == "refresh mode is FULL"
    rn.sql("DROP STREAM TABLE totals")
    assert not rn.spark.catalog.tableExists(shop.name("totals"))
    assert rn.sql("DROP STREAM TABLE IF EXISTS totals").count() == 0


@pytest.mark.parametrize(
    ("statement", "code", "words"),
    [
        ("CREATE STREAM TABLE x AS SELECT id FROM order", "TABLE_NOT_FOUND", 'table "order" does not exist (line 1, column 16)'),
        ("CREATE STREAM TABLE x AS SELECT reg FROM orders", "COLUMN_NOT_FOUND", "Columns of orders are id, customer, amount."),
        ("CREATE STREAM TABLE x AS SELECT id FROM orders WHERE (", "SYNTAX", "line 1, column"),
        ("CREATE STREAM TABLE x AS SELECT id, id FROM orders", "DUPLICATE_COLUMN", 'column "id" appears twice'),
        ("CREATE STREAM TABLE x AS SELECT NULL AS n FROM orders", "VOID_COLUMN", "has no type"),
        ("CREATE STREAM TABLE x AS SELECT uuid() AS u FROM orders", "EXPRESSION_NOT_DETERMINISTIC", "uuid() is not deterministic"),
        ("CREATE STREAM TABLE orders AS SELECT 1 AS one FROM orders", "NAME_TAKEN", "exists already"),
        ("CREATE STREAM TABLE totals AS SELECT id FROM orders", "NAME_TAKEN", "exists already"),
        ("CREATE OR REPLACE STREAM TABLE totals AS SELECT * FROM totals", "CYCLE", "->"),
        ("CREATE OR REPLACE STREAM TABLE totals AS SELECT customer, n FROM above", "CYCLE", "above -> "),
        (
            "CREATE STREAM TABLE x REFRESH MODE DIFFERENTIAL AS SELECT id FROM orders ORDER BY id LIMIT length('abc')",
            "NOT_INCREMENTAL",
            "LIMIT or OFFSET that is not a number is not maintained incrementally (line 1, column 41)",
        ),
        ("CREATE STREAM TABLE x REFRESH MODE SOMETIMES AS SELECT id FROM orders", "SYNTAX", "refresh mode SOMETIMES does not exist"),
        ("CREATE STREAM TABLE x AS DELETE FROM orders", "SYNTAX", "defined by a query"),
        ("INSERT INTO totals VALUES (1, 1, 1)", "MAINTAINED", "maintained by Runnel"),
        ("DELETE FROM totals", "MAINTAINED", "maintained by Runnel"),
        ("DROP VIEW totals", "MAINTAINED", "DROP STREAM TABLE"),
        ("DROP TABLE orders", "HAS_READERS", "is read by"),
        ("DROP STREAM TABLE totals", "HAS_READERS", "above"),
        ("REFRESH STREAM TABLE nothing", "STREAM_TABLE_NOT_FOUND", "Stream tables are"),
    ],
)
def test_bad_input(rn, bad_shop, statement, code, words) -> None:
    rn.sql(f"USE {bad_shop.schema}")
    before = rn.list()
    with pytest.raises(RunnelError) as caught:
        rn.sql(statement)
    assert caught.value.code == code, caught.value
    assert words in str(caught.value)
    assert caught.value.hint
    assert rn.list() == before


@pytest.fixture(scope="module")
def bad_shop(rn) -> Shop:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.create("above", "SELECT customer, n FROM totals")
    return shop


def test_a_failing_first_load_leaves_nothing(rn) -> None:
    shop = Shop(rn)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        rn.create("broken", "SELECT id, amount / (id - id) AS x FROM orders")
    assert all(e["name"] != shop.name("broken") for e in rn.list())
    assert not rn.spark.catalog.tableExists(shop.name("broken"))
    rn.create("broken", LARGE)
    shop.check("broken")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        rn.create("broken", "SELECT id, amount / (id - id) AS x FROM orders", replace=True)
    shop.check("broken")


def test_cascade_drops_readers_too(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.create("above", "SELECT customer, n FROM totals")
    assert rn.drop("totals", cascade=True) == [shop.name("above"), shop.name("totals")]
    assert all(shop.schema not in e["name"] for e in rn.list())


def test_unusual_names_are_quoted(rn) -> None:
    shop = Shop(rn)
    rn.sql("CREATE TABLE odd (`a b` INT, `select` STRING) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    rn.sql("INSERT INTO odd VALUES (1, 'x'), (2, 'y')")
    rn.sql("CREATE STREAM TABLE odd_result AS SELECT `select` AS `the group`, SUM(`a b`) AS `sum (all)` FROM odd GROUP BY `select`")
    rn.sql("INSERT INTO odd VALUES (3, 'x')")
    shop.refresh("odd_result", "DIFFERENTIAL")
    assert rn.table("odd_result").columns == ["the group", "sum (all)"]


def test_jobs_carry_the_table_and_the_stage(rn, monkeypatch) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    seen: list[str] = []
    context = rn.spark.sparkContext
    monkeypatch.setattr(type(context), "setJobDescription", lambda self, value: seen.append(value))
    assert rn.refresh("totals").jobs == 1
    assert f"{shop.name('totals')}: write" in seen


def test_a_refresh_is_recorded_while_it_runs_and_when_it_fails(rn, monkeypatch) -> None:
    shop = Shop(rn)
    rn.create("ratio", "SELECT id, 1 / (amount - 9) AS ratio FROM orders")
    seen: list[str] = []
    write = BackingTable.write
    monkeypatch.setattr(BackingTable, "write", lambda self, *rest: seen.append(rn.history("ratio")[0].status) or write(self, *rest))
    rn.sql("INSERT INTO orders VALUES (8, 8, 8)")
    shop.refresh("ratio", "DIFFERENTIAL")
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        rn.refresh("ratio")
    assert seen == ["RUNNING", "RUNNING"]
    assert [(r.status, r.epoch) for r in rn.history("ratio")] == [("FAILED", 2), ("COMPLETED", 2), ("COMPLETED", 1)]


def test_attempts_after_a_conflict_are_one_refresh(rn, monkeypatch) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    conflicts = iter([True, False])
    commit = BackingTable.commit

    def contended(self, *rest):
        if next(conflicts, True):
            raise conflict(self.definition.name)
        return commit(self, *rest)

    monkeypatch.setattr(BackingTable, "commit", contended)
    assert rn.refresh("totals").action == "DIFFERENTIAL"
    shop.check("totals")
    assert [r.status for r in rn.history("totals")] == ["COMPLETED", "COMPLETED"]
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    with pytest.raises(Transient):
        rn.refresh("totals")
    last = rn.history("totals")[0]
    assert (last.status, last.error["code"], len(rn.history("totals"))) == ("FAILED", "CONFLICT", 3)


def test_nothing_to_do_is_one_record_and_no_more(rn, monkeypatch) -> None:
    Shop(rn)
    rn.create("totals", TOTALS)
    written: list[str] = []
    record = Catalog.record
    monkeypatch.setattr(Catalog, "record", lambda self, what: written.append(what.status) or record(self, what))
    assert rn.refresh("totals").action == "NO_DATA"
    assert written == ["COMPLETED"]
    assert [b.as_dict()["action"] for b in rn.refresh_timeline("1h", "totals")] == ["FULL", "NO_DATA"]
