"""Tier 4: generated queries and commits in DuckDB. Kept failures run first; RUNNEL_SEEDS=start:count chooses the seeds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.generate import from_json
from tests.support.maintain import MODES
from tests.support.seeds import BLOCK, reason, run_block

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))


def blocks() -> list[range]:
    start, count = map(int, os.environ.get("RUNNEL_SEEDS", "0:2000").split(":"))
    return [range(first, min(first + BLOCK, start + count)) for first in range(start, start + count, BLOCK)]


def test_kept_failures() -> None:
    for path in REGRESSIONS:
        why = reason(from_json(path.read_text()), MODES)
        assert why is None, f"{path.name}: {why}"


@pytest.mark.parametrize("block", blocks(), ids=lambda b: f"{b.start}-{b.stop - 1}")
def test_seeds(block: range, tmp_path: Path) -> None:
    for failure in run_block(block):
        kept = tmp_path / f"seed_{failure.seed}.json"
        kept.write_text(failure.json)
        pytest.fail(
            f"{failure.text}\nreplay: RUNNEL_SEEDS={failure.seed}:1 python -m pytest tests/test_generated.py\nkeep:   cp {kept} tests/regressions/",
            pytrace=False,
        )
