"""Spark SQL as DuckDB understands it: sqlglot's translation, with help where it stops or means something else.

Aggregates whose result Spark leaves open follow Runnel's rule: FIRST, ANY_VALUE and MODE give the least value, LAST
the greatest, lists are sorted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import sqlglot
from sqlglot import exp

Build = Callable[..., exp.Expr]


@lru_cache(maxsize=1000)
def to_duck(sql: str) -> str:
    """
    >>> to_duck("SELECT k, c FROM t LATERAL VIEW OUTER explode(split(k, ',')) s AS c")
    "SELECT k, c FROM t LEFT JOIN LATERAL (SELECT UNNEST(STR_SPLIT_REGEX(k, ',')) AS c) AS s(c) ON TRUE"
    """
    head, *steps = STEP.split(sql)
    if head or not steps:
        return to_duck_step(sql)
    # The plans of one query share most of their steps, so each step is translated on its own, and once.
    *bodies, last = steps[1::2]
    last, _, query = last.partition("\n)\n")
    names = [name.replace("`", '"') for name in steps[0::2]]
    texts = [f"{name} AS ({to_duck_step(body)})" for name, body in zip(names, (*bodies, last), strict=True)]
    return f"WITH {'RECURSIVE ' if sql.startswith('WITH RECURSIVE') else ''}{', '.join(texts)} {to_duck_step(query)}"


STEP = re.compile(r"^(?:WITH (?:RECURSIVE )?|\), )(`[^`]+`(?:\([^)]*\))?) AS \($", re.M)


@lru_cache(maxsize=5000)
def to_duck_step(sql: str) -> str:
    return to_duck_tree(sqlglot.parse_one(sql, dialect="spark")).sql("duckdb", copy=False)


def to_duck_tree(tree: exp.Expr) -> exp.Expr:
    """The tree with Spark's own constructs replaced, innermost first."""
    for node in list(tree.walk(bfs=False))[::-1]:
        new = _translated(node)
        if new is not node:
            if node is tree:
                return new
            node.replace(new)
    return tree


def _translated(node: exp.Expr) -> exp.Expr:
    match node:
        case exp.Anonymous() if node.name.lower() == "raise_error":
            return exp.Anonymous(this="ERROR", expressions=node.expressions)
        case exp.Select():
            return _with_rollup(_laterals_as_joins(_generators_as_laterals(node)))
        case exp.Table() if isinstance(node.this, exp.Anonymous) and node.this.name.lower() == "range":
            return _range(node)
        case exp.Window():
            return node
        case exp.Filter() | exp.IgnoreNulls() | exp.WithinGroup() | exp.AggFunc() | exp.Anonymous() | exp.Any():
            inside = isinstance(node.parent, exp.Filter | exp.IgnoreNulls | exp.WithinGroup) and node.arg_key == "this"
            windowed = node.find_ancestor(exp.Window, exp.Query, exp.Filter)
            if inside or (isinstance(windowed, exp.Window) and inner_call(windowed) is inner_call(node)):
                return node
            return _aggregate(node)
        case exp.Length() | exp.ArraySize() | exp.Year() | exp.Month() | exp.Day() | exp.DateDiff() if not isinstance(node.parent, exp.Cast):
            return exp.cast(node.copy(), "int")
        case _:
            return node


# -- aggregates ----------------------------------------------------------------------------------------------------------


def inner_call(node: exp.Expr) -> exp.Expr:
    """The function under FILTER, IGNORE NULLS, WITHIN GROUP and OVER."""
    while isinstance(node, exp.Filter | exp.IgnoreNulls | exp.WithinGroup | exp.Window):
        node = node.this
    return node


def _aggregate(node: exp.Expr) -> exp.Expr:
    call = inner_call(node)
    where = node.expression.this if isinstance(node, exp.Filter) else None

    def kept(new: exp.Expr, *conditions: exp.Expr | None) -> exp.Expr:
        wanted = [c.copy() for c in conditions if c is not None]
        return exp.Filter(this=new, expression=exp.Where(this=exp.and_(*wanted))) if wanted else new

    def of(function: str, *arguments: exp.Expr) -> exp.Expr:
        return kept(exp.Anonymous(this=function, expressions=[a.copy() for a in arguments]), where)

    match call:
        case exp.First() | exp.AnyValue() | exp.FirstValue():
            return of("MIN", call.this)
        case exp.Last() | exp.LastValue():
            return of("MAX", call.this)
        case exp.Any():
            return of("BOOL_OR", call.this)
        case exp.Mode():
            ordered = exp.Order(this=call.this.copy(), expressions=[exp.Ordered(this=call.this.copy(), nulls_first=True)])
            return of("MODE", ordered)
        case exp.CountIf():
            return of("COUNT", exp.Case().when(call.this.copy(), exp.Literal.number(1)))
        case exp.Anonymous() if call.name.lower() in RENAMED:
            return of(RENAMED[call.name.lower()], *call.expressions)
        case exp.ArrayAgg() | exp.ArrayUniqueAgg():
            distinct = isinstance(call, exp.ArrayUniqueAgg) or isinstance(call.this, exp.Distinct)
            value = call.this.expressions[0] if isinstance(call.this, exp.Distinct) else call.this
            listed = exp.Anonymous(this="LIST", expressions=[exp.Distinct(expressions=[value.copy()]) if distinct else value.copy()])
            sorted_ = exp.func("LIST_SORT", kept(listed, where, value.copy().is_(exp.null()).not_()), dialect="duckdb")
            return exp.func("COALESCE", sorted_, exp.Array())
        case exp.ApproxQuantile() if not isinstance(call.args["quantile"], exp.Array):
            return of("QUANTILE_DISC", call.this, call.args["quantile"])
        case exp.Quantile() if not isinstance(call.args["quantile"], exp.Array):
            return of("QUANTILE_CONT", call.this, call.args["quantile"])
        case exp.Kurtosis():
            return of("KURTOSIS_POP", call.this)
        case exp.Skewness():
            return _skewness(call.this, of)
        case exp.Corr() | exp.RegrSlope() | exp.RegrIntercept() | exp.RegrR2():
            # Spark gives NULL where DuckDB divides zero by zero.
            return exp.func("NULLIF", node.copy(), exp.cast(exp.Literal.string("NaN"), "double"))
        case _:
            return node


RENAMED = {"every": "BOOL_AND", "some": "BOOL_OR", "std": "STDDEV_SAMP", "mean": "AVG", "try_sum": "SUM", "try_avg": "AVG"}


def _skewness(value: exp.Expr, of: Build) -> exp.Expr:
    """Spark's is the population's; DuckDB corrects for the sample."""
    text = value.sql("duckdb")
    mean, two, three, spread = (
        of(f, sqlglot.parse_one(a, dialect="duckdb")).sql("duckdb")
        for f, a in (("AVG", text), ("AVG", f"POWER({text}, 2)"), ("AVG", f"POWER({text}, 3)"), ("VAR_POP", text))
    )
    return sqlglot.parse_one(f"({three} - 3 * {mean} * {two} + 2 * POWER({mean}, 3)) / POWER(NULLIF({spread}, 0), 1.5)", dialect="duckdb")


# -- relations -----------------------------------------------------------------------------------------------------------


def _generators_as_laterals(select: exp.Select) -> exp.Select:
    """SELECT inline(...) as a lateral view. DuckDB has explode and posexplode of lists in SELECT, under its own names."""
    for item in select.expressions:
        call = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
        function = call.name.lower() if isinstance(call, exp.Anonymous) else type(call).__name__.lower().lstrip("_")
        of_map = function in ("explode", "explodeouter") and isinstance(call.this, exp.Map | exp.VarMap)
        if not of_map and function not in ("inline", "inline_outer", "stack", "json_tuple", "explodeouter", "posexplodeouter"):
            continue
        names = item.expressions if isinstance(item, exp.Aliases) else [item.args["alias"]] if isinstance(item, exp.Alias) else []
        alias = exp.TableAlias(this=exp.to_identifier("_generated"), columns=[n.copy() for n in names])
        select.append("laterals", exp.Lateral(this=call.copy(), view=True, alias=alias))
        item.replace(exp.Column(this=exp.Star(), table=exp.to_identifier("_generated")))
    return select


def _laterals_as_joins(select: exp.Select) -> exp.Select:
    """LATERAL VIEW and LATERAL over a generator function, as joins with UNNEST."""
    for join in select.args.get("joins") or ():
        if isinstance(join.this, exp.Lateral) and not isinstance(join.this.this, exp.Subquery | exp.Query):
            join.replace(_lateral_join(join.this, outer=join.side == "LEFT"))
    for index, lateral in enumerate(select.args.get("laterals") or ()):
        select.append("joins", _lateral_join(lateral, bool(lateral.args.get("outer")), f"_t{index}"))
    select.set("laterals", None)
    return select


def _lateral_join(lateral: exp.Lateral, outer: bool, name: str = "_t") -> exp.Join:
    alias = lateral.args.get("alias") or exp.TableAlias()
    columns = [c.sql("duckdb") for c in alias.args.get("columns") or ()]
    called = alias.this.sql("duckdb") if alias.this else name
    inner, given, outer_call = _generated(lateral.this, columns)
    how = ("LEFT JOIN", " ON TRUE") if outer or outer_call else ("CROSS JOIN", "")
    names = ", ".join(columns or given)
    text = f"SELECT 1 FROM t {how[0]} LATERAL (SELECT {inner}) AS {called}{f'({names})' if names else ''}{how[1]}"
    return sqlglot.parse_one(text, dialect="duckdb").args["joins"][0]


def _generated(call: exp.Expr, columns: list[str]) -> tuple[str, list[str], bool]:
    """(the select list that yields the rows, its names when none are written, whether the function itself is OUTER)."""
    name = (call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower().lstrip("_")
    outer = name.endswith("outer")
    this = (call.expressions[0] if isinstance(call, exp.Anonymous) else call.this).sql("duckdb")
    match name.removesuffix("_outer").removesuffix("outer").strip("_"):
        case "explode" if len(columns) == 2 or isinstance(call.this, exp.Map | exp.VarMap):
            return f"UNNEST(MAP_ENTRIES({this}), max_depth => 2)", ["key", "value"], outer
        case "explode":
            return f"UNNEST({this}) AS {columns[0] if columns else 'col'}", ["col"], outer
        case "posexplode":
            return f"CAST(GENERATE_SUBSCRIPTS({this}, 1) - 1 AS INT) AS pos, UNNEST({this}) AS col", ["pos", "col"], outer
        case "inline":
            return f"UNNEST({this}, max_depth => 2)", [], outer
        case "stack":
            cells = [e.sql("duckdb") for e in call.expressions]
            width = -(-len(cells) // int(this))
            rows = [cells[i : i + width] + ["NULL"] * (width - len(cells[i : i + width])) for i in range(0, len(cells), width)]
            structs = ", ".join("{" + ", ".join(f"'col{i}': {c}" for i, c in enumerate(row)) + "}" for row in rows)
            return f"UNNEST([{structs}], max_depth => 2)", [f"col{i}" for i in range(width)], outer
        case "json_tuple":
            fields = [e.name for e in call.expressions[1:]]
            return ", ".join(f"json_extract_string({this}, '$.{f}')" for f in fields), [f"c{i}" for i in range(len(fields))], outer
        case other:
            raise AssertionError(f"no translation of the generator {other}")


def _range(table: exp.Table) -> exp.Expr:
    arguments = ", ".join(e.sql("duckdb") for e in table.this.expressions)
    alias = table.args.get("alias")
    name = alias.this.sql("duckdb") if alias and alias.this else "range"
    columns = ", ".join(c.sql("duckdb") for c in alias.args.get("columns") or ()) if alias else ""
    return sqlglot.parse_one(f"FROM (SELECT range AS id FROM RANGE({arguments})) AS {name}({columns or 'id'})", dialect="duckdb").args["from_"].this


def _with_rollup(select: exp.Select) -> exp.Select:
    """GROUP BY a, b WITH ROLLUP as GROUP BY ROLLUP (a, b)."""
    group = select.args.get("group")
    for kind in ("rollup", "cube"):
        for found in (group.args.get(kind) or ()) if group else ():
            if not found.expressions:
                found.set("expressions", [e.copy() for e in group.expressions])
                group.set("expressions", [])
    return select
