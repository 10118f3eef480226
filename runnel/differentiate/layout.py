"""How a stream table is stored, and how the stored rows are finished into what users read.

*rows*: the output columns and a weight; equal rows with weights that sum to n are n rows.
*groups*: the group's keys, one column per partial sum, and a weight = the number of rows in the group.

A layout is plain data: it travels in the definition, so that a table can be read without binding its query again.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from runnel.algebra import Column

CONTENT = "content"
"""The relation that `finish` selects from."""


@dataclass(frozen=True)
class Layout:
    """`stored` are the columns of the backing table besides weight, level and hash; `keys` and `partials` name some of
    them in a groups layout. `finish` is Spark SQL over `content` with the columns users see."""

    kind: str
    stored: tuple[Column, ...]
    keys: tuple[str, ...]
    partials: tuple[str, ...]
    finish: str
    output: tuple[Column, ...]
    required: tuple[str, ...] = ()
    """Stored columns that are never NULL."""
    finish_change: str = ""
    """`finish` over a content that has weights, where it works row by row; empty where it does not, as with LIMIT."""

    def __post_init__(self) -> None:
        assert self.kind in ("rows", "groups"), self.kind
        assert {c.name for c in self.stored} >= {*self.keys, *self.partials}

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """What identifies a stored row: the group, or the whole row."""
        return tuple(c for c in self.stored if c.name in self.keys) if self.kind == "groups" else self.stored

    @property
    def renames(self) -> bool:
        """Stored rows are what users read, under other names."""
        same = len(self.stored) == len(self.output) and all(s.type == o.type for s, o in zip(self.stored, self.output, strict=True))
        return self.kind == "rows" and same and re.search(r"(^|\()WITH ", self.finish) is None

    @property
    def always_one_row(self) -> bool:
        """An aggregate without keys has its row even over nothing."""
        return self.kind == "groups" and not self.keys

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Layout:
        columns = {k: tuple(Column(**c) for c in data[k]) for k in ("stored", "output")}
        return cls(
            **{**data, **columns, "keys": tuple(data["keys"]), "partials": tuple(data["partials"]), "required": tuple(data.get("required", ()))}
        )

    def __str__(self) -> str:
        columns = ", ".join(map(str, self.stored))
        what = "rows with a weight" if self.kind == "rows" else f"one row per group of [{', '.join(self.keys)}], partial sums"
        return f"{what}: {columns}\nfinish: {self.finish}"
