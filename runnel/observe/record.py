"""What one refresh did: the record that is returned, stored in the catalog and carried inside the commit."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Action(StrEnum):
    """The action really taken, never the planned one."""

    NO_DATA = "NO_DATA"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    REINITIALIZE = "REINITIALIZE"
    SKIP = "SKIP"


class Mode(StrEnum):
    """What the user asked for."""

    AUTO = "AUTO"
    """The faster way, decided at each refresh."""
    DIFFERENTIAL = "DIFFERENTIAL"
    """Changes are applied; the table is computed anew only when a source leaves no other way, with a warning."""
    STRICT = "STRICT"
    """Changes are applied, or the refresh fails."""
    FULL = "FULL"

    @property
    def applies_changes(self) -> bool:
        """Whether a query that cannot be maintained incrementally is refused."""
        return self in (Mode.DIFFERENTIAL, Mode.STRICT)


POLICIES = {"AUTO": Mode.AUTO, "INCREMENTAL": Mode.DIFFERENTIAL, "INCREMENTAL STRICT": Mode.STRICT, "FULL": Mode.FULL}
"""The same in the words of Databricks, as in REFRESH POLICY INCREMENTAL STRICT."""


def mode_of(text: str) -> Mode | None:
    """The mode that a word of ours or of Databricks names.

    >>> mode_of("incremental strict"), mode_of("auto"), mode_of("never")
    (<Mode.STRICT: 'STRICT'>, <Mode.AUTO: 'AUTO'>, None)
    """
    word = " ".join(str(text).upper().split())
    return Mode(word) if word in Mode.__members__ else POLICIES.get(word)


COMPACTION = "compaction"
"""The stage that any refresh may owe."""


@dataclass(frozen=True)
class Stage:
    """One step of a refresh, with its wall time."""

    name: str
    ms: float


@dataclass(frozen=True)
class RefreshRecord:
    """One refresh of one stream table.

    `frontier` maps each source to the version its content now reflects. `rows_in` counts changed source rows
    (an UPDATE is two), `rows_out` the rows appended to the backing table; both are None when unknown.

    What it cost: `bytes_read` are the files that the plan names, as their logs count them; `rows_read`, `bytes_written` and
    `executor_ms` are what Spark counted, None where it cannot be asked, `bytes_here` are of files of tables that this process read.
    `estimated_ms` is what the model said of the action taken, `recompute_ms` and `recompute_bytes` what a recompute was expected to take
    at that moment, and `ratio` the changed share of the changed sources. `fold_ms` is the part of a compaction that its rows are of those
    that were folded: the whole when they were the tail.
    """

    stream_table: str
    epoch: int
    action: Action
    reason: str
    status: str = "COMPLETED"
    frontier: dict[str, int] = field(default_factory=dict)
    version: int | None = None
    rows_in: int | None = None
    rows_out: int | None = None
    jobs: int | None = None
    stages: tuple[Stage, ...] = ()
    started_at: str = ""
    ms: float = 0.0
    error: dict[str, Any] | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    rows_read: int | None = None
    executor_ms: float | None = None
    estimated_ms: float | None = None
    recompute_ms: float | None = None
    recompute_bytes: int | None = None
    ratio: float | None = None
    bytes_here: int = 0
    fold_ms: float = 0.0

    @property
    def work_ms(self) -> float:
        """What the action itself took: without waiting for another refresh, and of a compaction only what its own rows are to blame for."""
        return sum(s.ms for s in self.stages if s.name != COMPACTION) + self.fold_ms or self.ms

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), default=str)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RefreshRecord:
        data = dict(data)
        data["action"] = Action(data["action"])
        data["stages"] = tuple(Stage(**s) for s in data.get("stages") or ())
        return cls(**{k: v for k, v in data.items() if k in cls.__dataclass_fields__})

    def __str__(self) -> str:
        rows = f"{_count(self.rows_in)} in, {_count(self.rows_out)} out"
        return f"{self.stream_table} epoch {self.epoch}: {self.action} ({self.reason}); {rows}; {self.ms:.0f} ms"


def _count(rows: int | None) -> str:
    return "?" if rows is None else str(rows)
