"""A fixture's tables and commits as Spark SQL over Delta tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.support.duck import literal
from tests.support.fixture import Change, Fixture, Row, Table


def creation(fixture: Fixture) -> Iterator[str]:
    for table in fixture.tables:
        columns = ", ".join(f"`{n}` {t}" for n, t in table.columns)
        yield f"CREATE TABLE {table.name} ({columns}) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        if table.rows:
            yield insertion(table, Counter(table.rows))
    for name, sql in fixture.views:
        yield f"CREATE VIEW {name} AS {sql}"


def statements(table: Table, change: Change, before: Counter[Row]) -> Iterator[str]:
    """A commit's rows in three statements at most: what was there goes, what comes comes, what only passed goes."""
    if change.how == "truncate":
        yield f"TRUNCATE TABLE {table.name}"
        return
    came, went = Counter[Row](), Counter[Row]()
    for weight, row in change.rows:
        (came if weight > 0 else went)[row] += abs(weight)
    if change.how == "overwrite":
        yield insertion(table, before - went + came, "INSERT OVERWRITE")
        return
    first = before & went
    # A DELETE takes every copy of a row; those that stay are put back with what comes.
    stay = Counter({row: before[row] - n for row, n in first.items() if before[row] > n})
    if first:
        yield deletion(table, first)
    if came + stay:
        yield insertion(table, came + stay)
    passed = went - first
    if passed:
        yield deletion(table, passed)
        left = Counter({row: n for row, n in (before - first + came - passed).items() if row in passed})
        if left:
            yield insertion(table, left)


def net_change(table: Table, before: Counter[Row], after: Counter[Row]) -> Change:
    went, came = before - after, after - before
    rows = [*((-n, r) for r, n in went.items()), *((n, r) for r, n in came.items())]
    return Change(table.name, rows, "" if not went else "overwrite" if after else "truncate")


def insertion(table: Table, rows: Counter[Row], verb: str = "INSERT INTO") -> str:
    return f"{verb} {table.name} VALUES {', '.join(f'({_cells(table, r)})' for r in rows.elements())}"


def deletion(table: Table, rows: Counter[Row]) -> str:
    same = (" AND ".join(f"`{n}` <=> {literal(c, t)}" for c, (n, t) in zip(row, table.columns, strict=True)) for row in rows)
    return f"DELETE FROM {table.name} WHERE {' OR '.join(f'({s})' for s in same)}"


def _cells(table: Table, row: Row) -> str:
    return ", ".join(literal(cell, type_) for cell, (_, type_) in zip(row, table.columns, strict=True))
