"""Which aggregate function a call is: its name, arguments and FILTER, however the parser spells it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.functions.classes import CLASSES

Wrapper = exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls
"""What stands around a call and belongs to it."""


@dataclass(frozen=True)
class Reading:
    """A call taken apart. `plain` means that its arguments are columns and nothing but a FILTER is around it."""

    name: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool
    filter: exp.Expr | None
    plain: bool

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the arguments, when all are columns."""
        return tuple(a.name for a in self.arguments) if all(isinstance(a, exp.Column) for a in self.arguments) else None


def read(call: exp.Expr) -> Reading:
    """
    >>> import sqlglot
    >>> reading = read(sqlglot.parse_one("CORR(`y`, `x`) FILTER (WHERE `f`)", dialect="spark"))
    >>> reading.name, reading.columns, reading.filter.name
    ('corr', ('y', 'x'), 'f')
    """
    condition, inner = None, call
    if isinstance(inner, exp.Filter):
        condition, inner = inner.expression.this, inner.this
    wrapped = isinstance(inner, Wrapper)
    inner = function_of(inner)
    arguments = _arguments(inner)
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    plain = not wrapped and (condition is None or isinstance(condition, exp.Column))
    return Reading(function_name(inner), arguments, distinct, condition, plain)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate function, or what belongs to one: FILTER, WITHIN GROUP, IGNORE NULLS.

    Under OVER the same function is a window function. GROUPING and GROUPING_ID describe the grouping and aggregate nothing.

    >>> import sqlglot
    >>> parse = lambda text: sqlglot.parse_one(f"SELECT {text} FROM t", dialect="spark").selects[0]
    >>> [is_aggregate(parse(t)) for t in ("EVERY(x)", "SUM(x) FILTER (WHERE y)", "SUM(x) OVER ()", "UPPER(x)")]
    [True, True, False, False]
    >>> [is_aggregate(n) for n in parse("SUM(SUM(x)) OVER ()").find_all(exp.Sum)]
    [False, True]
    """
    inner = function_of(node)
    if isinstance(inner, exp.Any):
        known = not isinstance(inner.parent, exp.Binary) or inner.arg_key != "expression"
    elif isinstance(inner, exp.AnonymousAggFunc):
        known = True  # an aggregate that users registered
    elif isinstance(inner, exp.Func):
        name = function_name(inner)
        known = name in CLASSES and name not in ("grouping", "grouping_id")
    else:
        known = False
    return known and not _under_over(node)


def function_of(node: exp.Expr) -> exp.Expr:
    """The function inside what belongs to its call."""
    while isinstance(node, Wrapper) and isinstance(node.this, exp.Expr):
        node = node.this
    return node


def _under_over(node: exp.Expr) -> bool:
    while isinstance(node.parent, Wrapper) and node.arg_key == "this":
        node = node.parent
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"


def function_name(node: exp.Expr) -> str:
    """The name of a function as Spark has it, in lower case; of two names for one function, the usual one.

    >>> import sqlglot
    >>> [function_name(sqlglot.parse_one(t, dialect="spark")) for t in ("MEAN(x)", "std(x)", "COLLECT_LIST(x)", "MAX_BY(x, y)")]
    ['avg', 'stddev', 'collect_list', 'max_by']
    """
    if isinstance(node, exp.Anonymous):
        name = node.name.lower()
    else:
        name = _NAMES.get(type(node)) or (node.sql_name().lower() if isinstance(node, exp.Func) else type(node).__name__.lower())
    return _SAME.get(name, name)


# Where sqlglot's own name for a function is not Spark's.
_NAMES: dict[type[exp.Expr], str] = {
    exp.Any: "bool_or",
    exp.ApproxDistinct: "approx_count_distinct",
    exp.ApproxQuantile: "percentile_approx",
    exp.ArgMax: "max_by",
    exp.ArgMin: "min_by",
    exp.ArrayAgg: "collect_list",
    exp.ArrayUniqueAgg: "collect_set",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.GroupConcat: "listagg",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Quantile: "percentile",
    exp.Variance: "variance",
    exp.VariancePop: "var_pop",
}

_SAME = {
    "any": "bool_or",
    "approx_percentile": "percentile_approx",
    "array_agg": "collect_list",
    "every": "bool_and",
    "mean": "avg",
    "some": "bool_or",
    "std": "stddev",
    "stddev_samp": "stddev",
    "string_agg": "listagg",
    "var_samp": "variance",
}


def _arguments(call: exp.Expr) -> tuple[exp.Expr, ...]:
    if isinstance(call, exp.Anonymous):
        return tuple(call.expressions)
    if isinstance(call, exp.Any):
        return (call.this.unnest(),)
    first = [call.this] if isinstance(call.this, exp.Expr) else []
    second = [call.expression] if isinstance(call.args.get("expression"), exp.Expr) else []
    return (*first, *second, *call.expressions)
