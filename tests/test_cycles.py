"""Stream tables that read each other: the least contents that satisfy their queries, under deletes too."""

from __future__ import annotations

import pytest

import runnel
from runnel.errors import RunnelError
from tests.support.shop import Shop

pytestmark = pytest.mark.spark

EVEN = "SELECT src, dst FROM steps UNION SELECT s.src, o.dst FROM steps s JOIN odd o ON s.dst = o.src"
ODD = "SELECT e.src, e.dst FROM even e"


@pytest.fixture(scope="module")
def circular(rn):
    """Reachability split over two stream tables: `even` goes one step ahead of `odd`, which hands it back."""
    other = runnel.connect(spark=rn.spark, warehouse=rn.folder, settings={"allow_circular": True})
    shop = Shop(rn)
    shop.rn = other
    other.sql("CREATE TABLE steps (src INT, dst INT) USING delta")
    other.sql("INSERT INTO steps VALUES (1, 2), (2, 3), (3, 2)")
    other.create("even", "SELECT src, dst FROM steps")
    other.create("odd", ODD)
    other.alter("even", query=EVEN)
    yield shop
    other.close()


def pairs(shop: Shop, table: str) -> set[tuple]:
    rows = shop.rows(table)
    assert len(rows) == len(set(rows))
    return set(rows)


def reached(shop: Shop) -> set[tuple]:
    """By hand."""
    steps = {tuple(r) for r in shop.rn.sql(f"SELECT src, dst FROM {shop.schema}.steps").collect()}
    found = set(steps)
    while more := {(a, d) for a, b in steps for c, d in found if b == c} - found:
        found |= more
    return found


def test_a_cycle_follows_inserts_and_deletes(circular) -> None:
    shop, rn = circular, circular.rn
    assert pairs(shop, "even") == pairs(shop, "odd") == reached(shop)
    rn.sql("INSERT INTO steps VALUES (3, 4)")
    before = rn._engine.backing(shop.name("odd")).log.version()
    record = rn.refresh("odd")
    assert record.action == "FULL" and "fixpoint of a cycle" in record.reason and record.version == before + 1, "one commit"
    assert (1, 4) in pairs(shop, "odd") and pairs(shop, "even") == reached(shop)
    rn.sql("DELETE FROM steps WHERE src = 1 OR (src = 3 AND dst = 4)")
    rn.sql("DELETE FROM steps WHERE src = 2")
    rn.refresh("even")
    assert pairs(shop, "even") == pairs(shop, "odd") == reached(shop) == {(3, 2)}, "what only the cycle supported is gone"
    for table in ("even", "odd"):
        shop.check(table)
    assert rn.refresh("even").action == rn.refresh("odd").action == "NO_DATA"


def test_a_cycle_that_does_not_settle_is_an_error_and_shows_nothing(circular) -> None:
    shop = circular
    bounded = runnel.connect(spark=shop.rn.spark, warehouse=shop.rn.folder, settings={"allow_circular": True, "circular_rounds": 3})
    bounded.sql(f"USE {shop.schema}")
    bounded.create("grows", "SELECT src, dst FROM steps")
    before = sorted(map(tuple, bounded.table("grows").collect()))
    with pytest.raises(RunnelError) as caught:
        bounded.alter("grows", query="SELECT src, dst FROM steps UNION ALL SELECT src, dst + 1 FROM grows")
    assert caught.value.code == "NO_FIXPOINT" and caught.value.stream_table == shop.name("grows")
    assert sorted(map(tuple, bounded.table("grows").collect())) == before
    bounded.drop("grows")
    bounded.close()


def test_cycles_are_refused_unless_allowed(circular, rn) -> None:
    rn.sql(f"USE {circular.schema}")
    rn.create("lower", "SELECT src FROM steps")
    rn.create("upper", "SELECT src FROM lower")
    with pytest.raises(RunnelError) as caught:
        rn.alter("lower", query="SELECT src FROM upper")
    assert caught.value.code == "CYCLE" and "lower -> " in caught.value.detail
    dropped = circular.rn.drop("even", cascade=True)
    assert sorted(dropped) == [circular.name("even"), circular.name("odd")]
