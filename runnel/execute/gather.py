"""Rows near a change, gathered once for all steps of a plan that read some of them.

Several steps often want rows of one table with the keys of a change: of changed orders the lines as they were and as they are, for a
join, for EXISTS and for NOT EXISTS. Each would pass over the table. Where the keys are few among those of the table, one
pass brings the rows for all of them. A step gets more than it wants, which it may. With the change at hand one pass is enough for both
faces: the rows as they were are those that are there now, less what changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from runnel.algebra import WEIGHT, Face
from runnel.algebra.want import Side
from runnel.differentiate import InputFace
from runnel.execute.near import values_among, version_of
from runnel.execute.provide import Provided
from runnel.sources.bounds import Bound
from runnel.sources.facts import SourceFacts
from runnel.sources.held import ROWS, Held, collect
from runnel.sources.reader import Reader
from runnel.sources.source import Source

SPARED = 32 << 20
"""Bytes of further passes that one must spare: half a second of two cores, where a job of its own costs a tenth."""
SHARE = 0.05
"""The share of a table's rows up to which they are worth writing down to be read again."""
FEW = 50_000
"""Rows up to which this process holds them."""
_TYPES = {"number": LongType(), "text": StringType(), "date": DateType()}
KEY = "__runnel_key"


@dataclass(frozen=True)
class Gathering:
    """One pass over a face of a table, for the inputs of these names: the rows whose `bound.column` has one of these values.

    `others` are inputs of its other face, whose rows are the same but for the change of the table.
    """

    source: str
    face: Face
    bound: Bound
    values: pa.Array
    rows: float
    inputs: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def serves(self) -> frozenset[str]:
        return frozenset((*self.inputs, *self.others))

    def __str__(self) -> str:
        faces = "before and after" if self.others else self.face
        return f"{self.source} {faces}: about {self.rows:,.0f} rows by {self.bound.column}, for {len(self.serves)} inputs"


def gatherings(
    inputs: Sequence[InputFace], sources: Mapping[str, Source], facts: Mapping[str, SourceFacts], held: Mapping[str, Held]
) -> Iterator[Gathering]:
    """The passes that are worth it, by the statistics of files and without reading any."""
    for source in dict.fromkeys(i.source for i in inputs if i.want.within and i.source in sources):
        known = [i for i in inputs if i.source == source and i.want.within]
        whole = list(_best(known, sources[source], facts[source], held)) if source in held and held[source].exact else []
        if whole and whole[0].rows <= ROWS:
            yield whole[0]
            continue
        for face in dict.fromkeys(i.face for i in known):
            yield from _best([i for i in known if i.face is face], sources[source], facts[source], held)


def _best(known: Sequence[InputFace], source: Source, facts: SourceFacts, held: Mapping[str, Held]) -> Iterator[Gathering]:
    """The pass by the column that serves most."""
    found = [g for column in _columns(known) if (g := _by(column, known, source, facts, held)) is not None]
    if found:
        yield max(found, key=lambda g: (len(g.serves), -g.rows))


def gather(
    reader: Reader, source: Source, facts: SourceFacts, wanted: Gathering, change: Held | None, columns: Collection[str], folder: str
) -> dict[str, Provided]:
    """The rows of one gathering, read now, by the names of the inputs that it serves."""
    rows = _rows(reader, source, version_of(facts, wanted.face), wanted, columns, folder)
    if not wanted.others:
        return dict.fromkeys(wanted.inputs, Provided(*reader.stored(rows, folder, wanted.rows <= FEW)))
    assert change is not None
    here = collect(rows.withColumn(WEIGHT, F.lit(1).cast("bigint")), columns)
    assert here is not None, "rows of a table whose change is held can be held"
    there = here.less(change.among(wanted.bound.column, wanted.values))
    own, other = (Provided(reader.given(rows, here.schema, folder), rows.num_rows) for rows in (here.plain, there.plain))
    return dict.fromkeys(wanted.inputs, own) | dict.fromkeys(wanted.others, other)


def _rows(reader: Reader, source: Source, version: int, wanted: Gathering, columns: Collection[str], folder: str) -> DataFrame:
    near, lower = source.at(reader, version, [wanted.bound]), {c.lower() for c in columns}
    kept = near.select(*(F.col(f"`{f.name}`") for f in near.schema.fields if f.name.lower() in lower)).alias("n")
    keys = reader.given(pa.table([wanted.values], names=[KEY]), StructType([StructField(KEY, _TYPES[wanted.bound.kind])]), f"{folder}/keys")
    own, key = F.col(f"n.`{wanted.bound.column}`"), F.col(KEY)
    same = own.eqNullSafe(key) if wanted.bound.null else own == key
    return kept.join(F.broadcast(keys), same, "left_semi")


def _columns(inputs: Sequence[InputFace]) -> list[str]:
    return list(dict.fromkeys(w.column for i in inputs for w in i.want.within if w.side is Side.EQUAL))


def _by(column: str, known: Sequence[InputFace], source: Source, facts: SourceFacts, held: Mapping[str, Held]) -> Gathering | None:
    """All inputs that one pass by this column can serve, if it is worth it."""
    served = {i: w for i in known for w in i.want.within if w.column == column and w.side is Side.EQUAL and all(s in held for s, _ in w.among)}
    passes = sum(i.uses for i in served)
    if passes < 2 or (passes - 1) * source.size() < SPARED:
        return None
    values = values_among(sorted({origin for w in served.values() for origin in w.among}), held)
    if values is None:
        return None
    face = Face.AFTER if any(i.face is Face.AFTER for i in served) else Face.BEFORE
    bound = Bound.of(column, values)
    share, total = source.share(version_of(facts, face), bound), source.rows()
    if share is None or total is None:
        return None
    rows = max(share * total, len(bound.values))  # a value that changed has a row more often than not
    if rows > SHARE * total:
        return None
    keys = pa.concat_arrays([values.array, pa.nulls(1, values.array.type)]) if values.null else values.array
    own, others = (tuple(i.name for i in served if (i.face is face) is same) for same in (True, False))
    return Gathering(facts.key, face, bound, keys, rows, own, others)
