"""Rounds of change after the refresh functions RF1 and RF2: orders come and go with their lines; prices, balances and places move.

About one row in a hundred, of a small table at least a few. A hash of key and round picks the rows, so a round is the same in
every run. Small scales have few rows that selective queries ask for; the values that a round gives are theirs, so results move.
"""

from __future__ import annotations

from tests.support.follow import Statement
from tests.support.tpch.data import ROWS

NEW_KEYS = 10_000_000_000
"""Orders that come in round N have keys from N times this on; no generated key reaches it."""


def rounds(scale: float, count: int) -> list[list[Statement]]:
    """The statements of each round, with the table that each changes."""
    return [_round(scale, number) for number in range(1, count + 1)]


def _round(scale: float, number: int) -> list[Statement]:
    def pick(table: str, key: str, purpose: str) -> str:
        every = max(2, min(100, int(ROWS[table] * scale) // 8))
        return f"pmod(xxhash64({key}, {number}, '{purpose}'), {every}) = 0"

    statements = [
        ("orders", _new_orders(number, pick("orders", "o_orderkey", "come"))),
        ("lineitem", _new_lines(number, pick("orders", "l_orderkey", "come"))),
        ("lineitem", f"DELETE FROM lineitem WHERE {pick('orders', 'l_orderkey', 'go')}"),
        ("orders", f"DELETE FROM orders WHERE {pick('orders', 'o_orderkey', 'go')}"),
        ("lineitem", _new_terms(pick("lineitem", "l_orderkey * 8 + l_linenumber", "terms"))),
        ("customer", _moved_customers(pick("customer", "c_custkey", "customer"), moves=number % 2 == 0)),
        ("part", _changed_parts(number, pick("part", "p_partkey", "part"))),
        ("partsupp", _new_costs(pick("partsupp", "ps_partkey, ps_suppkey", "cost"))),
    ]
    if number % 2 == 1:
        statements.append(("supplier", _moved_suppliers(pick("supplier", "s_suppkey", "supplier"))))
    return statements


def refresh_functions(scale: float, count: int) -> list[list[Statement]]:
    """Rounds as pg_trickle measures them, at true scale. With N one hundredth of the orders: N orders come with their lines, the N
    oldest go with theirs; N / 2 customers change their segment, N lines their price and discount, N / 2 their quantity.

    Parts, suppliers and what they supply stay.
    """
    return [_functions(int(ROWS["orders"] * scale) // 100, scale, number) for number in range(1, count + 1)]


def _functions(orders: int, scale: float, number: int) -> list[Statement]:
    def pick(table: str, key: str, purpose: str, rows: float) -> str:
        return f"pmod(xxhash64({key}, {number}, '{purpose}'), {max(2, round(ROWS[table] * scale / max(1.0, rows)))}) = 0"

    come = pick("orders", "{}", "come", orders)
    oldest = orders * 4 * number  # keys come in eights out of each 32
    line = "l_orderkey * 8 + l_linenumber"
    segments = "array('AUTOMOBILE', 'BUILDING', 'FURNITURE', 'HOUSEHOLD', 'MACHINERY')"
    return [
        ("orders", _new_orders(number, come.format("o_orderkey"))),
        ("lineitem", _new_lines(number, come.format("l_orderkey"))),
        ("lineitem", f"DELETE FROM lineitem WHERE l_orderkey <= {oldest}"),
        ("orders", f"DELETE FROM orders WHERE o_orderkey <= {oldest}"),
        (
            "customer",
            f"UPDATE customer SET c_mktsegment = element_at({segments}, 1 + CAST(pmod(c_custkey + {number}, 5) AS INT)) "
            f"WHERE {pick('customer', 'c_custkey', 'customer', orders / 2)}",
        ),
        (
            "lineitem",
            f"""UPDATE lineitem SET l_extendedprice = CAST(l_extendedprice * 1.05 AS DECIMAL(15, 2)),
                l_discount = CAST(pmod(l_orderkey + l_linenumber, 11) / 100 AS DECIMAL(15, 2))
                WHERE {pick("lineitem", line, "price", orders)}""",
        ),
        ("lineitem", f"UPDATE lineitem SET l_quantity = l_quantity + 5 WHERE {pick('lineitem', line, 'quantity', orders / 2)}"),
    ]


def _new_orders(number: int, picked: str) -> str:
    return f"""INSERT INTO orders
        SELECT o_orderkey + {number * NEW_KEYS}, o_custkey, o_orderstatus, o_totalprice + {number}.01, o_orderdate, o_orderpriority,
               o_clerk, o_shippriority, o_comment
        FROM orders WHERE o_orderkey < {NEW_KEYS} AND {picked}"""


def _new_lines(number: int, picked: str) -> str:
    """Prices differ, so that no ranking has ties. Every second order comes late by mail, which Q12 asks for, in quantities for Q18."""
    special = "pmod(xxhash64(l_orderkey), 2) = 0"
    return f"""INSERT INTO lineitem
        SELECT l_orderkey + {number * NEW_KEYS}, l_partkey, l_suppkey, l_linenumber,
               IF({special}, l_quantity + 40, l_quantity),
               CAST(l_extendedprice + {number} + l_linenumber / 100 AS DECIMAL(15, 2)), l_discount, l_tax, l_returnflag, l_linestatus,
               l_shipdate, l_commitdate, IF({special}, greatest(l_receiptdate, l_commitdate + INTERVAL '1' DAY), l_receiptdate),
               l_shipinstruct, IF({special}, 'MAIL', l_shipmode), l_comment
        FROM lineitem WHERE l_orderkey < {NEW_KEYS} AND {picked}"""


def _new_terms(picked: str) -> str:
    """Lines get another price, discount and delivery; quantities that Q17 and Q19 ask for."""
    return f"""UPDATE lineitem SET
        l_extendedprice = CAST(l_extendedprice * 1.05 AS DECIMAL(15, 2)),
        l_discount = CAST(pmod(l_orderkey + l_linenumber, 11) / 100 AS DECIMAL(15, 2)),
        l_quantity = element_at(array(1, 5, 15, 25), 1 + CAST(pmod(l_orderkey, 4) AS INT)),
        l_shipmode = 'AIR', l_shipinstruct = 'DELIVER IN PERSON'
        WHERE {picked}"""


def _moved_customers(picked: str, moves: bool) -> str:
    nation = ", c_nationkey = pmod(c_nationkey + 1, 25)" if moves else ""
    return f"""UPDATE customer SET
        c_acctbal = c_acctbal + 500,
        c_mktsegment = IF(c_mktsegment = 'BUILDING', 'MACHINERY', 'BUILDING'){nation}
        WHERE {picked}"""


def _changed_parts(number: int, picked: str) -> str:
    """Parts become of the kinds that Q2, Q8, Q14, Q16, Q17, Q19 and Q20 look for."""
    return f"""UPDATE part SET
        p_retailprice = CAST(p_retailprice * 1.02 AS DECIMAL(15, 2)),
        p_size = element_at(array(15, 3, 9, 14), 1 + CAST(pmod(p_partkey + {number}, 4) AS INT)),
        p_brand = element_at(array('Brand#12', 'Brand#23', 'Brand#34'), 1 + CAST(pmod(p_partkey, 3) AS INT)),
        p_container = element_at(array('SM BOX', 'MED BOX', 'LG BOX'), 1 + CAST(pmod(p_partkey, 3) AS INT)),
        p_type = element_at(array('ECONOMY ANODIZED STEEL', 'PROMO PLATED BRASS', p_type), 1 + CAST(pmod(p_partkey, 3) AS INT)),
        p_name = IF(pmod(p_partkey + {number}, 2) = 0, concat('forest ', p_name), p_name)
        WHERE {picked}"""


def _new_costs(picked: str) -> str:
    return f"""UPDATE partsupp SET
        ps_supplycost = CAST(ps_supplycost * 0.95 AS DECIMAL(15, 2)), ps_availqty = pmod(ps_availqty * 7, 10000)
        WHERE {picked}"""


def _moved_suppliers(picked: str) -> str:
    """Suppliers move to the nations that queries name: Brazil, Canada, France, Germany and Saudi Arabia."""
    return f"""UPDATE supplier SET
        s_acctbal = s_acctbal - 100,
        s_nationkey = element_at(array(2, 3, 6, 7, 20), 1 + CAST(pmod(s_suppkey, 5) AS INT))
        WHERE {picked}"""
