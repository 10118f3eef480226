"""Rows of tables that this process reads itself, where they are few: the files near a change, or a table that is small as a whole.

Spark takes a tenth of a second and more for each scan whatever it brings, and three or four of them for a stream table with a tail. Here
a file of a megabyte is read in milliseconds, rows that do not matter are left out by their exact values, and a log is summed up on the way.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import DoubleType, FloatType, LongType, StructField, StructType

from runnel.algebra import WEIGHT
from runnel.algebra.want import Side
from runnel.differentiate.layout import BASE, LEVEL, TAIL, Layout
from runnel.sources.bounds import Bound
from runnel.sources.delta_log import DeltaLog
from runnel.sources.held import ROWS, Held, Part, empty, holdable, read, typed, under

BYTES = 64 << 20
"""Files up to this size together are read here. 46 MB with a million rows of eleven columns took 120 ms."""
LARGE = 160 << 20
"""The same of the columns of larger files, for few of their rows: ten million rows of three columns, 132 MB, took 0.2 s, and Spark 0.7 on two cores.
With some ten cores it would be as fast."""
IN_PLAN = 10_000
"""Rows up to which they are part of a plan."""
MANY = 200_000
"""Rows up to which they are worth picking from larger files."""
WORTH = 0.2
"""The share of the rows of files up to which rows too many for a plan are worth writing down without the others."""
ASKED = 32
"""Files up to which each is asked how large its columns are: a millisecond each."""


@dataclass(frozen=True)
class Rows:
    """Rows at hand with their types in Spark's words."""

    table: pa.Table
    schema: StructType
    bytes: int = 0
    """Of the files that they were read from."""

    @property
    def count(self) -> int:
        return int(self.table.num_rows)

    def under(self, names: Mapping[str, str]) -> Rows:
        """The columns under other names, in lower case what they are here."""
        return Rows(under(self.table, names), typed(self.schema, names), self.bytes)


def worth_reading(
    log: DeltaLog, files: Sequence[Mapping[str, Any]], bounds: Sequence[Bound], columns: Collection[str], few: bool = False, summed: bool = False
) -> list[Mapping[str, Any]] | None:
    """The files near the bounds, if this process should read them in some columns: small ones that bring few rows, or whose rows have to be summed
    up, and larger ones that surely bring few. With `few` all have to."""
    near = [f for f in files if all(b.meets_file(f) for b in bounds)]
    large = _size(near) > BYTES
    if large or few:
        told = [b for b in bounds if all(b.likely_in(f) is not None and f["num_records"] is not None for f in near)]
        worth = _expected(near, told) <= (IN_PLAN if few else MANY) and (not large or _size_in(log, near, columns) <= LARGE)
        return near if worth else None
    rows = sum(f["num_records"] or 0 for f in near)
    if not bounds and rows > ROWS:
        return None
    return near if summed or rows <= IN_PLAN or _expected(near, bounds) <= max(IN_PLAN, WORTH * rows) else None


def _size(files: Sequence[Mapping[str, Any]]) -> int:
    return sum(f["size_bytes"] for f in files)


def _size_in(log: DeltaLog, files: Sequence[Mapping[str, Any]], columns: Collection[str]) -> float:
    """The bytes of some columns, by what files say of themselves; too many where there are more files than worth asking."""
    if len(files) > ASKED:
        return float("inf")
    wanted = {c.lower() for c in columns}
    groups = (g for f in files for g in _groups(pq.read_metadata(log.full_path(f["path"]))))
    chunks = (g.column(i) for g in groups for i in range(g.num_columns))
    return sum(c.total_compressed_size for c in chunks if c.path_in_schema.lower() in wanted)


def _groups(footer: pq.FileMetaData) -> Iterator[pq.RowGroupMetaData]:
    return (footer.row_group(i) for i in range(footer.num_row_groups))


def _expected(files: Sequence[Mapping[str, Any]], bounds: Sequence[Bound]) -> float:
    """The rows that the bound which keeps fewest is likely to keep; one of which nothing is known keeps few."""
    kept = [sum((b.likely_in(f) or 0.0) * (f["num_records"] or 0) for f in files) for b in bounds if b.side is Side.EQUAL]
    return min(kept, default=float("inf"))


def of_files(log: DeltaLog, files: Sequence[Mapping[str, Any]], schema: StructType, bounds: Sequence[Bound]) -> Rows | None:
    """The rows of plain files of a table in some columns; those beyond the bounds are left out. None where they turn out to be too many."""
    if not schema.fields or not holdable(schema):
        return None
    found = [empty(schema)]
    for rows in (rows for f in files for rows in read(Part(log.full_path(f["path"]), 1), schema, bounds)):
        found.append(rows)
        if sum(t.num_rows for t in found) > ROWS:
            return None
    return Rows(pa.concat_tables(found).drop_columns([WEIGHT]), schema, _size(files))


def of_log(log: DeltaLog, version: int, columns: Collection[str], bounds: Sequence[Bound], few: bool = False) -> Rows | None:
    """The rows of a log of weighted rows with their weights, base and tail alike."""
    found = _levels(log, version, columns, bounds, few)
    if found is None:
        return None
    base, tail, schema, size = found
    return Rows(pa.concat_tables([base, tail]), StructType([*schema.fields, StructField(WEIGHT, LongType())]), size)


def of_content(log: DeltaLog, version: int, layout: Layout, columns: Collection[str], bounds: Sequence[Bound], few: bool = False) -> Rows | None:
    """The content that a log sums up to, in some stored columns: each row of a bag, or each group with all its sums and its weight.

    None where sums made here could differ in the last digit from those that Spark makes.
    """
    groups = layout.kind == "groups"
    found = _levels(log, version, {c.name for c in layout.stored} if groups else columns, bounds, few)
    if found is None:
        return None
    base, tail, schema, size = found
    rows = _summed(base, tail, schema, layout) if groups else _netted(base, tail, schema)
    return None if rows is None else replace(rows, bytes=size)


def of_change(log: DeltaLog, before: int, appended: Sequence[str], layout: Layout) -> Rows | None:
    """The weighted rows by which the content of a log changed since a version: those appended, or of the groups that they touch what was
    with weight -1 and what is with weight 1, each where it has rows."""
    stored = {f.name: f for f in StructType.fromJson(json.loads(log.table().schema().to_json())).fields}
    schema = StructType([stored[c.name] for c in layout.stored])
    if not holdable(schema):
        return None
    came = _near([Part(p, None) for p in appended], schema, ())
    weighted = StructType([*schema.fields, StructField(WEIGHT, LongType())])
    if layout.kind == "rows":
        return Rows(came, weighted)
    found = None if _inexact(schema.fields) else _levels(log, before, stored.keys() & {c.name for c in layout.stored}, (), summed=True)
    if found is None:
        return None
    stood = pa.concat_tables(found[:2]).select(came.column_names)
    if layout.keys:
        stood = stood.filter(_alike(stood, came, layout.keys))
    every = pa.concat_tables([_marked(stood, layout, 1), _marked(came, layout, 0)])
    both = _sums(every, layout.keys, [n for n in every.column_names if n not in layout.keys])
    if both is None:
        return None
    if layout.keys:
        both = both.filter(pc.less(both[STOOD], both[ALL]))  # those that something came to
    faces = [_face(both, came.schema, "", 1, layout), _face(both, came.schema, WAS, -1, layout)]
    return Rows(pa.concat_tables(faces), weighted)


def folded(log: DeltaLog, version: int, layout: Layout, columns: Collection[str], level: str) -> Rows | None:
    """What compaction makes of a log, weights among the columns: of its tail each row or group once, or of all of it the content.

    None where Spark has to make it; also where something weighs less than nothing, which Spark names.
    """
    groups, names = layout.kind == "groups", {*columns, *(c.name for c in layout.stored)}
    found = _levels(log, version, names, (), summed=True, only=TAIL if level == TAIL else None)
    if found is None:
        return None
    base, tail, schema, size = found
    weighted = StructType([*schema.fields, StructField(WEIGHT, LongType())])
    if level == TAIL:
        table = None if _inexact(schema.fields) else _folded_tail(tail, schema, layout)
        return None if table is None else Rows(table, weighted, size)
    rows = _summed(base, tail, schema, layout) if groups else _netted(base, tail, schema)
    if rows is None or groups:
        return rows
    return Rows(rows.table.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int64()), rows.count)), weighted, size)


def new_groups(log: DeltaLog, version: int, layout: Layout) -> Rows | None:
    """The keys of the groups that only the tail has, each once, among those that some row of it adds to.

    None where Spark has to find them: the files are large, or keys that are equal in Spark may not be here.
    """
    files = log.plain_files(version, partitioned=True) if log.local is not None else None
    schema = _stored(log, version, layout.keys)
    if files is None or _size(files) > BYTES or schema is None or _inexact(schema.fields):
        return None
    came = _near(_parts(log, files, TAIL, None), schema, ())
    keys = came.filter(pc.greater(came[WEIGHT], 0)).group_by(layout.keys).aggregate([])
    stood = [rows.filter(_alike(rows, keys, layout.keys)) for part in _parts(log, files, BASE, 1) for rows in read(part, schema)]
    found = pa.concat_tables([_said(keys, 0), *(_said(rows.select(keys.column_names), 1) for rows in stood)])
    both = found.group_by(layout.keys).aggregate([(STOOD, "max")])
    return Rows(both.filter(pc.equal(both[f"{STOOD}_max"], 0)).select(schema.names), schema)


def _said(rows: pa.Table, stood: int) -> pa.Table:
    """Rows that say whether they were there."""
    return rows.append_column(STOOD, pa.repeat(pa.scalar(stood), rows.num_rows))


def _folded_tail(tail: pa.Table, schema: StructType, layout: Layout) -> pa.Table | None:
    if layout.kind == "rows":
        return Held(tail, schema).whole
    numbers = [*layout.partials, WEIGHT]
    sums = _sums(tail, layout.keys, numbers)
    if sums is None:
        return None
    moved = [pc.not_equal(sums[n], pa.scalar(0, sums[n].type)) for n in numbers]
    return sums.filter(reduce(pc.or_kleene, moved))


STOOD, ALL, WAS = "__runnel_stood", "__runnel_all", "__runnel_was_"


def _marked(rows: pa.Table, layout: Layout, stood: int) -> pa.Table:
    """Rows with their numbers twice: as they count now, and as they counted before."""
    for n in (*layout.partials, WEIGHT):
        rows = rows.append_column(f"{WAS}{n}", rows[n] if stood else pa.repeat(pa.scalar(0, rows[n].type), rows.num_rows))
    return _said(rows, stood).append_column(ALL, pa.repeat(pa.scalar(1), rows.num_rows))


def _face(groups: pa.Table, schema: pa.Schema, prefix: str, weight: int, layout: Layout) -> pa.Table:
    """The groups that have rows in one face, with the weight of the face."""
    kept = groups.filter(pc.greater(groups[f"{prefix}{WEIGHT}"], 0)) if layout.keys else groups
    columns = {n: kept[n if n in layout.keys else f"{prefix}{n}"] for n in schema.names}
    columns[WEIGHT] = pa.chunked_array([pa.repeat(pa.scalar(weight, pa.int64()), kept.num_rows)])
    return pa.table([columns[f.name] for f in schema], schema=schema)


def _levels(
    log: DeltaLog,
    version: int,
    columns: Collection[str],
    bounds: Sequence[Bound],
    few: bool = False,
    summed: bool = False,
    only: str | None = None,
) -> tuple[pa.Table, pa.Table, StructType, int] | None:
    """Base and tail of a log in some columns, with weights, and the bytes of their files; None where this process cannot read them or should not."""
    files = log.plain_files(version, partitioned=True) if log.local is not None else None
    if files is None:
        return None
    files = [f for f in files if only is None or f[f"partition.{LEVEL}"] == only]
    near = worth_reading(log, files, bounds, columns, few, summed or any(f[f"partition.{LEVEL}"] == TAIL for f in files))
    if near is None:
        return None
    schema = _stored(log, log.version(), columns)
    if schema is None:
        return None
    base, tail = (_near(_parts(log, near, level, None), schema, bounds) for level in (BASE, TAIL))
    return base, tail, schema, _size(near)


def _stored(log: DeltaLog, version: int, columns: Collection[str]) -> StructType | None:
    """The types of some columns, None where one of them is missing or would be another here."""
    wanted = {c.lower() for c in columns}
    stored = StructType.fromJson(json.loads(log.described(version)))
    schema = StructType([f for f in stored.fields if f.name.lower() in wanted])
    return schema if schema.fields and len(schema.fields) == len(wanted) and holdable(schema) else None


def _parts(log: DeltaLog, files: Sequence[Mapping[str, Any]], level: str, weight: int | None) -> list[Part]:
    """The files of one level. Without a weight, each row has its own."""
    return [Part(log.full_path(f["path"]), weight) for f in files if f[f"partition.{LEVEL}"] == level]


def _near(parts: Sequence[Part], schema: StructType, bounds: Sequence[Bound]) -> pa.Table:
    """The weighted rows of files within the bounds."""
    return pa.concat_tables([empty(schema), *(rows for p in parts for rows in read(p, schema, bounds))])


def _netted(base: pa.Table, tail: pa.Table, schema: StructType) -> Rows | None:
    """The rows of a bag. Only those that look like one that went are summed up.

    None where Spark should do it: they are many although they are few in files, or one weighs less than nothing.
    """
    gone = tail.filter(pc.less(tail[WEIGHT], 0))
    every = pa.concat_tables([base, tail])
    if (pc.sum(every[WEIGHT]).as_py() or 0) > max(ROWS, every.num_rows):
        return None
    if not gone.num_rows:
        return Rows(_repeated(every), schema)
    if _inexact(schema.fields):
        return None
    alike = _alike(every, gone, [f.name for f in schema.fields])
    touched = Held(every.filter(alike), schema)
    if (pc.min(touched.whole[WEIGHT]).as_py() or 0) < 0:
        return None
    return Rows(pa.concat_tables([_repeated(every.filter(pc.invert(alike))), touched.plain]), schema)


def _alike(rows: pa.Table, others: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """Which rows look like one of the others, by the column that tells these apart best."""
    column = max(names, key=lambda n: len(pc.unique(others[n])))
    return pc.is_in(rows[column], value_set=pc.unique(others[column]))


def _repeated(rows: pa.Table) -> pa.Table:
    """Each row as often as it weighs."""
    weights, plain = rows[WEIGHT], rows.drop_columns([WEIGHT])
    if not rows.num_rows or pc.max(weights).as_py() == 1:
        return plain
    return plain.take(pa.array([i for i, n in enumerate(weights.to_pylist()) for _ in range(n)], pa.int64()))


def _summed(base: pa.Table, tail: pa.Table, schema: StructType, layout: Layout) -> Rows | None:
    """The groups that have rows, with their sums. Those of the base that the tail does not touch are as they are.

    None where Spark should do it: sums could differ, or a group weighs less than nothing.
    """
    if _inexact(schema.fields):
        return None
    fields = StructType([*schema.fields, StructField(WEIGHT, LongType())])
    numbers = [*layout.partials, WEIGHT]
    alike = _alike(base, tail, layout.keys) if layout.keys and tail.num_rows else pa.chunked_array([pa.repeat(not layout.keys, base.num_rows)])
    sums = _sums(pa.concat_tables([base.filter(alike), tail]), layout.keys, numbers)
    if sums is None or (layout.keys and (pc.min(sums[WEIGHT]).as_py() or 0) < 0):
        return None
    groups = pa.concat_tables([base.filter(pc.invert(alike)), sums])
    return Rows(groups.filter(pc.greater(groups[WEIGHT], 0)) if layout.keys else groups, fields)


def _sums(rows: pa.Table, keys: Sequence[str], numbers: Sequence[str]) -> pa.Table | None:
    """One row per group with sums of its numbers, in the types that they have; without keys one row in any case.

    None where a sum could be too large for its type, or is already, which NULL says: Arrow would go on from the other end, or pass over it.
    """
    if any(_could_overflow(rows[n]) for n in numbers):
        return None
    if keys:
        found = rows.group_by(list(keys)).aggregate([(n, "sum") for n in numbers])
        columns = {**{k: found[k] for k in keys}, **{n: found[f"{n}_sum"] for n in numbers}}
    else:
        columns = {n: pa.chunked_array([pa.array([pc.sum(rows[n]).as_py() or 0], rows[n].type)]) for n in numbers}
    return pa.table([columns[f.name].cast(f.type) for f in rows.schema], schema=rows.schema)


def _could_overflow(column: pa.ChunkedArray) -> bool:
    if column.null_count:
        return True
    if pa.types.is_integer(column.type):
        most = 1 << 63
    elif pa.types.is_decimal(column.type):
        most = 10 ** (column.type.precision - column.type.scale)
    else:
        return False
    ends = pc.min_max(column).as_py()
    return max(abs(ends["min"] or 0), abs(ends["max"] or 0)) * len(column) >= most


def _inexact(fields: Sequence[StructField]) -> bool:
    return any(isinstance(f.dataType, FloatType | DoubleType) for f in fields)
