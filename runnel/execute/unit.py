"""One unit of refresh: its members read one cut of the sources and of the clock, and readers see all of them move at once.

Delta Lake has no commit over several tables. The members commit each to its backing table, and which versions of
them readers see is one row each in the catalog, changed in one transaction. A failure on the way publishes nothing; what was
committed stays, and the next attempt goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from runnel.bind import clock
from runnel.definition import Definition
from runnel.errors import RunnelError
from runnel.execute.crew import together
from runnel.execute.engine import Engine, graph_of
from runnel.execute.fixpoint import fixpoint
from runnel.execute.prepare import Prepared
from runnel.execute.publication import hold_back, is_fastest, publish
from runnel.execute.refresh import refresh
from runnel.observe.record import RefreshRecord
from runnel.schedule.cut import Cut, merged
from runnel.schedule.failure import Failure
from runnel.schedule.graph import Graph, Unit
from runnel.sources.facts import Kind
from runnel.sources.source import Source


def take_cut(engine: Engine, graph: Graph, gated: Collection[str] = ()) -> Cut:
    """The version of each plain source that the stream tables of a graph read: one probe of its log each, no Spark.

    A gated source stands where the slowest of its readers stands. One whose log cannot be read is left out: the refresh of its readers
    says what is wrong with it.
    """
    definitions = engine.known().definitions
    paths = {ref.key: ref.path for name in graph.reads if name in definitions for ref in definitions[name].sources if ref.kind == "delta"}
    versions: dict[str, int] = {}
    for key, path in sorted(paths.items()):
        try:
            reached = _reached(engine, graph.readers.get(key, ()), key) if key in gated else []
            versions[key] = min(reached) if reached else engine.log(path).version()
        except RunnelError:
            continue
    return Cut(versions, engine.now().isoformat(timespec="microseconds"))


def cut_for(engine: Engine, units: Iterable[Unit], new: Definition | None = None) -> Cut:
    """The latest versions of the plain sources that some units read, one of them with a new definition if there is one."""
    reads = engine.graph().reads
    cut = take_cut(engine, Graph({m: reads[m] for unit in units for m in unit.members if m in reads}))
    found = {s.key: engine.log(s.path).version() for s in (new.sources if new is not None else ()) if s.kind == "delta"}
    return Cut({**found, **cut.versions}, cut.at)


def refresh_unit(engine: Engine, unit: Unit, cut: Cut, full: Collection[str] = (), become: Prepared | None = None) -> tuple[RefreshRecord, ...]:
    """Refresh the members, each up to the cut and after those it reads, and publish them together. An error says in `stream_table` whose it is.

    Members that do not read each other run side by side where workers are free. Under the policy `fastest` nothing is held back: each
    member shows when it is ready, those that read a failed one stay, and the first error is raised at the end. With `become` one member
    takes another definition on the way.
    """
    for member in unit.members:
        engine.backing(member)  # one that was dropped meanwhile is an error of its own
    work = _Unit(engine, unit, _definitions(engine, become), frozenset(full), become, _moment(engine, cut))
    if unit.alone:
        return (work.member(unit.members[0], cut.versions),)
    settings = engine.settings
    with engine.catalog.lease(f"unit of {unit.members[0]}", wait=settings.lock_wait_seconds, ttl=settings.lock_lease_seconds) as lease:
        fastest = is_fastest(work.definitions, unit)
        if fastest:
            engine.catalog.unpublish(unit.members)
        else:
            hold_back(engine, unit)
        records, error = work.raised().run({**work.outside(), **work.ahead(cut)}, stop=not fastest)
        if error is not None:
            error.refreshed = records if fastest else ()  # type: ignore[attr-defined]
            raise error
        if not fastest:
            lease.check()
            publish(engine, unit.members, cut)
        return records


def refresh_units(
    engine: Engine, units: Iterable[Unit], cut: Cut, full: bool = False, say: Callable[[Unit], None] = lambda _: None
) -> list[RefreshRecord | Failure]:
    """Refresh units at one cut, sources before readers: a record or a failure for each stream table. Readers of one that failed stay.

    `say` is told of each unit before it is refreshed, and by several threads when units run side by side.
    """
    reads, unit_of = engine.known().graph.reads, {m: unit for unit in units for m in unit.members}
    waits_for = {u: {unit_of[s] for m in u.members for s in reads.get(m, ()) if s in unit_of} - {u} for u in dict.fromkeys(unit_of.values())}

    def one(mine: Engine, unit: Unit, below: list[list[RefreshRecord | Failure]]) -> list[RefreshRecord | Failure]:
        failed = {r.stream_table for results in below for r in results if isinstance(r, Failure)}
        blocking = sorted(failed.intersection(s for m in unit.members for s in reads.get(m, ())))
        if blocking:
            return [Failure(m, None, f"{', '.join(blocking)} could not be refreshed") for m in unit.members]
        say(unit)
        try:
            return list(refresh_unit(mine, unit, cut, unit.members if full else ()))
        except Exception as error:
            culprit = getattr(error, "stream_table", None) or unit.members[0]
            done = {r.stream_table: r for r in getattr(error, "refreshed", ())}
            return [done.get(m) or Failure(m, error if m == culprit else None, f"{culprit} could not be refreshed") for m in unit.members]

    done = together(engine, waits_for, one)
    for error in done.errors.values():
        raise error
    return [result for unit in waits_for for result in done.results[unit]]


def _definitions(engine: Engine, become: Prepared | None) -> dict[str, Definition]:
    return engine.definitions() | ({become.definition.name: become.definition} if become is not None else {})


@dataclass(frozen=True)
class _Refreshed:
    """What came of a component, and the versions at which others read it."""

    records: list[RefreshRecord]
    versions: Mapping[str, int]


@dataclass(frozen=True)
class _Unit:
    """One run over a unit. `definitions` are those that are in force at its end, `moment` is what clocks show."""

    engine: Engine
    unit: Unit
    definitions: Mapping[str, Definition]
    full: frozenset[str]
    become: Prepared | None
    moment: str

    def run(self, upto: Mapping[str, int], stop: bool) -> tuple[tuple[RefreshRecord, ...], BaseException | None]:
        """The records of the members that could be refreshed, in their order, and the first error."""
        components = self.components()
        place = {member: component for component in components for member in component}
        waits_for = {c: {place[s] for m in c for s in self.definitions[m].source_keys if s in place} - {c} for c in components}
        done = together(self.engine, waits_for, lambda engine, c, below: replace(self, engine=engine).component(c, upto, below), stop)
        records = tuple(r for c in components if c in done.results for r in done.results[c].records)
        return records, next((e for e in done.errors.values()), None)

    def component(self, component: tuple[str, ...], upto: Mapping[str, int], below: Iterable[_Refreshed]) -> _Refreshed:
        """Refresh one member, or the members of a cycle, over what was just made of those below."""
        upto = {**upto, **merged(b.versions for b in below)}
        records = self.cycle(component, upto) if self.is_cycle(component) else [self.member(component[0], upto)]
        return _Refreshed(records, {member: self.engine.backing(member).log.version() for member in component})

    def member(self, name: str, upto: Mapping[str, int], given: Mapping[str, Source] | None = None, why: str = "") -> RefreshRecord:
        changes = self.become is not None and self.become.definition.name == name
        try:
            if changes:
                return refresh(self.engine, name, upto=upto, given=given, why=CHANGED, become=self.become, moment=self.moment)
            return refresh(self.engine, name, given is not None or name in self.full, upto, given, why, moment=self.moment)
        except Exception as error:
            error.stream_table = name  # type: ignore[attr-defined]
            raise

    def components(self) -> list[tuple[str, ...]]:
        """The members one by one in their order, those of a cycle together."""
        if not self.unit.cyclic:
            return [(member,) for member in self.unit.members]
        return [c for c in graph_of(self.definitions).components if c[0] in self.unit.members]

    def is_cycle(self, component: tuple[str, ...]) -> bool:
        return len(component) > 1 or component[0] in self.definitions[component[0]].source_keys

    def cycle(self, component: tuple[str, ...], upto: Mapping[str, int]) -> list[RefreshRecord]:
        """Compute a cycle from nothing until it settles, and let each member commit the difference."""
        try:
            if not self.moved(component, upto):
                return [refresh(self.engine, member, upto={**upto, **dict.fromkeys(component, 0)}, moment=self.moment) for member in component]
            versions = {**{s.key: self.engine.log(s.path).version() for m in component for s in self.definitions[m].sources}, **upto}
            outside = (s for m in component for s in self.definitions[m].sources if s.key not in component)
            plain = merged(self.engine.source(s).reflects(versions[s.key]) for s in outside)
            with fixpoint(self.engine, [self.definitions[m] for m in component], versions, self.moment) as found:
                logs = {m: self.engine.backing(m).log for m in component}
                at = {m: log.version() + 1 for m, log in logs.items()}
                given = {m: found.settled(m, at[m], logs[m].table_id(), plain) for m in component}
                why = f"fixpoint of a cycle, found in {found.rounds} rounds"
                return [self.member(m, versions, given, why) for m in component]
        except Exception as error:
            error.stream_table = getattr(error, "stream_table", None) or component[0]  # type: ignore[attr-defined]
            raise

    def moved(self, component: tuple[str, ...], upto: Mapping[str, int]) -> bool:
        """Whether a source outside the cycle changed, or its last contents are not what readers see."""
        published = self.engine.catalog.published(component)
        if self.full & set(component) or (self.become is not None and self.become.definition.name in component):
            return True
        for member in component:
            backing = self.engine.backing(member)
            note = backing.note()[1]
            if member not in published or backing.note_at(published[member].version).epoch != note.epoch or self.definitions[member].clocks:
                return True
            for ref in self.definitions[member].sources:
                version, table_id = note.frontier.get(ref.key, (None, None))
                if ref.key not in component:
                    facts = self.engine.source(ref).probe(version, table_id, ref.columns, upto.get(ref.key))
                    if facts.kind is not Kind.UNCHANGED:
                        return True
                elif version is None:
                    return True
        return False

    def outside(self) -> dict[str, int]:
        """The version of each stream table that members read and that is none of them: the same for all, as readers see it now."""
        names = {s.key for m in self.unit.members for s in self.definitions[m].sources if s.kind == "stream"} - set(self.unit.members)
        published = self.engine.catalog.published(names)
        return {name: published[name].version if name in published else self.engine.backing(name).log.version() for name in sorted(names)}

    def raised(self) -> _Unit:
        """The same with a moment that is not behind one that a member has read already."""
        read = [self.engine.backing(m).note()[1].extra.get(clock.NOTED) for m in self.unit.members if self.definitions[m].clocks]
        return replace(self, moment=clock.latest(self.moment, read, clock.moment(self.engine.now())))

    def ahead(self, cut: Cut) -> dict[str, int]:
        """The versions of the cut, but not behind what a member has read already: after a failed attempt the others follow it there."""
        versions = dict(cut.versions)
        for member in self.unit.members:
            note = self.engine.backing(member).note()[1]
            for ref in self.definitions[member].sources:
                if ref.key in versions and ref.key in note.frontier:
                    version, table_id = note.frontier[ref.key]
                    log = self.engine.log(ref.path)
                    if versions[ref.key] < version <= log.version() and log.table_id() == table_id:
                        versions[ref.key] = version
        return versions


CHANGED = "the query changed"


def _moment(engine: Engine, cut: Cut) -> str:
    """What clocks show at a cut: when it was taken."""
    return clock.moment(datetime.fromisoformat(cut.at) if cut.at else engine.now())


def _reached(engine: Engine, readers: Iterable[str], key: str) -> list[int]:
    found = (engine.backing(reader).note()[1].versions().get(key) for reader in readers)
    return [version for version in found if version is not None]
