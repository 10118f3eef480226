"""Which values of a column matter to a refresh: to leave files out by their statistics, and row groups by theirs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from runnel.algebra.want import Side
from runnel.sources.delta_log import numbers

LISTED_VALUES = 20
"""Values up to which a predicate names each of them; of more, it names the least and the greatest."""
KINDS = {
    "number": ("tinyint", "smallint", "int", "bigint", "byte", "short", "integer", "long"),
    "text": ("string",),
    "date": ("date",),
}
ARROW = {"number": pa.int64(), "text": pa.string(), "date": pa.date32()}


@dataclass(frozen=True)
class Values:
    """What a column has, each value once and in order, NULL apart. `numbers` are the same as the log of a table lists them."""

    kind: str
    array: pa.Array
    null: bool
    numbers: tuple[Any, ...]

    @classmethod
    def of(cls, *arrays: pa.ChunkedArray) -> Values | None:
        """The values of some columns together; None when they are of types that cannot be compared.

        >>> Values.of(pa.chunked_array([[7, 3, None]]), pa.chunked_array([[3]], pa.int16())).numbers
        (3, 7)
        """
        kinds = {_kind(a.type) for a in arrays}
        if len(kinds) != 1 or (kind := kinds.pop()) is None:
            return None
        chunks = [chunk for a in arrays for chunk in a.cast(ARROW[kind]).chunks]
        found = pc.unique(pa.chunked_array(chunks, ARROW[kind])).drop_null()
        ordered = found.take(pc.sort_indices(found))
        try:
            values = tuple(numbers(ordered).to_pylist())
        except UnicodeDecodeError:  # a column of text can hold any bytes
            return None
        return cls(kind, ordered, any(a.null_count for a in arrays), values)

    @classmethod
    def all(cls, parts: Sequence[Values]) -> Values | None:
        """Several of them together."""
        if len(parts) == 1:
            return parts[0]
        found = cls.of(*(pa.chunked_array([p.array]) for p in parts))
        return None if found is None else replace(found, null=any(p.null for p in parts))


@dataclass(frozen=True)
class Bound:
    """Of `column`, only these values matter, and NULL when `null`; or, by `side`, those from the least of them or up to the greatest.

    Values are in order, each once; dates are numbers, as the log lists them.
    """

    column: str
    kind: str
    values: tuple[Any, ...]
    null: bool
    side: Side = Side.EQUAL

    @classmethod
    def of(cls, column: str, values: Values, side: Side = Side.EQUAL) -> Bound:
        """What values allow."""
        match side:
            case Side.EQUAL:
                return cls(column, values.kind, values.numbers, values.null)
            case Side.FROM | Side.SINCE:
                return cls(column, values.kind, values.numbers[:1], False, Side.FROM)
            case Side.UP_TO:
                return cls(column, values.kind, values.numbers[-1:], False, side)

    def fits(self, type_: str) -> bool:
        """Whether a column of a type, as Spark or as the log of a table names it, has values of this kind."""
        return type_ in KINDS[self.kind]

    def meets(self, low: Any, high: Any, nulls: int | None, rows: int | None) -> bool:
        """Whether a file with these bounds may hold a row that matters. What is not known may; without bounds are also files of NULLs only.

        >>> bound = Bound("k", "number", (3, 7), null=False)
        >>> bound.meets(4, 6, 0, 9), bound.meets(4, 7, 0, 9), bound.meets(None, None, 9, 9), bound.meets(None, None, 0, 9)
        (False, True, False, True)
        """
        if self.null and nulls != 0:
            return True
        if low is None or high is None:
            return bool(self.values) and (nulls is None or rows is None or nulls < rows)
        if self.side is not Side.EQUAL:
            return bool(self.values) and bool(high >= self.values[0] if self.side is Side.FROM else low <= self.values[0])
        place = bisect_left(self.values, low)
        return place < len(self.values) and bool(self.values[place] <= high)

    def meets_file(self, file: Mapping[str, Any]) -> bool:
        """Whether a file may hold a row that matters, by the statistics that the log of its table lists, whatever the case of names."""
        stats = statistics(file, self.column)
        return self.meets(stats("min"), stats("max"), stats("null_count"), file.get("num_records"))

    def mask(self, column: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
        """Which of the values of a column matter, exactly.

        >>> Bound("k", "number", (3, 7), null=True).mask(pa.chunked_array([[7, 4, None]])).to_pylist()
        [True, False, True]
        """
        own, values = column.cast(ARROW[self.kind]), self._array
        if self.side is Side.EQUAL or not self.values:
            within = pc.is_in(own, value_set=values)
        else:
            within = pc.greater_equal(own, values[0]) if self.side is Side.FROM else pc.less_equal(own, values[0])
        return pc.or_(pc.fill_null(within, False), pc.is_null(own)) if self.null else pc.fill_null(within, False)

    @cached_property
    def _array(self) -> pa.Array:
        return pa.array(self.values, pa.int32()).cast(pa.date32()) if self.kind == "date" else pa.array(self.values, ARROW[self.kind])

    def likely(self, low: Any, high: Any) -> float | None:
        """The share of a file's rows that are likely within, if values are spread evenly between its bounds; text tells nothing.

        >>> Bound("k", "number", (3, 7, 200), null=False).likely(1, 20)
        0.1
        """
        if self.kind == "text" or self.side is not Side.EQUAL or low is None or high is None:
            return None
        inside = bisect_right(self.values, high) - bisect_left(self.values, low)
        return min(1.0, inside / (high - low + 1))

    def likely_in(self, file: Mapping[str, Any]) -> float | None:
        """The share of a file's rows that are likely within, by the statistics that the log of its table lists."""
        stats = statistics(file, self.column)
        return self.likely(stats("min"), stats("max")) if self.meets_file(file) else 0.0

    def predicate(self) -> str:
        """The same as a condition in Spark SQL, for the statistics inside files."""
        column = exp.column(exp.to_identifier(self.column, quoted=True))
        parts: list[exp.Expr] = [exp.Is(this=column, expression=exp.null())] if self.null else []
        if self.side is not Side.EQUAL:
            compare = exp.GTE if self.side is Side.FROM else exp.LTE
            parts += [compare(this=column, expression=self._literal(v)) for v in self.values]
        elif 0 < len(self.values) <= LISTED_VALUES:
            parts.append(exp.In(this=column, expressions=[self._literal(v) for v in self.values]))
        elif self.values:
            parts.append(exp.Between(this=column, low=self._literal(self.values[0]), high=self._literal(self.values[-1])))
        return exp.or_(*parts).sql("spark") if parts else "FALSE"

    def _literal(self, value: Any) -> exp.Expr:
        if self.kind == "number":
            return exp.Literal.number(value)
        if self.kind == "text":
            return exp.Literal.string(value)
        return exp.Anonymous(this="DATE_FROM_UNIX_DATE", expressions=[exp.Literal.number(value)])


def statistics(file: Mapping[str, Any], column: str) -> Callable[[str], Any]:
    """What the log knows of a column of a file."""
    found = {name.lower(): value for name, value in file.items() if name.lower().endswith(f".{column.lower()}")}
    return lambda kind: found.get(f"{kind}.{column.lower()}")


def _kind(type_: pa.DataType) -> str | None:
    if pa.types.is_integer(type_):
        return "number"
    if pa.types.is_string(type_):
        return "text"
    return "date" if pa.types.is_date32(type_) else None
