"""DuckDB in the place of Spark: the sources' three faces, and Spark's answers to questions about names and types."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

import duckdb
import sqlglot
from sqlglot import exp

from runnel.algebra import WEIGHT, Column, Face
from runnel.bind import Relation
from tests.support.fixture import Change, Fixture, Row, Table


class Duck:
    """Holds each source in three schemas: `before`, `after` and `change`. Queries see `after`, as users do."""

    def __init__(self, fixture: Fixture) -> None:
        self.fixture = fixture
        self.connection = duckdb.connect(config={"threads": 1})
        for face in Face:
            self.run(f"CREATE SCHEMA {face}")
            for table in fixture.tables:
                self.run(f"CREATE TABLE {face}.{table.name} ({self._columns(table, face)})")
        self.run("CREATE SCHEMA log")
        self.run("SET search_path = 'after'")
        for name, sql in fixture.views:
            self.run(f"CREATE VIEW after.{name} AS {to_duck(sql)}")

    def load(self, before: dict[str, Counter[Row]], after: dict[str, Counter[Row]], changes: list[Change]) -> None:
        """Move to the next step in time."""
        feed: dict[str, list[tuple[int, Row]]] = {}
        for change in changes:
            feed.setdefault(change.table, []).extend(change.rows)
        for table in self.fixture.tables:
            self._fill(table, Face.BEFORE, [(1, r) for r in before[table.name].elements()])
            self._fill(table, Face.AFTER, [(1, r) for r in after[table.name].elements()])
            self._fill(table, Face.CHANGE, feed.get(table.name, []))

    def run(self, sql: str) -> list[tuple]:
        try:
            return self.connection.execute(sql).fetchall()
        except duckdb.Error as error:
            raise AssertionError(f"{error}\n\n{sql}") from error

    def describe(self, sql: str) -> tuple[Column, ...]:
        return tuple(Column(name, to_spark_type(type_)) for name, type_, *_ in self.run(f"DESCRIBE {sql}"))

    def _columns(self, table: Table, face: Face) -> str:
        weight = f", {WEIGHT} BIGINT" if face is Face.CHANGE else ""
        return ", ".join(f'"{n}" {to_duck_type(t)}' for n, t in table.columns) + weight

    def _fill(self, table: Table, face: Face, rows: list[tuple[int, Row]]) -> None:
        self.run(f"DELETE FROM {face}.{table.name}")
        types = [to_duck_type(t) for _, t in table.columns]
        lines = [", ".join([*map(literal, row, types), *([str(weight)] if face is Face.CHANGE else [])]) for weight, row in rows]
        if lines:
            self.run(f"INSERT INTO {face}.{table.name} VALUES {', '.join(f'({line})' for line in lines)}")


class DuckLookup:
    """`runnel.bind.Lookup` over a fixture. Aggregates are typed by Spark's rules, which DuckDB does not share."""

    def __init__(self, duck: Duck) -> None:
        self.duck = duck
        self.views = dict(duck.fixture.views)

    def relation(self, parts: tuple[str, ...]) -> Relation | None:
        name = parts[-1].lower()
        if name in self.views:
            return Relation(name, self.duck.describe(f"FROM after.{name}"), self.views[name])
        tables = {t.name: t for t in self.duck.fixture.tables}
        return Relation(name, tuple(Column(n, t) for n, t in tables[name].columns)) if name in tables else None

    def known(self) -> list[str]:
        return [*(t.name for t in self.duck.fixture.tables), *self.views]

    def describe(self, sql: str) -> tuple[Column, ...]:
        tree = sqlglot.parse_one(sql, dialect="spark")
        described = self.duck.describe(to_duck(sql))
        if not isinstance(tree, exp.Select) or not isinstance(tree.selects[0].unalias(), exp.AggFunc):
            return described
        inner = {c.name: c.type for c in self.duck.describe(tree.find(exp.Subquery).this.sql("duckdb"))}
        calls = [e.unalias() for e in tree.selects]
        return tuple(Column(c.name, aggregate_type(call, inner.get(call.this.name, ""))) for c, call in zip(described, calls, strict=True))


def aggregate_type(call: exp.Expr, argument: str) -> str:
    """The type Spark gives an aggregate of a column of a type."""
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", argument)
    match call:
        case exp.Count():
            return "bigint"
        case exp.Sum() if decimal:
            return f"decimal({min(38, int(decimal[1]) + 10)},{decimal[2]})"
        case exp.Avg() if decimal:
            return f"decimal({min(38, int(decimal[1]) + 4)},{min(38, int(decimal[2]) + 4)})"
        case exp.Sum():
            return "double" if argument in ("float", "double", "string") else "bigint"
        case exp.Avg():
            return "double"
        case _:
            return argument


SPARK_TYPES = {"integer": "int", "varchar": "string", "hugeint": "bigint", "timestamp with time zone": "timestamp", '"null"': "void"}


def to_spark_type(duck: str) -> str:
    return SPARK_TYPES.get(duck.lower(), duck.lower())


def to_duck_type(spark: str) -> str:
    return {"string": "VARCHAR", "int": "INTEGER"}.get(spark, spark.upper())


@lru_cache(maxsize=1000)
def to_duck(sql: str) -> str:
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0]


def literal(cell: str, type_: str) -> str:
    """A cell of a text table as SQL."""
    if cell == "NULL":
        return "NULL"
    text = "" if cell == "''" else cell.replace("'", "''")
    return f"CAST('{text}' AS {type_})"
