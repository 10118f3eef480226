"""Which faces a plan reads: the difference between touching a few keys and scanning tables."""

from __future__ import annotations

import pytest

from runnel.algebra import STORED, Face, Facts
from runnel.bind import bind
from runnel.canonicalize import canonicalize
from runnel.differentiate import differentiate, root_of
from tests.support.duck import Duck, DuckLookup
from tests.support.fixture import Fixture, Table

TABLES = [Table("t", [("k", "string"), ("x", "int"), ("d", "double")]), Table("u", [("k", "string"), ("y", "int")])]


@pytest.fixture(scope="module")
def lookup() -> DuckLookup:
    return DuckLookup(Duck(Fixture("", "", TABLES, [], [])))


def faces(lookup: DuckLookup, query: str, changed: str, insert_only: bool = False) -> set[tuple[str, Face]]:
    tree = canonicalize(bind(query, lookup).node)
    facts = Facts(frozenset(changed.split()), frozenset(changed.split() if insert_only else ()))
    return {(i.source, i.face) for i in differentiate(root_of(tree, tree.columns), facts).inputs}


@pytest.mark.parametrize(
    ("query", "changed", "insert_only", "expected"),
    [
        ("SELECT k, SUM(x) AS s FROM t GROUP BY k", "t", False, {("t", Face.CHANGE)}),
        ("SELECT k, STDDEV(x) AS s, BOOL_AND(x > 1) AS b FROM t GROUP BY k", "t", False, {("t", Face.CHANGE)}),
        ("SELECT k, SUM(x) AS s FROM t GROUP BY ROLLUP (k)", "t", False, {("t", Face.CHANGE)}),
        ("SELECT k, x FROM t ORDER BY x LIMIT 3", "t", False, {("t", Face.CHANGE)}),
        ("SELECT k, MIN(x) AS s FROM t GROUP BY k", "t", True, {("t", Face.CHANGE), (STORED, Face.BEFORE)}),
        ("SELECT k, MAX_BY(x, d) AS b, COUNT(*) AS n FROM t GROUP BY k", "t", True, {("t", Face.CHANGE), (STORED, Face.BEFORE)}),
        ("SELECT MAX(x) AS m, SUM(x) AS s FROM t", "t", True, {("t", Face.CHANGE), (STORED, Face.BEFORE)}),
        ("SELECT k, MAX(x) AS m, AVG(x) AS a FROM t GROUP BY k", "t", True, {("t", Face.CHANGE), ("t", Face.AFTER), (STORED, Face.BEFORE)}),
        ("SELECT k, MIN(x) AS s FROM t GROUP BY k", "t", False, {("t", Face.CHANGE), ("t", Face.AFTER), (STORED, Face.BEFORE)}),
        ("SELECT k, RANK() OVER (PARTITION BY k ORDER BY x) AS r FROM t", "t", False, {("t", Face.CHANGE), ("t", Face.AFTER), (STORED, Face.BEFORE)}),
        ("SELECT t.k, u.y FROM t JOIN u ON t.k = u.k", "t", False, {("t", Face.CHANGE), ("u", Face.AFTER)}),
        ("SELECT t.k, u.y FROM t LEFT JOIN u ON t.k = u.k", "t", False, {("t", Face.CHANGE), ("u", Face.AFTER)}),
        ("SELECT k FROM t WHERE k IN (SELECT k FROM u)", "u", False, {("u", Face.CHANGE), ("u", Face.AFTER), ("t", Face.AFTER)}),
        ("SELECT DISTINCT k FROM t", "t", False, {("t", Face.CHANGE)}),
    ],
)
def test_faces(lookup: DuckLookup, query: str, changed: str, insert_only: bool, expected: set) -> None:
    assert faces(lookup, query, changed, insert_only) == expected
