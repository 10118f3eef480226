"""Changing a definition: nothing happens when it means the same, readers never see it empty, and those above receive the difference."""

from __future__ import annotations

import pytest

from runnel.errors import RunnelError
from runnel.execute import refresh as refresh_module
from tests.support.shop import LARGE, TOTALS, Shop

pytestmark = pytest.mark.spark

ABOVE = "SELECT customer, n FROM totals WHERE n > 0"


def version(rn, shop: Shop, table: str) -> int:
    return rn._engine.backing(shop.name(table)).log.version()


def test_the_same_query_is_not_computed_again(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS, comment="old")
    before = version(rn, shop, "totals")
    spelled = "select customer, sum(amount) AS total,\n count(*) as n from orders group by customer -- the same"
    assert rn.create("totals", spelled, comment="old", replace=True).action == "SKIP" and version(rn, shop, "totals") == before
    record = rn.create("totals", TOTALS, "DIFFERENTIAL", comment="new", properties={"team": "sales"}, replace=True)
    assert record.action == "SKIP" and "options" in record.reason
    definition = rn._engine.backing(shop.name("totals")).definition
    assert (definition.mode, definition.comment, definition.properties) == ("DIFFERENTIAL", "new", {"team": "sales"})
    assert rn._engine.backing(shop.name("totals")).note()[1].epoch == 1
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    shop.refresh("totals", "DIFFERENTIAL")


def test_a_new_query_is_one_commit_and_a_change_to_those_above(rn) -> None:
    """Stored as before, stored in another way, and back: rows, groups, rows."""
    shop = Shop(rn)
    rn.create("totals", TOTALS, "DIFFERENTIAL")
    rn.create("above", ABOVE, "DIFFERENTIAL")
    queries = (
        "SELECT customer, SUM(amount) AS total, COUNT(*) AS n FROM orders WHERE amount > 6 GROUP BY customer",
        "SELECT customer, CAST(amount AS DECIMAL(20, 2)) AS total, 3L AS n FROM orders",
        "SELECT customer, CAST(MAX(amount) AS DECIMAL(20, 2)) AS total, COUNT(*) AS n FROM orders GROUP BY customer",
    )
    for number, query in enumerate(queries):
        before, epoch = version(rn, shop, "totals"), rn.status("totals")["epoch"]
        rn.sql(f"ALTER STREAM TABLE totals AS {query}")
        log = rn._engine.backing(shop.name("totals")).log
        written = [v for v in range(before + 1, log.version() + 1) if log.commit(v).data]
        assert len(written) == 1 and log.commit(written[0]).runnel["reason"] == "the query changed"
        assert rn.status("totals")["epoch"] == epoch + 1 and rn._engine.backing(shop.name("totals")).definition.mode == "DIFFERENTIAL"
        shop.check("totals")
        shop.refresh("above", "DIFFERENTIAL")
        rn.sql(f"INSERT INTO orders VALUES ({100 + number}, 2, 50)")
        shop.refresh("totals", "DIFFERENTIAL")
        shop.refresh("above", "DIFFERENTIAL")
    found = rn.changes("totals", 1)
    net = found.selectExpr("customer", "total", "n", "IF(_change_type = 'insert', 1, -1) AS w").groupBy("customer", "total", "n").sum("w")
    assert sorted(map(repr, net.where("`sum(w)` = 1").drop("sum(w)").collect())) == sorted(map(repr, rn.table("totals").collect()))


def test_new_columns_are_told_to_those_above(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.create("above", "SELECT customer, n FROM totals")
    rn.create("totals", "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer", replace=True)
    assert "changed its columns" in shop.refresh("above", "REINITIALIZE").reason
    rn.create("totals", "SELECT customer AS c FROM orders", replace=True)
    with pytest.raises(RunnelError) as caught:
        rn.refresh("above")
    assert caught.value.code == "SCHEMA_CHANGED"


def test_a_failing_query_leaves_the_old_one(rn) -> None:
    shop = Shop(rn)
    rn.create("large", LARGE)
    before = shop.rows("large")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        rn.alter("large", query="SELECT id, amount / (id - id) AS x FROM orders")
    assert shop.rows("large") == before
    shop.check("large")


def test_a_process_that_ends_after_the_commit_loses_nothing(rn, monkeypatch) -> None:
    shop = Shop(rn)
    rn.create("large", LARGE)

    def ends(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(refresh_module, "take_over", ends)
    with pytest.raises(KeyboardInterrupt):
        rn.alter("large", query="SELECT COUNT(*) AS n FROM orders")
    monkeypatch.undo()
    assert rn.table("large").collect()[0]["n"] == 4, "the commit says which definition is in force"
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    shop.refresh("large", "DIFFERENTIAL")
    shop.check("large")
    assert rn._engine.backing(shop.name("large")).definition.text == "SELECT COUNT(*) AS n FROM orders"


def test_readers_see_the_old_result_or_the_new_one(rn, monkeypatch) -> None:
    """At every step of a change that stores the result in another way, by name and through the view."""
    shop = Shop(rn)
    rn.create("large", LARGE)
    seen = []

    def look(*_):
        seen.append((rn.table("large").count(), rn.spark.table(shop.name("large")).count()))

    for stage in ("create_view", "take_over"):
        step = getattr(refresh_module, stage)
        monkeypatch.setattr(refresh_module, stage, lambda *rest, step=step: (look(), step(*rest), look()))
    rn.alter("large", query="SELECT COUNT(*) AS n FROM orders")
    monkeypatch.undo()
    assert len(seen) == 4 and {n for n, _ in seen} <= {3, 1} and {n for _, n in seen} <= {3, 1}
    shop.check("large")


def test_a_member_of_a_diamond_changes_with_the_others(rn) -> None:
    shop = Shop(rn)
    rn.create("counts", "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer")
    rn.create("totals", TOTALS)
    rn.create("both", "SELECT c.customer, c.n AS one, t.n AS two FROM counts c JOIN totals t ON c.customer <=> t.customer")
    rn.alter("counts", query="SELECT customer, 2 * COUNT(*) AS n FROM orders GROUP BY customer")
    assert all(r["one"] == 2 * r["two"] for r in rn.table("both").collect())
    for table in ("counts", "totals", "both"):
        shop.check(table)


def test_types_that_a_table_must_list_come_with_it_and_later(rn) -> None:
    """Without a zone, and variants, beside columns that are never NULL: Delta Lake then wants all features listed."""
    shop = Shop(rn)
    moment = "TIMESTAMP_NTZ'2024-01-01 00:00:00' AS at"
    rn.create("from_the_start", f"SELECT 1 AS one, {moment}, CAST(id AS VARIANT) AS v FROM orders", "DIFFERENTIAL")
    rn.create("later", "SELECT 1 AS one, id FROM orders", "DIFFERENTIAL")
    rn.sql(f"ALTER STREAM TABLE later AS SELECT 1 AS one, {moment}, STRUCT(id AS i, {moment}) AS s FROM orders")
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    for table in ("from_the_start", "later"):
        shop.refresh(table, "DIFFERENTIAL")
        assert not rn.table(table).schema["one"].nullable
