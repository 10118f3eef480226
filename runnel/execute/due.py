"""When a log is compacted, and what of it: its tail has outgrown its bound, in rows or in files."""

from __future__ import annotations

from enum import StrEnum

from runnel.settings import Settings
from runnel.tables.backing import BackingTable, CommitNote

WORTHWHILE = 100_000
"""Tables and tails up to this many rows are folded into the base at once. A choice, not yet a measurement."""


class Fold(StrEnum):
    """What a compaction rewrites, by the level that its rows get."""

    TAIL = "tail"
    BASE = "base"


def due(backing: BackingTable, settings: Settings) -> Fold | None:
    """What has outgrown its bound: the tail's share of the table, or the number of its files."""
    _, note = backing.note()
    if backing.definition.read_optimised:
        return Fold.BASE if note.tail_files > 0 else None
    if note.tail_rows > longest_tail(backing, note, settings):
        return Fold.BASE
    if note.tail_files <= settings.compact_tail_files:
        return None
    return Fold.BASE if note.base_rows + note.tail_rows <= WORTHWHILE else Fold.TAIL


def longest_tail(backing: BackingTable, note: CommitNote, settings: Settings) -> int:
    """Rows of the tail beyond which it is folded into the base."""
    return 0 if backing.definition.read_optimised else int(max(WORTHWHILE, settings.compact_tail_ratio * note.base_rows))
