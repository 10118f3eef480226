"""A fuse: stop before an unusually large change, until somebody looked.

What blew it stays unread, so that content goes on being right for an earlier moment. `reset_fuse` says what happens then:
*apply* reads the change, *reinitialise* computes the table anew, *skip* waits until a source commits again and weighs what is
then to be read; after a RESTORE that may be nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

ENOUGH = 5
"""Changes that a table must have seen before a multiple of the usual one means something."""
VERDICTS = ("apply", "reinitialise", "skip")


@dataclass(frozen=True)
class Fuse:
    """What a property asks for: a ceiling in rows, or a multiple of the usual change; neither when it is off."""

    rows: int | None = None
    times: float | None = None

    @property
    def off(self) -> bool:
        return self.rows is None and self.times is None

    def ceiling(self, past: Sequence[int]) -> float | None:
        """The largest change that passes, given how many rows past ones had; None when there is none.

        >>> Fuse(times=20.0).ceiling([10, 20, 30, 10, 20]), Fuse(times=20).ceiling([10]), Fuse(rows=7).ceiling([])
        (400.0, None, 7.0)
        """
        if self.rows is not None:
            return float(self.rows)
        seen = [n for n in past if n > 0]
        return self.times * median(seen) if self.times is not None and len(seen) >= ENOUGH else None


@dataclass(frozen=True)
class Blown:
    """A fuse that blew: how many rows wait, what was allowed, at which versions, and what somebody decided since."""

    rows: int
    ceiling: float
    at: str
    versions: Mapping[str, int] = field(default_factory=dict)
    verdict: str = ""

    def holds(self, versions: Mapping[str, int]) -> bool:
        """Whether the table still waits, given the latest versions of its sources."""
        if self.verdict == "skip":
            return all(versions.get(source, version) <= version for source, version in self.versions.items())
        return not self.verdict

    def __str__(self) -> str:
        told = f"; {self.verdict}" if self.verdict else ""
        return f"{self.rows:,} changed rows wait, more than {self.ceiling:,.0f}{told}"


def parse_fuse(text: str) -> Fuse:
    """
    >>> parse_fuse("off").off, parse_fuse("100000"), parse_fuse("20x")
    (True, Fuse(rows=100000, times=None), Fuse(rows=None, times=20.0))
    """
    given = text.strip().lower()
    if given == "off":
        return Fuse()
    if found := re.fullmatch(r"(\d+(?:\.\d+)?)x", given):
        return Fuse(times=float(found[1]))
    return Fuse(rows=int(given.replace("_", "")))
