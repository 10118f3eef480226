"""Cuts, diamonds and what readers see of them, on Spark and Delta."""

from __future__ import annotations

import pytest

from runnel.errors import RunnelError
from runnel.execute import refresh as refresh_module
from runnel.execute.unit import cut_for, refresh_unit, take_cut
from runnel.schedule.cut import Cut
from tests.support.shop import LARGE, TOTALS, Shop

pytestmark = pytest.mark.spark

COUNTS = "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer"
SUMS = "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"
BOTH = "SELECT c.customer, c.n, s.total FROM counts c JOIN sums s ON c.customer <=> s.customer"


class Diamond(Shop):
    """`counts` and `sums` over `orders`, and `both`, where they meet."""

    def __init__(self, rn, **properties: str) -> None:
        super().__init__(rn)
        rn.create("counts", COUNTS)
        rn.create("sums", SUMS)
        rn.create("both", BOTH, properties={f"runnel.{k}": v for k, v in properties.items()})
        self.members = [self.name(t) for t in ("counts", "sums", "both")]

    def order(self, id_: int, customer: int = 1, amount: int = 1) -> None:
        self.rn.sql(f"INSERT INTO {self.schema}.orders VALUES ({id_}, {customer}, {amount})")

    @property
    def engine(self):
        return self.rn._engine

    @property
    def unit(self):
        return self.engine.graph().unit_of[self.name("both")]


def total(rn, table: str, column: str, **options):
    return sum(r[column] for r in rn.table(table, **options).collect())


def test_a_refresh_reads_up_to_a_version_and_never_later(rn) -> None:
    shop = Shop(rn)
    rn.create("large", LARGE)
    rn.create("above", "SELECT id, amount FROM large")
    key, engine = shop.name("orders"), rn._engine
    first = engine.log(shop.path("orders")).version()
    for id_ in (10, 11):
        rn.sql(f"INSERT INTO orders VALUES ({id_}, 1, 100)")
    record = refresh_module.refresh(engine, shop.name("large"), upto={key: first + 1})
    assert record.frontier == {key: first + 1} and record.rows_out == 1 and rn.verify("large").ok
    assert refresh_module.refresh(engine, shop.name("large"), upto={key: first}).action == "NO_DATA"
    reached = engine.backing(shop.name("large")).log.version()
    rn.refresh("large")
    below = refresh_module.refresh(engine, shop.name("above"), upto={shop.name("large"): reached})
    assert below.frontier == {shop.name("large"): reached} and below.rows_out == 1 and rn.verify("above").ok
    shop.refresh("above", "DIFFERENTIAL")


def test_a_cut_has_one_version_of_each_source_and_gates_stand_still(rn) -> None:
    shop = Shop(rn).with_customers()
    rn.create("totals", TOTALS)
    rn.create("names", "SELECT name FROM customers")
    graph = rn._engine.graph()
    before = take_cut(rn._engine, graph)
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    rn.sql("INSERT INTO customers VALUES (9, 'nin')")
    gated = take_cut(rn._engine, graph, gated=[shop.name("orders")])
    assert gated.versions[shop.name("orders")] == before.versions[shop.name("orders")]
    assert gated.versions[shop.name("customers")] == before.versions[shop.name("customers")] + 1
    (record,) = refresh_unit(rn._engine, graph.unit_of[shop.name("totals")], gated)
    assert record.action == "NO_DATA"


def test_the_members_of_a_diamond_move_together(rn) -> None:
    shop = Diamond(rn)
    assert set(shop.unit.members) == set(shop.members)
    old = rn.cut("both")
    shop.order(20)
    assert rn.refresh("counts").action == "DIFFERENTIAL"
    assert [r.action for r in rn.history(limit=3)] == ["DIFFERENTIAL"] * 3, "a member brings the others along"
    for table in ("counts", "sums", "both"):
        shop.check(table)
    new = rn.cut("both")
    assert new == rn.cut("counts") and new.versions[shop.name("orders")] == old.versions[shop.name("orders")] + 1
    assert total(rn, "counts", "n", cut=old) == 4 and total(rn, "both", "n", cut=old) == 4
    assert total(rn, "counts", "n", cut="both") == 5
    with pytest.raises(RunnelError, match="cannot be read at"):
        rn.table("counts", cut=Cut({shop.name("orders"): 999}))


def test_a_failure_publishes_nothing_and_the_next_attempt_goes_on(rn, monkeypatch) -> None:
    shop = Diamond(rn)
    shop.order(20)
    write = refresh_module.BackingTable.write

    def failing(self, *rest):
        if self.definition.name == shop.name("both"):
            raise RuntimeError("disk full")
        return write(self, *rest)

    cut, seen = rn.cut("both"), {t: shop.rows(t) for t in ("counts", "sums", "both")}
    monkeypatch.setattr(refresh_module.BackingTable, "write", failing)
    with pytest.raises(RuntimeError, match="disk full") as caught:
        rn.refresh("both")
    assert caught.value.stream_table == shop.name("both")
    assert rn.history("both", 1)[0].status == "FAILED" and rn.history("sums", 1)[0].status == "COMPLETED"
    assert rn.cut("both") == cut and {t: shop.rows(t) for t in seen} == seen
    view = rn.sql("SELECT SUM(n) FROM counts").first()[0]
    assert view == 4, "the view shows what is published"
    rn.create("reader", "SELECT n FROM counts")
    assert sorted(r["n"] for r in rn.table("reader").collect()) == sorted(r[1] for r in seen["counts"]), "a stream table reads what is published"
    monkeypatch.undo()
    records = {r.stream_table: r for r in refresh_unit(shop.engine, shop.unit, cut_for(shop.engine, [shop.unit]))}
    assert records[shop.name("counts")].action == "NO_DATA" and records[shop.name("both")].action == "DIFFERENTIAL"
    assert total(rn, "both", "n") == total(rn, "counts", "n") == 5
    for table in ("counts", "sums", "both", "reader"):
        assert rn.verify(table).ok


def test_after_a_failure_an_older_cut_does_not_mix(rn, monkeypatch) -> None:
    """A gate that closed between two attempts: what one member has read already, the others read too."""
    shop = Diamond(rn)
    gate = cut_for(shop.engine, [shop.unit])
    shop.order(20)
    monkeypatch.setattr(refresh_module, "_check_one_cut", lambda work: None if "counts" in work.backing.definition.name else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rn.refresh("both")
    monkeypatch.undo()
    refresh_unit(shop.engine, shop.unit, gate)
    assert total(rn, "counts", "n") == total(rn, "both", "n") == 5 and rn.verify("both").ok


def test_the_fastest_policy_shows_each_member_when_it_is_ready(rn, monkeypatch) -> None:
    shop = Diamond(rn, diamond_policy="fastest")
    shop.order(20)
    write = refresh_module.BackingTable.write

    def failing(self, *rest):
        if self.definition.name == shop.name("sums"):
            raise RuntimeError("disk full")
        return write(self, *rest)

    monkeypatch.setattr(refresh_module.BackingTable, "write", failing)
    with pytest.raises(RuntimeError):
        rn.refresh("both")
    monkeypatch.undo()
    assert total(rn, "counts", "n") == 5 and total(rn, "both", "n") == 4 and rn.verify("both").ok
    rn.refresh("both")
    assert total(rn, "both", "n") == 5


def test_a_declared_group_is_published_together_until_it_is_no_group(rn) -> None:
    shop = Shop(rn)
    for table, query in (("counts", COUNTS), ("sums", SUMS)):
        rn.sql(f"CREATE STREAM TABLE {table} TBLPROPERTIES ('runnel.group' = 'money') AS {query}")
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    rn.refresh("sums")
    assert total(rn, "counts", "n") == 5 and rn.cut("money") == rn.cut("counts")
    assert total(rn, "counts", "n", cut="money") == 5
    rn.drop("sums")
    assert not rn._engine.catalog.published([shop.name("counts")])
    assert rn.cut("counts").versions == {shop.name("orders"): rn._engine.log(shop.path("orders")).version()}
    rn.sql("INSERT INTO orders VALUES (10, 9, 9)")
    rn.refresh("counts")
    assert total(rn, "counts", "n") == 6
    shop.check("counts")


def test_compaction_vacuum_and_repair_keep_what_is_published(rn, monkeypatch) -> None:
    shop = Diamond(rn)
    shop.order(20)
    rn.refresh("both")
    published = shop.engine.catalog.published(shop.members)
    rn.compact("counts")
    assert shop.engine.catalog.published(shop.members)[shop.name("counts")].version == published[shop.name("counts")].version + 1
    shop.order(21)
    monkeypatch.setattr(refresh_module, "_check_one_cut", lambda work: None if "both" not in work.backing.definition.name else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rn.refresh("both")
    monkeypatch.undo()
    rn.compact("counts")
    rn.vacuum("counts", hours=0)
    assert total(rn, "counts", "n") == 5 and total(rn, "both", "n") == 5
    before = {t: shop.rows(t) for t in ("counts", "sums", "both")}
    shop.engine.catalog.clear()
    rn.repair()
    assert {t: shop.rows(t) for t in before} == before, "the logs say what was published"


def test_refresh_all_reads_one_cut(rn, monkeypatch) -> None:
    shop = Diamond(rn)
    rn.create("apart", LARGE)
    shop.order(30, amount=50)
    probe = refresh_module.probe

    def writing(work):
        if work.backing.definition.name == shop.name("apart"):
            shop.order(31, amount=50)
        probe(work)

    monkeypatch.setattr(refresh_module, "STAGES", (writing, *refresh_module.STAGES[1:]))
    monkeypatch.setattr(writing, "__name__", "probe", raising=False)
    records = [r for r in rn.refresh_all() if shop.schema in r.stream_table]
    assert len(records) == 4 and len({r.frontier[shop.name("orders")] for r in records if shop.name("orders") in r.frontier}) == 1
