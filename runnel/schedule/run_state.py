"""What a scheduler remembers of one stream table between two runs, and how a run, a failure or a word of a user changes it.

Failures are told apart by their branch. One that trying again may heal waits a second, then two, then four, with some jitter,
and suspends the table after a few in a row; one that it cannot heal suspends at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from runnel.schedule.fuse import Blown

FIRST_PAUSE, LONGEST_PAUSE, JITTER = 1.0, 60.0, 0.25
"""Seconds before the first and before any later try, and the share by which chance moves them apart."""
MOST_BACKOFF = 8
LATE = 0.95
"""The share of a period beyond which a refresh is said to take longer than it."""
HOPELESS = ("DefinitionError", "SourceChanged", "Internal")
"""Branches that trying again does not heal."""
PASSING = ("SOURCE_UNREADABLE",)
"""Codes of those branches that it may heal after all: storage that could not be reached looks like a damaged log."""


@dataclass(frozen=True)
class Trouble:
    """Why a table failed or is suspended, in the words of the error, and when. `by` is a user or the scheduler."""

    message: str
    at: str
    code: str = ""
    branch: str = ""
    detail: str = ""
    hint: str = ""
    by: str = "scheduler"

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}" if self.code else self.message


@dataclass(frozen=True)
class RunState:
    """Times are seconds since 1970; `anchor` is the moment from which the next run is counted.

    `backoff` multiplies the period of a table whose refreshes take longer than it.
    """

    anchor: float | None = None
    last_run: float | None = None
    last_ms: float = 0.0
    failures: int = 0
    retry_at: float | None = None
    trouble: Trouble | None = None
    suspended: Trouble | None = None
    backoff: int = 1
    blown: Blown | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunState:
        known = {k: v for k, v in data.items() if k in cls.__dataclass_fields__}
        for key in ("trouble", "suspended"):
            known[key] = Trouble(**known[key]) if known.get(key) else None
        known["blown"] = Blown(**known["blown"]) if known.get("blown") else None
        return cls(**known)


def started(state: RunState, now: float, period: float | None) -> RunState:
    """A run began. A run on time keeps the rhythm; after missed ones the rhythm begins anew, so that they are made up for once."""
    return replace(state, anchor=_anchored(state.anchor, now, period), last_run=now)


def looked(state: RunState, now: float, period: float | None) -> RunState:
    """A run was due and there was nothing to read."""
    return replace(state, anchor=_anchored(state.anchor, now, period))


def succeeded(state: RunState, ms: float, period: float | None, adaptive: bool = True) -> RunState:
    """A run ended well. `period` is the table's own, before any factor.

    >>> slow = succeeded(RunState(), 70_000, 60.0)
    >>> slow.backoff, succeeded(slow, 130_000, 60.0).backoff, succeeded(slow, 1_000, 60.0).backoff
    (2, 4, 1)
    """
    late = period is not None and ms / 1000 >= LATE * period * state.backoff
    backoff = min(MOST_BACKOFF, state.backoff * 2) if late else state.backoff if _strained(state, ms, period) else 1
    return replace(state, last_ms=ms, failures=0, retry_at=None, trouble=None, blown=None, backoff=backoff if adaptive else 1)


def failed(state: RunState, trouble: Trouble, now: float, limit: int, chance: float) -> RunState:
    """A run failed. `chance` from 0 to 1 spreads the next tries of tables that failed together.

    >>> once = failed(RunState(), Trouble("timed out", "", branch="Transient"), 100.0, 3, 0.5)
    >>> once.failures, once.retry_at, once.suspended
    (1, 101.0, None)
    """
    failures = state.failures + 1
    if hopeless(trouble) or failures >= limit:
        return replace(state, failures=failures, retry_at=None, trouble=trouble, suspended=trouble)
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (failures - 1)) * (1 + JITTER * (2 * chance - 1))
    return replace(state, failures=failures, retry_at=now + pause, trouble=trouble)


def hopeless(trouble: Trouble) -> bool:
    """Whether trying again cannot help."""
    return trouble.branch in HOPELESS and trouble.code not in PASSING


def resumed(state: RunState) -> RunState:
    """Suspension, failures and pauses are forgotten; the next tick tries again."""
    return replace(state, suspended=None, failures=0, retry_at=None, trouble=None, anchor=None)


def _strained(state: RunState, ms: float, period: float | None) -> bool:
    """Late for its own period, though on time for the longer one that it has now."""
    return period is not None and state.backoff > 1 and ms / 1000 >= LATE * period


def _anchored(anchor: float | None, now: float, period: float | None) -> float:
    due = now if anchor is None or period is None else anchor + period
    return due if due <= now < due + (period or 0.0) else now
