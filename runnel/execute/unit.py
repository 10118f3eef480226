"""One unit of refresh: its members read one cut of the sources, and readers see all of them move at once.

Delta Lake has no commit over several tables. The members commit one after the other to their backing tables, and which versions of
them readers see is one row each in the catalog, changed in one transaction. A failure on the way publishes nothing; what was
committed stays, and the next attempt goes on from there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from runnel.errors import RunnelError
from runnel.execute.engine import Engine
from runnel.execute.publication import hold_back, is_fastest, publish
from runnel.execute.refresh import refresh
from runnel.observe.record import RefreshRecord
from runnel.schedule.cut import Cut
from runnel.schedule.graph import Graph, Unit


def take_cut(engine: Engine, graph: Graph, gated: Collection[str] = ()) -> Cut:
    """The version of each plain source that the stream tables of a graph read: one probe of its log each, no Spark.

    A gated source stands where the slowest of its readers stands. One whose log cannot be read is left out: the refresh of its readers
    says what is wrong with it.
    """
    known = engine.known()
    paths = {ref.key: ref.path for name in graph.reads if name in known.definitions for ref in known.definitions[name].sources if ref.kind == "delta"}
    versions: dict[str, int] = {}
    for key, path in sorted(paths.items()):
        try:
            reached = _reached(engine, graph.readers.get(key, ()), key) if key in gated else []
            versions[key] = min(reached) if reached else engine.log(path).version()
        except RunnelError:
            continue
    return Cut(versions, engine.now().isoformat(timespec="milliseconds"))


def cut_for(engine: Engine, units: Iterable[Unit]) -> Cut:
    """The latest versions of the plain sources that some units read."""
    reads = engine.graph().reads
    return take_cut(engine, Graph({m: reads[m] for unit in units for m in unit.members}))


def refresh_unit(engine: Engine, unit: Unit, cut: Cut, full: Collection[str] = ()) -> tuple[RefreshRecord, ...]:
    """Refresh the members in order, each up to the cut, and publish them together. An error says in `stream_table` whose it is.

    Under the policy `fastest` nothing is held back: each member shows when it is ready, those that read a failed one stay, and the
    first error is raised at the end.
    """
    if unit.alone:
        return (_member(engine, unit.members[0], cut.versions, full),)
    settings = engine.settings
    with engine.catalog.lease(f"unit of {unit.members[0]}", wait=settings.lock_wait_seconds, ttl=settings.lock_lease_seconds) as lease:
        upto = {**_outside(engine, unit), **_raised(engine, unit, cut)}
        if is_fastest(engine, unit):
            engine.catalog.unpublish(unit.members)
            return _each(engine, unit, upto, full)
        hold_back(engine, unit)
        records = []
        for member in unit.members:
            records.append(_member(engine, member, upto, full))
            upto[member] = engine.backing(member).log.version()
        lease.check()
        publish(engine, unit.members, cut)
        return tuple(records)


def refresh_units(engine: Engine, units: Iterable[Unit], cut: Cut, full: bool = False) -> list[RefreshRecord | Failure]:
    """Refresh units at one cut, sources before readers: a record or a failure for each stream table. Readers of one that failed stay."""
    known = engine.known()
    results: list[RefreshRecord | Failure] = []
    failed: set[str] = set()
    for unit in units:
        below = sorted({s for m in unit.members for s in known.graph.reads.get(m, ())} & failed)
        if below:
            results += [Failure(m, None, f"{', '.join(below)} could not be refreshed") for m in unit.members]
            failed.update(unit.members)
            continue
        try:
            results += refresh_unit(engine, unit, cut, unit.members if full else ())
        except RunnelError as error:
            culprit = error.stream_table or unit.members[0]
            results += [Failure(m, error if m == culprit else None, f"{culprit}, refreshed together with it, failed") for m in unit.members]
            failed.update(unit.members)
    return results


@dataclass(frozen=True)
class Failure:
    """A stream table that was not refreshed: with an error of its own, or because of another's."""

    stream_table: str
    error: RunnelError | None
    reason: str


def _member(engine: Engine, name: str, upto: Mapping[str, int], full: Collection[str]) -> RefreshRecord:
    try:
        return refresh(engine, name, name in full, upto)
    except Exception as error:
        error.stream_table = name  # type: ignore[attr-defined]
        raise


def _each(engine: Engine, unit: Unit, upto: dict[str, int], full: Collection[str]) -> tuple[RefreshRecord, ...]:
    """Every member that has its sources at the cut; the first error at the end."""
    records, failed, first = [], set[str](), None
    for member in unit.members:
        if failed & set(engine.graph().reads[member]):
            failed.add(member)
            continue
        try:
            records.append(_member(engine, member, upto, full))
            upto[member] = engine.backing(member).log.version()
        except Exception as error:
            failed.add(member)
            first = first or error
    if first is not None:
        raise first
    return tuple(records)


def _outside(engine: Engine, unit: Unit) -> dict[str, int]:
    """The version of each stream table that members read and that is none of them: the same for all, as readers see it now."""
    known = engine.known()
    names = {s for m in unit.members for s in known.graph.reads[m] if s in known.entries and s not in unit.members}
    published = engine.catalog.published(names)
    return {name: published[name].version if name in published else engine.backing(name).log.version() for name in sorted(names)}


def _raised(engine: Engine, unit: Unit, cut: Cut) -> dict[str, int]:
    """The cut, but not behind what a member has read already: after a failed attempt the others follow it there."""
    versions = dict(cut.versions)
    known = engine.known()
    for member in unit.members:
        note = engine.backing(member).note()[1]
        for ref in known.definitions[member].sources:
            if ref.key in versions and ref.key in note.frontier:
                version, table_id = note.frontier[ref.key]
                log = engine.log(ref.path)
                if versions[ref.key] < version <= log.version() and log.table_id() == table_id:
                    versions[ref.key] = version
    return versions


def _reached(engine: Engine, readers: Iterable[str], key: str) -> list[int]:
    found = (engine.backing(reader).note()[1].versions().get(key) for reader in readers)
    return [version for version in found if version is not None]
