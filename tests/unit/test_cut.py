"""Cuts that agree, and the newest agreement of several logs."""

from __future__ import annotations

from random import Random

import pytest

from runnel.schedule.cut import differing, latest_agreement


def test_nothing_agrees() -> None:
    assert latest_agreement({"b": [(2, {"a": 7})], "c": [(1, {"a": 6})]}) is None
    assert latest_agreement({"b": [], "c": [(1, {"a": 6})]}) is None


def test_tables_without_a_common_source_agree_at_their_latest() -> None:
    assert latest_agreement({"b": [(2, {"x": 7}), (1, {"x": 6})], "c": [(9, {"y": 1})]}) == {"b": 2, "c": 9}


def test_one_who_steps_back_takes_others_along() -> None:
    logs = {"b": [(5, {"a": 3}), (4, {"a": 1})], "c": [(7, {"a": 2, "x": 2}), (6, {"a": 1, "x": 1})], "d": [(3, {"x": 2}), (2, {"x": 1})]}
    assert latest_agreement(logs) == {"b": 4, "c": 6, "d": 2}


@pytest.mark.parametrize("seed", range(50))
def test_the_newest_agreement_is_found(seed: int) -> None:
    """Against trying all combinations."""
    from itertools import product

    random = Random(seed)
    logs = {}
    for name in "bcd":
        at = {k: random.randint(0, 1) for k in random.sample("xyz", 2)}
        versions = []
        for version in range(1, 5):
            at = {k: v + random.randint(0, 1) for k, v in at.items()}
            versions.insert(0, (version, dict(at)))
        logs[name] = versions
    sound = [c for c in product(*logs.values()) if not differing(r for _, r in c)]
    best = max(sound, key=lambda c: [v for v, _ in c], default=None)
    found = latest_agreement(logs)
    assert found == (dict(zip(logs, (v for v, _ in best), strict=True)) if best else None)
    assert best is None or all(found[n] >= v for c in sound for n, (v, _) in zip(logs, c, strict=True))
