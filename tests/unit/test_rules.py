"""Rules: each keeps the columns, can be switched off, leaves a trace, and has nothing left to do after itself."""

from __future__ import annotations

import pytest

from runnel.bind import bind
from runnel.canonicalize import RULES, canonicalize
from tests.support.duck import Duck, DuckLookup
from tests.support.fixture import fixtures, name_of, parse
from tests.support.generate import generate


def trees():
    for path in fixtures("shape"):
        fixture = parse(path.read_text())
        yield name_of(path), fixture
    for seed in range(20):
        yield f"seed {seed}", generate(seed).fixture


@pytest.mark.parametrize(("name", "fixture"), list(trees()), ids=lambda v: v if isinstance(v, str) else "")
def test_canonical_stays_canonical(name: str, fixture) -> None:
    once = canonicalize(bind(fixture.query, DuckLookup(Duck(fixture))).node)
    assert str(canonicalize(once)) == str(once)


def test_a_rule_can_be_switched_off() -> None:
    fixture = generate(0).fixture
    fixture.queries = ["SELECT k FROM (SELECT * FROM t WHERE x > 1) AS a WHERE d > 2"]
    node = bind(fixture.query, DuckLookup(Duck(fixture))).node
    assert str(canonicalize(node)).count("Filter") == 1
    assert str(canonicalize(node, disabled=["merge_filters"])).count("Filter") == 2
    assert canonicalize(node, disabled=[r.__name__ for r in RULES]) == node


def test_the_trace_names_what_changed() -> None:
    fixture = generate(0).fixture
    fixture.queries = ["SELECT t.k FROM t, u WHERE t.k = u.k"]
    trace: list = []
    canonicalize(bind(fixture.query, DuckLookup(Duck(fixture))).node, trace=trace)
    assert [p.rule for p in trace] == [r.__name__ for r in RULES]
    assert "filter_into_join" in {p.rule for p in trace if p.changed}
