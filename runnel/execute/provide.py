"""What a change plan reads, as views in Runnel's own session: faces of sources, changes at hand, stored rows, the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame

from runnel.algebra import STORED, WEIGHT, Face
from runnel.algebra.want import Side, Want
from runnel.bind import clock
from runnel.execute.near import bounds_of, version_of
from runnel.sources import here
from runnel.sources.bounds import Bound
from runnel.sources.facts import SourceFacts
from runnel.sources.held import ROWS, Held
from runnel.sources.here import IN_PLAN
from runnel.sources.reader import Given, Reader
from runnel.sources.source import Source
from runnel.tables.backing import BackingTable, CommitNote
from runnel.tables.content import LogFacts, content_sql


@dataclass(frozen=True)
class Provided:
    """A relation, how many rows it has at most where that is known, and the bytes that this process read for them."""

    frame: DataFrame
    rows: int | None = None
    bytes: int = 0


@dataclass(frozen=True)
class Provider:
    """Everything that one refresh may read. `version` and `note` are of the backing table before it."""

    reader: Reader
    backing: BackingTable
    version: int
    note: CommitNote
    log_facts: LogFacts | None
    sources: Mapping[str, Source]
    facts: Mapping[str, SourceFacts]
    held: Mapping[str, Held]
    clock: str | None
    columns: Mapping[str, frozenset[str]]
    """The columns that the query reads of each source."""
    prunes: bool = True
    reads: bool = True
    """Whether this process may read rows of tables itself."""
    few: bool = False
    """Whether it may only where they are few."""

    def provide(self, want: Want) -> Provided:
        """A relation with what is wanted."""
        given = self._here(want)
        if given is not None:
            return Provided(given.frame, given.rows, given.bytes)
        counted = want.source in self.sources and want.face is not Face.CHANGE and self.reader.here
        return Provided(self._frame(want), self._most(want) if counted else None)

    def _most(self, want: Want) -> int | None:
        """The most rows that a face of a source can have; None where the log does not tell."""
        fact = self.facts[want.source]
        after = self.sources[want.source].rows(fact.after)
        if want.face is Face.AFTER or not fact.changed:
            return after
        return None if after is None or fact.rows is None else after + fact.rows

    def _here(self, want: Want) -> Given | None:
        if want.source in clock.TYPES:
            return Given(self._moment(want.source, want.face), 2)
        if want.face is Face.CHANGE:
            held = self.held.get(want.source)
            return self._rows(held, want) if held is not None else None
        if self._folder is None or not self.reads:
            return None
        bounds = bounds_of(want, self.held) if self.prunes else []
        if want.source != STORED:
            version = version_of(self.facts[want.source], want.face)
            return self.sources[want.source].here(self.reader, version, bounds, self.columns[want.source], self._folder, self.few)
        layout, log = self.backing.definition.layout, self.backing.log
        names = [c.name for c in layout.stored]
        if want.face is Face.BEFORE:
            rows = here.of_log(log, self.version, names, bounds, self.few)
        else:
            rows = here.of_content(log, self.version, layout, names, bounds, self.few)
        return self.reader.giving(rows, self._folder) if rows is not None and rows.count <= ROWS else None

    def _frame(self, want: Want) -> DataFrame:
        """The same as Spark reads it."""
        if want.source == STORED:
            return self._stored(want)
        source, fact = self.sources[want.source], self.facts[want.source]
        if want.face is Face.CHANGE:
            return source.change(self.reader, fact)
        return source.at(self.reader, version_of(fact, want.face), bounds_of(want, self.held) if self.prunes else ())

    def _rows(self, held: Held, want: Want) -> Given:
        """A change at hand, or the distinct keys in it. Stream tables that share a change share its frame."""
        names = (want.columns, want.keys)
        known = held.frames.get(names)
        found = self.reader.adopted(known) if known is not None else None
        rows, columns = (held.keys(want.columns, want.keys), want.keys) if want.keys else (held.net(want.columns), (*want.columns, WEIGHT))
        if found is None:
            found = self.reader.given(rows, held.types(*columns), self._folder)
            if rows.num_rows <= IN_PLAN:  # else they are in a file that goes with this refresh
                held.frames[names] = found
        return Given(found, rows.num_rows)

    @property
    def _folder(self) -> str | None:
        """Where rows too many for a plan are put; `refresh` removes it."""
        local = self.backing.log.local
        return f"{local}/_steps/given" if local is not None else None

    def _stored(self, want: Want) -> DataFrame:
        """What is stored before this refresh: the log with its weights, or summed up to rows."""
        if want.face is Face.BEFORE:
            bounds = bounds_of(want, self.held) if self.prunes else []
            # Ranges only: with a list of values Spark broadcasts the touched keys once more than without it.
            ranges = [b.predicate() for b in bounds if b.side is not Side.EQUAL]
            log = self._near(bounds)
            return reduce(DataFrame.where, ranges, self.reader.table(self.backing.path, self.version) if log is None else log)
        log = self.reader.table(self.backing.path, self.version)
        return self.reader.session.sql(content_sql(self.backing.definition.layout, self.reader.register(log), self.log_facts))

    def _near(self, bounds: Sequence[Bound]) -> DataFrame | None:
        """The files of the log that can hold rows within bounds, where they are less than half of it: as they are when rows lie in the order of keys."""
        files = self.backing.near(self.version, bounds)
        if files is None:
            return None
        schema = self.backing.schema
        return self.reader.session.read.schema(schema).parquet(*files) if files else self.reader.rows([], schema)

    def _moment(self, kind: str, face: Face) -> DataFrame:
        """A clock as a table of one row; its change takes the old reading away and brings the new one."""
        before, after = self.note.extra.get(clock.NOTED), self.clock
        assert after is not None
        faces: dict[Face, list[tuple[str | None, int]]] = {
            Face.BEFORE: [(before, 0)],
            Face.AFTER: [(after, 0)],
            Face.CHANGE: [(before, -1), (after, 1)],
        }
        weight = f", CAST({{}} AS BIGINT) AS {WEIGHT}" if face is Face.CHANGE else ""
        selects = [f"SELECT {clock.at(kind, m or after).sql('spark')} AS {clock.COLUMN}{weight.format(w)}" for m, w in faces[face]]
        return self.reader.session.sql(" UNION ALL ".join(selects))
