"""Variance, deviation, covariance, correlation and regression, from the exact sums n, Σx, Σy, Σx², Σy², Σxy.

Each is a quotient of *comoments*: c(x, y) = n·Σxy − Σx·Σy = n²·cov(x, y). The two products are almost equal when the
spread is small beside the mean, so in doubles their difference would be noise. Here both are whole numbers, decimals in
units of their last digit, and the difference is exact; only then does it become a double. It fits into 38 digits for
integers up to INT (a group may have 10^9 rows of the largest values) and for decimals of up to ten digits.

DOUBLE, FLOAT, BIGINT and wider decimals have no such exact sums: their squares need more than 38 digits. Spark's own
result, which updates a mean row by row, would not be met to nine digits, so their groups are computed again, by a fold
of their sorted values. SKEWNESS and KURTOSIS would need Σx⁴ and are computed again too.

NULL in either argument leaves the row out.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from runnel.algebra.functions.folds import fold
from runnel.algebra.functions.partial import (
    Partial,
    Rule,
    additive,
    decimal_of,
    divide,
    double,
    folded,
    integer,
    is_not_null,
    only,
    present,
    times,
    unless_missing,
    when,
    zero,
)
from runnel.algebra.functions.reading import Reading
from runnel.algebra.functions.sums import sum_or_avg
from runnel.algebra.node import col

DIGITS = 10
"""The widest decimal whose comoments fit into 38 digits: two values of ten digits, and 10^9 rows squared."""

_ONE = ("stddev", "stddev_pop", "variance", "var_pop")
_TWO = (
    "covar_pop covar_samp corr regr_count regr_avgx regr_avgy regr_sxx regr_syy regr_sxy regr_slope regr_intercept regr_r2".split()
)  # all of them over (y, x)


def rule(call: Reading, types: Mapping[str, str], result: str) -> Rule | None:
    if call.name in ("skewness", "kurtosis"):
        return folded(fold(call, result))
    if call.name not in (*_ONE, *_TWO):
        return None
    columns = call.columns
    if columns is None or len(columns) != (1 if call.name in _ONE else 2):
        return folded(fold(call, result))
    if call.name == "regr_count":
        return additive((present(*columns),), lambda n: n)
    if call.name in ("regr_avgx", "regr_avgy"):
        value, other = (columns[1], columns[0]) if call.name == "regr_avgx" else columns
        average = sum_or_avg("avg", value, types[value], result)
        return only(average, is_not_null(other), "with", other) if other != value else average
    if not all(_exact(types[c]) for c in columns):
        return folded(fold(call, result))
    return _of_one(call.name, columns[0], types) if call.name in _ONE else _of_two(call.name, columns, types)


def _exact(type_: str) -> bool:
    """Whether comoments of a type fit into 38 digits."""
    decimal = decimal_of(type_)
    return type_ in ("tinyint", "smallint", "int") or (decimal is not None and decimal[0] <= DIGITS)


# -- partial sums --------------------------------------------------------------------------------------------------------


def _units(argument: str, types: Mapping[str, str]) -> exp.Expr:
    """The value as a whole number: a decimal in units of its last digit."""
    value: exp.Expr = col(argument)
    if scale := _scale(argument, types):
        value = exp.Mul(this=value, expression=exp.cast(integer(10**scale), "decimal(20,0)"))
    return exp.cast(value, "decimal(20,0)")


def _sum(argument: str, types: Mapping[str, str], beside: str) -> Partial:
    """Σx over the rows that have a y beside it."""
    summand = lambda w: unless_missing(_both(argument, beside), times(_units(argument, types), w, "decimal(38,0)"))  # noqa: E731
    return Partial(_name(f"{argument}__units", argument, beside), "decimal(38,0)", summand)


def _square(argument: str, types: Mapping[str, str], beside: str) -> Partial:
    """Σx² over the rows that have a y beside it."""
    square = exp.Mul(this=_units(argument, types), expression=_units(argument, types))
    summand = lambda w: unless_missing(_both(argument, beside), times(square.copy(), w, "decimal(38,0)"))  # noqa: E731
    return Partial(_name(f"{argument}__squares", argument, beside), "decimal(38,0)", summand)


def _product(left: str, right: str, types: Mapping[str, str]) -> Partial:
    """Σxy."""
    if left == right:
        return _square(left, types, left)
    left, right = _both(left, right)
    product = exp.Mul(this=_units(left, types), expression=_units(right, types))
    summand = lambda w: unless_missing((left, right), times(product.copy(), w, "decimal(38,0)"))  # noqa: E731
    return Partial(f"{left}__times__{right}", "decimal(38,0)", summand)


def _both(left: str, right: str) -> tuple[str, ...]:
    return tuple(sorted({left, right}))


def _name(name: str, argument: str, beside: str) -> str:
    return name if argument == beside else f"{name}__with__{beside}"


# -- finishing -----------------------------------------------------------------------------------------------------------


def comoment(n: exp.Expr, left: exp.Expr, right: exp.Expr, product: exp.Expr) -> exp.Expr:
    """n·Σxy − Σx·Σy, exactly."""
    rows = exp.cast(n.copy(), "decimal(19,0)")
    both = exp.Mul(this=exp.paren(left.copy()), expression=exp.paren(right.copy()))
    return exp.Sub(this=exp.Mul(this=rows, expression=exp.paren(product.copy())), expression=both)


def _of_one(name: str, x: str, types: Mapping[str, str]) -> Rule:
    def finish(n: exp.Expr, total: exp.Expr, square: exp.Expr) -> exp.Expr:
        spread = _per_row(comoment(n, total, total, square), n, sample=name in ("stddev", "variance"), scale=2 * _scale(x, types))
        value = exp.Sqrt(this=spread) if name.startswith("stddev") else spread
        return _at_least(2 if name in ("stddev", "variance") else 1, n, value)

    return additive((present(x), _sum(x, types, x), _square(x, types, x)), finish, stable=False)


def _of_two(name: str, columns: tuple[str, ...], types: Mapping[str, str]) -> Rule:
    y, x = columns
    sx, sy = _scale(x, types), _scale(y, types)
    sums = (_sum(x, types, y), _sum(y, types, x), _square(x, types, y), _square(y, types, x), _product(x, y, types))

    def finish(n: exp.Expr, tx: exp.Expr, ty: exp.Expr, txx: exp.Expr, tyy: exp.Expr, txy: exp.Expr) -> exp.Expr:
        cxx, cyy, cxy = comoment(n, tx, tx, txx), comoment(n, ty, ty, tyy), comoment(n, tx, ty, txy)
        match name:
            case "covar_pop" | "covar_samp":
                sample = name == "covar_samp"
                return _at_least(2 if sample else 1, n, _per_row(cxy, n, sample, sx + sy))
            case "regr_sxx" | "regr_syy" | "regr_sxy":
                value, scale = {"regr_sxx": (cxx, 2 * sx), "regr_syy": (cyy, 2 * sy), "regr_sxy": (cxy, sx + sy)}[name]
                return _at_least(1, n, _scaled(divide(_double(value), _double(n)), scale))
            case "corr":
                # Without spread there is no correlation. Spark in ANSI mode raises a division by zero instead of NULL,
                # which would make a whole stream table unreadable for one group.
                spread = exp.Mul(this=exp.Sqrt(this=_double(cxx)), expression=exp.Sqrt(this=_double(cyy)))
                return when(exp.or_(zero(exp.paren(cxx)), zero(exp.paren(cyy))), exp.null(), divide(_double(cxy), exp.paren(spread)))
            case "regr_slope":
                return _with_spread(cxx, _slope(cxx, cxy, sx - sy))
            case "regr_intercept":
                mean_y = _scaled(divide(_double(ty), _double(n)), sy)
                mean_x = _scaled(divide(_double(tx), _double(n)), sx)
                rise = exp.Mul(this=exp.paren(_slope(cxx, cxy, sx - sy)), expression=mean_x)
                return _with_spread(cxx, exp.Sub(this=mean_y, expression=rise))
            case _:
                share = exp.Mul(this=divide(_double(cxy), _double(cxx)), expression=exp.paren(divide(_double(cxy), _double(cyy))))
                return _with_spread(cxx, when(zero(exp.paren(cyy)), double(1.0), share))

    return additive((present(x, y), *sums), finish, stable=False)


def _per_row(value: exp.Expr, n: exp.Expr, sample: bool, scale: int) -> exp.Expr:
    """A comoment over n², or over n·(n − 1) for a sample."""
    last = exp.paren(exp.Sub(this=_double(n), expression=double(1.0))) if sample else _double(n)
    return _scaled(divide(_double(value), exp.paren(exp.Mul(this=_double(n), expression=last))), scale)


def _slope(cxx: exp.Expr, cxy: exp.Expr, scale: int) -> exp.Expr:
    return _scaled(divide(_double(cxy), _double(cxx)), -scale)


def _scaled(value: exp.Expr, scale: int) -> exp.Expr:
    """Back from units of the last digit: value / 10^scale."""
    if scale == 0:
        return value
    power = double(float(10 ** abs(scale)))
    return divide(value, power) if scale > 0 else exp.Mul(this=value, expression=power)


def _at_least(rows: int, n: exp.Expr, value: exp.Expr) -> exp.Expr:
    return when(exp.GTE(this=n.copy(), expression=integer(rows)), value)


def _with_spread(cxx: exp.Expr, value: exp.Expr) -> exp.Expr:
    """A regression needs two different x, else it is NULL."""
    return when(exp.GT(this=exp.paren(cxx.copy()), expression=integer(0)), value)


def _double(value: exp.Expr) -> exp.Expr:
    return exp.cast(value.copy(), "double")


def _scale(argument: str, types: Mapping[str, str]) -> int:
    decimal = decimal_of(types[argument])
    return decimal[1] if decimal else 0
