"""Rows near a change, gathered once for all steps of a plan that read some of them.

Several steps often want rows of one table with the keys of a change: of changed orders the lines as they were and as they are, for a
join, for EXISTS and for NOT EXISTS. Each would pass over the table. Where the keys are few among those of the table, one
pass brings the rows for all of them. A step gets more than it wants, which it may.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType, StructField, StructType

from runnel.algebra import Face
from runnel.algebra.want import Side
from runnel.differentiate import InputFace
from runnel.execute.near import version_of
from runnel.sources.bounds import Bound
from runnel.sources.facts import SourceFacts
from runnel.sources.held import Held
from runnel.sources.reader import Reader
from runnel.sources.source import Source

SPARED = 32 << 20
"""Bytes of further passes that one must spare: half a second of two cores, where a job of its own costs a tenth."""
SHARE = 0.05
"""The share of a table's rows up to which they are worth writing down to be read again."""
FEW = 50_000
"""Rows up to which this process holds them."""
_TYPES = {"number": (pa.int64(), LongType()), "text": (pa.string(), StringType()), "date": (pa.date32(), DateType())}
KEY = "__runnel_key"


@dataclass(frozen=True)
class Gathering:
    """One pass over a face of a table, for the inputs of these names: the rows whose `bound.column` has one of these values."""

    source: str
    face: Face
    bound: Bound
    values: pa.Array
    rows: float
    inputs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.source} {self.face}: about {self.rows:,.0f} rows by {self.bound.column}, for {len(self.inputs)} inputs"


def gatherings(
    inputs: Sequence[InputFace], sources: Mapping[str, Source], facts: Mapping[str, SourceFacts], held: Mapping[str, Held]
) -> Iterator[Gathering]:
    """The passes that are worth it, by the statistics of files and without reading any."""
    for source, face in dict.fromkeys((i.source, i.face) for i in inputs if i.want.within):
        known = [i for i in inputs if (i.source, i.face) == (source, face) and i.want.within]
        version = version_of(facts[source], face)
        found = [g for column in _columns(known) if (g := _by(column, known, sources[source], version, held)) is not None]
        if found:
            yield max(found, key=lambda g: (len(g.inputs), -g.rows))


def gather(reader: Reader, source: Source, version: int, wanted: Gathering, columns: Collection[str], folder: str) -> DataFrame:
    """The rows of one gathering, read now."""
    near, lower = source.at(reader, version, [wanted.bound]), {c.lower() for c in columns}
    kept = near.select(*(F.col(f"`{f.name}`") for f in near.schema.fields if f.name.lower() in lower)).alias("n")
    keys = reader.given(pa.table([wanted.values], names=[KEY]), StructType([StructField(KEY, _TYPES[wanted.bound.kind][1])]), f"{folder}/keys")
    own, key = F.col(f"n.`{wanted.bound.column}`"), F.col(KEY)
    same = own.eqNullSafe(key) if wanted.bound.null else own == key
    rows = kept.join(F.broadcast(keys), same, "left_semi")
    return reader.stored(rows, folder, wanted.rows <= FEW)


def _columns(inputs: Sequence[InputFace]) -> list[str]:
    return list(dict.fromkeys(w.column for i in inputs for w in i.want.within if w.side is Side.EQUAL))


def _by(column: str, known: Sequence[InputFace], source: Source, version: int, held: Mapping[str, Held]) -> Gathering | None:
    """All inputs that one pass by this column can serve, if it is worth it."""
    served = {i: w for i in known for w in i.want.within if w.column == column and w.side is Side.EQUAL and all(s in held for s, _ in w.among)}
    passes = sum(i.uses for i in served)
    if passes < 2 or (passes - 1) * source.size() < SPARED:
        return None
    arrays = [held[s].values(c) for s, c in sorted({origin for w in served.values() for origin in w.among})]
    bound = Bound.of(column, arrays)
    share, total = source.share(version, bound) if bound is not None else None, source.rows()
    if bound is None or share is None or total is None:
        return None
    rows = max(share * total, len(bound.values))  # a value that changed has a row more often than not
    if rows > SHARE * total:
        return None
    type_, first = _TYPES[bound.kind][0], next(iter(served))
    values = pc.unique(pa.concat_arrays([a.cast(type_).combine_chunks() for a in arrays]))
    return Gathering(first.source, first.face, bound, values, rows, tuple(i.name for i in served))
