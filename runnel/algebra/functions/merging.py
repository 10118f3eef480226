"""Calls whose result over old and new rows follows from both results: f(old + new) = merge(f(old), f(new)).

Rows only come in; none can be taken out of a result again. Sums of rounding types and averages are not here: the first
would depend on the order of refreshes, the second forget how many values they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from runnel.algebra.functions.partial import decimal_of
from runnel.algebra.functions.reading import Reading
from runnel.algebra.node import col

Merge = Callable[[str], exp.Expr]
"""The call that merges the results in a column."""

IDEMPOTENT: dict[str, str] = {
    "min": "min",
    "max": "max",
    "bit_and": "bit_and",
    "bit_or": "bit_or",
    "bitmap_and_agg": "bitmap_and_agg",
    "bitmap_construct_agg": "bitmap_or_agg",
    "bitmap_or_agg": "bitmap_or_agg",
    "bool_and": "bool_and",
    "bool_or": "bool_or",
    "hll_sketch_agg": "hll_union_agg",
    "hll_union_agg": "hll_union_agg",
}
"""A row twice is a row once, so the weights of a change do not matter; by function, the one that merges its results."""

COUNTS = frozenset({"count", "count_if", "regr_count"})
WHOLE = frozenset({"tinyint", "smallint", "int", "bigint"})


def merge(call: Reading, types: Mapping[str, str], result: str) -> Merge | None:
    """How results of a call are merged, if they can be.

    >>> import sqlglot
    >>> from runnel.algebra.functions.reading import read
    >>> of = lambda text: merge(read(sqlglot.parse_one(text, dialect="spark")), {"x": "int", "d": "double"}, "bigint")
    >>> of("COUNT(`x`)")("n").sql("spark"), of("MAX(`d`)")("m").sql("spark"), of("SUM(`d`)"), of("AVG(`x`)")
    ('CAST(SUM(`n`) AS BIGINT)', 'MAX(`m`)', None, None)
    """
    if call.distinct:
        return None
    if (function := IDEMPOTENT.get(call.name)) is not None:
        further = call.arguments[1:] if function == call.name else ()
        return lambda column: exp.func(function, col(column), *further, dialect="spark")
    if call.name in COUNTS or (call.name == "sum" and _exact(call, types)):
        return lambda column: exp.cast(exp.Sum(this=col(column)), result)
    return None


def _exact(call: Reading, types: Mapping[str, str]) -> bool:
    """Whether sums can be added without rounding, and without running over before the sum of all rows does."""
    type_ = types.get(call.arguments[0].name, "") if call.columns else ""
    decimal = decimal_of(type_)
    return type_ in WHOLE or (decimal is not None and decimal[0] + 10 <= 38)
