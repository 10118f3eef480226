"""SUM and AVG of floats: a double below 2^53 is cut into three integers, in units of 2^22, 2^-8 and 2^-38, whose sums are
exact in any order, and a remainder too small to matter. NaN and infinities are counted, since they cannot be subtracted
again.
"""

from __future__ import annotations

from sqlglot import exp

from runnel.algebra.functions.partial import Partial, Rule, Summand, additive, counted, divide, double, integer, positive, present, when, zero
from runnel.algebra.node import col

LIMBS = (22, -8, -38)
_LIMIT = float(2**53)
_SPECIAL = {"NaN": "nan", "Infinity": "inf", "-Infinity": "neginf"}


def floats(function: str, argument: str, result: str) -> Rule:
    """The rule of `sum` or `avg` over a float or double."""
    limbs = tuple(Partial(f"{argument}__limb{i}", "bigint", _limb_of(argument, i)) for i in range(len(LIMBS)))
    rest = Partial(f"{argument}__rest", "double", lambda w: _rest_of(argument, w))
    counts = tuple(counted(f"{argument}__{suffix}", _is(argument, number)) for number, suffix in _SPECIAL.items())

    def finish(*p: exp.Expr) -> exp.Expr:
        total = _total(*p)
        present_ = p[-1]
        if function == "avg":
            total = divide(total, exp.cast(present_.copy(), "double"))
        return when(zero(present_), exp.null(), exp.cast(_specials(total, *p[-4:-1]), result))

    return additive((*limbs, rest, *counts, present(argument)), finish, stable=False)


def _total(*p: exp.Expr) -> exp.Expr:
    limbs, small = p[: len(LIMBS)], p[len(LIMBS)]
    total: exp.Expr = small
    for bits, part in zip(reversed(LIMBS), reversed(limbs), strict=True):
        total = exp.Add(this=exp.Mul(this=exp.cast(part, "double"), expression=double(2.0**bits)), expression=total)
    return exp.paren(total)


def _specials(total: exp.Expr, nan: exp.Expr, inf: exp.Expr, neginf: exp.Expr) -> exp.Expr:
    case = exp.Case()
    both = exp.and_(positive(inf), positive(neginf))
    for condition, outcome in ((exp.or_(positive(nan), both), "NaN"), (positive(inf), "Infinity"), (positive(neginf), "-Infinity")):
        case = case.when(condition, exp.cast(exp.Literal.string(outcome), "double"))
    return case.else_(total)


def _value(argument: str) -> exp.Expr:
    return exp.cast(col(argument), "double")


def _ordinary(argument: str) -> exp.Expr:
    return exp.LT(this=exp.Abs(this=_value(argument)), expression=double(_LIMIT))


def _is(argument: str, number: str) -> exp.Expr:
    return exp.EQ(this=_value(argument), expression=exp.cast(exp.Literal.string(number), "double"))


def _limb_of(argument: str, index: int) -> Summand:
    return lambda w: when(_ordinary(argument), exp.Mul(this=_limb(_below(argument, index), LIMBS[index]), expression=w), integer(0))


def _rest_of(argument: str, weight: exp.Expr) -> exp.Expr:
    small = exp.Mul(this=exp.paren(_below(argument, len(LIMBS))), expression=exp.cast(weight.copy(), "double"))
    large = exp.Mul(this=_value(argument), expression=exp.cast(weight.copy(), "double"))
    finite = exp.and_(*(exp.not_(_is(argument, n)) for n in _SPECIAL))
    return when(_ordinary(argument), small, when(finite, large, double(0.0)))


def _below(argument: str, count: int) -> exp.Expr:
    """What is left of a value below its first limbs."""
    remainder = _value(argument)
    for bits in LIMBS[:count]:
        whole = exp.Mul(this=exp.cast(_limb(remainder, bits), "double"), expression=double(2.0**bits))
        remainder = exp.Sub(this=exp.paren(remainder), expression=whole)
    return remainder


def _limb(value: exp.Expr, bits: int) -> exp.Expr:
    """Whole units of 2^bits in a value. Whether the cast truncates or rounds, the rest it leaves is exact."""
    return exp.cast(exp.Mul(this=exp.paren(value.copy()), expression=double(2.0**-bits)), "bigint")
