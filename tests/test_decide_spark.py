"""AUTO, STRICT and the ledger end to end: the executed action is the decided one, its reason has numbers, readers follow."""

from __future__ import annotations

import logging

import pytest

from runnel.errors import RunnelError
from tests.support.shop import TOTALS, Shop

pytestmark = pytest.mark.spark


def test_strict_fails_and_leaves_the_table_as_it_was(rn, caplog) -> None:
    shop = Shop(rn)
    rn.sql(f"CREATE STREAM TABLE strict REFRESH POLICY INCREMENTAL STRICT AS {TOTALS}")
    rn.sql(f"CREATE STREAM TABLE lenient REFRESH POLICY INCREMENTAL AS {TOTALS}")
    assert {d["name"]: d["mode"] for d in rn.list() if shop.schema in d["name"]} == {
        shop.name("strict"): "STRICT",
        shop.name("lenient"): "DIFFERENTIAL",
    }
    before = shop.rows("strict")
    rn.spark.sql("CREATE OR REPLACE TABLE orders (id BIGINT, customer BIGINT, amount DECIMAL(10,2)) USING delta")
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    with pytest.raises(RunnelError) as caught:
        rn.refresh("strict")
    assert caught.value.code == "STRICT" and "REINITIALIZE" in caught.value.detail and "FULL" in caught.value.hint
    assert shop.rows("strict") == before
    assert (rn.history("strict")[0].status, rn.history("strict")[0].error["code"]) == ("FAILED", "STRICT")
    with caplog.at_level(logging.WARNING, "runnel"):
        assert rn.refresh("lenient").action == "REINITIALIZE"
    assert "was computed anew" in caplog.text
    assert shop.refresh("strict", "REINITIALIZE", full=True)
    with pytest.raises(RunnelError) as caught:
        rn.create("never", "SELECT id FROM orders ORDER BY id LIMIT length('abc')", mode="STRICT")
    assert caught.value.code == "NOT_INCREMENTAL"


def test_auto_recomputes_above_the_ceiling_and_readers_apply_the_change(rn) -> None:
    shop = Shop(rn)
    rn.spark.sql("CREATE TABLE large USING delta AS SELECT id, id % 1000 AS k, id AS v FROM range(150000)")
    rn.create("highest", "SELECT k, MAX(v) AS highest FROM large GROUP BY k")
    rn.create("reader", "SELECT k, highest FROM highest WHERE highest > 10")
    rn.sql("UPDATE large SET v = v + 1 WHERE id % 2 = 0")
    costs = rn.explain_refresh_cost("highest")
    assert costs.decision.startswith("FULL") and costs.differential.ms > 0 and costs.full.bytes > 0
    assert "difference to what is stored" in str(costs) and "epoch 1: FULL" in str(costs)
    assert costs.as_dict()["full"]["terms"] and costs.as_dict()["measured"]
    record = shop.refresh("highest", "FULL")
    assert "100.0% of 150000 rows changed, above the ceiling of 15%" in record.reason
    assert "DIFFERENTIAL" in record.reason and " ms (estimated)" in record.reason
    shop.refresh("reader", "DIFFERENTIAL")
    rn.sql("ALTER STREAM TABLE highest SET TBLPROPERTIES ('runnel.differential_ceiling' = '1')")
    rn.sql("INSERT INTO large VALUES (150001, 1, 200000)")
    assert "100% (set for this table)" in rn.explain_refresh_cost("highest").ceiling
    assert rn.refresh("highest").action == "DIFFERENTIAL"
    assert rn.sql("ALTER STREAM TABLE highest REFRESH MODE FULL").first()["effective"] == "FULL"


def test_the_ledger_counts_what_was_spent(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    assert "change of 1%" in rn.explain_refresh_cost("totals").assumed
    rn.sql("INSERT INTO orders SELECT id, id % 7, 3 FROM range(2000)")
    record = shop.refresh("totals", "DIFFERENTIAL")
    assert record.rows_read >= 2000 and record.bytes_read > 0 and record.bytes_written > 0 and record.executor_ms > 0
    assert record.estimated_ms > 0 and record.recompute_ms > 0 and record.recompute_bytes > record.bytes_read and record.ratio is not None
    assert rn.history("totals")[0] == record
    (ledger,) = rn.savings("totals")
    assert (ledger.refreshes, ledger.differential, ledger.rows_in) == (1, 1, 2000)
    assert ledger.ms == pytest.approx(record.work_ms) and ledger.recompute_ms == record.recompute_ms
    assert shop.name("totals") in {found.stream_table for found in rn.savings()}
