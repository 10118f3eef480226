"""What a plan asks of a source: one face of it, and what the plan knows about the rows that will matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from runnel.algebra.node import Face

Origin = tuple[str, str]
"""A source and one of its columns."""


class Side(StrEnum):
    """How a value lies to others."""

    EQUAL = "="
    """It is one of them, or NULL if NULL is."""
    FROM = ">="
    """It is the least of them or greater."""
    SINCE = ">= or NULL among them"
    """It is the least of them or greater; it may be anything where NULL is among them."""
    UP_TO = "<="
    """It is the greatest of them or less."""


@dataclass(frozen=True, order=True)
class Within:
    """Of a face, only rows matter whose `column` lies so to the values that `among`'s columns have in the changes of their sources.

    Other rows may come along: it is a chance to read less, never a condition.
    """

    column: str
    among: tuple[Origin, ...]
    side: Side = Side.EQUAL

    @classmethod
    def each(cls, origins: Mapping[str, frozenset[Origin] | None], side: Side = Side.EQUAL) -> tuple[Within, ...]:
        """Bounds of several columns, those without known origins left out."""
        return tuple(cls(column, tuple(sorted(found)), side) for column, found in origins.items() if found)


@dataclass(frozen=True)
class Want:
    """`columns` are asked for when a change is to come net over just them, and `keys` when of those rows only the distinct
    values of some columns are needed; `within` says which rows of a face matter."""

    source: str
    face: Face
    columns: tuple[str, ...] = ()
    within: tuple[Within, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.face}_near" if self.within else f"{self.face}_keys" if self.keys else str(self.face)


PRUNABLE = frozenset({"tinyint", "smallint", "int", "bigint", "string", "date"})
"""Types whose values can be told apart by the least and the greatest of a file: those without NaN, rounding or time zones."""
