"""COUNT, SUM and AVG: a sum and the number of values present. NULLs add nothing; a group without values sums to NULL."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from runnel.algebra.functions.floats import floats
from runnel.algebra.functions.folds import fold
from runnel.algebra.functions.partial import (
    Finish,
    Partial,
    Rule,
    additive,
    decimal_of,
    divide,
    folded,
    present,
    recomputed,
    times,
    unless_missing,
    when,
    zero,
)
from runnel.algebra.functions.reading import Reading
from runnel.algebra.node import col

INTEGERS = ("tinyint", "smallint", "int", "bigint")


def rule(call: Reading, types: Mapping[str, str], result: str) -> Rule | None:
    match call.name:
        case "count":
            return _count(call)
        case "sum" | "avg":
            columns = call.columns
            if columns is None or len(columns) != 1:
                return recomputed()
            if types[columns[0]] == "string":  # read as doubles
                return folded(fold(call, result))
            return sum_or_avg(call.name, columns[0], types[columns[0]], result)
        case "try_sum" | "try_avg":
            # They give NULL where SUM raises an error, and whether a sum overflows on its way depends on the rows between.
            rounding = any(types.get(c) in ("float", "double", "string") for c in call.columns or ())
            return folded(fold(call, result)) if rounding else recomputed()
        case _:
            return None


def _count(call: Reading) -> Rule:
    """COUNT(*), COUNT(1), COUNT(a) or COUNT(a, b): the rows, or those in which no argument is NULL."""
    if call.columns:
        return additive((present(*call.columns),), lambda n: n)
    if all(isinstance(a, exp.Star | exp.Literal | exp.Boolean) for a in call.arguments):
        return additive((Partial("all__rows", "bigint", lambda w: w),), lambda n: n)
    return recomputed()


def sum_or_avg(function: str, argument: str, type_: str, result: str) -> Rule:
    if type_ in INTEGERS:
        return _of_integers(function, argument, type_, result)
    if type_ in ("float", "double"):
        return floats(function, argument, result)
    if (decimal := decimal_of(type_)) and _exact(function, *decimal):
        precision, scale = decimal
        state = f"decimal({min(38, precision + 10)},{scale})"
        total = Partial(f"{argument}__sum", state, lambda w: unless_missing([argument], times(col(argument), w, state)))
        return additive((total, present(argument)), guarded(result, _decimal_average(scale) if function == "avg" else lambda s, n: s))
    return recomputed()


def _of_integers(function: str, argument: str, type_: str, result: str) -> Rule:
    """The average of BIGINTs needs a wider sum, since theirs may overflow where Spark's own AVG does not."""
    wide = (function, type_) == ("avg", "bigint")
    state, inner = ("decimal(38,0)", "decimal(19,0)") if wide else ("bigint", "bigint")
    total = Partial(
        f"{argument}__wide_sum" if wide else f"{argument}__sum",
        state,
        lambda w: unless_missing([argument], times(exp.cast(col(argument), inner), w, state)),
    )
    quotient: Finish = lambda s, n: divide(exp.cast(s, "double"), exp.cast(n, "double"))  # noqa: E731
    # Spark adds the values of an average up as doubles, which is exact only below 2^53.
    return additive((total, present(argument)), guarded(result, quotient if function == "avg" else lambda s, n: s), stable=function != "avg")


def _exact(function: str, precision: int, scale: int) -> bool:
    """Whether partial sums of a decimal can be added, weighted and divided without rounding twice.

    Spark gives a sum ten digits more than its argument, and `+` and `*` cut the scale of results beyond 38 digits, though
    never below six. A quotient keeps 38 digits less those before the point, and must be far finer than AVG's result.
    """
    if function == "avg" and scale < 2:
        return precision <= 15
    return precision <= 27 or scale <= 6


def guarded(result: str, value: Finish) -> Finish:
    """NULL for a group without values, else the value in the type that Spark gives the call."""
    return lambda *p: when(zero(p[-1]), exp.null(), exp.cast(value(*p), result))


def _decimal_average(scale: int) -> Finish:
    """Divide at once to the scale that Spark's AVG rounds to, so that nothing is rounded twice."""
    if scale >= 2:
        return lambda s, n: divide(exp.cast(s, f"decimal(38,{scale + 4})"), exp.cast(n, "decimal(20,0)"))
    return lambda s, n: divide(s, exp.cast(n, "decimal(20,0)"))
