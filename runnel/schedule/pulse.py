"""How often each source is looked at: at once after it changed, then more and more rarely while it stands still."""

from __future__ import annotations

from collections.abc import Iterable

BUSY = 0.1
"""Seconds between two looks at a source that has just changed."""
SLOWER = 1.5


class Pulse:
    """
    >>> pulse = Pulse(5.0)
    >>> pulse.watch(["a"]); pulse.due(0.0)
    ['a']
    >>> pulse.looked("a", True, 0.0); pulse.next_look(), pulse.due(0.05)
    (0.1, [])
    """

    def __init__(self, idle: float) -> None:
        self._idle = max(idle, BUSY)
        self._pause: dict[str, float] = {}
        self._next: dict[str, float] = {}

    def watch(self, sources: Iterable[str]) -> None:
        """Look at these sources and no others; new ones at once."""
        wanted = set(sources)
        for gone in self._next.keys() - wanted:
            del self._next[gone], self._pause[gone]
        for source in wanted - self._next.keys():
            self._next[source], self._pause[source] = 0.0, BUSY

    def due(self, now: float) -> list[str]:
        # A look planned beyond the longest pause was planned by a clock that has been put back since.
        return sorted(s for s, at in self._next.items() if at <= now or at > now + self._idle)

    def looked(self, source: str, changed: bool, now: float) -> None:
        if source in self._next:
            self._pause[source] = BUSY if changed else min(self._idle, self._pause[source] * SLOWER)
            self._next[source] = now + self._pause[source]

    def hurry(self) -> None:
        """Somebody committed: look at everything now."""
        for source in self._next:
            self._next[source], self._pause[source] = 0.0, BUSY

    def next_look(self) -> float | None:
        return min(self._next.values(), default=None)
