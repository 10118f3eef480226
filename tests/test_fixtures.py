"""Tier 1: every fixture in DuckDB, as recompute, default change, laws, and laws without rules.

Those in `spark_only` use what DuckDB lacks or answers in another way; tier 2 has them.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from runnel.algebra import OPERATORS
from runnel.bind import bind
from runnel.canonicalize import RULES, canonicalize
from runnel.errors import DefinitionError
from runnel.settings import OF_PLANS
from tests.support.duck import Duck, DuckLookup
from tests.support.fixture import FIXTURES, Fixture, fixtures, name_of, parse, render
from tests.support.maintain import as_text, change_between, maintain


@pytest.mark.parametrize("path", [p for p in fixtures() if p.parent.name != "spark_only"], ids=name_of)
def test_fixture(path: Path, rewrite: bool) -> None:
    written = path.read_text()
    fixture = parse(written)
    match path.parent.name:
        case "unsupported":
            refuse_all(fixture)
        case "same_plan":
            compare_plans(fixture)
        case _:
            follow(fixture)
    if rewrite:
        path.write_text(render(fixture))
    else:
        assert render(fixture) == written


def follow(fixture: Fixture) -> None:
    """Run the commits; every mode is checked on the way. The fixture then holds what really happened."""
    start, *steps = maintain(fixture)
    fixture.columns, fixture.start = list(start.columns), as_text(start.rows)
    content = fixture.start
    for commit, step in zip(fixture.commits, steps, strict=True):
        commit.action = step.action
        commit.expected_content = as_text(step.rows)
        commit.expected_change = change_between(content, commit.expected_content)
        content = commit.expected_content


def refuse_all(fixture: Fixture) -> None:
    lookup = DuckLookup(Duck(fixture))
    fixture.errors = [refusal(query, lookup) for query in fixture.queries]


def refusal(query: str, lookup: DuckLookup) -> str:
    try:
        bind(query, lookup)
    except DefinitionError as error:
        return str(error)
    return "none: the query is maintained, move it to another fixture"


def compare_plans(fixture: Fixture) -> None:
    lookup = DuckLookup(Duck(fixture))
    plans = [plain_names(str(canonicalize(bind(query, lookup).node))) for query in fixture.queries]
    for other in plans[1:]:
        assert other == plans[0], f"\n{other}\n\nis not\n\n{plans[0]}"
    fixture.plan = plans[0]


def plain_names(tree: str) -> str:
    """Generated names count up per query; here they count up per tree, by first appearance."""
    tree = tree.replace("`", "")
    names: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for word in dict.fromkeys(re.findall(r"\b[a-z]\w*\b", tree)):
        base = re.sub(r"_\d+$", "", word)
        seen[base] += 1
        names[word] = base if seen[base] == 1 else f"{base}_{seen[base]}"
    return re.sub(r"\b[a-z]\w*\b", lambda m: names[m[0]], tree)


VARIED = (
    "algebra/domain algebra/join algebra/outer_join algebra/semi_join shape/subqueries_in_from subqueries/scalar_correlated windows/over_join".split()
)


@pytest.mark.parametrize("rule", sorted({r.__name__ for r in RULES}))
def test_each_rule_can_be_switched_off(rule: str) -> None:
    chosen = [p for p in fixtures() if name_of(p) in VARIED]
    assert len(chosen) >= 5
    for path in chosen:
        for _ in maintain(parse(path.read_text()), (f"laws_without_{rule}",)):
            pass


@pytest.mark.parametrize("way", [*OF_PLANS, "ways"])
def test_each_way_to_a_smaller_plan_can_be_switched_off(way: str) -> None:
    """Each on some fixtures that compose operators, all at once on those that show the operators one by one too."""
    chosen = [p for p in fixtures() if name_of(p) in VARIED or (way == "ways" and p.parent.name == "algebra")]
    assert len(chosen) >= (20 if way == "ways" else 5)
    for path in chosen:
        for _ in maintain(parse(path.read_text()), (f"laws_held_without_{way}",)):
            pass


def test_every_operator_has_its_fixture() -> None:
    files = {p.stem for p in (FIXTURES / "algebra").glob("*.md")}
    assert files == {re.sub(r"(?<!^)(?=[A-Z])", "_", o.title).lower() for o in OPERATORS}
