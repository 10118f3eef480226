"""Runs generated cases and makes a failing one small. `make soak` runs this file: new seeds until one fails.

python -m tests.support.seeds [SECONDS]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context

from runnel.settings import OF_PLANS
from tests.support.fixture import Fixture, render
from tests.support.generate import generate, shrink, to_json
from tests.support.maintain import maintain

BLOCK = 20


@dataclass(frozen=True)
class Failure:
    """A seed that fails: why, and the smallest case found, as text for people and as JSON to keep."""

    seed: int
    text: str
    json: str


def modes(seed: int) -> tuple[str, ...]:
    """What a seed is checked in: laws, in one half with changes at hand; beside them the definition of a change in one half, as rules leave a
    query in one quarter, and in one eighth without one of the ways to a smaller plan."""
    definition = ["default_change"] if seed % 4 in (2, 3) else []
    rules = ["laws_without_rules"] if seed % 4 == 0 else []
    ways = [f"laws_held_without_{OF_PLANS[seed // 8 % len(OF_PLANS)]}"] if seed % 8 == 1 else []
    return ("laws_held" if seed % 2 else "laws", *definition, *rules, *ways)


def reason(fixture: Fixture, modes: tuple[str, ...]) -> str | None:
    """Why a case fails, or None. A cut that takes rows which are not there is no failure of ours."""
    try:
        fixture.states()
    except AssertionError:
        return None
    try:
        for _ in maintain(fixture, modes):
            pass
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def run(seed: int) -> Failure | None:
    """Check one seed; shrink it when it fails, without leaving the kind of failure."""
    case, chosen = generate(seed), modes(seed)
    why = reason(case.fixture, chosen)
    if why is None:
        return None
    kind = why.partition(":")[0]
    small = shrink(case, lambda fixture: (reason(fixture, chosen) or "").startswith(kind)).fixture
    return Failure(seed, f"{reason(small, chosen)}\n\n{render(small)}", to_json(small))


def run_block(seeds: Iterable[int]) -> list[Failure]:
    """Check seeds up to the first that fails."""
    for seed in seeds:
        if (failure := run(seed)) is not None:
            return [failure]
    return []


def pool() -> ProcessPoolExecutor:
    """One process per core. They start afresh, since DuckDB's threads do not survive a fork."""
    return ProcessPoolExecutor(mp_context=get_context("spawn"))


def soak(seconds: float) -> int:
    start, begun = int(time.time()) * 1000, time.monotonic()
    with pool() as workers:
        pending = []
        blocks: Iterator[range] = (range(first, first + BLOCK) for first in count(start, BLOCK))
        for done in count(1):
            while len(pending) < 2 * (workers._max_workers or 1):
                pending.append(workers.submit(run_block, next(blocks)))
            for failure in pending.pop(0).result():
                workers.shutdown(wait=False, cancel_futures=True)
                print(f"\nseed {failure.seed} fails\n\n{failure.text}\nkeep as tests/regressions/seed_{failure.seed}.json:\n{failure.json}")
                return 1
            passed = time.monotonic() - begun
            print(f"\r{done * BLOCK} seeds from {start}, {passed:.0f} s", end="", flush=True)
            if seconds and passed > seconds:
                workers.shutdown(wait=False, cancel_futures=True)
                print()
                return 0
    return 0


if __name__ == "__main__":
    sys.exit(soak(float(sys.argv[1]) if len(sys.argv) > 1 else 0))
