"""Each law of the design has a test here that fails when the law is broken."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from runnel.errors import DefinitionError, Transient
from runnel.execute import refresh as refresh_module
from runnel.execute.engine import Engine
from runnel.settings import OF_PLANS, OPTIMISATIONS
from tests.support.shop import LARGE, TOTALS, Shop

pytestmark = pytest.mark.spark

ABOVE_LARGE = "SELECT customer, amount * 2 AS twice FROM large"


def test_law_1_what_users_read_is_the_query_at_the_frontier(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    before = shop.rows("totals")
    rn.sql("UPDATE orders SET amount = amount + 1 WHERE id = 1")
    assert shop.rows("totals") == before, "a source change shows only after a refresh"
    shop.check("totals")
    shop.refresh("totals", "DIFFERENTIAL")
    assert shop.rows("totals") != before


def test_law_2_one_refresh_is_one_commit_that_tells_all(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    log = rn._engine.backing(shop.name("totals")).log
    before = log.version()
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    record = rn.refresh("totals")
    assert log.version() == before + 1 == record.version
    note = log.commit(before + 1).runnel
    assert (note["epoch"], note["action"], note["reason"]) == (record.epoch, "DIFFERENTIAL", record.reason)
    assert {k: v[0] for k, v in note["frontier"].items()} == record.frontier
    assert record.jobs <= 2
    definition = rn._engine.backing(shop.name("totals")).definition
    assert log.table().transaction_version(definition.id) == record.epoch


def test_law_2_the_same_epoch_cannot_commit_twice(rn) -> None:
    shop = Shop(rn)
    rn.create("large", LARGE)
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    engine = rn._engine
    works = [refresh_module.Work(engine, engine.backing(shop.name("large")), False, engine.jobs("large")) for _ in range(2)]
    for work in works:
        for stage in (refresh_module.probe, refresh_module.decision, refresh_module.plan, refresh_module.write):
            stage(work)
    refresh_module.commit(works[0])
    with pytest.raises(Transient, match="changed by another process"):
        refresh_module.commit(works[1])
    shop.check("large")


def test_refreshes_leave_the_active_session_alone(rn) -> None:
    shop = Shop(rn)
    rn.create("large", LARGE)
    rn.sql("UPDATE orders SET amount = amount + 1")
    shop.refresh("large", "DIFFERENTIAL")
    active = rn.spark.getActiveSession()
    assert active.conf.get("spark.databricks.delta.v2.enableMode", None) == rn.spark.conf.get("spark.databricks.delta.v2.enableMode", None)


def test_law_3_the_catalog_is_rebuilt_from_the_tables(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS, comment="per customer")
    rn.sql("DELETE FROM orders WHERE id = 2")
    rn.refresh("totals")
    listed, history = rn.list(), [r for r in rn.history("totals") if r.action != "NO_DATA"]
    rn._engine.catalog.clear()
    assert rn.list() == []
    assert shop.name("totals") in rn.repair()
    assert [e for e in rn.list() if e["name"] == shop.name("totals")] == [e for e in listed if e["name"] == shop.name("totals")]
    rebuilt = rn.history("totals")
    assert [(r.epoch, r.action, r.reason, r.frontier, r.rows_out) for r in rebuilt] == [
        (r.epoch, r.action, r.reason, r.frontier, r.rows_out) for r in history
    ]
    shop.check("totals")
    shop.refresh("totals", "NO_DATA")


def test_law_4_full_appends_the_difference_where_a_stream_table_reads_it(rn) -> None:
    shop = Shop(rn)
    rn.create("large", LARGE)
    rn.create("above", ABOVE_LARGE, mode="DIFFERENTIAL")
    rn.sql("UPDATE orders SET amount = 8 WHERE id = 3")
    record = shop.refresh("large", "FULL", full=True)
    commit = rn._engine.backing(shop.name("large")).log.commit(record.version)
    assert not commit.removes
    assert record.rows_out == 1, "three rows stayed and one came"
    assert shop.refresh("above", "DIFFERENTIAL").rows_in == 1
    assert shop.refresh("large", "FULL", full=True).rows_out == 0


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "by_spark"])
def test_law_4_full_replaces_what_nobody_reads_and_the_change_is_still_told(rn, direct) -> None:
    import runnel

    shop = Shop(rn)
    shop.rn = other = rn if direct else runnel.connect(spark=rn.spark, warehouse=rn.folder, settings={"direct_commits": False})
    if not direct:  # a session that overwrites partition by partition elsewhere: no level of the log may be left over
        rn.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    for name, query in (("large", LARGE), ("totals", TOTALS)):
        other.create(name, query)
        rn.sql("INSERT INTO orders VALUES (8, 8, 8)" if name == "large" else "DELETE FROM orders WHERE id = 4")
        shop.refresh(name, "DIFFERENTIAL")
        rn.sql("UPDATE orders SET amount = amount + 1 WHERE id = 1")
        assert "takes the place" not in str(other.explain(name)), "as long as changes are applied"
        other.alter(name, mode="FULL")
        assert "takes the place" in str(other.explain(name))
        before = rn.spark.table(shop.name(name)).collect()
        record = shop.refresh(name, "FULL")
        backing = other._engine.backing(shop.name(name))
        commit = backing.log.commit(record.version)
        assert commit.removes and commit.runnel["kind"] == "replace" and backing.note()[1].tail_files == 0
        shop.check(name)
        told = other.changes(name, record.version).drop("_commit_version", "_commit_timestamp")
        gone, come = (told.where(f"_change_type = '{kind}'").drop("_change_type").collect() for kind in ("delete", "insert"))
        after = rn.spark.table(shop.name(name)).collect()
        assert Counter(after) == Counter(before) - Counter(gone) + Counter(come) and not Counter(gone) & Counter(come)
        other.alter(name, mode="DIFFERENTIAL")
        rn.sql("INSERT INTO orders VALUES (9, 1, 9)")
        shop.refresh(name, "DIFFERENTIAL")
    if not direct:
        rn.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        other.close()


def test_law_4_a_reader_that_came_too_late_for_the_difference_gets_it_from_the_contents(rn, monkeypatch) -> None:
    """As where another process made a reader while this one computed anew."""
    shop = Shop(rn)
    for table, query in (("large", LARGE), ("totals", TOTALS)):
        rn.create(table, query)
        rn.create(f"above_{table}", f"SELECT * FROM {table}", mode="STRICT")
        rn.create(f"count_{table}", f"SELECT customer, COUNT(*) AS n FROM {table} GROUP BY customer", mode="STRICT")
        rn.sql("INSERT INTO orders VALUES (8, 8, 8), (2, 1, 20)")
        with monkeypatch.context() as patched:
            patched.setattr(Engine, "may_replace", lambda *_: True)
            record = rn.refresh(table, full=True)
        assert rn._engine.backing(shop.name(table)).log.commit(record.version).runnel["kind"] == "replace"
        rn.sql("INSERT INTO orders VALUES (9, 1, 9)")
        shop.refresh(table, "DIFFERENTIAL")
        for reader in ("above", "count"):
            shop.refresh(f"{reader}_{table}", "DIFFERENTIAL")


def test_law_4_a_reader_whose_contents_before_were_vacuumed_is_computed_anew(rn, monkeypatch) -> None:
    shop = Shop(rn)
    rn.create("large", LARGE)
    rn.create("above", "SELECT * FROM large")
    rn.sql("INSERT INTO orders VALUES (8, 8, 8)")
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "may_replace", lambda *_: True)
        record = rn.refresh("large", full=True)
    log = rn._engine.backing(shop.name("large")).log
    for gone in log.commit(record.version).removes:
        os.remove(log.full_path(gone["path"]))
    record = shop.refresh("above", "REINITIALIZE")
    assert "history lost" in record.reason and "was vacuumed" in record.reason


def test_law_4_compaction_never_alters_the_sum(rn) -> None:
    shop = Shop(rn)
    rn.create("large", LARGE, mode="DIFFERENTIAL")
    rn.create("totals", TOTALS, mode="DIFFERENTIAL")
    rn.create("above", "SELECT customer, total * 2 AS twice FROM totals", mode="DIFFERENTIAL")
    rn.sql("INSERT INTO orders VALUES (2, 1, 20), (2, 1, 20)")
    rn.sql("DELETE FROM orders WHERE id IN (1, 4)")
    for table in ("large", "totals", "above"):
        rn.refresh(table)
    before = {t: shop.rows(t) for t in ("large", "totals")}
    for table in before:
        rn.compact(table)
        assert shop.rows(table) == before[table]
        shop.check(table)
        assert rn.status(table)["tail_files"] == 0
    shop.refresh("above", "NO_DATA")
    rn.sql("DELETE FROM orders WHERE id = 2 AND customer = 1")
    for table in ("large", "totals", "above"):
        shop.refresh(table, "DIFFERENTIAL")


def test_law_5_a_fallback_is_visible_everywhere(rn) -> None:
    shop = Shop(rn)
    rn.create("first", "SELECT id FROM orders ORDER BY id LIMIT length('abc')")
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    record = shop.refresh("first", "FULL")
    why = "LIMIT or OFFSET that is not a number is not maintained incrementally"
    assert why in record.reason
    assert why in rn.history("first")[0].reason
    assert why in rn.status("first")["reason"] and rn.status("first")["effective"] == "FULL"
    assert why in str(rn.explain("first"))
    assert rn._engine.backing(shop.name("first")).log.commit(record.version).runnel["action"] == "FULL"


def test_a_rewrite_that_is_switched_off_costs_the_maintenance_not_the_result(rn) -> None:
    import runnel

    other = runnel.connect(spark=rn.spark, warehouse=rn.folder, settings={"disabled_rules": ("spell",)})
    shop = Shop(rn)
    shop.rn = other
    other.create("last", "SELECT id, customer FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY customer ORDER BY id DESC) = 1")
    other.create("large", LARGE, mode="DIFFERENTIAL")
    rn.sql("INSERT INTO orders VALUES (9, 1, 9)")
    assert 'needs the rewrite "spell"' in shop.refresh("last", "FULL").reason
    shop.refresh("large", "DIFFERENTIAL")
    other.close()
    with pytest.raises(DefinitionError, match='rule "spel" does not exist'):
        runnel.connect(spark=rn.spark, warehouse=rn.folder, settings={"disabled_rules": ("spel",)})


OF_EXECUTION = tuple(name for name in OPTIMISATIONS if name not in OF_PLANS)


@pytest.mark.parametrize(
    "options",
    [
        {"laws": False},
        {"kernel_reads": False},
        {"direct_change_files": False},
        {"direct_commits": False},
        pytest.param({"disabled_optimisations": OF_EXECUTION}, id="no_optimisation_of_execution"),
        pytest.param({"disabled_optimisations": OF_PLANS}, id="no_optimisation_of_plans"),
        *(pytest.param({"disabled_optimisations": (name,)}, id=f"no_{name}", marks=pytest.mark.slow) for name in OF_EXECUTION),
    ],
    ids=lambda options: f"no_{next(iter(options))}",
)
def test_law_6_every_way_gives_the_same_content(rn, options) -> None:
    """The definition of a change without laws, and fast paths switched off by name: all of a kind, and each alone."""
    import runnel

    other = runnel.connect(spark=rn.spark, warehouse=rn.folder, settings=options)
    shop = Shop(rn).with_customers()
    shop.rn = other
    joined = "SELECT c.name, MAX(o.amount) AS most FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.name"
    for name, query in (("large", LARGE), ("joined", joined)):
        other.create(name, query)
    rn.sql("INSERT INTO orders VALUES (2, 1, 20), (7, 2, 70)")
    rn.sql("UPDATE orders SET amount = amount - 4 WHERE customer = 1")
    for name in ("large", "joined"):
        shop.refresh(name, "DIFFERENTIAL")
    if not other.settings.direct_commits:
        other.compact("large")
        shop.check("large")
    other.close()
