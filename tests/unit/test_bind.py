"""Binding: what trees look like, and the limits that protect the parser."""

from __future__ import annotations

import re

import pytest
import sqlglot.parser

from runnel.bind import bind
from runnel.errors import DefinitionError, EnvironmentProblem, Unsupported
from tests.support.duck import Duck, DuckLookup
from tests.support.fixture import Fixture, Table

TABLES = [Table("t", [("k", "string"), ("x", "int"), ("n", "decimal(10,2)")]), Table("u", [("k", "string"), ("y", "bigint")])]


@pytest.fixture(scope="module")
def lookup() -> DuckLookup:
    views = [("v", "SELECT k AS a, x AS b FROM t")]
    return DuckLookup(Duck(Fixture("", "", TABLES, views, [])))


def types(text: str, lookup: DuckLookup) -> list[str]:
    return [c.type for c in bind(text, lookup).node.columns]


def test_outputs_have_unique_names(lookup: DuckLookup) -> None:
    names = bind("SELECT t.k, u.k, t.k AS k2 FROM t JOIN u ON t.k = u.k", lookup).node.names
    assert len(set(names)) == 3


def test_types_are_those_of_the_engine(lookup: DuckLookup) -> None:
    assert types("SELECT SUM(x), SUM(n), AVG(n), AVG(x), COUNT(*), MAX(k) FROM t", lookup) == [
        "bigint",
        "decimal(20,2)",
        "decimal(14,6)",
        "double",
        "bigint",
        "string",
    ]


def test_union_widens(lookup: DuckLookup) -> None:
    assert types("SELECT x FROM t UNION ALL SELECT y FROM u", lookup) == ["bigint"]


def test_a_view_disappears(lookup: DuckLookup) -> None:
    assert bind("SELECT a FROM v WHERE b > 1", lookup).node.sources == {"t"}


def test_a_shared_cte_is_one_node(lookup: DuckLookup) -> None:
    node = bind("WITH g AS (SELECT k, SUM(x) AS s FROM t GROUP BY k) SELECT a.k FROM g a JOIN g b ON a.s = b.s", lookup).node
    assert len({n for n in node.walk() if n.title == "Aggregate"}) == 1


def test_depth_is_bounded(lookup: DuckLookup) -> None:
    with pytest.raises(DefinitionError, match="nests 600 parentheses"):
        bind(f"SELECT {'(' * 600}x{')' * 600} AS y FROM t", lookup)


def test_size_is_bounded(lookup: DuckLookup) -> None:
    with pytest.raises(DefinitionError, match="characters"):
        bind("SELECT k FROM t -- " + "x" * 1_000_001, lookup)


def test_a_parser_that_cannot_be_extended_is_refused(lookup: DuckLookup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlglot.parser, "__file__", "parser.cpython-311-x86_64-linux-gnu.so")
    with pytest.raises(EnvironmentProblem, match="compiled"):
        bind("SELECT 1", lookup)


@pytest.mark.parametrize(
    ("query", "scans"),
    [
        ("SELECT COUNT(*) AS n, now() AS at FROM t", ["clock.now", "t"]),
        ("SELECT k, SUM(x) AS s, current_date() AS day FROM t GROUP BY k HAVING MAX(x) < year(now())", ["clock.now", "clock.today", "t"]),
        ("SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY datediff(current_date(), DATE'2026-01-01'), k LIMIT 1", ["clock.today", "t"]),
        ("SELECT current_date() AS day, COUNT(*) AS n FROM t GROUP BY current_date()", ["clock.today", "t"]),
        ("SELECT current_date() AS day, COUNT(*) AS n FROM t GROUP BY ALL", ["clock.today", "t"]),
        ("SELECT MAX(x + year(now())) AS m FROM t WHERE year(now()) > x", ["clock.now", "t"]),
        ("SELECT MAX(year(now())) - year(now()) AS m FROM t", ["clock.now", "clock.now", "t"]),
    ],
)
def test_a_clock_is_a_source_below_groups_and_above_them(lookup: DuckLookup, query: str, scans: list[str]) -> None:
    node = bind(query, lookup).node
    assert not re.search(r"NOW\(|CURRENT_", str(node))
    assert sorted(n.source for n in node.walk() if n.title == "Scan") == scans


def test_a_clock_over_no_rows_of_a_correlated_subquery_is_refused(lookup: DuckLookup) -> None:
    with pytest.raises(Unsupported, match="the clock beside an aggregate over no rows"):
        bind("SELECT k, (SELECT COUNT(*) + year(now()) FROM u WHERE u.k = t.k) AS n FROM t", lookup)
