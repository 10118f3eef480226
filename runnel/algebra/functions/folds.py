"""Sums and statistics of floats over the sorted values of a group: the same rows give the same bits in any order.

SUM, AVG of DISTINCT values   Σx over x₁ ≤ x₂ ≤ ...
moments                       mean = x₁ + Σ(x − x₁) / n, then Σ(x − mean)ⁱ(y − mean)ʲ

Adding doubles rounds, and which digits are lost follows the order. Sorting decides the order. Two passes, of which the
first starts from the least value, keep the digits that matter when the spread is small beside the mean, and give a
spread of exactly zero when all values are equal. A row with a NULL argument stays out. NaN and infinities take their
course through the sums, as they do in Spark.

The values of a group are held in memory while it is computed. At the root of a query Spark's own function is used
instead, since there the rows to take back are read from what is stored.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from runnel.algebra.functions.partial import Fold, divide, double, integer, when, zero
from runnel.algebra.functions.reading import Reading

SUMS = ("sum", "avg", "try_sum", "try_avg")
OF_ONE = ("stddev", "stddev_pop", "variance", "var_pop", "skewness", "kurtosis")
OF_TWO = "covar_pop covar_samp corr regr_sxx regr_syy regr_sxy regr_slope regr_intercept regr_r2".split()


def fold(call: Reading, result: str) -> Fold | None:
    """The fold of a call, or None for a function that has none; `result` is the call's own type.

    >>> from sqlglot import parse_one
    >>> from runnel.algebra.functions.reading import read
    >>> fold(read(parse_one("SUM(DISTINCT `d`)", dialect="spark")), "double").collected.sql("spark")
    'COLLECT_LIST(DISTINCT CAST(`d` AS DOUBLE))'
    """
    arguments = call.arguments[0].expressions if call.distinct else call.arguments
    two = call.name in OF_TWO
    if call.name not in (*SUMS, *OF_ONE, *OF_TWO) or len(arguments) != 1 + two:
        return None
    values = [exp.cast(a.copy(), "double") for a in arguments]
    value = when(exp.or_(*(_is_null(a) for a in arguments)), exp.null(), _struct(y=values[0], x=values[1])) if two else values[0]
    collected = exp.ArrayAgg(this=exp.Distinct(expressions=[value]) if call.distinct else value, nulls_excluded=True)
    finish = _total(call.name) if call.name in SUMS else _statistic(call.name, two)

    def over(listed: exp.Expr) -> exp.Expr:
        return exp.cast(_let("listed", exp.ArraySort(this=listed, nulls_first=exp.true()), finish), result)

    return Fold(collected, over, _correlation(call) if call.name == "corr" else None)


def _correlation(call: Reading) -> Callable[[Callable[[exp.Expr], exp.Expr]], exp.Expr]:
    """CORR from sums of squares: in ANSI mode Spark's own raises a division by zero for a group without spread."""

    def own(filtered: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
        def total(name: str) -> exp.Expr:
            return filtered(exp.Anonymous(this=name, expressions=[a.copy() for a in call.arguments]))

        return _regression("corr", total("regr_sxx"), total("regr_syy"), total("regr_sxy"), exp.null())

    return own


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=exp.paren(value.copy()), expression=exp.null())


# -- results -------------------------------------------------------------------------------------------------------------


def _total(name: str) -> Callable[[exp.Expr], exp.Expr]:
    def finish(rows: exp.Expr) -> exp.Expr:
        total = _sum(rows.copy())
        value = divide(total, _count(rows)) if name.endswith("avg") else total
        return when(zero(_size(rows)), exp.null(), value)

    return finish


def _statistic(name: str, two: bool) -> Callable[[exp.Expr], exp.Expr]:
    def mean(rows: exp.Expr, part: str) -> exp.Expr:
        first = _part(exp.Bracket(this=rows.copy(), expressions=[integer(0)]), part if two else "")
        shifted = _sum_of(rows, lambda v: exp.Sub(this=_part(v, part if two else ""), expression=first.copy()))
        return exp.Add(this=first.copy(), expression=divide(shifted, _count(rows)))

    def finish(rows: exp.Expr) -> exp.Expr:
        means = _struct(y=mean(rows, "y"), x=mean(rows, "x")) if two else _struct(x=mean(rows, "x"))
        needed = 2 if name in ("stddev", "variance", "covar_samp") else 1
        enough = exp.GTE(this=_size(rows), expression=integer(needed))
        return when(enough, _let("means", means, lambda m: _of_two(name, rows, m) if two else _of_one(name, rows, m)))

    return finish


def _of_one(name: str, rows: exp.Expr, means: exp.Expr) -> exp.Expr:
    n = _count(rows)

    def power(exponent: int) -> exp.Expr:
        return _sum_of(rows, lambda v: _product(*(_from_mean(v, "", means, "x") for _ in range(exponent))))

    match name:
        case "stddev" | "stddev_pop" | "variance" | "var_pop":
            spread = divide(power(2), _less_one(n) if name in ("stddev", "variance") else n)
            return exp.Sqrt(this=spread) if name.startswith("stddev") else spread
        case "skewness":
            cubes = _product(exp.Sqrt(this=n), power(3))
            return _let("spread", power(2), lambda s: _unless_zero(s, divide(cubes, exp.paren(_product(s.copy(), exp.Sqrt(this=s.copy()))))))
        case _:
            fourth = _product(n, power(4))
            return _let(
                "spread",
                power(2),
                lambda s: _unless_zero(s, exp.Sub(this=divide(fourth, exp.paren(_product(s.copy(), s.copy()))), expression=double(3.0))),
            )


def _of_two(name: str, rows: exp.Expr, means: exp.Expr) -> exp.Expr:
    n = _count(rows)

    def comoment(left: str, right: str) -> exp.Expr:
        return _sum_of(rows, lambda v: _product(_from_mean(v, left, means, left), _from_mean(v, right, means, right)))

    if name in ("covar_pop", "covar_samp"):
        return divide(comoment("x", "y"), _less_one(n) if name == "covar_samp" else n)
    if name.startswith("regr_s") and name != "regr_slope":
        return comoment(name[-2], name[-1])
    sums = _struct(xx=comoment("x", "x"), yy=comoment("y", "y"), xy=comoment("x", "y"))
    return _let("sums", sums, lambda s: _regression(name, _part(s, "xx"), _part(s, "yy"), _part(s, "xy"), means))


def _regression(name: str, xx: exp.Expr, yy: exp.Expr, xy: exp.Expr, means: exp.Expr) -> exp.Expr:
    slope = divide(xy.copy(), xx.copy())
    match name:
        case "corr":
            spread = exp.paren(_product(exp.Sqrt(this=xx.copy()), exp.Sqrt(this=yy.copy())))
            return _unless_zero(xx, _unless_zero(yy, divide(xy.copy(), spread)))
        case "regr_slope":
            return _unless_zero(xx, slope)
        case "regr_intercept":
            return _unless_zero(xx, exp.Sub(this=_part(means, "y"), expression=_product(exp.paren(slope), _part(means, "x"))))
        case _:
            share = _product(exp.paren(slope), exp.paren(divide(xy.copy(), yy.copy())))
            return _unless_zero(xx, when(zero(yy), double(1.0), share))


# -- expressions ---------------------------------------------------------------------------------------------------------


def _let(name: str, value: exp.Expr, body: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """`body` with a name for a value that it uses several times: SQL has no other way to compute it once."""
    bound = exp.to_identifier(name)
    lambda_ = exp.Lambda(this=body(bound.copy()), expressions=[bound])
    return exp.Bracket(this=exp.Transform(this=exp.Array(expressions=[value]), expression=lambda_), expressions=[integer(0)])


def _sum_of(rows: exp.Expr, value: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Σ value over the rows in their order."""
    row = exp.to_identifier("r")
    return _sum(exp.Transform(this=rows.copy(), expression=exp.Lambda(this=value(row.copy()), expressions=[row])))


def _sum(values: exp.Expr) -> exp.Expr:
    total, value = exp.to_identifier("s"), exp.to_identifier("v")
    adding = exp.Lambda(this=exp.Add(this=total.copy(), expression=value.copy()), expressions=[total, value])
    return exp.Reduce(this=values, initial=double(0.0), merge=adding)


def _from_mean(value: exp.Expr, part: str, means: exp.Expr, mean: str) -> exp.Expr:
    return exp.paren(exp.Sub(this=_part(value, part), expression=_part(means, mean)))


def _part(value: exp.Expr, name: str) -> exp.Expr:
    return exp.Dot(this=value.copy(), expression=exp.to_identifier(name)) if name else value.copy()


def _struct(**parts: exp.Expr) -> exp.Expr:
    return exp.Struct(expressions=[exp.PropertyEQ(this=exp.to_identifier(n), expression=e) for n, e in parts.items()])


def _product(*factors: exp.Expr) -> exp.Expr:
    first, *rest = factors
    for factor in rest:
        first = exp.Mul(this=first, expression=factor)
    return first


def _size(rows: exp.Expr) -> exp.Expr:
    return exp.ArraySize(this=rows.copy())


def _count(rows: exp.Expr) -> exp.Expr:
    return exp.cast(_size(rows), "double")


def _less_one(n: exp.Expr) -> exp.Expr:
    return exp.paren(exp.Sub(this=n, expression=double(1.0)))


def _unless_zero(value: exp.Expr, outcome: exp.Expr) -> exp.Expr:
    """NULL without spread."""
    return when(zero(value), exp.null(), outcome)
