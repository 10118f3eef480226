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
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"


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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), default=str)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RefreshRecord:
        data = dict(data)
        data["action"] = Action(data["action"])
        data["stages"] = tuple(Stage(**s) for s in data.get("stages") or ())
        return cls(**data)

    def __str__(self) -> str:
        rows = f"{_count(self.rows_in)} in, {_count(self.rows_out)} out"
        return f"{self.stream_table} epoch {self.epoch}: {self.action} ({self.reason}); {rows}; {self.ms:.0f} ms"


def _count(rows: int | None) -> str:
    return "?" if rows is None else str(rows)
