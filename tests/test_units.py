"""Cuts, diamonds and what readers see of them, on Spark and Delta."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from runnel.errors import RunnelError
from runnel.execute import refresh as refresh_module
from runnel.execute import unit
from runnel.execute.unit import cut_for, refresh_unit, take_cut
from runnel.schedule.cut import Cut
from runnel.sources import delta, stream_table
from tests.support.shop import LARGE, TOTALS, Shop

pytestmark = pytest.mark.spark

COUNTS = "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer"
SUMS = "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"
BOTH = "SELECT c.customer, c.n, s.total FROM counts c JOIN sums s ON c.customer <=> s.customer"


class Diamond(Shop):
    """`counts` and `sums` over `orders`, and `both`, where they meet."""

    def __init__(self, rn, orders: str = "(1, 1, 1), (2, 1, 1), (3, 2, 1)", **properties: str) -> None:
        super().__init__(rn, orders)
        rn.create("counts", COUNTS)
        rn.create("sums", SUMS)
        rn.create("both", BOTH, properties={f"runnel.{k}": v for k, v in properties.items()})
        self.ids = itertools.count(10)
        self.members = [self.name(t) for t in ("counts", "sums", "both")]

    def order(self, amount: int = 1) -> None:
        self.rn.sql(f"INSERT INTO {self.schema}.orders VALUES ({next(self.ids)}, 1, {amount})")

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


@pytest.fixture(scope="module")
def diamond(rn) -> Diamond:
    """One diamond for several tests; each leaves it refreshed."""
    return Diamond(rn)


@pytest.fixture
def shop(diamond) -> Diamond:
    diamond.rn.sql(f"USE {diamond.schema}")
    return diamond


def failing_for(monkeypatch, name: str) -> None:
    """The write of one stream table fails."""
    write = refresh_module.BackingTable.write

    def failing(self, *rest):
        if self.definition.name == name:
            raise RuntimeError("disk full")
        return write(self, *rest)

    monkeypatch.setattr(refresh_module.BackingTable, "write", failing)


def test_the_members_of_a_diamond_move_together(rn, shop) -> None:
    assert set(shop.unit.members) == set(shop.members)
    old, orders = rn.cut("both"), total(rn, "counts", "n")
    shop.order()
    assert rn.refresh("counts").action == "DIFFERENTIAL"
    assert {r.stream_table: r.action for r in rn.history(limit=3)} == dict.fromkeys(shop.members, "DIFFERENTIAL"), "a member brings the others along"
    for table in ("counts", "sums", "both"):
        shop.check(table)
    new = rn.cut("both")
    assert new == rn.cut("counts") and new.versions[shop.name("orders")] == old.versions[shop.name("orders")] + 1
    assert total(rn, "counts", "n", cut=old) == total(rn, "both", "n", cut=old) == orders
    assert total(rn, "counts", "n", cut="both") == orders + 1
    kernel = rn._engine.reader.session.sql(f"SELECT SUM(n) FROM {shop.schema}.counts").first()[0]
    assert kernel == orders + 1, "the view of one version is read by both connectors"
    with pytest.raises(RunnelError, match="cannot be read at") as caught:
        rn.table("counts", cut=Cut({shop.name("orders"): 999}))
    assert caught.value.code == "CUT_GONE"


def test_a_failure_publishes_nothing_and_the_next_attempt_goes_on(rn, shop, monkeypatch) -> None:
    cut, seen, orders = rn.cut("both"), {t: shop.rows(t) for t in ("counts", "sums", "both")}, total(rn, "counts", "n")
    shop.order()
    failing_for(monkeypatch, shop.name("both"))
    with pytest.raises(RuntimeError, match="disk full") as caught:
        rn.refresh("both")
    assert caught.value.stream_table == shop.name("both")
    assert rn.history("both", 1)[0].status == "FAILED" and rn.history("sums", 1)[0].status == "COMPLETED"
    assert rn.cut("both") == cut and {t: shop.rows(t) for t in seen} == seen
    assert rn.sql("SELECT SUM(n) FROM counts").first()[0] == orders, "the view shows what is published"
    rn.create("reader", "SELECT n FROM counts")
    assert total(rn, "reader", "n") == orders, "a stream table reads what is published"
    monkeypatch.undo()
    records = {r.stream_table: r for r in refresh_unit(shop.engine, shop.unit, cut_for(shop.engine, [shop.unit]))}
    assert records[shop.name("counts")].action == "NO_DATA" and records[shop.name("both")].action == "DIFFERENTIAL"
    assert total(rn, "both", "n") == total(rn, "counts", "n") == orders + 1
    for table in ("counts", "sums", "both", "reader"):
        assert rn.verify(table).ok
    rn.drop("reader")


def test_members_that_do_not_read_each_other_are_written_side_by_side(rn, shop, monkeypatch) -> None:
    """One of them fails when both have met: nothing is published, and the one that was under way commits."""
    cut, orders, meet = rn.cut("both"), total(rn, "counts", "n"), threading.Barrier(2)
    write = refresh_module.BackingTable.write

    def meeting(self, *rest):
        if self.definition.name != shop.name("both"):
            meet.wait(60)  # breaks, and fails the test, unless the other one is writing too
            if self.definition.name == shop.name("sums") and fails:
                raise RuntimeError("disk full")
        return write(self, *rest)

    monkeypatch.setattr(refresh_module.BackingTable, "write", meeting)
    shop.order()
    fails = True
    with pytest.raises(RuntimeError, match="disk full") as caught:
        rn.refresh("both")
    assert caught.value.stream_table == shop.name("sums")
    assert rn.cut("both") == cut and total(rn, "counts", "n") == total(rn, "both", "n") == orders
    shop.order()
    fails = False
    rn.refresh("both")
    assert total(rn, "counts", "n") == total(rn, "both", "n") == total(rn, "sums", "total") == orders + 2
    for table in ("counts", "sums", "both"):
        shop.check(table)


def test_the_members_of_a_unit_read_one_moment_of_the_clock(rn, monkeypatch) -> None:
    """Each look at the clock gives another second; in one unit all members must have the same one, also after a failure."""
    shop, ticking = Shop(rn), (datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=n) for n in itertools.count())
    monkeypatch.setattr(rn._engine, "now", lambda: next(ticking))
    rn.create("counts", "SELECT COUNT(*) AS n, unix_timestamp() AS at FROM orders")
    rn.create("sums", "SELECT SUM(amount) AS total, unix_timestamp() AS at FROM orders")
    rn.create("both", "SELECT c.at AS c, s.at AS s, n, total FROM counts c CROSS JOIN sums s")

    def moments() -> set[int]:
        (row,) = rn.table("both").collect()
        return {row["c"], row["s"], *(r["at"] for table in ("counts", "sums") for r in rn.table(table).collect())}

    assert len(first := moments()) == 1
    failing_for(monkeypatch, shop.name("sums"))
    with pytest.raises(RuntimeError, match="disk full"):
        rn.refresh("both")
    assert moments() == first
    monkeypatch.undo()
    read = shop.rn._engine.backing(shop.name("counts")).note()[1].extra["clock"]
    earlier = Cut(rn.cut("both").versions, "2026-03-01T00:00:01+00:00")
    refresh_unit(rn._engine, rn._engine.graph().unit_of[shop.name("both")], earlier)
    (again,) = moments()
    assert again == int(datetime.fromisoformat(read).timestamp()), "not behind what a member has read already"
    for table in ("counts", "sums", "both"):
        shop.check(table)


def test_after_a_failure_an_older_cut_does_not_mix(rn, shop, monkeypatch) -> None:
    """A gate that closed between two attempts: what one member has read already, the others read too."""
    gate, orders = cut_for(shop.engine, [shop.unit]), total(rn, "counts", "n")
    shop.order()
    failing_for(monkeypatch, shop.name("sums"))
    with pytest.raises(RuntimeError):
        rn.refresh("both")
    monkeypatch.undo()
    refresh_unit(shop.engine, shop.unit, gate)
    assert total(rn, "counts", "n") == total(rn, "both", "n") == total(rn, "sums", "total") == orders + 1 and rn.verify("both").ok


def test_reading_two_cuts_is_refused(rn, shop) -> None:
    shop.order()
    refresh_module.refresh(shop.engine, shop.name("counts"))
    latest = shop.engine.backing(shop.name("counts")).log.version()
    with pytest.raises(RunnelError) as caught:
        refresh_module.refresh(shop.engine, shop.name("both"), upto={shop.name("counts"): latest})
    assert caught.value.code == "CUTS_DIFFER" and "refreshes" not in caught.value.hint
    rn.refresh("both")
    shop.check("both")


def test_compaction_vacuum_and_repair_keep_what_is_published(rn, shop, monkeypatch) -> None:
    orders = total(rn, "counts", "n")
    published = shop.engine.catalog.published(shop.members)
    rn.compact("counts")
    assert shop.engine.catalog.published(shop.members)[shop.name("counts")].version == published[shop.name("counts")].version + 1
    shop.order()
    failing_for(monkeypatch, shop.name("both"))
    with pytest.raises(RuntimeError):
        rn.refresh("both")
    monkeypatch.undo()
    rn.compact("counts")
    rn.vacuum("counts", hours=0)
    assert total(rn, "counts", "n") == total(rn, "both", "n") == orders
    before = {t: shop.rows(t) for t in ("counts", "sums", "both")}
    shop.engine.catalog.clear()
    rn.repair()
    assert {t: shop.rows(t) for t in before} == before, "the logs say what was published"
    rn.refresh("both")


def test_refresh_all_reads_one_cut(rn, shop, monkeypatch) -> None:
    rn.create("apart", LARGE)
    shop.order(amount=1)
    probe = refresh_module.probe

    def writing(work):
        if work.backing.definition.name == shop.name("apart"):
            shop.order()
        probe(work)

    writing.__name__ = "probe"
    monkeypatch.setattr(refresh_module, "STAGES", (writing, *refresh_module.STAGES[1:]))
    found = rn.refresh_all(names=["apart", "both"])
    assert [r.stream_table for r in found] and len(found) == 4
    assert len({r.frontier[shop.name("orders")] for r in found if shop.name("orders") in r.frontier}) == 1
    monkeypatch.undo()
    rn.drop("apart")
    rn.refresh("both")


@pytest.mark.parametrize("ticks", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_readers_never_see_a_diamond_half_way(rn, shop, monkeypatch, ticks: int) -> None:
    """Every order is of 1, so that all sums are the number of orders: at each moment they must be the same."""
    done, seen, read_one = threading.Event(), list[tuple](), threading.Event()

    def write() -> None:
        while not done.wait(0.5):
            shop.order()

    def read() -> None:
        while not done.is_set():
            cut = rn.cut("both")
            seen.append(tuple(total(rn, shop.name(t), c, cut=cut) for t, c in (("counts", "n"), ("sums", "total"), ("both", "n"), ("both", "total"))))
            counts, sums, both = (f"(SELECT SUM({c}) FROM {shop.schema}.{t})" for t, c in (("counts", "n"), ("sums", "total"), ("both", "total")))
            seen.append(tuple(rn.sql(f"SELECT {counts}, {sums}, {both}").first()))
            read_one.set()

    def half_way(engine, name: str, *rest, **options):
        """In the first ticks somebody reads when one member has committed and the others have not."""
        record = refresh_module.refresh(engine, name, *rest, **options)
        if name == shop.name("counts") and next(watched, None) is not None:
            for _ in range(2):  # the first reading may have begun before
                read_one.clear()
                read_one.wait(60)
        return record

    watched = iter(range(2))
    monkeypatch.setattr(unit, "refresh", half_way)
    worker = shop.engine.worker()
    with ThreadPoolExecutor(2) as pool:
        writing, reading = pool.submit(write), pool.submit(read)
        try:
            for _ in range(ticks):
                shop.order()
                refresh_unit(worker, shop.unit, cut_for(worker, [shop.unit]))
            read_one.clear()
            read_one.wait(60)
        finally:
            done.set()
        writing.result()
        reading.result()
    assert all(len(set(pair)) == 1 for pair in seen), seen
    assert len({pair[0] for pair in seen}) > max(1, ticks // 10), "the reader saw it move"
    rn.refresh("both")
    for table in ("counts", "sums", "both"):
        shop.check(table)


def test_the_fastest_policy_shows_each_member_when_it_is_ready(rn, monkeypatch) -> None:
    shop = Diamond(rn, diamond_policy="fastest")
    shop.order()
    failing_for(monkeypatch, shop.name("sums"))
    with pytest.raises(RuntimeError) as caught:
        rn.refresh("both")
    assert [r.stream_table for r in caught.value.refreshed] == [shop.name("counts")]
    monkeypatch.undo()
    assert total(rn, "counts", "n") == 4 and total(rn, "both", "n") == 3 and rn.verify("both").ok
    rn.refresh("both")
    assert total(rn, "both", "n") == 4


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


def test_a_failure_of_one_unit_leaves_its_readers_and_nobody_else(rn) -> None:
    shop = Shop(rn)
    rn.create("counts", COUNTS)
    rn.create("apart", LARGE)
    rn.create("above", "SELECT customer, 10 / (3 - n) AS x FROM counts")
    rn.create("higher", "SELECT x FROM above")
    names = [shop.name(t) for t in ("counts", "apart", "above", "higher")]
    rn.sql("INSERT INTO orders VALUES (9, 1, 50)")
    found = {f.stream_table.rsplit(".", 1)[1]: f for f in rn.refresh_all(names=names, say=lambda unit: None)}
    assert set(found) == {"counts", "apart", "above", "higher"}
    assert found["counts"].action == found["apart"].action == "DIFFERENTIAL"
    assert "DIVIDE_BY_ZERO" in str(found["above"].error) and found["higher"].error is None
    assert found["higher"].as_dict()["error"]["message"] == f"{shop.name('above')} could not be refreshed"


# Work side by side


def test_two_workers_write_at_the_same_time(rn, monkeypatch) -> None:
    shop = Shop(rn).with_customers()
    rn.create("large", LARGE)
    rn.create("names", "SELECT name FROM customers")
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    rn.sql("INSERT INTO customers VALUES (9, 'nin')")
    both = threading.Barrier(2)
    write = refresh_module.BackingTable.write

    def meeting(self, *rest):
        both.wait(60)  # breaks, and fails the test, unless the other one is writing too
        return write(self, *rest)

    monkeypatch.setattr(refresh_module.BackingTable, "write", meeting)
    workers = [rn._engine.worker() for _ in range(2)]
    assert len({id(w.reader) for w in (*workers, rn._engine)}) == 3 and workers[0].pool != workers[1].pool
    with ThreadPoolExecutor(2) as pool:
        tables = (shop.name("large"), shop.name("names"))
        records = list(pool.map(lambda job: refresh_module.refresh(*job), zip(workers, tables, strict=True)))
    monkeypatch.undo()
    assert [r.action for r in records] == ["DIFFERENTIAL"] * 2 and [r.jobs for r in records] == [1, 1]
    for table in ("large", "names"):
        shop.check(table)


def test_a_change_is_read_once_for_all_who_need_it(rn, monkeypatch) -> None:
    shop = Shop(rn)
    tables = {"large": LARGE, "totals": TOTALS, "ids": "SELECT id FROM orders", "spent": "SELECT customer, amount FROM orders WHERE amount > 1"}
    for table, query in tables.items():
        rn.create(table, query)
    rn.sql("INSERT INTO orders VALUES (9, 9, 9)")
    rn.create("first", "SELECT id FROM large")
    rn.create("second", "SELECT customer, amount FROM large")
    reads = []
    for module in (delta, stream_table):
        hold = module.hold
        monkeypatch.setattr(module, "hold", lambda *rest, module=module, hold=hold: reads.append(module) or hold(*rest))
    workers = [rn._engine.worker() for _ in tables]
    with ThreadPoolExecutor(len(tables)) as pool:
        records = list(pool.map(lambda job: refresh_module.refresh(job[0], shop.name(job[1])), zip(workers, tables, strict=True)))
    records += [rn.refresh(table) for table in ("first", "second")]
    assert [r.action for r in records] == ["DIFFERENTIAL"] * 6 and reads == [delta, stream_table]
    monkeypatch.undo()
    for table in (*tables, "first", "second"):
        shop.check(table)
