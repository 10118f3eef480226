"""Nexmark as stream tables: after every round of changes each query is maintained differentially and equals itself from scratch."""

from __future__ import annotations

import pytest

from tests.support.follow import Outcome, asked, check
from tests.support.nexmark.run import LEFT_OUT, QUERIES, run

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("nexmark")]


@pytest.fixture(scope="module")
def one_round(rn, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    return {o.query: o for o in run(rn, 500, 1, asked(request, "test_query"), quick=True)}


@pytest.fixture(scope="module")
def five_rounds(rn, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    return {o.query: o for o in run(rn, 2000, 5, asked(request, "test_query_for_long"))}


def test_every_query_is_there_or_left_out() -> None:
    assert QUERIES.keys() | LEFT_OUT.keys() == {f"q{n:02}" for n in range(23)}


OFTEN = "q04 q07 q18".split()


@pytest.mark.parametrize("query", [pytest.param(q, marks=() if q in OFTEN else pytest.mark.slow) for q in QUERIES])
def test_query(query: str, one_round: dict[str, Outcome]) -> None:
    check(one_round[query])


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_query_for_long(query: str, five_rounds: dict[str, Outcome]) -> None:
    check(five_rounds[query])
