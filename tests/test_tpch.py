"""TPC-H as stream tables: after every round of changes each query is maintained differentially and equals itself from scratch."""

from __future__ import annotations

import pytest

from tests.support.follow import Outcome, asked, check
from tests.support.tpch.run import QUERIES, run

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("tpch")]


@pytest.fixture(scope="module")
def one_round(rn, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    return {o.query: o for o in run(rn, 0.002, 1, asked(request, "test_query"), quick=True)}


@pytest.fixture(scope="module")
def five_rounds(rn, request: pytest.FixtureRequest) -> dict[str, Outcome]:
    return {o.query: o for o in run(rn, 0.01, 5, asked(request, "test_query_for_long"))}


OFTEN = "q04 q09 q13 q15 q20 q21".split()
"""One of each shape: EXISTS, six tables, outer join, MAX of sums, subqueries within each other, NOT EXISTS. `make tpch` has all of them."""


@pytest.mark.parametrize("query", [pytest.param(q, marks=() if q in OFTEN else pytest.mark.slow) for q in QUERIES])
def test_query(query: str, one_round: dict[str, Outcome]) -> None:
    check(one_round[query])


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_query_for_long(query: str, five_rounds: dict[str, Outcome]) -> None:
    check(five_rounds[query])
