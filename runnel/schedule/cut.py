"""A cut: one version of every plain source, the same for all stream tables that are refreshed in it.

A stream table that reads others reflects plain sources through them. Two of them *agree* when they reflect every source that
both reflect at the same version: only then may a third one read both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Versions = Mapping[str, int]


@dataclass(frozen=True)
class Cut:
    """The version of each plain source by its name, and when they were chosen, as an ISO time in UTC.

    >>> print(Cut({"orders": 7, "customers": 2}, "2026-01-01T00:00:00+00:00"))
    customers@2, orders@7
    """

    versions: Versions = field(default_factory=dict)
    at: str = ""

    def __str__(self) -> str:
        return ", ".join(f"{key}@{version}" for key, version in sorted(self.versions.items()))


def differing(reflected: Iterable[Versions]) -> dict[str, tuple[int, int]]:
    """The sources that are reflected at several versions: the oldest and the newest of them.

    >>> differing([{"a": 5, "x": 1}, {"a": 7, "y": 2}])
    {'a': (5, 7)}
    """
    found: dict[str, tuple[int, int]] = {}
    for versions in reflected:
        for key, version in versions.items():
            low, high = found.get(key, (version, version))
            found[key] = min(low, version), max(high, version)
    return {key: span for key, span in found.items() if span[0] != span[1]}


def merged(reflected: Iterable[Versions]) -> dict[str, int]:
    """All that several stream tables reflect, where they agree.

    >>> merged([{"a": 5}, {"a": 5, "b": 1}])
    {'a': 5, 'b': 1}
    """
    return {key: version for versions in reflected for key, version in versions.items()}


def latest_agreement(logs: Mapping[str, Sequence[tuple[int, Versions]]]) -> dict[str, int] | None:
    """The newest versions of stream tables that agree; None when there are none.

    `logs` has the versions of each table, newest first, with what they reflect. Whoever is ahead steps back until nobody is: what a
    table reflects only grows along its log, so no agreement is passed over.

    >>> latest_agreement({"b": [(3, {"a": 7}), (2, {"a": 5})], "c": [(9, {"a": 5}), (8, {"a": 4})]})
    {'b': 2, 'c': 9}
    """
    at = dict.fromkeys(logs, 0)
    while all(place < len(logs[name]) for name, place in at.items()):
        reflected = {name: logs[name][place][1] for name, place in at.items()}
        apart = differing(reflected.values())
        if not apart:
            return {name: logs[name][place][0] for name, place in at.items()}
        for name, versions in reflected.items():
            if any(versions.get(key, low) > low for key, (low, _) in apart.items()):
                at[name] += 1
    return None
