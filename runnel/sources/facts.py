"""What happened to one source between two versions, as its log tells it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    UNCHANGED = "unchanged"
    """The version did not move."""
    NEUTRAL = "data-neutral"
    """Commits without a change of data: OPTIMIZE, properties, compaction, a refresh that netted to nothing."""
    INSERT_ONLY = "insert-only"
    MIXED = "mixed"
    REPLACED = "replaced"
    """Another table stands where the old one was."""
    SCHEMA = "schema changed"
    """A column that the query reads changed its type or is gone."""
    LOST = "history lost"
    """A commit or a file that the change needs is no longer there."""


@dataclass(frozen=True)
class SourceFacts:
    """`before` and `after` are versions; `rows` counts changed rows where the log knows; `reason` explains what forbids
    a differential refresh; `via` is how the change will be read."""

    key: str
    kind: Kind
    before: int | None
    after: int
    table_id: str
    rows: int | None = 0
    reason: str = ""
    via: str = ""
    net: int | None = None
    """Changed rows in the columns that the query reads, less those that cancel; known when the change is at hand."""

    @property
    def changed(self) -> bool:
        return self.kind in (Kind.INSERT_ONLY, Kind.MIXED)

    @property
    def broken(self) -> bool:
        return self.kind in (Kind.REPLACED, Kind.SCHEMA, Kind.LOST)

    def __str__(self) -> str:
        rows = "" if self.rows is None or not self.changed else f", {self.rows} rows"
        span = f"version {self.after}" if self.before == self.after else f"versions {self.before} to {self.after}"
        return f"{self.key}: {self.kind}{rows} ({span}{', ' + self.reason if self.reason else ''})"
