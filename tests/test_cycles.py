"""Stream tables that read each other: the least contents that satisfy their queries, under deletes too."""

from __future__ import annotations

import pytest

import runnel
from runnel.errors import RunnelError
from tests.support.shop import Shop

pytestmark = pytest.mark.spark

NEAR = "SELECT node FROM roots UNION SELECT s.dst AS node FROM steps s JOIN far f ON s.src = f.node"
FAR = "SELECT n.node FROM near n"


@pytest.fixture(scope="module")
def circular(rn):
    """What is reached from the roots, split over two stream tables: `near` goes one step ahead of `far`, which hands it back."""
    other = runnel.connect(spark=rn.spark, warehouse=rn.folder, settings={"allow_circular": True})
    shop = Shop(rn)
    shop.rn = other
    other.sql("CREATE TABLE steps (src INT, dst INT) USING delta")
    other.sql("INSERT INTO steps VALUES (1, 2), (2, 3), (3, 2)")
    other.sql("CREATE TABLE roots (node INT) USING delta")
    other.sql("INSERT INTO roots VALUES (1)")
    other.create("near", "SELECT node FROM roots")
    other.create("far", FAR)
    other.alter("near", query=NEAR)
    yield shop
    other.close()


def nodes(shop: Shop, table: str) -> set[int]:
    rows = shop.rows(table)
    assert len(rows) == len(set(rows))
    return {node for (node,) in rows}


def test_a_cycle_follows_inserts_and_deletes(circular) -> None:
    shop, rn = circular, circular.rn
    assert nodes(shop, "near") == nodes(shop, "far") == {1, 2, 3}
    rn.sql("INSERT INTO steps VALUES (3, 4)")
    before = rn._engine.backing(shop.name("far")).log.version()
    record = rn.refresh("far")
    assert record.action == "FULL" and "fixpoint of a cycle" in record.reason and record.version == before + 1, "one commit"
    assert nodes(shop, "near") == nodes(shop, "far") == {1, 2, 3, 4}
    rn.sql("DELETE FROM steps WHERE src = 1")
    rn.refresh("near")
    assert nodes(shop, "near") == nodes(shop, "far") == {1}, "2 and 3 still lead to each other, and nothing leads to them"
    for table in ("near", "far"):
        shop.check(table)
    assert rn.refresh("near").action == rn.refresh("far").action == "NO_DATA"


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
    dropped = circular.rn.drop("near", cascade=True)
    assert sorted(dropped) == [circular.name("far"), circular.name("near")]
