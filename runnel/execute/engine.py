"""What refreshes share: sessions, settings, the catalog, and caches of logs and bound trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from runnel.algebra import Facts
from runnel.definition import Definition, SourceRef
from runnel.differentiate import ChangePlan, Root, differentiate, recompute
from runnel.errors import DefinitionError
from runnel.execute.lookup import SparkLookup
from runnel.execute.prepare import rebind
from runnel.schedule.graph import Graph
from runnel.settings import Settings
from runnel.sources.delta import DeltaSource
from runnel.sources.delta_log import DeltaLog
from runnel.sources.facts import SourceFacts
from runnel.sources.held import Held, collect
from runnel.sources.reader import Reader
from runnel.sources.source import Source
from runnel.sources.stream_table import StreamTableSource
from runnel.state import Catalog
from runnel.tables.backing import BackingTable
from runnel.tables.content import LogFacts, finished_sql

SMALL = {"spark__sql__adaptive__enabled": "false", "spark__sql__shuffle__partitions": "2"}
"""Settings for a job over a small change: planned at once, in few parts."""
HELD, HELD_BYTES = 64, 256 << 20
"""Changes kept at hand at once, and their bytes; usually they have some kilobytes each."""
PLANS = 2000
"""Plans kept at once; a stream table has a few, one for each set of sources that change together."""


@dataclass
class Engine:
    """One connection. Caches are keyed by what they were made from, so they never go stale."""

    spark: SparkSession
    settings: Settings
    catalog: Catalog
    reader: Reader
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    """The clock that queries with current_timestamp() and its like read, once per refresh."""
    _logs: dict[str, DeltaLog] = field(default_factory=dict)
    _roots: dict[str, Root] = field(default_factory=dict)
    _plans: dict[tuple[str, Facts], ChangePlan] = field(default_factory=dict)
    _recomputes: dict[str, ChangePlan] = field(default_factory=dict)
    _held: dict[tuple[object, ...], Held | None] = field(default_factory=dict)

    def definitions(self) -> dict[str, Definition]:
        """Every stream table by name, as the catalog has it."""
        return {e.name: Definition.from_dict(e.definition) for e in self.catalog.entries()}

    @cached_property
    def parallelism(self) -> int:
        """Tasks that Spark runs at once, as far as it can be asked."""
        return 8 if is_remote() else int(self.spark.sparkContext.defaultParallelism)

    def graph(self) -> Graph:
        """Who reads whom."""
        return Graph({name: definition.source_keys for name, definition in self.definitions().items()})

    def backing(self, name: str) -> BackingTable:
        """The backing table of a stream table, or an error that names those that exist."""
        entry = self.catalog.get(name)
        if entry is None:
            names = [e.name for e in self.catalog.entries()]
            raise DefinitionError(
                f'stream table "{name}" does not exist',
                code="STREAM_TABLE_NOT_FOUND",
                detail=f"Stream tables are {', '.join(names)}." if names else "There are no stream tables yet.",
                hint="Create it with CREATE STREAM TABLE, or run `runnel repair` if its backing table exists.",
            )
        return BackingTable(entry.path, Definition.from_dict(entry.definition), self.log(entry.path))

    def log(self, path: str) -> DeltaLog:
        return self._logs.setdefault(path, DeltaLog(path))

    def source(self, ref: SourceRef) -> Source:
        """A source as the definition names it. A stream table is found by its name, since replacing it moves its files."""
        if ref.kind == "delta":
            return DeltaSource(ref.key, self.log(ref.path), direct=self.settings.direct_change_files)
        upstream = self.backing(ref.key)
        layout = upstream.definition.layout
        return StreamTableSource(ref.key, upstream.log, layout, lambda log, tail, negatives: finished_sql(layout, log, LogFacts(tail, negatives)))

    def commits_directly(self, backing: BackingTable) -> bool:
        """Whether delta-rs commits what Spark wrote: when allowed, and when this process can see the files itself."""
        return self.settings.direct_commits and backing.log.local is not None

    def lookup(self) -> SparkLookup:
        return SparkLookup(self.spark, self.definitions())

    def root(self, definition: Definition) -> Root:
        """The maintained tree of an incremental definition, bound once per process."""
        if definition.id not in self._roots:
            self._roots[definition.id] = rebind(definition, self.lookup(), self.settings)[1]
        return self._roots[definition.id]

    def plan(self, definition: Definition, facts: Facts) -> ChangePlan:
        """The change plan of an incremental definition for a set of facts, made once per process."""
        key = (definition.id, facts)
        if key not in self._plans:
            if len(self._plans) >= PLANS:
                self._plans.clear()
            self._plans[key] = differentiate(self.root(definition), facts, self.settings.laws)
        return self._plans[key]

    def recompute(self, definition: Definition) -> ChangePlan:
        """The plan of a first load, made once per process."""
        if definition.id not in self._recomputes:
            self._recomputes[definition.id] = recompute(self.root(definition), None)
        return self._recomputes[definition.id]

    def clear_caches(self) -> None:
        """Forget bound trees, plans and what was read of logs."""
        self._roots.clear()
        self._plans.clear()
        self._recomputes.clear()
        self._logs.clear()
        self._held.clear()

    def held(self, source: Source, facts: SourceFacts, columns: frozenset[str]) -> Held | None:
        """A small change at hand. Stream tables that read the same change one after the other share one reading."""
        key = (facts.key, facts.table_id, facts.before, facts.after, columns)
        if key not in self._held:
            self._held[key] = source.held(facts, columns) or self._collected(source, facts, columns)
            while len(self._held) > HELD or sum(h.table.nbytes for h in self._held.values() if h is not None) > HELD_BYTES:
                oldest = next(iter(self._held))
                if oldest == key:
                    break
                del self._held[oldest]
        return self._held[key]

    def _collected(self, source: Source, facts: SourceFacts, columns: frozenset[str]) -> Held | None:
        """A small change that this process cannot read by itself: of a grouped stream table, or behind deletion vectors."""
        if not source.few(facts):
            return None
        with self.reader.lock, self.reader.configured(**SMALL):
            return collect(source.change(self.reader, facts), columns)

    def forget(self, definition_id: str) -> None:
        self._roots.pop(definition_id, None)
        self._recomputes.pop(definition_id, None)
        for key in [k for k in self._plans if k[0] == definition_id]:
            del self._plans[key]
