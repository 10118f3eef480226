"""All of it: load events, create the queries, apply rounds of change, refresh and verify."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import runnel
from tests.support.follow import Outcome, Say, Statement, follow, read_queries
from tests.support.nexmark.events import TABLES, AuctionHouse, Row

QUERIES = read_queries(Path(__file__).parent / "queries")

LEFT_OUT = {
    "q12": "counts bids by the time at which they are processed; a table has no such time, and by event time it is a plain GROUP BY",
}


def run(
    rn: runnel.Runnel,
    events: int,
    rounds: int,
    queries: Iterable[str] = tuple(QUERIES),
    progress: Say = print,
    mode: str = "DIFFERENTIAL",
    quick: bool = False,
) -> list[Outcome]:
    """Follow the named queries in a schema of their own; each round adds a tenth as many events as there were at first."""
    schema = f"nexmark_{events}_{rounds}"
    rn.sql(f"CREATE SCHEMA {schema}")
    rn.sql(f"USE {schema}")
    house = AuctionHouse(seed=7)
    for table, columns in TABLES.items():
        rn.sql(f"CREATE TABLE {table} ({columns}) USING delta")
    fixed = {"side_input": [(1100 + i, f"value {i}") for i in range(0, 60, 2)], "hop": [(i,) for i in range(5)]}
    for _, sql in insertions(house.events(events) | fixed):
        rn.sql(sql)
    progress(f"loaded {events} events")
    changes = [_round(house, number, events // 10) for number in range(1, rounds + 1)]
    return follow(rn, {name: QUERIES[name] for name in queries}, changes, mode, progress, quick)


def _round(house: AuctionHouse, number: int, events: int) -> list[Statement]:
    """New events; then bids are retracted and people move, or bids are corrected and auctions get another reserve."""
    key = f"pmod(xxhash64(auction, bidder, date_time, {number}), 40)"
    if number % 2 == 1:
        return [
            *insertions(house.events(events)),
            ("bid", f"DELETE FROM bid WHERE {key} = 0"),
            ("person", f"UPDATE person SET city = 'Salem', state = 'OR' WHERE pmod(id + {number}, 5) = 0"),
        ]
    return [
        *insertions(house.events(events)),
        ("bid", f"UPDATE bid SET price = price * 3 WHERE {key} = 0"),
        ("auction", f"UPDATE auction SET reserve = reserve + 100 WHERE pmod(id + {number}, 20) = 0"),
    ]


def insertions(rows: dict[str, list[Row]]) -> list[Statement]:
    """One INSERT per table that gets rows."""
    return [(table, f"INSERT INTO {table} VALUES {', '.join(map(_values, new))}") for table, new in rows.items() if new]


def _values(row: Row) -> str:
    return "(" + ", ".join(_literal(cell) for cell in row) + ")"


def _literal(cell: object) -> str:
    if isinstance(cell, datetime):
        return f"TIMESTAMP '{cell}'"
    return str(cell) if isinstance(cell, int) else f"'{cell}'"
