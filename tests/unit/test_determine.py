"""What becomes of calls that depend on the order of rows, and of text that the printer would change."""

from __future__ import annotations

import pytest
import sqlglot

from runnel.algebra.functions import ARBITRARY
from runnel.bind.determine import UNDETERMINED, determine_calls
from runnel.bind.faithful import SparkText, faithful


def determined(select: str) -> str:
    tree = sqlglot.parse_one(f"SELECT {select} FROM t", dialect=SparkText)
    return faithful(determine_calls(tree)).sql("spark").removeprefix("SELECT ").removesuffix(" FROM t")


def printed(select: str) -> str:
    return faithful(sqlglot.parse_one(f"SELECT {select} FROM t", dialect=SparkText)).sql("spark").removeprefix("SELECT ").removesuffix(" FROM t")


@pytest.mark.parametrize(
    ("call", "becomes"),
    [
        ("FIRST(x)", "MIN(x)"),
        ("FIRST(x, TRUE)", "MIN(x)"),
        ("FIRST_VALUE(x) IGNORE NULLS", "MIN(x)"),
        ("ANY_VALUE(x) FILTER (WHERE f)", "MIN(x) FILTER(WHERE f)"),
        ("LAST(x)", "MAX(x)"),
        ("LAST_VALUE(x) IGNORE NULLS", "MAX(x)"),
        ("FIRST(x) + LAST(x + 1)", "MIN(x) + MAX(x + 1)"),
        ("COLLECT_LIST(x)", "SORT_ARRAY(COLLECT_LIST(x))"),
        ("ARRAY_AGG(x) FILTER (WHERE f)", "SORT_ARRAY(COLLECT_LIST(x) FILTER(WHERE f))"),
        ("COLLECT_LIST(DISTINCT x)", "SORT_ARRAY(COLLECT_LIST(DISTINCT x))"),
        ("COLLECT_SET(x)", "SORT_ARRAY(COLLECT_SET(x))"),
        ("SORT_ARRAY(COLLECT_LIST(x), FALSE)", "SORT_ARRAY(COLLECT_LIST(x), FALSE)"),
        ("ARRAY_SORT(COLLECT_LIST(x), (l, r) -> l.a - r.a)", "ARRAY_SORT(SORT_ARRAY(COLLECT_LIST(x)), (l, r) -> l.a - r.a)"),
        ("LISTAGG(x, ',')", "LISTAGG(x, ',') WITHIN GROUP (ORDER BY x)"),
        ("STRING_AGG(x)", "LISTAGG(x, '') WITHIN GROUP (ORDER BY x)"),
        ("LISTAGG(DISTINCT x, ',')", "LISTAGG(DISTINCT CAST(x AS STRING), ',') WITHIN GROUP (ORDER BY CAST(x AS STRING))"),
        ("LISTAGG(x, ',') WITHIN GROUP (ORDER BY y DESC)", "LISTAGG(x, ',') WITHIN GROUP (ORDER BY y DESC, x)"),
        ("LISTAGG(x, ',') WITHIN GROUP (ORDER BY x DESC)", "LISTAGG(x, ',') WITHIN GROUP (ORDER BY x DESC)"),
        ("LISTAGG(DISTINCT x, ',') WITHIN GROUP (ORDER BY x DESC)", "LISTAGG(DISTINCT x, ',') WITHIN GROUP (ORDER BY x DESC)"),
        ("LISTAGG(x, ',') FILTER (WHERE f)", "LISTAGG(x, ',') WITHIN GROUP (ORDER BY x) FILTER(WHERE f)"),
        ("MODE(x)", "MODE(x, TRUE)"),
        ("MODE(x, FALSE)", "MODE(x, TRUE)"),
        ("MODE() WITHIN GROUP (ORDER BY x DESC)", "MODE() WITHIN GROUP (ORDER BY x DESC)"),
        ("APPROX_PERCENTILE(x, 0.5)", "PERCENTILE_APPROX(x, 0.5, 2147483647)"),
        ("PERCENTILE_APPROX(x, ARRAY(0.1, 0.9), 10)", "PERCENTILE_APPROX(x, ARRAY(0.1, 0.9), 2147483647)"),
        ("MAX_BY(x, y)", "(MAX(IF((y) IS NULL, NULL, STRUCT(y AS ranked, x AS value)))).value"),
        ("MIN_BY(x, y) FILTER (WHERE f)", "(MIN(IF((y) IS NULL, NULL, STRUCT(y AS ranked, x AS value))) FILTER(WHERE f)).value"),
        ("MIN_BY(x, x)", "MIN(x)"),
    ],
)
def test_determined(call: str, becomes: str) -> None:
    assert determined(call) == becomes


@pytest.mark.parametrize(
    "call",
    [
        "FIRST(x) OVER (ORDER BY y)",
        "LAST_VALUE(x) IGNORE NULLS OVER (ORDER BY y)",
        "COLLECT_LIST(x) OVER (ORDER BY y)",
        "MAX_BY(x, y) OVER (PARTITION BY z)",
        "COLLECT_LIST(MAP(x, y))",
        "FIRST(CAST(x AS MAP<INT, INT>))",
        "SUM(x)",
        "MEDIAN(x)",
        "COUNT_MIN_SKETCH(x, 0.1, 0.9, 1)",
    ],
)
def test_left_alone(call: str) -> None:
    assert determined(call) == call


def test_determined_in_every_query() -> None:
    """In subqueries, CTEs and HAVING too; and an aggregate inside a window function is one."""
    text = "WITH c AS (SELECT FIRST(x) AS a FROM t) SELECT a, (SELECT LAST(y) FROM u) FROM c GROUP BY a HAVING ANY_VALUE(b) > 1"
    printed_ = determine_calls(sqlglot.parse_one(text, dialect=SparkText)).sql("spark")
    assert printed_ == "WITH c AS (SELECT MIN(x) AS a FROM t) SELECT a, (SELECT MAX(y) FROM u) FROM c GROUP BY a HAVING MIN(b) > 1"
    assert determined("RANK() OVER (ORDER BY FIRST(x))") == "RANK() OVER (ORDER BY MIN(x))"


def test_undetermined_functions_are_known() -> None:
    assert set(UNDETERMINED) == ARBITRARY


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x DESC)", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x DESC)"),
        (
            "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x) OVER (PARTITION BY z)",
            "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x) OVER (PARTITION BY z)",
        ),
        ("PERCENTILE(x, 0.5, n)", "PERCENTILE(x, 0.5, n)"),
        ("PERCENTILE(x, 0.5)", "PERCENTILE(x, 0.5)"),
        ("LISTAGG(x) WITHIN GROUP (ORDER BY y)", "LISTAGG(x, '') WITHIN GROUP (ORDER BY y)"),
        ("TO_CHAR(x, '99')", "TO_CHAR(x, '99')"),
        ("PARSE_JSON(x)", "PARSE_JSON(x)"),
        ("UNIX_DATE(d)", "UNIX_DATE(d)"),
        ("CURRENT_CATALOG()", "CURRENT_CATALOG()"),
        ("CAST(x AS TIME)", "CAST(x AS TIME)"),
        ("ANY(b) FILTER (WHERE f)", "BOOL_OR(b) FILTER(WHERE f)"),
        ("x LIKE ANY ('a%')", "x LIKE ANY('a%')"),
        ("DATE_TRUNC(unit, x)", "DATE_TRUNC(unit, x)"),
        ("DATE_TRUNC('Q', x)", "DATE_TRUNC('Q', x)"),
        ("DATE_TRUNC('month', x)", "DATE_TRUNC('MONTH', x)"),
        ("TRUNC(x, unit)", "TRUNC(x, unit)"),
        ("ARRAY_SIZE(x)", "ARRAY_SIZE(x)"),
        ("'it''s'", r"'it\'s'"),
        ('"say ""x"""', "'say \"x\"'"),
        ("''''", r"'\''"),
        (r"'\\d''s'", r"'\\d\'s'"),
    ],
)
def test_printed_as_meant(text: str, becomes: str) -> None:
    assert printed(text) == becomes
    assert printed(becomes) == becomes
