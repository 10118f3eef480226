"""Aggregate calls whose result depends on the order of rows, replaced by ones that depend on the rows alone.

Each replacement is *a* correct result of the original, and the same one for the same bag of rows:

| call | becomes | because |
|---|---|---|
| FIRST, FIRST_VALUE, ANY_VALUE (x), with or without IGNORE NULLS | MIN(x) | any row may come first; NULL only when all are NULL |
| LAST, LAST_VALUE (x) | MAX(x) | any row may come last |
| COLLECT_LIST, ARRAY_AGG, COLLECT_SET (x) | SORT_ARRAY(the call) | their elements have no order |
| LISTAGG, STRING_AGG (x, s) | ... WITHIN GROUP (ORDER BY x) | the same |
| LISTAGG, STRING_AGG (DISTINCT x, s) | ... (DISTINCT CAST(x AS STRING), s) WITHIN GROUP (ORDER BY CAST(x AS STRING)) | Spark orders nothing else |
| LISTAGG (x, s) WITHIN GROUP (ORDER BY y) | ... ORDER BY y, x | rows of equal y have no order |
| MODE(x) | MODE(x, TRUE) | of the most frequent values the least |
| PERCENTILE_APPROX(x, p, accuracy) | the highest accuracy | exact below 10^9 rows per group, and within every accuracy |
| MIN_BY, MAX_BY (x, y) | the x of MIN, MAX (IF(y IS NULL, NULL, STRUCT(y, x))) | of rows with equal y the one with the least or greatest x |

Two calls of FIRST in one SELECT may now come from different rows, as Spark permits. Functions under OVER have an order of
their own and stay. FILTER stays on the call.

Maps and variants cannot be ordered. A call over what is plainly one stays as it is; when only Spark knows the type, it
refuses the rewritten call with DATATYPE_MISMATCH.INVALID_ORDERING_TYPE. Strings that a collation takes for equal remain
interchangeable.
"""

from __future__ import annotations

from sqlglot import exp

from runnel.algebra.functions import is_aggregate

HIGHEST_ACCURACY = 2147483647

_RANDOM = "its sketch is built at random"
_HISTORY = "its sketch depends on the order in which rows arrive"

UNDETERMINED: dict[str, str] = {
    "approx_top_k": "values of equal frequency, and which of many values are counted at all, depend on the order of rows",
    "approx_top_k_accumulate": _HISTORY,
    "approx_top_k_combine": _HISTORY,
    "histogram_numeric": "its bins depend on the order in which rows arrive",
    "hll_sketch_agg": _HISTORY,
    "hll_union_agg": _HISTORY,
    "kll_merge_agg_bigint": _RANDOM,
    "kll_merge_agg_double": _RANDOM,
    "kll_merge_agg_float": _RANDOM,
    "kll_sketch_agg_bigint": _RANDOM,
    "kll_sketch_agg_double": _RANDOM,
    "kll_sketch_agg_float": _RANDOM,
}
"""Aggregates with no determined form, each with the reason; `differentiate` keeps them at the root of a query. COUNT_MIN_SKETCH, APPROX_COUNT_DISTINCT and the bitmap and
theta functions are not among them: the same rows give them the same bytes in any order."""


def determine_calls(tree: exp.Query) -> exp.Query:
    """The query with every such call replaced.

    >>> import sqlglot
    >>> text = "SELECT FIRST(x) IGNORE NULLS, COLLECT_LIST(x) FILTER (WHERE f), MODE(x), FIRST(x) OVER (ORDER BY y) FROM t"
    >>> print(determine_calls(sqlglot.parse_one(text, dialect="spark")).sql("spark"))
    SELECT MIN(x), SORT_ARRAY(COLLECT_LIST(x) FILTER(WHERE f)), MODE(x, TRUE), FIRST(x) OVER (ORDER BY y) FROM t
    """
    root = tree.copy()
    for call in reversed(list(root.find_all(exp.AggFunc))):
        if is_aggregate(call):
            _determine(call)
    return root


def _determine(call: exp.AggFunc) -> None:
    match call:
        case exp.First() | exp.FirstValue() | exp.AnyValue() if _ordered(call.this):
            _replace(call, exp.Min(this=call.this.copy()))
        case exp.Last() | exp.LastValue() if _ordered(call.this):
            _replace(call, exp.Max(this=call.this.copy()))
        case exp.ArrayAgg() | exp.ArrayUniqueAgg() if _ordered(call.this):
            whole = _whole(call)
            if not isinstance(whole.parent, exp.ArraySort) or whole.parent.args.get("expression"):
                whole.replace(exp.ArraySort(this=whole.copy(), nulls_first=exp.true()))
        case exp.GroupConcat():
            _order_by_value(call)
        case exp.Mode() if call.args.get("this") is not None:
            call.set("deterministic", exp.true())
        case exp.ApproxQuantile():
            call.set("accuracy", exp.Literal.number(HIGHEST_ACCURACY))
        case exp.ArgMin() | exp.ArgMax() if _ordered(call.this):
            _rank(call, exp.Min if isinstance(call, exp.ArgMin) else exp.Max)


def _whole(call: exp.Expr) -> exp.Expr:
    """The call with its FILTER, WITHIN GROUP or IGNORE NULLS."""
    while isinstance(call.parent, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls) and call.arg_key == "this":
        call = call.parent
    return call


def _replace(call: exp.Expr, new: exp.Expr) -> exp.Expr:
    """Put a new function in the place of a call, under its FILTER and without IGNORE NULLS; what stands there now."""
    whole = _whole(call)
    condition = whole.expression if isinstance(whole, exp.Filter) else None
    return whole.replace(exp.Filter(this=new, expression=condition.copy()) if condition is not None else new)


def _order_by_value(call: exp.GroupConcat) -> None:
    order = call.this if isinstance(call.this, exp.Order) else None
    inner = (order.this if order is not None else call.this).copy()
    keys = [k.copy() for k in order.expressions] if order is not None else []
    if isinstance(inner, exp.Distinct):
        # DISTINCT allows no key but the value itself, and only as a string: a key that is there already decides everything.
        if keys:
            return
        value = exp.cast(inner.expressions[0], "string", dialect="spark")
        inner = exp.Distinct(expressions=[value])
    else:
        value = inner
    if not any(k.this == value for k in keys):
        keys.append(exp.Ordered(this=value.copy(), nulls_first=True))
    call.set("this", exp.Order(this=inner, expressions=keys))


def _rank(call: exp.AggFunc, best: type[exp.AggFunc]) -> None:
    if call.this == call.expression:
        _replace(call, best(this=call.this.copy()))
        return
    whole = _replace(call, best(this=_ranked(call.expression, call.this)))
    whole.replace(exp.Dot(this=exp.paren(whole.copy(), copy=False), expression=exp.to_identifier("value")))


def _ranked(rank: exp.Expr, value: exp.Expr) -> exp.Expr:
    """(rank, value) as one value to order by; rows whose rank is NULL stay out of the race, as in Spark."""
    pair = exp.Struct(expressions=[exp.PropertyEQ(this=exp.to_identifier(n), expression=e.copy()) for n, e in (("ranked", rank), ("value", value))])
    return exp.func("IF", exp.Is(this=exp.paren(rank.copy(), copy=False), expression=exp.null()), exp.null(), pair, dialect="spark")


_UNORDERED = (exp.Map, exp.VarMap, exp.MapFromEntries, exp.StrToMap, exp.ParseJSON)


def _ordered(value: exp.Expr) -> bool:
    """Whether values can be ordered, as far as the expression or a type on it shows."""
    if isinstance(value, exp.Distinct):
        return all(_ordered(e) for e in value.expressions)
    type_ = value.type or (value.to if isinstance(value, exp.Cast) else None)
    unordered = isinstance(type_, exp.DataType) and any(t.this in (exp.DType.MAP, exp.DType.VARIANT) for t in type_.find_all(exp.DataType))
    return not unordered and not isinstance(value, _UNORDERED)
