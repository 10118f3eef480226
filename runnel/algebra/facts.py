"""What is known about one refresh before any data is read: which sources changed, and which of them only grew."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """Per refresh, from the commit logs alone. `insert_only` is a subset of `changed`.

    >>> str(Facts(frozenset({"orders"}), frozenset({"orders"})))
    'orders: insert-only'
    """

    changed: frozenset[str] = frozenset()
    insert_only: frozenset[str] = frozenset()
    small: bool = False
    """Every change is known to be small: whatever it is joined with, it is the side to broadcast."""
    held: frozenset[str] = frozenset()
    """Sources whose change is at hand before the plan is made: it comes net, and its values can tell which files matter."""

    light: frozenset[str] = frozenset()
    """Sources so small that reading and broadcasting one costs less than another job."""

    heavy: frozenset[str] = frozenset()
    """Sources so large that one pass over them costs more than another job."""

    def __post_init__(self) -> None:
        assert self.insert_only <= self.changed, "a source that did not change cannot be insert-only"

    def __str__(self) -> str:
        kinds = [f"{s}: {'insert-only' if s in self.insert_only else 'mixed'}" for s in sorted(self.changed)]
        return ", ".join(kinds) or "nothing changed"
