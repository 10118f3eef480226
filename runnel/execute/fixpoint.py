"""A cycle of stream tables: the least contents that satisfy all their queries at once.

X₀ = nothing, X₁ = Q(X₀), X₂ = Q(X₁), ... until no content changes. Every refresh that has something to do starts from nothing, so a
row that only the cycle itself supports is gone. The rounds are computed beside the tables; each member then commits its difference
once, so those who read it receive a change as from any other.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from runnel.algebra import Column
from runnel.definition import Definition
from runnel.errors import DefinitionError
from runnel.execute.engine import Engine
from runnel.execute.query import pinned_query
from runnel.sources.bounds import Bound
from runnel.sources.delta_log import local_path
from runnel.sources.facts import Kind, SourceFacts
from runnel.sources.held import Held
from runnel.sources.reader import SOUND, Given, Reader
from runnel.sources.source import Source
from runnel.tables.content import quote


@dataclass
class Settled:
    """What a member of a cycle holds in the end, as a source for the others: see `Source`. `version` is the one that will hold it."""

    key: str
    folder: str
    schema: StructType
    version: int
    table_id: str
    plain: Mapping[str, int]
    """The plain sources that the whole cycle reflects."""

    def probe(self, before: int | None, table_id: str | None, columns: dict[str, str], upto: int | None = None) -> SourceFacts:
        return SourceFacts(self.key, Kind.MIXED, before, self.version, self.table_id, rows=None)

    def reflects(self, version: int) -> Mapping[str, int]:
        return self.plain

    def at(self, reader: Reader, version: int, bounds: Sequence[Bound] = ()) -> DataFrame:
        rows = reader.session.read.schema(self.schema).parquet(self.folder)
        types = {f.name.lower(): f.dataType.simpleString() for f in self.schema.fields}
        return reduce(DataFrame.where, (b.predicate() for b in bounds if b.fits(types.get(b.column.lower(), ""))), rows)

    def here(self, reader: Reader, version: int, bounds: Sequence[Bound], columns: Collection[str], folder: str, few: bool = False) -> Given | None:
        return None

    def near(self, version: int, bounds: Sequence[Bound]) -> float:
        return 1.0

    def share(self, version: int, bound: Bound, look: bool = False) -> float | None:
        return None

    def gone(self, version: int) -> str | None:
        return None

    def held(self, facts: SourceFacts, columns: Collection[str]) -> Held | None:
        return None

    def few(self, facts: SourceFacts) -> bool:
        return False

    def change(self, reader: Reader, facts: SourceFacts) -> DataFrame:
        raise AssertionError("a cycle is computed from its contents, not from changes")

    def size(self) -> int:
        return 0

    def rows(self, version: int | None = None) -> int | None:
        return None


@dataclass(frozen=True)
class Fixpoint:
    """The contents of a cycle after the last round: a folder of rows for each member."""

    folders: Mapping[str, str]
    schemas: Mapping[str, StructType]
    rounds: int

    def settled(self, member: str, version: int, table_id: str, plain: Mapping[str, int]) -> Settled:
        return Settled(member, self.folders[member], self.schemas[member], version, table_id, plain)


@contextmanager
def fixpoint(engine: Engine, definitions: Sequence[Definition], versions: Mapping[str, int], moment: str) -> Iterator[Fixpoint]:
    """Compute the contents of a cycle, with all other sources at `versions` and clocks at `moment`; they are there for the length of a `with` block."""
    root = f"{engine.backing(definitions[0].name).path}/_cycle-{uuid.uuid4().hex[:12]}"
    reader = engine.reader
    try:
        with reader.lock, reader.configured(**SOUND), engine.jobs(definitions[0].name).stage("fixpoint"):
            found = _rounds(engine, definitions, versions, moment, root)
        yield found
    finally:
        reader.clean()
        local = local_path(root)
        if local is not None:
            shutil.rmtree(local, ignore_errors=True)


def _rounds(engine: Engine, definitions: Sequence[Definition], versions: Mapping[str, int], moment: str, root: str) -> Fixpoint:
    reader, members = engine.reader, {d.name: d for d in definitions}
    empty = {name: _empty(reader, d.layout.output) for name, d in members.items()}
    schemas = {name: frame.schema for name, frame in empty.items()}
    folders: dict[str, str] = {}
    for name, frame in empty.items():
        folders[name] = f"{root}/0-{len(folders)}"
        frame.write.parquet(folders[name])
    for number in range(1, engine.settings.circular_rounds + 1):
        moved = False
        for place, (name, definition) in enumerate(members.items()):
            fresh = f"{root}/{number}-{place}"
            _result(engine, definition, versions, moment, folders, schemas).write.parquet(fresh)
            reader.clean()
            if not _same(reader, schemas[name], members[name].layout.output, folders[name], fresh):
                folders[name], moved = fresh, True
        if not moved:
            return Fixpoint(dict(folders), schemas, number)
    path = " -> ".join((*members, next(iter(members))))
    raise DefinitionError(
        f"the cycle {path} did not settle within {engine.settings.circular_rounds} rounds",
        code="NO_FIXPOINT",
        detail="Some content was still changing. UNION ALL in a cycle adds the same rows again and again, and a negation may swing to and fro.",
        hint="Use UNION or SELECT DISTINCT in the cycle, or raise the setting circular_rounds.",
    )


def _result(
    engine: Engine,
    definition: Definition,
    versions: Mapping[str, int],
    moment: str,
    folders: Mapping[str, str],
    schemas: Mapping[str, StructType],
) -> DataFrame:
    """The query of one member over the contents of the round."""
    inside: dict[str, Source] = {n: Settled(n, folders[n], schemas[n], 0, "", {}) for n in folders}
    sources = {s.key: inside.get(s.key) or engine.source(s) for s in definition.sources}
    at = {key: 0 if key in inside else versions[key] for key in sources}
    engine.reader.adopt(definition.functions)
    return pinned_query(engine.reader, definition, sources, at, moment if definition.clocks else None).toDF(
        *(c.name for c in definition.layout.output)
    )


def _empty(reader: Reader, columns: tuple[Column, ...]) -> DataFrame:
    typed = ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in columns)
    return reader.session.sql(f"SELECT {typed}").limit(0)


def _same(reader: Reader, schema: StructType, columns: tuple[Column, ...], old: str, new: str) -> bool:
    """Whether two folders hold the same rows, each as often."""
    was, now = (reader.session.read.schema(schema).parquet(folder) for folder in (old, new))
    if was.count() != now.count():
        return False
    keys = [f"to_json({quote(c.name)})" if c.type == "variant" or "map<" in c.type else quote(c.name) for c in columns]
    return not now.selectExpr(*keys).exceptAll(was.selectExpr(*keys)).take(1)
