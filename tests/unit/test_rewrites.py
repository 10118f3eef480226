"""Rewrites of the text: each leaves a trace, a text that went through them all stays as it is, and without one that it needs no query is maintained."""

from __future__ import annotations

import pytest

from runnel.bind import bind
from runnel.bind.rewrites import REWRITES
from runnel.errors import Unsupported
from runnel.passes import Pass
from tests.support.duck import Duck, DuckLookup
from tests.support.fixture import parse

TABLES = "# t\n\n## table t (id int, k string, x int)\n\n## table u (k string, y int)\n\n## view big\n\n```sql\nSELECT k, x FROM t WHERE x > 1\n```\n"


QUERIES = (
    "SELECT k FROM t",
    "SELECT k, id FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) = 1",
    "SELECT id, col FROM t, LATERAL explode(split(k, ','))",
    "SELECT * FROM (SELECT k, x FROM t) PIVOT (SUM(x) FOR k IN ('a', 'b'))",
    "SELECT k, FIRST(x) AS f FROM t GROUP BY k",
)


def changed(query: str) -> list[str]:
    trace: list[Pass] = []
    bind(query, DuckLookup(Duck(parse(TABLES))), trace=trace)
    assert [p.rule for p in trace] == [*(r.name for r in REWRITES), "decide_ties"]
    return [p.rule for p in trace if p.changed]


@pytest.mark.parametrize(
    ("query", "rewrites"),
    [
        ("SELECT k, id FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) = 1", {"spell", "decide_ties"}),
        ("SELECT DISTINCT ON (k) k, x FROM t ORDER BY k, x", {"spell"}),
        ("SELECT k FROM t WHERE x > ALL (SELECT y FROM u)", {"spell"}),
        ("SELECT k FROM big", {"expand"}),
        ("SELECT id, col FROM t, LATERAL explode(split(k, ','))", {"name_columns"}),
        ("SELECT k, FIRST(x) AS f FROM t GROUP BY k", {"determine_calls"}),
        ("SELECT k FROM t ORDER BY x LIMIT 2", {"decide_ties"}),
    ],
)
def test_the_trace_names_what_changed(query: str, rewrites: set[str]) -> None:
    assert rewrites <= set(changed(query))


def test_a_text_that_stands_on_its_own_stays_as_it_is() -> None:
    lookup = DuckLookup(Duck(parse(TABLES)))
    once = bind("SELECT k, FIRST(x) AS f FROM big GROUP BY k QUALIFY RANK() OVER (ORDER BY f) = 1", lookup).sql
    assert bind(once, lookup).sql == once


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda r: r.name)
def test_a_query_that_needs_a_rewrite_is_not_maintained_without_it(rewrite) -> None:
    lookup = DuckLookup(Duck(parse(TABLES)))
    needs: list[str] = []
    for query in QUERIES:
        trace: list[Pass] = []
        bound = bind(query, lookup, trace=trace)
        if {p.rule: p.changed for p in trace}[rewrite.name]:
            needs.append(query)
            with pytest.raises(Unsupported, match="switched off") as raised:
                bind(query, lookup, disabled=(rewrite.name,))
            assert rewrite.because in raised.value.detail
        else:
            assert bind(query, lookup, disabled=(rewrite.name,)) == bound
    assert needs or rewrite.name in ("name_time_windows", "refuse", "user_aggregates", "faithful"), "none of the queries uses it"
