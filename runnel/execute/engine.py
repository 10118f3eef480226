"""What refreshes share: sessions, settings, the catalog, and caches of logs and bound trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import count

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from runnel.algebra import Facts
from runnel.definition import Definition, SourceRef
from runnel.differentiate import ChangePlan, Root, differentiate, recompute
from runnel.errors import DefinitionError
from runnel.execute.jobs import Jobs
from runnel.execute.lookup import SparkLookup
from runnel.execute.memo import Memo
from runnel.execute.prepare import rebind
from runnel.schedule.graph import Graph
from runnel.settings import Settings
from runnel.sources.delta import DeltaSource
from runnel.sources.delta_log import DeltaLog
from runnel.sources.facts import SourceFacts
from runnel.sources.held import Held, collect
from runnel.sources.here import Rows
from runnel.sources.reader import Reader
from runnel.sources.source import Source
from runnel.sources.stream_table import StreamTableSource
from runnel.state import Catalog, Entry
from runnel.tables.backing import BackingTable, CommitNote
from runnel.tables.content import LogFacts, finished_sql

SMALL = {"spark__sql__adaptive__enabled": "false", "spark__sql__shuffle__partitions": "2"}
"""Settings for a job over a small change: planned at once, in few parts."""
HELD, HELD_BYTES = 64, 256 << 20
"""Changes kept at hand at once, and their bytes; usually they have some kilobytes each."""
LOOKED_UP = 100
"""Logs of which is kept what was looked up for readers: at most some thousand keys each."""
PLANS = 2000
"""Plans kept at once; a stream table has a few, one for each set of sources that change together."""


@dataclass(frozen=True)
class Known:
    """The stream tables of a catalog at one revision of it."""

    revision: int
    entries: dict[str, Entry]
    definitions: dict[str, Definition]
    graph: Graph


def _trim_held(held: dict[tuple[object, ...], Held | None]) -> None:
    while len(held) > HELD or (len(held) > 1 and sum(h.table.nbytes for h in held.values() if h is not None) > HELD_BYTES):
        del held[next(iter(held))]


def _trim_plans(plans: dict[tuple[str, Facts, Settings], ChangePlan]) -> None:
    while len(plans) > PLANS:
        del plans[next(iter(plans))]


def _trim_looked_up(found: dict[tuple[str, ...], tuple[LogFacts, Rows | None]]) -> None:
    while len(found) > LOOKED_UP:
        del found[next(iter(found))]


@dataclass
class Engine:
    """One connection. Caches are keyed by what they were made from, so they never go stale, and shared by all workers."""

    spark: SparkSession
    settings: Settings
    catalog: Catalog
    reader: Reader
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    """The clock that queries with current_timestamp() and its like read, once per cut."""
    pool: str | None = None
    """The scheduler pool of a worker: with fair scheduling, the jobs of one do not wait for all those of another."""
    hire: Callable[[Callable[[Engine], None]], bool] = lambda task: False
    """Hands a task to a worker that is free, or says that none is."""
    _logs: Memo[str, DeltaLog] = field(default_factory=Memo)
    _roots: Memo[str, Root] = field(default_factory=Memo)
    _plans: Memo[tuple[str, Facts, Settings], ChangePlan] = field(default_factory=lambda: Memo(_trim_plans))
    _recomputes: Memo[str, ChangePlan] = field(default_factory=Memo)
    _held: Memo[tuple[object, ...], Held | None] = field(default_factory=lambda: Memo(_trim_held))
    looked_up: Memo[tuple[str, ...], tuple[LogFacts, Rows | None]] = field(default_factory=lambda: Memo(_trim_looked_up))
    """By the files of a log, what `read.py` found out about it."""
    _known: list[Known] = field(default_factory=list)
    _workers: Iterator[int] = field(default_factory=lambda: count(1))

    def worker(self) -> Engine:
        """An engine for one thread: with a reading session and a scheduler pool of its own, everything else shared."""
        return replace(
            self, reader=Reader(self.spark, self.settings.kernel_reads, self.settings.uses("rows_here")), pool=f"runnel-{next(self._workers)}"
        )

    def jobs(self, name: str) -> Jobs:
        """The Spark jobs of one piece of work on a stream table."""
        return Jobs(self.spark, name, self.pool)

    def known(self) -> Known:
        """What the catalog has, read anew only when it changed."""
        revision = self.catalog.revision()
        last = next(iter(self._known), None)
        if last is not None and last.revision == revision:
            return last
        entries = {e.name: e for e in self.catalog.entries()}
        definitions = {
            n: last.definitions[n] if last is not None and last.entries.get(n) == e else Definition.from_dict(e.definition)
            for n, e in entries.items()
        }
        found = Known(revision, entries, definitions, graph_of(definitions, last.graph if last is not None else None))
        self._known[:] = [found]
        return found

    def definitions(self) -> dict[str, Definition]:
        """Every stream table by name, as the catalog has it."""
        return dict(self.known().definitions)

    @cached_property
    def parallelism(self) -> int:
        """Tasks that Spark runs at once, as far as it can be asked."""
        return 8 if is_remote() else int(self.spark.sparkContext.defaultParallelism)

    def may_replace(self, definition: Definition) -> bool:
        """Whether a FULL may put what it computed in place of what is stored: no stream table reads this one, so none waits for the difference."""
        return self.settings.uses("replaced_content") and not self.graph().readers.get(definition.name)

    def graph(self) -> Graph:
        """Who reads whom, and who is refreshed together."""
        return self.known().graph

    def backing(self, name: str) -> BackingTable:
        """The backing table of a stream table, or an error that names those that exist."""
        known = self.known()
        entry = known.entries.get(name)
        if entry is None:
            names = list(known.entries)
            raise DefinitionError(
                f'stream table "{name}" does not exist',
                code="STREAM_TABLE_NOT_FOUND",
                detail=f"Stream tables are {', '.join(names)}." if names else "There are no stream tables yet.",
                hint="Create it with CREATE STREAM TABLE, or run `runnel repair` if its backing table exists.",
            )
        return BackingTable(entry.path, known.definitions[name], self.log(entry.path))

    def log(self, path: str) -> DeltaLog:
        return self._logs.get(path, lambda: DeltaLog(path))

    def source(self, ref: SourceRef) -> Source:
        """A source as the definition names it. A stream table is found by its name, since one that is dropped and made again has other files."""
        if ref.kind == "delta":
            return DeltaSource(ref.key, self.log(ref.path), direct=self.settings.direct_change_files)
        upstream = self.backing(ref.key).in_force()
        return StreamTableSource(
            ref.key,
            upstream.log,
            upstream.definition.layout,
            lambda layout, log, note: finished_sql(layout, log, self.log_facts(CommitNote.from_dict(note)) if note else None),
        )

    def log_facts(self, note: CommitNote) -> LogFacts | None:
        """What a note allows readers of its table to leave out, None where they shall leave out nothing."""
        return note.log_facts if self.settings.uses("noted_forms") else None

    def commits_directly(self, backing: BackingTable) -> bool:
        """Whether delta-rs commits what Spark wrote: when allowed, and when this process can see the files itself."""
        return self.settings.direct_commits and backing.log.local is not None

    def lookup(self) -> SparkLookup:
        return SparkLookup(self.spark, self.definitions())

    def root(self, definition: Definition) -> Root:
        """The maintained tree of an incremental definition, bound once per process."""
        return self._roots.get(definition.id, lambda: rebind(definition, self.lookup(), self.settings)[1])

    def plan(self, definition: Definition, facts: Facts) -> ChangePlan:
        """The change plan of an incremental definition for a set of facts, made once per process."""
        settings = self.settings
        return self._plans.get((definition.id, facts, settings), lambda: differentiate(self.root(definition), facts, settings.laws, settings.off))

    def recompute(self, definition: Definition) -> ChangePlan:
        """The plan of a first load, made once per process."""
        return self._recomputes.get(definition.id, lambda: recompute(self.root(definition), None))

    def clear_caches(self) -> None:
        """Forget bound trees, plans and what was read of logs."""
        for memo in (self._roots, self._plans, self._recomputes, self._logs, self._held, self.looked_up):
            memo.forget()
        self._known.clear()

    def held(self, source: Source, facts: SourceFacts, columns: frozenset[str]) -> Held | None:
        """A small change at hand. Stream tables that read the same change share one reading of all columns that any of them reads."""
        columns = frozenset(c.lower() for c in columns)
        if not self.settings.uses("shared_reads"):
            return source.held(facts, columns) or self._collected(source, facts, columns)
        for wanted in dict.fromkeys((columns | self._columns(facts.key), columns)):
            held = self._read(source, facts, wanted)
            if held is not None:
                return held.only(columns)
        return None

    def _read(self, source: Source, facts: SourceFacts, columns: frozenset[str]) -> Held | None:
        key = (facts.key, facts.table_id, facts.before, facts.after, columns)
        return self._held.get(key, lambda: source.held(facts, columns) or self._collected(source, facts, columns))

    def _columns(self, key: str) -> frozenset[str]:
        """The columns of a table that some stream table reads; of a stream table that several read, all."""
        known = self.known()
        readers = known.graph.readers.get(key, ())
        if key in known.definitions:
            return frozenset(c.name.lower() for c in known.definitions[key].layout.output) if len(readers) > 1 else frozenset()
        refs = (ref for reader in readers for ref in known.definitions[reader].sources if ref.key == key)
        return frozenset(column for ref in refs for column in ref.columns)

    def _collected(self, source: Source, facts: SourceFacts, columns: frozenset[str]) -> Held | None:
        """A small change that this process cannot read by itself: of a grouped stream table, or behind deletion vectors."""
        if not source.few(facts):
            return None
        with self.reader.lock, self.reader.configured(**SMALL):
            return collect(source.change(self.reader, facts), columns)

    def forget(self, definition_id: str) -> None:
        for memo in (self._roots, self._recomputes):
            memo.forget(lambda key: key == definition_id)
        self._plans.forget(lambda key: key[0] == definition_id)


def graph_of(definitions: Mapping[str, Definition], before: Graph | None = None) -> Graph:
    """Who reads whom, with the groups that users declared; what is known of an earlier graph is taken over."""
    groups: dict[str, list[str]] = {}
    for name, definition in definitions.items():
        if definition.group:
            groups.setdefault(definition.group, []).append(name)
    return (before or Graph()).changed_to({n: d.source_keys for n, d in definitions.items()}, {g: tuple(members) for g, members in groups.items()})
