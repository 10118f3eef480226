"""The aggregate functions that `Aggregate` maintains, in their classes.

*additive*: the result is finished from partial sums, and the partial sums of a change can be added to stored ones.
*touched groups*: the result is computed again for the groups that a change touches.

A partial is an expression summed over rows; it is never NULL, so partials can be added without care.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import col

Finish = Callable[..., exp.Expr]


@dataclass(frozen=True)
class Partial:
    """One sum kept per group: `suffix` names its column, `summand(weight)` is what is summed over rows."""

    suffix: str
    type: str
    summand: Callable[[exp.Expr], exp.Expr]


@dataclass(frozen=True)
class Rule:
    """How one call is kept: its partial sums and the expression that finishes them, or neither when it is not additive."""

    partials: tuple[Partial, ...]
    finish: Finish | None


def rule(function: str, argument: str | None, type_: str, result: str) -> Rule:
    """The way to keep `function(argument)`, by the argument's type."""
    match function:
        case "count":
            return Rule((_rows() if argument is None else _present(argument),), lambda n: n)
        case "sum" | "avg" if argument is not None:
            return _sum_or_avg(function, argument, type_, result)
        case _:
            return Rule((), None)


FUNCTIONS: dict[str, str] = {
    "count": "additive",
    "sum": "additive (integers, floats by exact limbs, decimals up to 27 digits or up to 6 after the point)",
    "avg": "additive (integers, floats by exact limbs, decimals up to 27 digits or up to 6 after the point)",
    "min": "touched groups",
    "max": "touched groups",
}
"""Every function that DIFFERENTIAL accepts, with its class."""


def _rows() -> Partial:
    return Partial("rows", "bigint", lambda w: w)


def _present(argument: str) -> Partial:
    return Partial("present", "bigint", lambda w: _if(_is_null(argument), _int(0), w))


def _sum_or_avg(function: str, argument: str, type_: str, result: str) -> Rule:
    if type_ in ("tinyint", "smallint", "int", "bigint"):
        state = "decimal(38,0)" if (function, type_) == ("avg", "bigint") else "bigint"
        total = Partial(
            "sum" if state == "bigint" else "wide_sum",
            state,
            lambda w: _or_zero(argument, _times(exp.cast(col(argument), _widened(type_, state)), w, state)),
        )
        quotient = lambda s, n: exp.Div(this=exp.cast(s, "double"), expression=exp.cast(n, "double"), typed=False, safe=False)  # noqa: E731
        return Rule((total, _present(argument)), _guarded(result, quotient if function == "avg" else lambda s, n: s))
    if type_ in ("float", "double"):
        return _float(function, argument, result)
    if (decimal := _decimal(type_)) and _exact(function, *decimal):
        precision, scale = decimal
        state = f"decimal({min(38, precision + 10)},{scale})"
        total = Partial("sum", state, lambda w: _or_zero(argument, _times(col(argument), w, state)))
        return Rule((total, _present(argument)), _guarded(result, _decimal_average(scale) if function == "avg" else lambda s, n: s))
    return Rule((), None)


def _exact(function: str, precision: int, scale: int) -> bool:
    """Whether partial sums of a decimal can be added, weighted and divided without rounding twice.

    Spark gives a sum ten digits more than its argument, and `+` and `*` cut the scale of results beyond 38 digits, though
    never below six. A quotient keeps 38 digits less those before the point, and must be far finer than AVG's result.
    """
    if function == "avg" and scale < 2:
        return precision <= 15
    return precision <= 27 or scale <= 6


def _guarded(result: str, value: Finish) -> Finish:
    """NULL for a group without values, else the value in the type that Spark gives the call."""
    return lambda *p: _if(exp.EQ(this=p[-1].copy(), expression=_int(0)), exp.null(), exp.cast(value(*p), result))


def _decimal_average(scale: int) -> Finish:
    """Divide at once to the scale that Spark's AVG rounds to, so that nothing is rounded twice."""
    if scale >= 2:
        return lambda s, n: exp.Div(this=exp.cast(s, f"decimal(38,{scale + 4})"), expression=exp.cast(n, "decimal(20,0)"), typed=False, safe=False)
    return lambda s, n: exp.Div(this=s, expression=exp.cast(n, "decimal(20,0)"), typed=False, safe=False)


# Floats. A double below 2^53 is cut into three integers, in units of 2^22, 2^-8 and 2^-38, whose sums are exact in any
# order, and a remainder too small to matter. NaN and infinities are counted, since they cannot be subtracted again.
LIMBS = (22, -8, -38)
_LIMIT = float(2**53)


def _float(function: str, argument: str, result: str) -> Rule:
    def value() -> exp.Expr:
        return exp.cast(col(argument), "double")

    def ordinary() -> exp.Expr:
        return exp.LT(this=exp.Abs(this=value()), expression=_double(_LIMIT))

    def special(number: str) -> exp.Expr:
        return exp.EQ(this=value(), expression=exp.cast(exp.Literal.string(number), "double"))

    def finite() -> exp.Expr:
        return exp.and_(*(exp.not_(special(n)) for n in ("NaN", "Infinity", "-Infinity")))

    def rest(below: int) -> exp.Expr:
        remainder = value()
        for bits in LIMBS[:below]:
            remainder = exp.Sub(
                this=exp.paren(remainder), expression=exp.Mul(this=exp.cast(_limb(remainder, bits), "double"), expression=_double(2.0**bits))
            )
        return remainder

    def limb(index: int) -> Callable[[exp.Expr], exp.Expr]:
        return lambda w: _if(ordinary(), exp.Mul(this=_limb(rest(index), LIMBS[index]), expression=w), _int(0))

    def remainder(w: exp.Expr) -> exp.Expr:
        small = exp.Mul(this=exp.paren(rest(len(LIMBS))), expression=exp.cast(w.copy(), "double"))
        large = exp.Mul(this=value(), expression=exp.cast(w.copy(), "double"))
        return _if(ordinary(), small, _if(finite(), large, _double(0.0)))

    def count(number: str) -> Partial:
        suffix = {"NaN": "nan", "Infinity": "inf", "-Infinity": "neginf"}[number]
        return Partial(suffix, "bigint", lambda w: _if(special(number), w, _int(0)))

    def finish(*p: exp.Expr) -> exp.Expr:
        *limbs, small, nan, inf, neginf, present = p
        total: exp.Expr = small
        for bits, part in zip(reversed(LIMBS), reversed(limbs), strict=True):
            total = exp.Add(this=exp.Mul(this=exp.cast(part, "double"), expression=_double(2.0**bits)), expression=total)
        total = exp.paren(total)
        if function == "avg":
            total = exp.Div(this=total, expression=exp.cast(present.copy(), "double"), typed=False, safe=False)
        case = exp.Case()
        both = exp.and_(_positive(inf), _positive(neginf))
        for condition, outcome in ((exp.or_(_positive(nan), both), "NaN"), (_positive(inf), "Infinity"), (_positive(neginf), "-Infinity")):
            case = case.when(condition, exp.cast(exp.Literal.string(outcome), "double"))
        return case.else_(total)

    limbs = tuple(Partial(f"limb{i}", "bigint", limb(i)) for i in range(len(LIMBS)))
    counts = tuple(count(n) for n in ("NaN", "Infinity", "-Infinity"))
    return Rule((*limbs, Partial("rest", "double", remainder), *counts, _present(argument)), _guarded(result, finish))


def _limb(value: exp.Expr, bits: int) -> exp.Expr:
    """Whole units of 2^bits in a value. Whether the cast truncates or rounds, the rest it leaves is exact."""
    return exp.cast(exp.Mul(this=exp.paren(value.copy()), expression=_double(2.0**-bits)), "bigint")


def _widened(type_: str, state: str) -> str:
    return state if state == "bigint" else "decimal(19,0)"


def _times(value: exp.Expr, weight: exp.Expr, state: str) -> exp.Expr:
    factor = weight if state == "bigint" else exp.cast(weight, "decimal(10,0)")
    return exp.cast(exp.Mul(this=value, expression=factor), state)


def _decimal(type_: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", type_)
    return (int(found[1]), int(found[2])) if found else None


def _or_zero(argument: str, value: exp.Expr) -> exp.Expr:
    return _if(_is_null(argument), _int(0), value)


def _is_null(argument: str) -> exp.Expr:
    return exp.Is(this=col(argument), expression=exp.null())


def _positive(value: exp.Expr) -> exp.Expr:
    return exp.GT(this=value.copy(), expression=_int(0))


def _if(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    return exp.Case().when(condition, then).else_(otherwise)


def _int(value: int) -> exp.Expr:
    return exp.Literal.number(value)


def _double(value: float) -> exp.Expr:
    return exp.cast(exp.Literal.number(repr(value)), "double")
