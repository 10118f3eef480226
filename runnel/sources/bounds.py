"""Which values of a column matter to a refresh: to leave files out by their statistics, and row groups by theirs."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

LISTED_VALUES = 20
"""Values up to which a predicate names each of them; of more, it names the least and the greatest."""
KINDS = {
    "number": ("tinyint", "smallint", "int", "bigint", "byte", "short", "integer", "long"),
    "text": ("string",),
    "date": ("date",),
}


@dataclass(frozen=True)
class Bound:
    """Of `column`, only these values matter, and NULL when `null`. Values are in order, each once."""

    column: str
    kind: str
    values: tuple[Any, ...]
    null: bool

    @classmethod
    def of(cls, column: str, arrays: list[pa.ChunkedArray]) -> Bound | None:
        """What the values of some columns allow; None when they are of a type that cannot be compared so."""
        kinds = {_kind(a.type) for a in arrays}
        if len(kinds) != 1 or (kind := kinds.pop()) is None:
            return None
        found = {v for a in arrays for v in pc.unique(a).to_pylist()}
        return cls(column, kind, tuple(sorted(found - {None})), None in found)

    def fits(self, type_: str) -> bool:
        """Whether a column of a type, as Spark or as the log of a table names it, has values of this kind."""
        return type_ in KINDS[self.kind]

    def meets(self, low: Any, high: Any, nulls: int | None) -> bool:
        """Whether a file with these bounds may hold a row that matters. What is not known may."""
        if self.null and nulls != 0:
            return True
        if low is None or high is None:
            return bool(self.values) and nulls is None
        place = bisect_left(self.values, low)
        return place < len(self.values) and bool(self.values[place] <= high)

    def predicate(self) -> str:
        """The same as a condition in Spark SQL, for the statistics inside files."""
        column = exp.column(exp.to_identifier(self.column, quoted=True))
        parts: list[exp.Expr] = [exp.Is(this=column, expression=exp.null())] if self.null else []
        if 0 < len(self.values) <= LISTED_VALUES:
            parts.append(exp.In(this=column, expressions=[self._literal(v) for v in self.values]))
        elif self.values:
            parts.append(exp.Between(this=column, low=self._literal(self.values[0]), high=self._literal(self.values[-1])))
        return exp.or_(*parts).sql("spark") if parts else "FALSE"

    def _literal(self, value: Any) -> exp.Expr:
        if self.kind == "number":
            return exp.Literal.number(value)
        return exp.cast(exp.Literal.string(str(value)), "date") if self.kind == "date" else exp.Literal.string(value)


def _kind(type_: pa.DataType) -> str | None:
    if pa.types.is_integer(type_):
        return "number"
    if pa.types.is_string(type_):
        return "text"
    return "date" if pa.types.is_date32(type_) else None
