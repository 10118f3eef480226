"""What happens to sources, and what a refresh makes of it: never a wrong result, always a reason."""

from __future__ import annotations

import glob
import os
from datetime import timedelta

import pytest
from deltalake import DeltaTable

import runnel
from runnel.errors import DefinitionError, SourceChanged
from runnel.sources.delta_log import DeltaLog
from tests.support.shop import LARGE, TOTALS, Shop

pytestmark = pytest.mark.spark


def test_optimize_and_properties_are_free(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.sql("INSERT INTO orders VALUES (5, 2, 1)")
    rn.refresh("totals")
    rn.sql("OPTIMIZE orders")
    rn.sql("ALTER TABLE orders SET TBLPROPERTIES ('note' = 'x')")
    record = shop.refresh("totals", "NO_DATA")
    assert record.jobs == 0
    assert record.reason == "source commits without a change of data"
    assert rn.refresh("totals").reason == "no source changed"


def test_a_change_that_nets_to_nothing_is_no_data_for_readers(rn) -> None:
    shop = Shop(rn)
    rn.create("large", LARGE)
    rn.create("reader", "SELECT customer, COUNT(*) AS n FROM large GROUP BY customer")
    rn.sql("INSERT INTO orders VALUES (8, 8, 80)")
    rn.sql("DELETE FROM orders WHERE id = 8")
    assert shop.refresh("large", "DIFFERENTIAL").rows_out == 0
    assert shop.refresh("reader", "NO_DATA").jobs == 0


@pytest.mark.parametrize(
    ("change", "jobs"),
    [
        ("TRUNCATE TABLE orders", 2),
        ("INSERT OVERWRITE orders VALUES (1, 1, 10), (7, 7, 70)", 2),
        (
            "MERGE INTO orders t USING (SELECT 1 AS id UNION ALL SELECT 50) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = 99 WHEN NOT MATCHED THEN INSERT (id, customer, amount) VALUES (50, 1, 5)",
            2,
        ),
    ],
    ids=["truncate", "overwrite", "merge"],
)
def test_statements(rn, change, jobs) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.create("large", LARGE)
    rn.sql(change)
    for table in ("totals", "large"):
        assert shop.refresh(table, "DIFFERENTIAL").jobs <= jobs
        shop.check(table)


@pytest.mark.parametrize(
    "properties", ["'delta.enableDeletionVectors' = 'true'", "'delta.columnMapping.mode' = 'name'"], ids=["deletion vectors", "column mapping"]
)
@pytest.mark.parametrize("feed", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["feed", "no feed"])
def test_table_features(rn, properties, feed) -> None:
    """Features that forbid reading change files directly are read through Delta's own readers."""
    other = runnel.connect(spark=rn.spark, warehouse=rn.folder, settings={"enable_change_feed": feed})
    shop = Shop(rn)
    rn.sql(f"CREATE TABLE featured (id BIGINT, customer BIGINT, amount DECIMAL(10,2)) USING delta TBLPROPERTIES ({properties})")
    rn.sql("INSERT INTO featured SELECT id, id % 5, id FROM range(100)")
    shop.rn = other
    other.create("per", "SELECT customer, SUM(amount) AS total FROM featured GROUP BY customer")
    other.create("some", "SELECT id, amount FROM featured WHERE amount > 50")
    rn.sql("DELETE FROM featured WHERE id % 10 = 3")
    rn.sql("UPDATE featured SET amount = amount + 1 WHERE id = 60")
    for table in ("per", "some"):
        shop.refresh(table, "DIFFERENTIAL")
    other.close()


def test_partitioned_source(rn) -> None:
    shop = Shop(rn)
    rn.sql("CREATE TABLE parted (id BIGINT, day STRING) USING delta PARTITIONED BY (day)")
    rn.sql("INSERT INTO parted VALUES (1, 'mon'), (2, 'tue'), (3, NULL)")
    rn.create("days", "SELECT day, COUNT(*) AS n FROM parted GROUP BY day")
    rn.sql("DELETE FROM parted WHERE day = 'mon'")
    rn.sql("INSERT INTO parted VALUES (4, NULL), (5, 'wed')")
    shop.refresh("days", "DIFFERENTIAL")


def test_without_a_feed_the_difference_of_rewritten_files_is_used(rn) -> None:
    other = runnel.connect(spark=rn.spark, warehouse=rn.folder, settings={"enable_change_feed": False})
    shop = Shop(rn)
    shop.rn = other
    other.create("totals", TOTALS)
    rn.sql("UPDATE orders SET amount = amount + 1 WHERE id = 1")
    shop.refresh("totals", "DIFFERENTIAL")
    assert "true" not in str(rn._engine.log(shop.path("orders")).properties())
    other.close()


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("PARTITIONED BY (p)", ("INSERT INTO t VALUES ('a', 2)", "INSERT INTO t VALUES ('a', 3)")),
        ("TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", ("DELETE FROM t WHERE v = 7", "INSERT INTO t VALUES ('a', 2)")),
    ],
)
def test_without_a_feed_files_that_came_and_were_rewritten_count(rn, kind, changes) -> None:
    other = runnel.connect(spark=rn.spark, warehouse=rn.folder, settings={"enable_change_feed": False})
    shop = Shop(rn)
    shop.rn = other
    rn.sql(f"CREATE TABLE t (p STRING, v INT) USING delta {kind}")
    rn.sql("INSERT INTO t SELECT 'a', id FROM range(50)")
    other.create("sums", "SELECT p, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY p")
    other.create("most", "SELECT p, MAX(v) AS m, MIN(v) AS l FROM t GROUP BY p")
    for change in changes:
        rn.sql(change)
    rn.sql("OPTIMIZE t")
    for table in ("sums", "most"):
        shop.refresh(table, "DIFFERENTIAL")
    other.close()


def test_what_came_was_rewritten_and_vacuumed_reinitialises(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.sql("INSERT INTO orders VALUES (5, 1, 50)")
    rn.sql("INSERT INTO orders VALUES (6, 1, 60)")
    before = {f["path"] for f in DeltaLog(shop.path("orders")).files()}
    rn.sql("OPTIMIZE orders")
    for file in before - {f["path"] for f in DeltaLog(shop.path("orders")).files()}:
        os.remove(f"{shop.path('orders')}/{file}")
    assert "was vacuumed" in shop.refresh("totals", "REINITIALIZE").reason


def test_a_key_that_is_no_text_is_a_key(rn) -> None:
    Shop(rn)
    rn.sql("CREATE TABLE bytes (k STRING, v INT) USING delta")
    rn.sql("INSERT INTO bytes VALUES ('a', 1), ('b', 2)")
    rn.create("highest", "SELECT k, MAX(v) AS m FROM bytes GROUP BY k")
    rn.sql("INSERT INTO bytes SELECT CAST(X'FF' AS STRING), 3")
    assert rn.refresh("highest").action == "DIFFERENTIAL"
    assert rn.verify("highest").ok


def test_decimals_of_which_several_equal_one_are_looked_up_by_no_key(rn) -> None:
    shop = Shop(rn)
    rn.sql("CREATE TABLE coarse (k DECIMAL(38, 6)) USING delta")
    rn.sql("CREATE TABLE fine (k DECIMAL(38, 18)) USING delta")
    rn.sql("INSERT INTO coarse VALUES (1)")
    rn.sql("INSERT INTO fine VALUES (1.0000001BD)")
    rn.create("there", "SELECT k FROM coarse WHERE EXISTS (SELECT 1 FROM fine WHERE fine.k = coarse.k)")
    rn.sql("INSERT INTO fine VALUES (1.0000002BD)")
    shop.refresh("there", "DIFFERENTIAL")


def test_the_feed_is_turned_on_and_said_so(rn, caplog) -> None:
    shop = Shop(rn)
    with caplog.at_level("WARNING", logger="runnel"):
        rn.create("totals", TOTALS)
    assert f"turned the change data feed of {shop.name('orders')} on" in caplog.text


def test_a_source_warns_before_unread_changes_may_be_cleaned_away(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.sql("ALTER TABLE orders SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 2 days')")
    rn.sql("INSERT INTO orders VALUES (5, 2, 1)")
    assert rn.status("totals")["warnings"] == []
    now = rn._engine.now
    try:
        rn._engine.now = lambda: now() + timedelta(hours=30)
        (warning,) = rn.status("totals")["warnings"]
        assert shop.name("orders") in warning and "refresh before" in warning
        rn.refresh("totals")
        assert rn.status("totals")["warnings"] == []
    finally:
        rn._engine.now = now


@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamp_ntz"])
def test_intervals_that_end_beyond_the_year_9999(rn, type_) -> None:
    Shop(rn)
    rn.sql(f"CREATE TABLE sales (id INT, at {type_}) USING delta")
    rn.sql(f"CREATE TABLE prices (price INT, since {type_}, until {type_}) USING delta")
    rn.sql("INSERT INTO sales VALUES (1, '2024-01-05'), (2, '2024-02-05')")
    rn.sql("INSERT INTO prices VALUES (1, '2024-01-01', '2024-02-01'), (2, '2024-02-01', '9999-12-31')")
    rn.sql("INSERT INTO prices VALUES (3, '2024-01-01', '+10000-02-01')")
    rn.create("priced", "SELECT id, price FROM sales JOIN prices ON at >= since AND at < until", mode="DIFFERENTIAL")
    for change in ("INSERT INTO sales VALUES (3, '2030-01-01')", "INSERT INTO prices VALUES (4, '2024-02-05', '+12000-01-01')"):
        rn.sql(change)
        assert rn.refresh("priced").action == "DIFFERENTIAL" and rn.verify("priced").ok


def test_vacuumed_history_reinitialises(rn) -> None:
    shop = Shop(rn).with_customers()
    rn.create("joined", "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id")
    rn.sql("UPDATE orders SET customer = 2 WHERE id = 1")
    for file in glob.glob(f"{shop.path('orders')}/_change_data/*.parquet"):
        os.remove(file)
    record = shop.refresh("joined", "REINITIALIZE")
    assert "history lost" in record.reason and "vacuumed" in record.reason


def test_rewritten_files_are_missed_only_by_who_reads_them(rn) -> None:
    shop = Shop(rn).with_customers()
    rn.create("totals", TOTALS)
    rn.create("joined", "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id")
    rn.sql("INSERT INTO orders VALUES (5, 1, 50)")
    for table in ("totals", "joined"):
        shop.refresh(table, "DIFFERENTIAL")
    before = {f["path"] for f in DeltaLog(shop.path("orders")).files()}
    rn.sql("OPTIMIZE orders")
    assert before.isdisjoint(f["path"] for f in DeltaLog(shop.path("orders")).files())
    for file in before:
        os.remove(f"{shop.path('orders')}/{file}")
    rn.sql("INSERT INTO orders VALUES (6, 2, 60)")
    rn.sql("INSERT INTO customers VALUES (2, 'bea')")
    shop.refresh("totals", "DIFFERENTIAL")
    record = shop.refresh("joined", "REINITIALIZE")
    assert "history lost" in record.reason and "was vacuumed" in record.reason


def test_cleaned_log_reinitialises(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    reached = rn.status("totals")["sources"][0]["frontier"]
    for i in (5, 6):
        rn.sql(f"INSERT INTO orders VALUES ({i}, {i}, {i})")
    DeltaTable(shop.path("orders")).create_checkpoint()
    os.remove(f"{shop.path('orders')}/_delta_log/{reached + 1:020d}.json")
    assert "cleaned from its log" in shop.refresh("totals", "REINITIALIZE").reason


def test_replaced_table_reinitialises(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.spark.sql("DROP TABLE orders")
    rn._warehouse.remove(shop.schema, "orders")
    rn.sql("CREATE TABLE orders (id BIGINT, customer BIGINT, amount DECIMAL(10,2)) USING delta")
    rn.sql("INSERT INTO orders VALUES (1, 1, 1)")
    assert "replaced" in shop.refresh("totals", "REINITIALIZE").reason


def test_dropped_table_is_an_error_and_content_stays(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    before = shop.rows("totals")
    rn.spark.sql("DROP TABLE orders")
    rn._warehouse.remove(shop.schema, "orders")
    with pytest.raises(SourceChanged) as caught:
        rn.refresh("totals")
    assert caught.value.code == "SOURCE_DROPPED" and caught.value.hint
    assert shop.rows("totals") == before
    assert rn.history("totals")[0].status == "FAILED"


def test_added_column_changes_nothing(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.create("all_columns", "SELECT * FROM orders")
    rn.sql("ALTER TABLE orders ADD COLUMN note STRING")
    rn.sql("INSERT INTO orders VALUES (9, 9, 9, 'x')")
    for table in ("totals", "all_columns"):
        shop.refresh(table, "DIFFERENTIAL")
    assert rn.table("all_columns").columns == ["id", "customer", "amount"]


def test_dropped_column_is_an_error_that_names_it(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.sql("ALTER TABLE orders SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    rn.sql("ALTER TABLE orders DROP COLUMN amount")
    with pytest.raises(SourceChanged) as caught:
        rn.refresh("totals")
    assert caught.value.code == "SCHEMA_CHANGED" and "column amount is gone" in caught.value.detail
    assert len(shop.rows("totals")) == 3


@pytest.mark.parametrize("properties", ["", "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"], ids=["grouped", "deletion vectors"])
def test_a_small_change_that_only_spark_can_read_is_at_hand_too(rn, properties) -> None:
    """Spark brings it here; the plan then works on rows at hand, whatever it joins them with and how often."""
    Shop(rn)
    rn.sql(f"CREATE TABLE visits USING delta {properties} AS SELECT id, id % 10 AS k, id % 7 AS x FROM range(1000)")
    base = "visits"
    if not properties:
        rn.create("visit_groups", "SELECT k, SUM(x) AS x, COUNT(*) AS id FROM visits GROUP BY k", mode="DIFFERENTIAL")
        base = "visit_groups"
    rn.create("visit_pairs", f"SELECT a.k, a.x, b.id FROM {base} a JOIN {base} b ON a.k = b.k", mode="DIFFERENTIAL")
    rn.sql("DELETE FROM visits WHERE id = 3")
    if not properties:
        rn.refresh("visit_groups")
    record = rn.refresh("visit_pairs")
    assert record.action == "DIFFERENTIAL" and rn.verify("visit_pairs").ok
    (held,) = [h for key, h in rn._engine._held.items() if key[0] == rn._name(base)]
    assert held is not None and held.whole.num_rows == (1 if properties else 2)
    rn.sql("UPDATE visits SET x = x + 0 WHERE id = 5")
    if not properties:
        rn.refresh("visit_groups")
    assert rn.refresh("visit_pairs").rows_out == 0 and rn.verify("visit_pairs").ok


def test_stream_tables_on_stream_tables(rn) -> None:
    shop = Shop(rn).with_customers()
    rn.create("totals", TOTALS)
    rn.create("large", LARGE)
    rn.create("named", "SELECT c.name, t.total FROM totals t JOIN customers c ON t.customer = c.id", mode="DIFFERENTIAL")
    rn.create("both", "SELECT l.id, t.n FROM large l JOIN totals t ON l.customer = t.customer", mode="DIFFERENTIAL")
    rn.create("top", "SELECT COUNT(*) AS n, MAX(total) AS most FROM named", mode="DIFFERENTIAL")
    for change in (
        "UPDATE orders SET amount = amount * 2 WHERE id = 2",
        "DELETE FROM orders WHERE customer = 1",
        "INSERT INTO orders VALUES (1, 1, 11), (1, 1, 11)",
    ):
        rn.sql(change)
        for table in ("both", "named", "top"):
            assert rn.refresh(table).action == "DIFFERENTIAL"
        assert [rn.history(table, 1)[0].action for table in ("totals", "large")] == ["DIFFERENTIAL"] * 2, "refreshed together with both"
    for table in ("totals", "large", "named", "both", "top"):
        assert rn.verify(table).ok
    shop.check("top")


def test_changes_feed_adds_up_to_the_content(rn) -> None:
    shop = Shop(rn)
    for name, query in (("totals", TOTALS), ("large", LARGE)):
        rn.create(name, query)
        rn.sql("UPDATE orders SET amount = amount + 1 WHERE id = 2")
        rn.refresh(name)
        rn.sql("INSERT INTO orders VALUES (2, 1, 22), (2, 1, 22)")
        rn.refresh(name)
        feed = rn.changes(name, 1, rn.status(name)["version"]).collect()
        summed: dict[tuple, int] = {}
        for row in feed:
            *values, kind, version = tuple(row)
            assert version >= 1
            summed[tuple(values)] = summed.get(tuple(values), 0) + (1 if kind == "insert" else -1)
        assert sorted((k for k, n in summed.items() for _ in range(n)), key=repr) == shop.rows(name)
    with pytest.raises(DefinitionError, match="do not exist"):
        rn.changes("large", 1, 99)


def test_source_by_path(rn) -> None:
    shop = Shop(rn)
    rn.create("by_path", f"SELECT id, amount FROM delta.`{shop.path('orders')}` WHERE amount > 6")
    rn.sql("DELETE FROM orders WHERE id = 2")
    shop.refresh("by_path", "DIFFERENTIAL")
