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
from tests.support.translate import inner_call, to_duck, to_duck_tree


class Duck:
    """Holds each source in three schemas: `before`, `after` and `change`. Queries see `after`, as users do."""

    def __init__(self, fixture: Fixture) -> None:
        self.fixture = fixture
        self.filled: dict[tuple[Face, str], list[tuple[int, Row]]] = {}
        self.connection = duckdb.connect(config={"threads": 1})
        for face in Face:
            self.run(f"CREATE SCHEMA {face}")
            for table in fixture.tables:
                self.run(f"CREATE TABLE {face}.{table.name} ({self._columns(table, face)})")
        self.run("CREATE SCHEMA log")
        self.run("SET search_path = 'after'")
        for name, sql in fixture.views:
            self.run(f"CREATE VIEW after.{name} AS {to_duck(sql)}")

    @classmethod
    def over(cls, fixture: Fixture) -> Duck:
        """The last one again when it has the same tables: making a database takes longer than most queries on it."""
        tables = tuple((t.name, *t.columns) for t in fixture.tables)
        duck = _last(cls, tables, tuple(fixture.views))
        duck.fixture = fixture
        return duck

    def load(self, before: dict[str, Counter[Row]], after: dict[str, Counter[Row]], changes: list[Change]) -> None:
        """Move to the next step in time."""
        feed: dict[str, list[tuple[int, Row]]] = {}
        for change in changes:
            feed.setdefault(change.table, []).extend(change.rows)
        statements = []
        for table in self.fixture.tables:
            statements += self._fill(table, Face.BEFORE, [(1, r) for r in before[table.name].elements()])
            statements += self._fill(table, Face.AFTER, [(1, r) for r in after[table.name].elements()])
            statements += self._fill(table, Face.CHANGE, feed.get(table.name, []))
        if statements:
            self.run("; ".join(("BEGIN", *statements, "COMMIT")))

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

    def _fill(self, table: Table, face: Face, rows: list[tuple[int, Row]]) -> list[str]:
        """The statements that put rows in the place of those that are there, none when they are the same."""
        old = self.filled.get((face, table.name), [])
        if old == rows:
            return []
        self.filled[face, table.name] = rows
        types = [to_duck_type(t) for _, t in table.columns]
        lines = [", ".join([*map(literal, row, types), *([str(weight)] if face is Face.CHANGE else [])]) for weight, row in rows]
        empty = [f"DELETE FROM {face}.{table.name}"] if old else []
        return empty + ([f"INSERT INTO {face}.{table.name} VALUES {', '.join(f'({line})' for line in lines)}"] if lines else [])


@lru_cache(maxsize=1)
def _last(cls: type[Duck], tables: tuple, views: tuple) -> Duck:
    return cls(Fixture("", "", [Table(name, list(columns)) for name, *columns in tables], list(views), []))


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

    def aggregates(self, name: str, arguments: int) -> bool:
        return False

    def describe(self, sql: str) -> tuple[Column, ...]:
        return self.duck.describe(spark_typed(self.duck, sql))


def spark_typed(duck: Duck, sql: str) -> str:
    """A query in DuckDB's words whose aggregates and window functions have the types that Spark gives them."""
    tree = to_duck_tree(sqlglot.parse_one(spark_marked(sql), dialect="spark"))
    for mark in list(tree.find_all(exp.Anonymous))[::-1]:
        if mark.name.lower() == MARK:
            function, call, *arguments = mark.expressions
            scope = mark.parent_select
            types = [_type_of(duck, scope, a) for a in arguments]
            mark.replace(exp.cast(call.copy(), to_duck_type(call_type(function.name, types)), dialect="duckdb"))
    return tree.sql("duckdb")


MARK = "__spark_type"


@lru_cache(maxsize=2000)
def spark_marked(sql: str) -> str:
    """Each aggregate and window call as __spark_type('function', the call, its arguments)."""
    tree = sqlglot.parse_one(sql, dialect="spark")
    for node in list(tree.walk(bfs=False))[::-1]:
        if not isinstance(node, exp.Window | exp.AggFunc | exp.Filter | exp.WithinGroup | exp.IgnoreNulls):
            continue
        if isinstance(node.parent, exp.Window | exp.Filter | exp.WithinGroup | exp.IgnoreNulls) and node.arg_key == "this":
            continue
        call = inner_call(node)
        if not isinstance(call, exp.Func) or node.find_ancestor(exp.Pivot):
            continue
        name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
        value = call.this if not isinstance(call, exp.Anonymous) else next(iter(call.expressions), None)
        if (within := node.find(exp.WithinGroup)) is not None and inner_call(within) is call and not isinstance(call, exp.GroupConcat):
            value = within.expression.expressions[0].this
        if isinstance(value, exp.Distinct | exp.Order):
            value = value.expressions[0] if isinstance(value, exp.Distinct) else value.this
        arguments = [value.copy()] if isinstance(value, exp.Expr) and not isinstance(value, exp.Star) else []
        mark = exp.Anonymous(this=MARK, expressions=[exp.Literal.string(name.lower()), node.copy(), *arguments])
        if node is tree:
            return mark.sql("spark")
        node.replace(mark)
    return tree.sql("spark")


def _type_of(duck: Duck, scope: exp.Select, argument: exp.Expr) -> str:
    probe = scope.copy()
    for part in ("group", "having", "order", "limit", "offset", "qualify", "distinct"):
        probe.set(part, None)
    probe.set("expressions", [exp.alias_(argument.copy(), "c")])
    for mark in [m for m in probe.find_all(exp.Anonymous) if m.name.lower() == MARK]:
        mark.replace(mark.expressions[1].copy())
    return duck.describe(probe.sql("duckdb"))[0].type


def call_type(function: str, arguments: list[str]) -> str:
    """The type Spark gives a call of an aggregate or window function."""
    argument = arguments[0] if arguments else ""
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", argument)
    match function.replace("_", ""):
        case "count" | "countif" | "regrcount" | "approxdistinct" | "approxcountdistinct" | "groupingid":
            return "bigint"
        case "rownumber" | "rank" | "denserank" | "ntile":
            return "int"
        case "grouping":
            return "tinyint"
        case "sum" | "trysum" if decimal:
            return f"decimal({min(38, int(decimal[1]) + 10)},{decimal[2]})"
        case "avg" | "mean" | "tryavg" if decimal:
            return f"decimal({min(38, int(decimal[1]) + 4)},{min(38, int(decimal[2]) + 4)})"
        case "sum" | "trysum":
            return "double" if argument in ("float", "double", "string") else "bigint"
        case "arrayagg" | "arrayuniqueagg" | "collectlist" | "collectset":
            return f"array<{argument}>"
        case "logicaland" | "logicalor" | "every" | "some" | "any":
            return "boolean"
        case "groupconcat" | "listagg" | "stringagg":
            return "string"
        case name if name in DOUBLES:
            return "double"
        case _:
            return argument


DOUBLES = frozenset(
    "avg mean tryavg stddev stddevsamp stddevpop std variance variancepop varsamp varpop covarpop covarsamp corr skewness kurtosis "
    "median quantile percentile percentilecont cumedist percentrank "
    "regrslope regrintercept regrr2 regravgx regravgy regrsxx regrsyy regrsxy".split()
)

SPARK_TYPES = {"integer": "int", "varchar": "string", "hugeint": "bigint", "timestamp with time zone": "timestamp", '"null"': "void"}


@lru_cache(maxsize=1000)
def to_spark_type(duck: str) -> str:
    """
    >>> to_spark_type("STRUCT(a INTEGER, b VARCHAR[])"), to_spark_type("HUGEINT")
    ('struct<a:int,b:array<string>>', 'bigint')
    """
    if not re.search(r"[\[(]", duck) or duck.startswith("DECIMAL"):
        return SPARK_TYPES.get(duck.lower(), duck.lower())
    return exp.DataType.build(duck.replace("HUGEINT", "BIGINT"), dialect="duckdb").sql("spark").lower().replace(", ", ",").replace(": ", ":")


@lru_cache(maxsize=1000)
def to_duck_type(spark: str) -> str:
    """
    >>> to_duck_type("struct<a:int,b:array<string>>"), to_duck_type("decimal(10,2)")
    ('STRUCT(a INT, b TEXT[])', 'DECIMAL(10,2)')
    """
    if "<" in spark:
        return exp.DataType.build(spark, dialect="spark").sql("duckdb")
    return {"string": "VARCHAR", "int": "INTEGER", "void": "INTEGER"}.get(spark, spark.upper())


def literal(cell: str, type_: str) -> str:
    """A cell of a text table as SQL."""
    if cell == "NULL":
        return "NULL"
    text = "" if cell == "''" else cell.replace("'", "''")
    return f"CAST('{text}' AS {type_})"
