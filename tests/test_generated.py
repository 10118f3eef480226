"""Tier 4: generated queries and commits in DuckDB. Kept failures run first; RUNNEL_SEEDS=start:count chooses the seeds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.support.generate import from_json
from tests.support.seeds import BLOCK, Failure, modes, pool, reason, run_block

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))


def blocks() -> list[range]:
    start, count = map(int, os.environ.get("RUNNEL_SEEDS", "0:2000").split(":"))
    return [range(first, min(first + BLOCK, start + count)) for first in range(start, start + count, BLOCK)]


def test_kept_failures() -> None:
    for path in REGRESSIONS:
        why = reason(from_json(path.read_text()), modes(0))
        assert why is None, f"{path.name}: {why}"


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[dict[range, Future[list[Failure]]]]:
    """Every chosen block, on its way on all cores."""
    chosen = [item.callspec.params["block"] for item in request.session.items if getattr(item, "originalname", "") == "test_seeds"]
    with pool() as workers:
        yield {block: workers.submit(run_block, block) for block in chosen}
        workers.shutdown(wait=False, cancel_futures=True)


@pytest.mark.parametrize("block", blocks(), ids=lambda b: f"{b.start}-{b.stop - 1}")
def test_seeds(block: range, results: dict[range, Future[list[Failure]]], tmp_path: Path) -> None:
    for failure in results[block].result():
        kept = tmp_path / f"seed_{failure.seed}.json"
        kept.write_text(failure.json)
        pytest.fail(
            f"{failure.text}\nreplay: RUNNEL_SEEDS={failure.seed}:1 python -m pytest tests/test_generated.py\nkeep:   cp {kept} tests/regressions/",
            pytrace=False,
        )
