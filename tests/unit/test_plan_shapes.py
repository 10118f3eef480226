"""Which faces a plan reads: the difference between touching a few keys and scanning tables."""

from __future__ import annotations

import pytest

from runnel.algebra import STORED, Face, Facts
from runnel.algebra.node import col
from runnel.bind import bind
from runnel.bind.faithful import SparkText
from runnel.canonicalize import canonicalize
from runnel.differentiate import differentiate, root_of
from runnel.settings import OF_PLANS
from tests.support.duck import Duck, DuckLookup
from tests.support.fixture import Fixture, Table

TABLES = [
    Table("t", [("k", "string"), ("x", "int"), ("d", "double")]),
    Table("u", [("k", "string"), ("y", "int")]),
    Table("v", [("k", "string"), ("z", "int")]),
]


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


LARGEST = "WITH g AS (SELECT k, SUM(x) AS s FROM t GROUP BY k) SELECT k, s FROM g WHERE s = (SELECT MAX(s) FROM g)"
FILTERED = "SELECT u.k, (SELECT SUM(x) FROM t WHERE t.k = u.k) AS s FROM u WHERE u.y > 5"


def reads(lookup: DuckLookup, query: str, facts: Facts) -> dict[tuple[str, Face], int]:
    """How often a plan reads each face."""
    tree = canonicalize(bind(query, lookup).node)
    found: dict[tuple[str, Face], int] = {}
    for i in differentiate(root_of(tree, tree.columns), facts).inputs:
        found[i.source, i.face] = found.get((i.source, i.face), 0) + i.uses
    return found


def test_groups_of_which_all_are_read_are_summed_once(lookup: DuckLookup) -> None:
    found = reads(lookup, LARGEST, Facts(frozenset({"t"}), heavy=frozenset({"t"})))
    assert found["t", Face.BEFORE] == 1 and ("t", Face.AFTER) not in found


def test_a_partner_that_can_be_but_one_is_not_counted(lookup: DuckLookup) -> None:
    assert set(reads(lookup, FILTERED, Facts(frozenset({"t"})))) == {("t", Face.CHANGE), ("t", Face.BEFORE), ("u", Face.AFTER)}


@pytest.mark.parametrize(("facts", "sifted"), [(Facts(frozenset({"t"})), True), (Facts(frozenset({"t"}), heavy=frozenset({"u"})), False)])
def test_groups_that_a_filter_asks_for_are_sifted_first(lookup: DuckLookup, facts: Facts, sifted: bool) -> None:
    tree = canonicalize(bind(FILTERED, lookup).node)
    assert ("touched_sifted" in differentiate(root_of(tree, tree.columns), facts).sql) is sifted


def test_joined_groups_are_sifted_too(lookup: DuckLookup) -> None:
    tree = canonicalize(bind("SELECT u.y, g.s FROM u JOIN (SELECT k, SUM(x) AS s FROM t GROUP BY k) g ON g.k = u.k WHERE u.y > 5", lookup).node)
    assert "touched_sifted" in differentiate(root_of(tree, tree.columns), Facts(frozenset({"t"}))).sql


def test_of_joined_groups_only_those_that_meet_a_change_are_computed(lookup: DuckLookup) -> None:
    tree = canonicalize(bind("SELECT u.y, g.s FROM u JOIN (SELECT k, SUM(x) AS s FROM t GROUP BY k) g ON g.k = u.k", lookup).node)
    (groups,) = [i for i in differentiate(root_of(tree, tree.columns), Facts(frozenset({"u"}), held=frozenset({"u"}))).inputs if i.source == "t"]
    assert [w.among for w in groups.want.within] == [(("u", "k"),)]


def test_what_changes_is_no_sieve(lookup: DuckLookup) -> None:
    tree = canonicalize(bind(FILTERED, lookup).node)
    assert "touched_sifted" not in differentiate(root_of(tree, tree.columns), Facts(frozenset({"t", "u"}))).sql


PARTNERS = "SELECT n, COUNT(*) AS m FROM (SELECT t.k, COUNT(u.y) AS n FROM t LEFT JOIN u ON t.k = u.k AND u.y > 5 GROUP BY t.k) g GROUP BY n"


def test_one_pass_serves_both_faces_of_groups_over_a_left_join(lookup: DuckLookup) -> None:
    found = reads(lookup, PARTNERS, Facts(frozenset({"u"}), held=frozenset({"u"}), heavy=frozenset({"u"})))
    assert found["u", Face.AFTER] == 1 and ("u", Face.BEFORE) not in found


PARTNERS_ASKED = "SELECT y FROM u WHERE k IN (SELECT v.k FROM v LEFT JOIN (SELECT k, SUM(x) AS s FROM t GROUP BY k) g ON g.k = v.k WHERE g.s > 5)"


def test_one_pass_counts_the_partners_of_both_faces(lookup: DuckLookup) -> None:
    found = reads(lookup, PARTNERS_ASKED, Facts(frozenset({"t"}), held=frozenset({"t"}), heavy=frozenset({"t"})))
    assert found["t", Face.AFTER] == 1 and ("t", Face.BEFORE) not in found


SHORTER = {
    "both_faces": (PARTNERS, Facts(frozenset("u"), held=frozenset("u"))),
    "broadcasts": ("SELECT t.k, u.y FROM t JOIN u ON t.k = u.k", Facts(frozenset("t"), small=True)),
    "insert_only": ("SELECT x + 1 AS x FROM t", Facts(frozenset("t"), frozenset("t"))),
    "key_bounds": ("SELECT t.k, u.y FROM t JOIN u ON t.k = u.k", Facts(frozenset("t"), held=frozenset("t"))),
    "keys_at_hand": ("SELECT t.k, MAX(u.y) AS m FROM t JOIN u ON t.k = u.k GROUP BY t.k", Facts(frozenset("t"), held=frozenset("t"))),
    "later_rows": ("SELECT k, SUM(x) OVER (PARTITION BY k ORDER BY x) AS s FROM t", Facts(frozenset("t"))),
    "light_first": ("SELECT t.k, u.y, v.z FROM t JOIN v ON t.k = v.k JOIN u ON t.k = u.k", Facts(frozenset("t"), light=frozenset("u"))),
    "merged_results": ("SELECT k, MAX(x) AS m FROM t GROUP BY k", Facts(frozenset("t"), frozenset("t"))),
    "met_groups": ("SELECT u.y, g.s FROM u JOIN (SELECT k, SUM(x) AS s FROM t GROUP BY k) g ON g.k = u.k", Facts(frozenset("u"))),
    "one_partner": ("SELECT x FROM t WHERE k IN (SELECT k FROM u GROUP BY k)", Facts(frozenset("u"))),
    "sieves": (FILTERED, Facts(frozenset("t"))),
    "sums_once": (LARGEST, Facts(frozenset("t"))),
}


@pytest.mark.parametrize("way", OF_PLANS)
def test_each_way_to_a_smaller_plan_is_taken_and_can_be_switched_off(lookup: DuckLookup, way: str) -> None:
    query, facts = SHORTER[way]
    root = root_of(tree := canonicalize(bind(query, lookup).node), tree.columns)
    assert differentiate(root, facts).sql != differentiate(root, facts, off=frozenset({way})).sql


def test_a_part_says_what_it_reads_and_how_often(lookup: DuckLookup) -> None:
    query = "WITH s AS (SELECT k, SUM(x) AS n FROM t GROUP BY k) SELECT k, n FROM s WHERE n = (SELECT MAX(n) FROM s)"
    tree = canonicalize(bind(query, lookup).node)
    plan = differentiate(root_of(tree, tree.columns), Facts(frozenset({"t"}), heavy=frozenset({"t"})))
    *shared, last = plan.parts
    assert shared and last.name == ""
    before = [dict(p.reads) for p in plan.parts]
    made: set[str] = set()
    for part, reads in zip(plan.parts, before, strict=True):
        assert set(reads) <= {i.name for i in plan.inputs} | made, "inputs and earlier parts only"
        assert all(part.sql.count(f"`{name}`") for name in reads)
        made.add(part.name)
    assert {i.name: i.uses for i in plan.inputs} == {i.name: sum(r.get(i.name, 0) for r in before) for i in plan.inputs}
    assert "t__before" in before[0] and "t__before" not in before[-1], "the pass over the table is no part of the last one"


@pytest.mark.parametrize("name", ["a", "é", "a b", "a`b", "1a", "select", "a\nb", ""])
@pytest.mark.parametrize("table", [None, "l"])
def test_names_are_printed_as_the_library_prints_them(name: str, table: str | None) -> None:
    assert col(name, table).sql(SparkText, pretty=True) == col(name, table).sql("spark", pretty=True)
