"""Tier 2: the same fixtures on Spark and Delta Lake, through the public interface.

The first commit is applied as written and refreshed; the others are applied as one INSERT, or as one INSERT OVERWRITE
where rows went, and refreshed together. That keeps the tier short: a DELETE costs seconds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.delta import creation, net_change, statements
from tests.support.fixture import Change, Fixture, fixtures, name_of, parse
from tests.support.maintain import row_text, same_text

pytestmark = pytest.mark.spark

# Where Spark and Delta Lake may differ from DuckDB: types, NULL and NaN, feeds of every kind of commit. The rest is slow.
OFTEN = """
    bags/duplicates bags/nets_to_nothing shape/avg_types shape/nan_and_infinity shape/nan_keys shape/float_cancellation
    shape/column_names subqueries/in_on
""".split()


def cases() -> list:
    maintained = [p for p in fixtures() if p.parent.name not in ("unsupported", "same_plan")]
    often = {p: p.parent.name in ("algebra", "sources", "spark_only") or name_of(p) in OFTEN for p in maintained}
    return [pytest.param(p, id=name_of(p), marks=() if often[p] else pytest.mark.slow) for p in maintained]


@pytest.mark.parametrize("path", cases())
def test_fixture_on_spark(path: Path, rn, there) -> None:
    follow(path, rn, there, name_of(path).replace("/", "_"))


def follow(path: Path, rn, there, schema: str) -> None:
    """One fixture in a schema of its own; those of operators also without rows that this process reads."""
    fixture = parse(path.read_text())
    rn.sql(f"CREATE SCHEMA {schema}")
    rn.sql(f"USE {schema}")
    for sql in creation(fixture):
        rn.sql(sql)
    connections = {"result": rn, **({"result_there": there} if path.parent.name == "algebra" else {})}
    for name in connections:
        rn.create(name, fixture.query, mode="DIFFERENTIAL")
    for changes, before, action, content in refreshes(fixture):
        for change in changes:
            for sql in statements(fixture.table(change.table), change, before[change.table]):
                rn.sql(sql)
        for name, connection in connections.items():
            record = connection.refresh(name)
            assert record.action == action, record
            check(rn, name, fixture, content)
    if path.parent.name == "algebra":
        assert rn.verify("result").ok


def refreshes(fixture: Fixture):
    """(changes, state before them, expected action, expected content), at most two."""
    states, commits = fixture.states(), fixture.commits
    if commits:
        yield commits[0].changes, states[0], commits[0].action, commits[0].expected_content
    if len(commits) > 1:
        rest = [net_change(t, states[1][t.name], states[-1][t.name]) for t in fixture.tables]
        changes = [c for c in rest if c.rows]
        yield changes, states[1], "DIFFERENTIAL" if reads(fixture, changes) else "NO_DATA", commits[-1].expected_content


def reads(fixture: Fixture, changes: list[Change]) -> bool:
    """Whether the query reads one of the changed tables, as the fixture's own actions tell."""
    changed = {c.table for c in changes}
    return any(commit.action == "DIFFERENTIAL" and changed & {c.table for c in commit.changes} for commit in fixture.commits)


def check(rn, name: str, fixture: Fixture, expected: list) -> None:
    frame = rn.table(name)
    assert [c.lower() for c in frame.columns] == [c.lower() for c in fixture.columns]
    found = [row_text(tuple(row)) for row in frame.collect()]
    assert same_text(found, expected), f"\nfound    {sorted(found)}\nexpected {expected}"
