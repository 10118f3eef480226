"""Every additive function, finished from sums of weighted rows, equals the function over the rows that remain.

Expected values come from exact fractions, so they do not share a mistake with any engine.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from runnel.algebra.functions import ADDITIVE, CLASSES, MERGEABLE_ON_INSERTS, TOUCHED_GROUPS, Rule, is_aggregate, rule
from runnel.algebra.node import col

Row = tuple[int, object, object, bool | None]

# -- expected values -----------------------------------------------------------------------------------------------------


def comoment(left: list[Fraction], right: list[Fraction]) -> Fraction:
    """Σ(x − mean)(y − mean)."""
    n = len(left)
    return sum((a * b for a, b in zip(left, right, strict=True)), Fraction()) - sum(left, Fraction()) * sum(right, Fraction()) / n


def root(value: Fraction) -> float:
    return math.sqrt(value)


def of_one(over: Callable[[list[Fraction]], object], least: int = 1) -> Callable[[list[Row]], object]:
    def expected(rows: list[Row]) -> object:
        values = [Fraction(x) for _, x, _, _ in rows if x is not None]  # type: ignore[arg-type]
        return over(values) if len(values) >= least else None

    return expected


def of_two(over: Callable[[list[Fraction], list[Fraction]], object], least: int = 1) -> Callable[[list[Row]], object]:
    """The call is f(x, y): x takes the place of the dependent variable."""

    def expected(rows: list[Row]) -> object:
        pairs = [(Fraction(x), Fraction(y)) for _, x, y, _ in rows if x is not None and y is not None]  # type: ignore[arg-type]
        return over([y for y, _ in pairs], [x for _, x in pairs]) if len(pairs) >= least else None

    return expected


def correlation(y: list[Fraction], x: list[Fraction]) -> float | None:
    spread = comoment(x, x) * comoment(y, y)
    return float(comoment(x, y)) / root(spread) if spread else None


def slope(y: list[Fraction], x: list[Fraction]) -> Fraction | None:
    return comoment(x, y) / comoment(x, x) if comoment(x, x) else None


def intercept(y: list[Fraction], x: list[Fraction]) -> Fraction | None:
    found = slope(y, x)
    return None if found is None else sum(y) / len(y) - found * sum(x) / len(x)


def r2(y: list[Fraction], x: list[Fraction]) -> Fraction | None:
    if not comoment(x, x):
        return None
    return comoment(x, y) ** 2 / comoment(x, x) / comoment(y, y) if comoment(y, y) else Fraction(1)


ONE: dict[str, Callable[[list[Row]], object]] = {
    "SUM(x)": of_one(sum),
    "AVG(x)": of_one(lambda v: sum(v) / len(v)),
    "MEAN(x)": of_one(lambda v: sum(v) / len(v)),
    "VAR_POP(x)": of_one(lambda v: comoment(v, v) / len(v)),
    "VAR_SAMP(x)": of_one(lambda v: comoment(v, v) / (len(v) - 1), least=2),
    "VARIANCE(x)": of_one(lambda v: comoment(v, v) / (len(v) - 1), least=2),
    "STDDEV_POP(x)": of_one(lambda v: root(comoment(v, v) / len(v))),
    "STDDEV_SAMP(x)": of_one(lambda v: root(comoment(v, v) / (len(v) - 1)), least=2),
    "STDDEV(x)": of_one(lambda v: root(comoment(v, v) / (len(v) - 1)), least=2),
    "STD(x)": of_one(lambda v: root(comoment(v, v) / (len(v) - 1)), least=2),
}
TWO: dict[str, Callable[[list[Row]], object]] = {
    "COVAR_POP(x, y)": of_two(lambda y, x: comoment(x, y) / len(x)),
    "COVAR_SAMP(x, y)": of_two(lambda y, x: comoment(x, y) / (len(x) - 1), least=2),
    "CORR(x, y)": of_two(correlation),
    "REGR_AVGY(x, y)": of_two(lambda y, x: sum(y) / len(y)),
    "REGR_AVGX(x, y)": of_two(lambda y, x: sum(x) / len(x)),
    "REGR_SXX(x, y)": of_two(lambda y, x: comoment(x, x)),
    "REGR_SYY(x, y)": of_two(lambda y, x: comoment(y, y)),
    "REGR_SXY(x, y)": of_two(lambda y, x: comoment(x, y)),
    "REGR_SLOPE(x, y)": of_two(slope),
    "REGR_INTERCEPT(x, y)": of_two(intercept),
    "REGR_R2(x, y)": of_two(r2),
}
COUNTS: dict[str, Callable[[list[Row]], object]] = {
    "COUNT(*)": len,
    "COUNT(1)": len,
    "COUNT(x)": lambda rows: sum(x is not None for _, x, _, _ in rows),
    "COUNT(x, y)": lambda rows: sum(x is not None and y is not None for _, x, y, _ in rows),
    "REGR_COUNT(x, y)": lambda rows: sum(x is not None and y is not None for _, x, y, _ in rows),
}
BOOLEANS: dict[str, Callable[[list[bool]], object]] = {
    "COUNT_IF(x)": sum,
    "BOOL_AND(x)": lambda v: all(v) if v else None,
    "EVERY(x)": lambda v: all(v) if v else None,
    "BOOL_OR(x)": lambda v: any(v) if v else None,
    "ANY(x)": lambda v: any(v) if v else None,
    "SOME(x)": lambda v: any(v) if v else None,
}
BITS: dict[str, Callable[[int, int], int]] = {"BIT_XOR(x)": int.__xor__, "BIT_AND(x)": int.__and__, "BIT_OR(x)": int.__or__}

RANGES = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}

# -- weighted rows -------------------------------------------------------------------------------------------------------


def value_of(type_: str, dice: random.Random) -> object:
    """A value in which NULL, the extremes and repetitions are frequent."""
    if dice.random() < 0.2:
        return None
    if type_ == "boolean":
        return dice.random() < 0.6
    if type_ in RANGES:
        top = RANGES[type_]
        return dice.choice([0, 1, -1, 7, top - 1, -top, dice.randrange(-top, top)])
    precision, scale = (int(n) for n in type_[8:-1].split(","))
    top = 10**precision
    return Decimal(dice.choice([0, 1, -5, top - 1, 1 - top, dice.randrange(1 - top, top)])).scaleb(-scale)


def weighted(types: tuple[str, str], dice: random.Random) -> tuple[list[tuple[int, Row]], list[Row]]:
    """Rows that came, some twice, and rows that went again; and the rows that remain."""
    feed: list[tuple[int, Row]] = []
    remaining: Counter[Row] = Counter()
    for group in [g for g in range(12) for _ in range(dice.choice([1, 2, 3, 12]))]:
        row = (group, value_of(types[0], dice), value_of(types[1], dice), dice.choice([True, False, None]))
        weight = dice.choice([1, 1, 2])
        feed.append((weight, row))
        remaining[row] += weight
        if dice.random() < 0.4:
            gone = dice.choice([r for r in remaining if r[0] == group])
            feed.append((-1, gone))
            remaining[gone] -= 1
            remaining += Counter()  # which drops the rows that are gone
    return feed, list(remaining.elements())


class Sums:
    """DuckDB holding weighted rows, and what a rule makes of them per group."""

    def __init__(self, types: tuple[str, str], feed: list[tuple[int, Row]]) -> None:
        self.types = {"g": "int", "x": types[0], "y": types[1], "f": "boolean"}
        self.connection = duckdb.connect(config={"threads": 1})
        duck = ", ".join(f"{n} {'INTEGER' if t == 'int' else t}" for n, t in self.types.items())
        self.connection.execute(f"CREATE TABLE t ({duck}, w BIGINT)")
        rows = ", ".join(f"({', '.join('NULL' if v is None else str(v) for v in (*row, weight))})" for weight, row in feed)
        self.connection.execute(f"INSERT INTO t VALUES {rows}")

    def finished(self, call: exp.Expr, result: str) -> dict[int, object]:
        kept = rule(call, self.types, result)
        assert kept.kind == ADDITIVE, f"{call.sql('spark')} is {kept.kind}"
        assert kept.finish is not None
        sums = [exp.alias_(exp.cast(exp.Sum(this=p.summand(col("w"))), p.type), p.name, quoted=True) for p in kept.partials]
        state = exp.select(col("g"), *sums).from_("t").group_by(col("g")).having("SUM(w) > 0")
        query = exp.select(col("g"), exp.alias_(kept.finish(*(col(p.name) for p in kept.partials)), "v")).from_(state.subquery("s"))
        return dict(self.connection.execute(sqlglot.transpile(query.sql("spark"), read="spark", write="duckdb")[0]).fetchall())


def parse(text: str) -> exp.Expr:
    return sqlglot.parse_one(f"SELECT {text} FROM t", dialect="spark").selects[0]


def check(text: str, types: tuple[str, str], result: str, expected: Callable[[list[Row]], object], dice: random.Random) -> None:
    """The call plain and with a FILTER, over rows by group."""
    feed, remaining = weighted(types, dice)
    sums = Sums(types, feed)
    for call, kept in ((text, remaining), (f"{text} FILTER (WHERE f)", [r for r in remaining if r[3]])):
        found = sums.finished(parse(call), result)
        assert found.keys() == {r[0] for r in remaining}
        for group, value in found.items():
            wanted = expected([r for r in kept if r[0] == group])
            assert close(value, wanted, result), f"{call} of {types} in group {group}: {value!r} instead of {wanted!r}"


def close(value: object, wanted: object, result: str) -> bool:
    if value is None or wanted is None:
        return value is wanted
    if result == "double":
        return math.isclose(value, float(wanted), rel_tol=1e-12, abs_tol=1e-300)  # type: ignore[arg-type]
    if result.startswith("decimal"):
        scale = int(result[8:-1].split(",")[1])
        return abs(Fraction(value) - Fraction(wanted)) <= Fraction(1, 2 * 10**scale)  # type: ignore[arg-type]
    return value == wanted


def result_of(text: str, type_: str) -> str:
    """The type that Spark gives a call over a type."""
    name = text.partition("(")[0]
    if name not in ("SUM", "AVG", "MEAN", "REGR_AVGX", "REGR_AVGY"):
        return "double"
    if type_ in RANGES:
        return "bigint" if name == "SUM" else "double"
    precision, scale = (int(n) for n in type_[8:-1].split(","))
    return f"decimal({min(38, precision + 10)},{scale})" if name == "SUM" else f"decimal({precision + 4},{scale + 4})"


EXACT = ("tinyint", "int", "decimal(8,2)", "decimal(10,0)", "decimal(10,10)")


@pytest.mark.parametrize("type_", EXACT)
@pytest.mark.parametrize("text", ONE)
def test_one_argument(text: str, type_: str) -> None:
    dice = random.Random(f"{text}{type_}")
    check(text, (type_, "int"), result_of(text, type_), ONE[text], dice)


@pytest.mark.parametrize("types", [("int", "int"), ("decimal(8,2)", "smallint"), ("decimal(10,10)", "decimal(9,2)")])
@pytest.mark.parametrize("text", TWO)
def test_two_arguments(text: str, types: tuple[str, str]) -> None:
    dice = random.Random(f"{text}{types}")
    averaged = types[1] if "AVGX" in text else types[0]
    if text.startswith("REGR_INTERCEPT"):
        check_intercept(types, dice)
    else:
        check(text, types, result_of(text, averaged), TWO[text], dice)


def check_intercept(types: tuple[str, str], dice: random.Random) -> None:
    """It is a difference of doubles, as in Spark: exact to the size of the mean, and not of the result."""
    feed, remaining = weighted(types, dice)
    for group, value in Sums(types, feed).finished(parse("REGR_INTERCEPT(x, y)"), "double").items():
        rows = [r for r in remaining if r[0] == group]
        wanted = of_two(intercept)(rows)
        assert (value is None) == (wanted is None)
        if isinstance(value, float) and isinstance(wanted, Fraction):
            largest = max(abs(float(r[1])) for r in rows if r[1] is not None)  # type: ignore[arg-type]
            assert math.isclose(value, float(wanted), rel_tol=1e-12, abs_tol=1e-12 * largest)


@pytest.mark.parametrize("text", COUNTS)
def test_counts(text: str) -> None:
    dice = random.Random(text)
    for types in (("int", "boolean"), ("decimal(8,2)", "bigint")):
        check(text, types, "bigint", COUNTS[text], dice)


@pytest.mark.parametrize("text", BOOLEANS)
def test_booleans(text: str) -> None:
    dice = random.Random(text)
    for _ in range(2):
        result = "bigint" if text.startswith("COUNT") else "boolean"
        check(text, ("boolean", "int"), result, lambda rows: BOOLEANS[text]([x for _, x, _, _ in rows if x is not None]), dice)  # type: ignore[misc]


@pytest.mark.parametrize("type_", ["tinyint", "smallint", "int"])
@pytest.mark.parametrize("text", BITS)
def test_bits(text: str, type_: str) -> None:
    def expected(rows: list[Row]) -> int | None:
        values = [x for _, x, _, _ in rows if isinstance(x, int)]
        found = values[0] if values else None
        for value in values[1:]:
            found = BITS[text](found, value)  # type: ignore[arg-type]
        return found

    check(text, (type_, "int"), type_, expected, random.Random(f"{text}{type_}"))


def test_sums_of_wide_types() -> None:
    dice = random.Random(1)
    check("AVG(x)", ("bigint", "int"), "double", ONE["AVG(x)"], dice)
    check("SUM(x)", ("decimal(27,6)", "int"), "decimal(37,6)", ONE["SUM(x)"], dice)
    check("COUNT(x)", ("bigint", "int"), "bigint", COUNTS["COUNT(x)"], dice)


def test_no_cancellation() -> None:
    """A spread of one beside a mean of two billion."""
    feed: list[tuple[int, Row]] = [(1, (0, 2_000_000_000 + i % 2, 2_000_000_000 - i % 2, True)) for i in range(1000)]
    sums = Sums(("int", "int"), feed)
    assert sums.finished(parse("VAR_POP(x)"), "double") == {0: 0.25}
    assert sums.finished(parse("COVAR_POP(x, y)"), "double") == {0: -0.25}
    assert sums.finished(parse("CORR(x, y)"), "double") == {0: -1.0}


def test_no_rows_and_no_groups() -> None:
    """Over no rows at all SUM gives NULL partials; every function then has the value of an empty group."""
    types = {"x": "int", "b": "boolean"}
    for text in ("STDDEV(x)", "BIT_OR(x)", "BIT_AND(x)", "BOOL_AND(b)", "CORR(x, x)", "REGR_R2(x, x)", "SUM(x)", "AVG(x)"):
        kept = rule(parse(text), types, "int")
        assert kept.finish is not None
        for nothing in (exp.null(), exp.Literal.number(0)):
            sql = exp.select(kept.finish(*(exp.cast(nothing, p.type) for p in kept.partials))).sql("spark")
            assert duckdb.sql(sqlglot.transpile(sql, read="spark", write="duckdb")[0]).fetchall() == [(None,)], text


# -- classes -------------------------------------------------------------------------------------------------------------

TYPES = {"x": "int", "y": "int", "l": "bigint", "d": "double", "n": "decimal(20,2)", "s": "string", "b": "boolean", "f": "boolean"}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("MIN(x)", MERGEABLE_ON_INSERTS),
        ("MAX(s) FILTER (WHERE f)", MERGEABLE_ON_INSERTS),
        ("MAX_BY(x, y)", TOUCHED_GROUPS),
        ("BIT_AND(l)", MERGEABLE_ON_INSERTS),
        ("BIT_OR(l)", MERGEABLE_ON_INSERTS),
        ("APPROX_COUNT_DISTINCT(x)", TOUCHED_GROUPS),
        ("BIT_XOR(l)", TOUCHED_GROUPS),
        ("COUNT(DISTINCT x)", TOUCHED_GROUPS),
        ("COUNT(DISTINCT x, y)", TOUCHED_GROUPS),
        ("SUM(DISTINCT x)", TOUCHED_GROUPS),
        ("SUM(s)", TOUCHED_GROUPS),
        ("SUM(x) FILTER (WHERE x > 1)", TOUCHED_GROUPS),
        ("TRY_SUM(x)", TOUCHED_GROUPS),
        ("TRY_AVG(x)", TOUCHED_GROUPS),
        ("STDDEV(d)", TOUCHED_GROUPS),
        ("STDDEV(l)", TOUCHED_GROUPS),
        ("CORR(x, n)", TOUCHED_GROUPS),
        ("SKEWNESS(x)", TOUCHED_GROUPS),
        ("MEDIAN(x)", TOUCHED_GROUPS),
        ("PERCENTILE(x, 0.5)", TOUCHED_GROUPS),
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)", TOUCHED_GROUPS),
        ("LISTAGG(s, ',') WITHIN GROUP (ORDER BY x)", TOUCHED_GROUPS),
        ("COLLECT_LIST(x)", TOUCHED_GROUPS),
        ("FIRST(x) IGNORE NULLS", TOUCHED_GROUPS),
        ("MODE(x)", TOUCHED_GROUPS),
        ("SUM(d)", ADDITIVE),
        ("REGR_AVGX(x, d)", ADDITIVE),
        ("COUNT_IF(b)", ADDITIVE),
    ],
)
def test_class(text: str, kind: str) -> None:
    kept = rule(parse(text), TYPES, "double")
    assert kept.kind == kind
    assert bool(kept.partials) == (kind == ADDITIVE)


def test_what_is_stable() -> None:
    """Spark's own result follows the order of rows where it adds doubles up."""
    stable = {t: rule(parse(t), TYPES, "double").stable for t in ("SUM(x)", "SUM(d)", "AVG(x)", "STDDEV(x)", "STDDEV(d)", "SKEWNESS(x)", "MIN(d)")}
    assert [t for t, s in stable.items() if s] == ["SUM(x)", "MIN(d)"]


def test_equal_sums_are_kept_once() -> None:
    def names(*texts: str) -> list[str]:
        rules: list[Rule] = [rule(parse(t), TYPES, "double") for t in texts]
        return list(dict.fromkeys(p.name for r in rules for p in r.partials))

    assert names("SUM(x)", "AVG(x)", "COUNT(x)") == ["x__sum", "x__present"]
    assert names("VAR_POP(x)", "STDDEV(x)", "COUNT(x)") == ["x__present", "x__units", "x__squares"]
    assert names("COUNT(x, y)", "REGR_COUNT(y, x)") == ["x__and__y__present"]
    assert names("CORR(x, y)", "COVAR_POP(y, x)", "REGR_SLOPE(y, x)") == names("CORR(x, y)")
    assert names("SUM(x) FILTER (WHERE f)", "SUM(x) FILTER (WHERE b)", "COUNT(*) FILTER (WHERE f)") == [
        "x__sum__where__f",
        "x__present__where__f",
        "x__sum__where__b",
        "x__present__where__b",
        "all__rows__where__f",
    ]
    assert names("BOOL_AND(b)", "BOOL_OR(b)", "COUNT_IF(b)") == ["b__true", "b__false"]


# -- recognising ---------------------------------------------------------------------------------------------------------

ARGUMENTS = {"mode": "x", "grouping_id": "", "count_min_sketch": "x, 0.1, 0.9, 1", "percentile_cont": "0.5", "percentile_disc": "0.5"}


@pytest.mark.parametrize("name", CLASSES)
def test_every_function_is_recognised(name: str) -> None:
    wanted = name not in ("grouping", "grouping_id")
    for arguments in (ARGUMENTS[name],) if name in ARGUMENTS else ("x", "x, y"):
        try:
            call = parse(f"{name}({arguments})")
        except sqlglot.ParseError:
            continue
        assert is_aggregate(call) == wanted
        assert not is_aggregate(parse(f"{name}({arguments}) OVER (PARTITION BY z)").this)


def test_what_belongs_to_a_call() -> None:
    for text in ("SUM(x) FILTER (WHERE y)", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)", "FIRST(x) IGNORE NULLS", "ANY(x) FILTER (WHERE y)"):
        assert is_aggregate(parse(text))
        assert not is_aggregate(parse(f"{text} OVER ()"))
        assert not is_aggregate(parse(f"{text} OVER ()").this)
        assert not is_aggregate(parse(f"{text} OVER ()").this.this)


def test_what_is_no_aggregate() -> None:
    for text in ("x", "x + 1", "UPPER(x)", "FILTER(x, y -> y > 1)", "my_sum(x)", "ROW_NUMBER() OVER (ORDER BY x)", "GREATEST(x, y)"):
        assert not any(is_aggregate(n) for n in parse(text).walk()), text
    patterns = sqlglot.parse_one("SELECT x FROM t WHERE x LIKE ANY ('a%', 'b%') OR x LIKE ANY ('c')", dialect="spark")
    assert not any(is_aggregate(n) for n in patterns.walk())
    assert is_aggregate(exp.AnonymousAggFunc(this="my_sum", expressions=[exp.column("x")]))
    assert is_aggregate(next(parse("RANK() OVER (ORDER BY SUM(x))").find_all(exp.Sum)))
