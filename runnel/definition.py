"""What a stream table is: the frozen type that crosses the border between text and everything that runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from runnel.differentiate.layout import Layout
from runnel.errors import DefinitionError
from runnel.observe.record import Mode
from runnel.schedule.fuse import parse_fuse
from runnel.schedule.schedules import Schedule, stored_schedule
from runnel.schedule.tier import Tier

CEILING = "runnel.differential_ceiling"
TIER, PRIORITY, FUSE, GROUP_SCHEDULE = "runnel.tier", "runnel.priority", "runnel.fuse", "runnel.group_schedule"
GROUP, POLICY = "runnel.group", "runnel.diamond_policy"
PROPERTIES = {
    "runnel.storage": ("balanced", "read_optimised"),
    CEILING: "a number from 0 to 1, where 1 sets no ceiling",
    TIER: tuple(Tier),
    PRIORITY: "a whole number, higher first",
    FUSE: "off, a number of changed rows, or a multiple of the table's usual change such as 20x",
    GROUP_SCHEDULE: ("fastest", "slowest"),
    GROUP: "the name of a group that is refreshed and published together",
    POLICY: ("slowest", "fastest"),
}
"""Table properties that Runnel reads, with their values; others are kept for users."""


@dataclass(frozen=True)
class SourceRef:
    """A source as the definition knows it: where it is, and the columns that the query reads with their types."""

    key: str
    kind: str
    path: str
    columns: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.kind in ("delta", "stream"), self.kind


@dataclass(frozen=True)
class Definition:
    """A stream table. `text` is what the user wrote, `sql` stands on its own (views inlined, names in full).

    `refused` says why the query cannot be maintained incrementally; empty when it can.
    """

    id: str
    name: str
    text: str
    sql: str
    mode: Mode
    sources: tuple[SourceRef, ...]
    layout: Layout
    refused: str = ""
    comment: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    created_at: str = ""
    clocks: tuple[str, ...] = ()
    """The readings of the clock in the query: each is a source of its own, whose value a refresh fixes."""
    functions: tuple[str, ...] = ()
    """User functions in the query."""
    notes: tuple[str, ...] = ()
    """What the user should know about the query, in words."""
    unchecked: tuple[str, ...] = ()
    """Columns that show one of several correct results, so that they cannot be compared with a query from scratch."""
    schedule: str = ""
    """When it is refreshed, as SQL; nothing means as often as its readers need."""

    def __post_init__(self) -> None:
        for key, value in self.properties.items():
            if key.startswith("runnel.") and not _is_value(key, value):
                raise DefinitionError(
                    f"property {key} = {value} does not exist",
                    code="PROPERTY",
                    detail="; ".join(f"{k} is {v if isinstance(v, str) else 'one of ' + ', '.join(v)}" for k, v in PROPERTIES.items()) + ".",
                    hint="Correct TBLPROPERTIES.",
                )

    @property
    def read_optimised(self) -> bool:
        """Compacted with every refresh, for tables that are read far more often than they change."""
        return self.properties.get("runnel.storage") == "read_optimised"

    @property
    def differential_ceiling(self) -> float | None:
        """The changed share above which recompute is presumed faster, where the user set one for this table."""
        return float(self.properties[CEILING]) if CEILING in self.properties else None

    @property
    def when(self) -> Schedule:
        return stored_schedule(self.schedule)

    @property
    def tier(self) -> Tier:
        return Tier(self.properties.get(TIER, Tier.HOT))

    @property
    def priority(self) -> int:
        return int(self.properties.get(PRIORITY, 0))

    @property
    def group(self) -> str:
        """The group that the user put this table into; none when empty."""
        return self.properties.get(GROUP, "")

    @property
    def policy(self) -> str | None:
        """What the user said about publishing the tables of a diamond: together, or each when it is ready."""
        return self.properties.get(POLICY)

    @property
    def incremental(self) -> bool:
        return not self.refused

    @property
    def source_keys(self) -> tuple[str, ...]:
        return tuple(s.key for s in self.sources)

    def line(self) -> dict[str, Any]:
        """The facts that lists show, with the mode that refreshes really take and why."""
        full = self.mode is Mode.FULL
        return {
            "name": self.name,
            "mode": str(self.mode),
            "effective": "FULL" if full or not self.incremental else "DIFFERENTIAL",
            "reason": self.refused or ("refresh mode is FULL" if full else ""),
            "sources": ", ".join(self.source_keys),
            "created_at": self.created_at,
            "comment": self.comment,
            "schedule": self.schedule,
        }

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Definition:
        return cls(
            **{
                **data,
                "mode": Mode(data["mode"]),
                "layout": Layout.from_dict(data["layout"]),
                "sources": tuple(SourceRef(**s) for s in data["sources"]),
                "clocks": tuple(data.get("clocks", ())),
                "functions": tuple(data.get("functions", ())),
                "notes": tuple(data.get("notes", ())),
                "unchecked": tuple(data.get("unchecked", ())),
            }
        )

    def __str__(self) -> str:
        kind = "incremental" if self.incremental else f"recomputed: {self.refused}"
        sources = ", ".join(self.source_keys)
        notes = "".join(f"\nnote: {n}" for n in self.notes)
        return f"{self.name} [{self.mode}, {kind}]\nsources: {', '.join((sources, *self.clocks))}\nquery: {self.text.strip()}{notes}"


def _is_value(key: str, value: str) -> bool:
    if key == GROUP:
        return bool(value.strip())
    try:
        if key == CEILING:
            return 0.0 <= float(value) <= 1.0
        if key == PRIORITY:
            return str(int(value)) == value.strip()
        if key == FUSE:
            parse_fuse(value)
            return True
    except ValueError:
        return False
    return value in PROPERTIES.get(key, ())
