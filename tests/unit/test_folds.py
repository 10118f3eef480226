"""Statistics of floats over sorted values: the same bits in any order of rows, and the exact value to nine digits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import duckdb
import pytest
import sqlglot

from runnel.algebra.functions import rule
from tests.support.translate import to_duck
from tests.unit.test_functions import comoment, correlation, intercept, r2, slope

Values = list[Fraction]


def power(v: Values, exponent: int) -> Fraction:
    mean = sum(v, Fraction()) / len(v)
    return sum(((x - mean) ** exponent for x in v), Fraction())


EXPECTED: dict[str, Callable[[Values, Values], float | Fraction | None]] = {
    "SUM(DISTINCT y)": lambda y, x: sum(set(y), Fraction()),
    "AVG(DISTINCT y)": lambda y, x: sum(set(y), Fraction()) / len(set(y)),
    "VAR_POP(y)": lambda y, x: power(y, 2) / len(y),
    "VARIANCE(y)": lambda y, x: power(y, 2) / (len(y) - 1),
    "STDDEV(y)": lambda y, x: math.sqrt(power(y, 2) / (len(y) - 1)),
    "STDDEV_POP(DISTINCT y)": lambda y, x: math.sqrt(power([*set(y)], 2) / len(set(y))),
    "SKEWNESS(y)": lambda y, x: math.sqrt(len(y)) * float(power(y, 3)) / math.sqrt(power(y, 2)) ** 3,
    "KURTOSIS(y)": lambda y, x: len(y) * power(y, 4) / power(y, 2) ** 2 - 3,
    "COVAR_POP(y, x)": lambda y, x: comoment(x, y) / len(y),
    "COVAR_SAMP(y, x)": lambda y, x: comoment(x, y) / (len(y) - 1),
    "CORR(y, x)": correlation,
    "REGR_SXX(y, x)": lambda y, x: comoment(x, x),
    "REGR_SYY(y, x)": lambda y, x: comoment(y, y),
    "REGR_SXY(y, x)": lambda y, x: comoment(x, y),
    "REGR_SLOPE(y, x)": slope,
    "REGR_INTERCEPT(y, x)": intercept,
    "REGR_R2(y, x)": r2,
}


def folded(text: str, rows: list[tuple[float | None, float | None]]) -> object:
    fold = rule(sqlglot.parse_one(text, dialect="spark"), {"y": "double", "x": "double"}, "double").fold
    assert fold is not None
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (y DOUBLE, x DOUBLE)")
    if rows:
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    (value,) = connection.execute(to_duck(f"SELECT {fold.value(fold.collected).sql('spark')} AS v FROM t")).fetchone() or (None,)
    return value


@pytest.mark.parametrize("text", EXPECTED)
def test_any_order_gives_the_same_bits(text: str) -> None:
    dice = random.Random(text)
    rows = [(1000 + dice.gauss(0, 1) ** 3, dice.gauss(0, 1e-9)) for _ in range(30)]
    found = set()
    for _ in range(3):
        dice.shuffle(rows)
        found.add(folded(text, [*rows, (None, None)]))
    (value,) = found
    wanted = EXPECTED[text]([Fraction(y) for y, _ in rows], [Fraction(x) for _, x in rows])
    assert math.isclose(value, wanted, rel_tol=1e-9)


@pytest.mark.parametrize("text", EXPECTED)
def test_nothing_and_one_row(text: str) -> None:
    assert folded(text, [(None, None)]) is None
    sample = text.partition("(")[0] in ("VARIANCE", "STDDEV", "COVAR_SAMP", "SKEWNESS", "KURTOSIS", "CORR", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2")
    assert (folded(text, [(0.1, 0.3)]) is None) == sample


def test_equal_values_have_no_spread() -> None:
    assert folded("VAR_POP(y)", [(0.1, 0.0)] * 7) == 0.0
    assert folded("SKEWNESS(y)", [(0.1, 0.0)] * 7) is None


def test_infinity_makes_a_statistic_of_no_number() -> None:
    assert math.isnan(folded("VAR_POP(y)", [(math.inf, 0.0), (1.0, 0.0)]))  # type: ignore[arg-type]
