"""The order in which relations of a join meet: small ones early, unless that would join many with many."""

from __future__ import annotations

import pytest

from runnel.algebra import Facts, Join, Steps
from runnel.algebra.reach import linked
from runnel.bind import bind
from runnel.canonicalize import canonicalize
from tests.support.duck import Duck, DuckLookup
from tests.support.fixture import Fixture, Table

TABLES = {
    "customers": "id nation",
    "orders": "id customer",
    "lines": "ordered supplier",
    "suppliers": "id nation",
    "nations": "id region",
    "regions": "id",
}
TOGETHER = """
    SELECT o.id FROM customers c, orders o, lines l, suppliers s, nations n, regions r
    WHERE c.id = o.customer AND l.ordered = o.id AND l.supplier = s.id AND c.nation = s.nation AND s.nation = n.id AND n.region = r.id
"""


@pytest.mark.parametrize(
    ("light", "order"),
    [
        ("", "customers orders lines suppliers nations regions"),
        ("suppliers nations regions", "customers orders lines suppliers nations regions"),
        ("customers suppliers nations regions", "customers orders lines suppliers nations regions"),
    ],
)
def test_a_light_table_waits_for_the_large_one_that_it_belongs_to(light: str, order: str) -> None:
    assert met(TOGETHER, light) == order.split()


def test_a_light_table_that_belongs_to_nobody_else_comes_first() -> None:
    """Lines of orders come after nations and regions, which say which customers matter at all."""
    query = "SELECT o.id FROM customers c, orders o, nations n, regions r WHERE c.id = o.customer AND c.nation = n.id AND n.region = r.id"
    assert met(query, "nations regions") == ["customers", "nations", "regions", "orders"]
    assert met(query, "") == ["customers", "orders", "nations", "regions"]


def met(query: str, light: str) -> list[str]:
    tables = [Table(name, [(c, "int") for c in columns.split()]) for name, columns in TABLES.items()]
    tree = canonicalize(bind(query, DuckLookup(Duck(Fixture("", "", tables, [], [])))).node)
    (join,) = [n for n in tree.walk() if isinstance(n, Join)][:1]
    nodes = linked(Steps(Facts(light=frozenset(light.split()))), *join.chain)
    return [source for node in nodes for source in node.sources]
