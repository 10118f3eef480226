"""The oracle: create queries as stream tables once; after each round of changes refresh all, check the action, verify the content.

A query that fails is left out of later rounds and does not stop the others. A quick run verifies after the last round only, since
verifying takes longer than refreshing; content is a sum of changes, so what a round gets wrong stays wrong as a rule.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

import runnel
from runnel.errors import RunnelError
from runnel.observe.record import RefreshRecord

Say = Callable[[str], None]
Statement = tuple[str, str]
"""A source table and the SQL that changes it."""


@dataclass(frozen=True)
class Round:
    """What one refresh did and took. `rows_in` are changed source rows, `rows_out` the rows appended to the stream table."""

    action: str
    ms: float
    jobs: int
    rows_in: int
    rows_out: int


@dataclass
class Outcome:
    """A query through all rounds."""

    query: str
    rows: int = 0
    rounds: list[Round] = field(default_factory=list)
    full_ms: float = 0.0
    failure: str = ""

    @property
    def moved(self) -> bool:
        """Whether a round changed the result."""
        return any(r.rows_out for r in self.rounds)


def follow(rn: runnel.Runnel, queries: dict[str, str], rounds: list[list[Statement]], mode: str, say: Say, quick: bool = False) -> list[Outcome]:
    """One outcome per query. Unless `quick`, every round is verified and a recomputation is measured at the end."""
    outcomes = {name: Outcome(name) for name in queries}
    for name, sql in queries.items():
        _attempt(outcomes[name], "create", lambda name=name, sql=sql: rn.create(name, sql, mode=mode))
    _report(say, "created", outcomes)
    for number, statements in enumerate(rounds, 1):
        for _, sql in statements:
            rn.sql(sql)
        changed = {table for table, _ in statements}
        for name, sql in queries.items():
            outcome, expected = outcomes[name], mode if changed & tables_of(sql) else "NO_DATA"
            _attempt(outcome, f"round {number}", lambda outcome=outcome, expected=expected: _refresh(rn, outcome, expected))
            if not quick or number == len(rounds):
                _attempt(outcome, f"round {number}", lambda outcome=outcome: _verify(rn, outcome))
        _report(say, f"round {number} of {len(rounds)}", outcomes)
    if not quick:
        for outcome in outcomes.values():
            _attempt(outcome, "full", lambda outcome=outcome: _full(rn, outcome))
    return list(outcomes.values())


def read_queries(folder: Path) -> dict[str, str]:
    """Name and text of each SQL file."""
    return {path.stem: path.read_text() for path in sorted(folder.glob("*.sql"))}


def asked(request: pytest.FixtureRequest, test: str) -> list[str]:
    """The queries that this run of pytest asks a test for, so that choosing one does not run them all."""
    chosen = (i for i in request.session.items if i.getparent(pytest.Module) is request.node and getattr(i, "originalname", "") == test)
    return [item.callspec.params["query"] for item in chosen]


def check(outcome: Outcome) -> None:
    """Fail a test with the reason and nothing else."""
    if outcome.failure:
        pytest.fail(f"{outcome.query} failed at {outcome.failure}", pytrace=False)


def tables_of(sql: str) -> set[str]:
    """The tables a query reads."""
    tree = sqlglot.parse_one(sql, dialect="spark")
    return {t.name for t in tree.find_all(exp.Table)} - {c.alias for c in tree.find_all(exp.CTE)}


def _refresh(rn: runnel.Runnel, outcome: Outcome, expected: str) -> None:
    record = rn.refresh(outcome.query)
    outcome.rounds.append(_round(record))
    assert record.action == expected, f"expected {expected}: {record}"


def _verify(rn: runnel.Runnel, outcome: Outcome) -> None:
    found = rn.verify(outcome.query)
    assert found.ok, str(found)
    outcome.rows = found.rows


def _full(rn: runnel.Runnel, outcome: Outcome) -> None:
    outcome.full_ms = round(rn.refresh(outcome.query, full=True).ms, 1)


def _round(record: RefreshRecord) -> Round:
    return Round(str(record.action), round(record.ms, 1), record.jobs or 0, record.rows_in or 0, record.rows_out or 0)


def _attempt(outcome: Outcome, step: str, work: Callable[[], object]) -> None:
    """Keep the first failure, in words; whatever the cause, the other queries go on."""
    if outcome.failure:
        return
    try:
        work()
    except Exception as error:
        outcome.failure = f"{step}: {error if isinstance(error, RunnelError | AssertionError) else _told(error)}"


def _told(error: Exception) -> str:
    """An error that nobody planned, with the line of ours that it came through last."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/runnel/" in f.filename]
    where = f" at {frames[-1].filename.rpartition('/runnel/')[2]}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}: {error}"


def _report(say: Say, step: str, outcomes: dict[str, Outcome]) -> None:
    failed = [o.query for o in outcomes.values() if o.failure]
    say(f"{step}: {len(outcomes) - len(failed)} of {len(outcomes)} queries right" + (f"; not {', '.join(failed)}" if failed else ""))
