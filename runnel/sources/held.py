"""A small change at hand before any plan is made: read by this process from the files that commits name, or by one small job.

What nets to nothing drops out of the plan, rows come net, and their values tell which files of other tables matter.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import DecimalType, DoubleType, FloatType, LongType, StructField, StructType

from runnel.algebra import WEIGHT
from runnel.sources.bounds import Bound, Values

ROWS = 500_000
BYTES = 64 << 20
"""Changes up to this size are read and netted here: 165,000 rows of four columns took 90 ms and half a million 250, where a shuffle in
Spark took 700 ms of two cores for the former."""
CHANGE_TYPE = "_change_type"
ADDED = ("insert", "update_postimage")

_ARROW: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


@dataclass(frozen=True)
class Part:
    """A file of a change: the weight of its rows, or None when each row says what happened to it."""

    path: str
    weight: int | None


@dataclass(frozen=True)
class Held:
    """The rows of a change with their weights, and their types in Spark's words."""

    table: pa.Table
    schema: StructType

    @cached_property
    def whole(self) -> pa.Table:
        """Net over all columns."""
        return self._net([f.name for f in self.schema.fields])

    @property
    def grows(self) -> bool:
        """Rows only came."""
        return bool(pc.all(pc.greater(self.whole[WEIGHT], 0)).as_py())

    @property
    def exact(self) -> bool:
        """Rows that are equal are the same: -0.0 equals 0.0 and is another number."""
        return not any(isinstance(f.dataType, FloatType | DoubleType) for f in self.schema.fields)

    @property
    def plain(self) -> pa.Table:
        """Each row as often as it weighs, without its weight."""
        rows = self.whole.drop_columns([WEIGHT])
        weights = self.whole[WEIGHT].to_pylist()
        assert min(weights, default=1) > 0, "a table has no row less than once"
        return rows if max(weights, default=1) == 1 else rows.take([i for i, n in enumerate(weights) for _ in range(n)])

    def less(self, change: pa.Table) -> Held:
        """These rows less those of a change of the same table."""
        names = {n.lower(): n for n in change.column_names}
        minus = [*(change[names[f.name.lower()]] for f in self.schema.fields), pc.negate(change[WEIGHT])]
        return Held(pa.concat_tables([self.table, pa.table(minus, names=self.table.column_names)]), self.schema)

    def among(self, column: str, values: pa.Array) -> pa.Table:
        """The net rows whose column has one of some values."""
        names = {f.name.lower(): f.name for f in self.schema.fields}
        own = self.whole[names[column.lower()]]
        return self.whole.filter(pc.is_in(own, value_set=values.cast(own.type)))

    def net(self, columns: Sequence[str]) -> pa.Table:
        """Each row over these columns once, with its whole weight; rows that cancel are gone."""
        names = {f.name.lower(): f.name for f in self.schema.fields}
        kept = [names[c.lower()] for c in columns]
        return self.whole.select([*kept, WEIGHT]) if len(set(kept)) == len(names) else self._net(kept)

    def _net(self, kept: list[str]) -> pa.Table:
        summed = self.table.group_by(kept).aggregate([(WEIGHT, "sum")]) if kept else _total(self.table)
        summed = summed.select([*kept, f"{WEIGHT}_sum"]).rename_columns([*kept, WEIGHT])
        return summed.filter(pc.not_equal(summed[WEIGHT], 0))

    def under(self, names: Mapping[str, str]) -> Held:
        """The columns under other names, in lower case what they are here."""
        return Held(under(self.table, {**names, WEIGHT: WEIGHT}), typed(self.schema, names))

    def only(self, columns: Collection[str]) -> Held:
        """The same rows with some of their columns, each with its weight; they may cancel then."""
        wanted = frozenset(c.lower() for c in columns)
        fields = [f for f in self.schema.fields if f.name.lower() in wanted]
        if len(fields) == len(self.schema.fields):
            return self
        if wanted not in self._parts:
            self._parts[wanted] = Held(self.table.select([*(f.name for f in fields), WEIGHT]), StructType(fields))
        return self._parts[wanted]

    def keys(self, columns: Sequence[str], keys: Sequence[str]) -> pa.Table:
        """The distinct values of some columns in the rows that are net over others."""
        names = {f.name.lower(): f.name for f in self.schema.fields}
        rows, chosen = self.net(columns), [names[k.lower()] for k in keys]
        return pa.table([_as_keys(rows[n]) for n in chosen], names=chosen).group_by(chosen).aggregate([])

    def types(self, *columns: str) -> StructType:
        """Columns as Spark has them."""
        fields = {f.name.lower(): f for f in self.schema.fields} | {WEIGHT: StructField(WEIGHT, LongType())}
        return StructType([fields[c.lower()] for c in columns])

    def values(self, column: str) -> Values | None:
        """The values of a column in rows that really came or went, looked up once; None where they cannot be compared."""
        name = column.lower()
        if name not in self._values:
            names = {f.name.lower(): f.name for f in self.schema.fields}
            self._values[name] = Values.of(self.whole[names[name]])
        return self._values[name]

    @cached_property
    def frames(self) -> dict[Hashable, DataFrame]:
        """These rows as frames of Spark, made by those who needed them."""
        return {}

    @cached_property
    def _parts(self) -> dict[frozenset[str], Held]:
        return {}

    @cached_property
    def _values(self) -> dict[str, Values | None]:
        return {}


def under(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Columns of a table under other names; one may stand under several."""
    own = {n.lower(): n for n in table.column_names}
    return pa.table([table[own[origin]] for origin in names.values()], names=list(names))


def typed(schema: StructType, names: Mapping[str, str]) -> StructType:
    """The types of the same."""
    own = {f.name.lower(): f for f in schema.fields}
    return StructType([StructField(n, own[origin].dataType, own[origin].nullable) for n, origin in names.items()])


def holdable(schema: StructType) -> bool:
    """Whether rows of these types are the same rows here and in Spark."""
    return all(_arrow(f) is not None for f in schema.fields)


def hold(parts: Iterable[Part], schema: StructType) -> Held | None:
    """The rows of a change, or None when its files are larger than worth holding."""
    parts = list(parts)
    if not parts or sum(os.path.getsize(p.path) for p in parts) > BYTES:
        return None
    table = pa.concat_tables([empty(schema), *(rows for p in parts for rows in read(p, schema))])
    return Held(table, schema) if table.num_rows <= ROWS else None


def collect(change: DataFrame, columns: Collection[str]) -> Held | None:
    """The same of a change that only Spark can read: one small job. None when its rows would not be the same rows here."""
    wanted = {c.lower() for c in columns}
    names = [f.name for f in change.schema.fields if f.name.lower() in wanted]
    chosen = change.select(*(f"`{n}`" for n in (*names, WEIGHT)))
    schema = StructType([chosen.schema[n] for n in names])
    if not holdable(schema):
        return None
    rows = chosen.toArrow()
    columns_ = [rows[f.name].cast(_arrow(f)) for f in schema.fields]
    return Held(pa.table([*columns_, rows[WEIGHT].cast(pa.int64())], names=[*names, WEIGHT]), schema)


def read(part: Part, schema: StructType, bounds: Sequence[Bound] = ()) -> Iterator[pa.Table]:
    """The rows of a file within the bounds in some columns, with their weights; row group by row group, so that who leaves most of them out holds
    few. Bounds of columns that are not asked for tell nothing."""
    file = pq.ParquetFile(part.path, coerce_int96_timestamp_unit="us")
    present = {n.lower(): n for n in file.schema_arrow.names}
    fields = {f.name.lower(): f for f in schema.fields}
    wanted = [present[n] for n in fields if n in present]
    extra = [] if part.weight is not None else [WEIGHT if WEIGHT in present else CHANGE_TYPE]
    known = [(fields[b.column.lower()], b) for b in bounds if b.column.lower() in fields]
    for group in range(file.num_row_groups):
        rows, count = file.read_row_group(group, columns=[*wanted, *extra]), file.metadata.row_group(group).num_rows
        for field, bound in known:
            mask = bound.mask(_column(rows, present.get(field.name.lower()), field, count))
            rows, count = rows.filter(mask), pc.sum(mask).as_py() or 0
        columns = [_column(rows, present.get(n), f, count) for n, f in fields.items()]
        yield pa.table([*columns, _weights(rows, part, count)], names=[*(f.name for f in schema.fields), WEIGHT])


def _as_keys(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as an engine groups them: there is one zero and one NaN."""
    if not pa.types.is_floating(column.type):
        return column
    plain = pc.add(column, pa.scalar(0.0, column.type))
    return pc.if_else(pc.is_nan(plain), pa.scalar(float("nan"), column.type), plain)


def empty(schema: StructType) -> pa.Table:
    """No rows, with weights."""
    return pa.schema([*((f.name, _arrow(f)) for f in schema.fields), (WEIGHT, pa.int64())]).empty_table()


def _column(rows: pa.Table, name: str | None, field: StructField, count: int) -> pa.ChunkedArray | pa.Array:
    """A column in Spark's type; a file from before the column was added has NULLs."""
    type_ = _arrow(field)
    return pa.nulls(count, type_) if name is None else rows[name].cast(type_)


def _weights(rows: pa.Table, part: Part, count: int) -> pa.ChunkedArray | pa.Array:
    if part.weight is not None:
        return pa.repeat(pa.scalar(part.weight, pa.int64()), count)
    if WEIGHT in rows.column_names:
        return rows[WEIGHT].cast(pa.int64())
    came = pc.is_in(rows[CHANGE_TYPE], value_set=pa.array(ADDED))
    return pc.if_else(came, pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))


def _arrow(field: StructField) -> pa.DataType | None:
    if isinstance(field.dataType, DecimalType):
        return pa.decimal128(field.dataType.precision, field.dataType.scale)
    return _ARROW.get(field.dataType.simpleString())


def _total(table: pa.Table) -> pa.Table:
    """The weight of all rows, where no column is read."""
    return pa.table({f"{WEIGHT}_sum": pa.array([pc.sum(table[WEIGHT]).as_py() or 0], pa.int64())})
