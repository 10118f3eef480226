"""Tier 4: generated queries and commits in DuckDB. Kept failures run first; RUNNEL_SEEDS=start:count chooses the seeds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.fixture import Fixture, render
from tests.support.generate import from_json, generate, shrink, to_json
from tests.support.maintain import maintain

MODES = ("laws", "default_change")
REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))


def seeds() -> range:
    start, count = map(int, os.environ.get("RUNNEL_SEEDS", "0:300").split(":"))
    return range(start, start + count)


def test_kept_failures() -> None:
    for path in REGRESSIONS:
        reason = failure(from_json(path.read_text()))
        assert reason is None, f"{path.name}: {reason}"


@pytest.mark.parametrize("seed", seeds())
def test_seed(seed: int, tmp_path: Path) -> None:
    case = generate(seed)
    reason = failure(case.fixture)
    if reason is None:
        return
    small = shrink(case, lambda fixture: failure(fixture) is not None).fixture
    kept = tmp_path / f"seed_{seed}.json"
    kept.write_text(to_json(small))
    pytest.fail(
        f"{failure(small)}\n\n{render(small)}\n"
        f"replay: RUNNEL_SEEDS={seed}:1 python -m pytest tests/test_generated.py\n"
        f"keep:   cp {kept} tests/regressions/",
        pytrace=False,
    )


def failure(fixture: Fixture) -> str | None:
    """Why a case fails, or None. A cut that takes rows which are not there is no failure of ours."""
    try:
        fixture.states()
    except AssertionError:
        return None
    try:
        list(maintain(fixture, MODES))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
