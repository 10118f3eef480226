"""What readers see of stream tables that are published together: a version of each, moved for all in one catalog transaction.

The logs are the truth here too: every commit notes which versions of the plain sources it reflects, so the newest versions that
agree can be found again from the logs alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from runnel.bind.expand import split_key
from runnel.definition import Definition
from runnel.errors import DefinitionError, Transient
from runnel.execute.engine import Engine
from runnel.schedule.cut import Cut, differing, latest_agreement, merged
from runnel.schedule.graph import Unit
from runnel.sources.stream_table import reflected
from runnel.tables.backing import BackingTable
from runnel.tables.view import create_view


def is_fastest(definitions: Mapping[str, Definition], unit: Unit) -> bool:
    """Whether members show when they are ready: some say so, and none objects."""
    said = {definitions[m].policy for m in unit.members}
    return "fastest" in said and "slowest" not in said and not unit.cyclic


def hold_back(engine: Engine, unit: Unit) -> None:
    """Let readers go on seeing what they see now while members commit."""
    published = engine.catalog.published(unit.members)
    loose = [m for m in unit.members if m not in published]
    if not loose:
        return
    tables = {m: engine.backing(m) for m in loose}
    now = {m: (t.log.version(), reflected_at(t, t.log.version())) for m, t in tables.items() if t.note()[1].epoch > 0}
    engine.catalog.publish({m: version for m, (version, _) in now.items()}, Cut(merged(r for _, r in now.values()), ""))
    show(engine, now)


def publish(engine: Engine, members: Collection[str], cut: Cut) -> None:
    """Let readers see the latest versions of all members from one moment on; refuse when they are not of one cut."""
    tables = {m: engine.backing(m) for m in members}
    versions = {m: t.log.version() for m, t in tables.items()}
    reflects = {m: reflected_at(t, versions[m]) for m, t in tables.items()}
    apart = differing(reflects.values())
    if apart:
        key, (low, high) = next(iter(sorted(apart.items())))
        raise Transient(
            f"{', '.join(members)} do not reflect one cut",
            code="CUTS_DIFFER",
            detail=f"{key} is reflected at version {low} and at version {high}: somebody refreshed one of them meanwhile.",
            hint="Refresh again.",
        )
    reached = merged(reflects.values())
    now = engine.catalog.published(members)
    if {m: p.version for m, p in now.items()} != versions or any(p.cut.versions != reached for p in now.values()):
        engine.catalog.publish(versions, Cut(reached, cut.at))
        show(engine, members)


def follow(engine: Engine, backing: BackingTable, old: int, new: int) -> None:
    """After a compaction, readers of the version before it get the compacted one, which holds the same."""
    name = backing.definition.name
    if name in engine.catalog.published([name]):
        engine.catalog.follow(name, old, new)
        show(engine, [name])


def show(engine: Engine, members: Iterable[str]) -> None:
    """Point the views that other Spark applications share at what is published. Those of this process follow when it reads."""
    if engine.spark.conf.get("spark.sql.catalogImplementation", "in-memory") != "in-memory":
        for name, published in engine.catalog.published(list(members)).items():
            view(engine, name, published.version)


def view(engine: Engine, name: str, version: int | None) -> None:
    """Create or replace the view of a stream table, of one version as it was stored then, or of the latest one."""
    backing = engine.backing(name).in_force()
    definition = backing.definition if version is None else replace(backing.definition, layout=backing.layout_at(version))
    create_view(engine.spark, definition, backing.path, split_key(name), version)


def seen(engine: Engine, name: str) -> int | None:
    """The version that is published, None when readers see the latest."""
    published = engine.catalog.published([name])
    return published[name].version if name in published else None


def version_seen(engine: Engine, backing: BackingTable, cut: Cut | str | None = None) -> int:
    """The version that a reader gets: what is published, else the latest; or the one that reflects a cut."""
    name = backing.definition.name
    if cut is not None:
        return _version_at(backing, cut_of(engine, cut) if isinstance(cut, str) else cut)
    version = seen(engine, name)
    return backing.log.version() if version is None else version


def cut_of(engine: Engine, name: str) -> Cut:
    """The cut that readers see now, of a stream table or of a group."""
    members = engine.graph().groups.get(name, (name,))
    backing = engine.backing(members[0])
    published = engine.catalog.published(members[:1]).get(members[0])
    return published.cut if published is not None else Cut(reflected_at(backing, backing.log.version()))


def _version_at(backing: BackingTable, cut: Cut) -> int:
    """The newest version that reflects a cut, as long as it can be read."""
    now: dict[str, int] = {}
    for version, reflects in reflections(backing):
        now = now or reflects
        if all(cut.versions.get(key) == at for key, at in reflects.items()) and backing.log.gone(version) is None:
            return version
        if any(at < cut.versions.get(key, at) for key, at in reflects.items()):
            break
    raise DefinitionError(
        f'"{backing.definition.name}" cannot be read at {cut or "an empty cut"}',
        code="CUT_GONE",
        detail=f"It reflects {Cut(now)}; its older versions are of other cuts, or were cleaned up."
        if now
        else "It does not say which cuts it reflects.",
        hint="Ask for the cut that readers see now, in Python by rn.cut(name).",
    )


def settle(engine: Engine) -> None:
    """After stream tables came, went or changed groups: those that are alone now are read at their latest version again."""
    graph = engine.graph()
    together = {m for unit in graph.units if not unit.alone and not is_fastest(engine.known().definitions, unit) for m in unit.members}
    engine.catalog.unpublish([name for name in engine.catalog.published() if name not in together])


def republish(engine: Engine) -> None:
    """Find out from the logs alone what readers may see: of each unit the newest versions that agree."""
    for unit in engine.graph().units:
        if unit.alone or is_fastest(engine.known().definitions, unit):
            continue
        logs = {m: list(reflections(engine.backing(m))) for m in unit.members}
        found = latest_agreement(logs)
        if found is not None:
            engine.catalog.publish(found, Cut(merged(dict(logs[m])[v] for m, v in found.items()), ""))


def reflected_at(backing: BackingTable, version: int) -> dict[str, int]:
    """The plain sources that a version reflects."""
    return reflected({"extra": backing.note_at(version).extra})


def reflections(backing: BackingTable) -> Iterator[tuple[int, dict[str, int]]]:
    """The versions that the log still has since the first load, newest first, with what they reflect."""
    for version in range(backing.log.version(), 0, -1):
        try:
            note = backing.note_at(version)
        except FileNotFoundError:
            return
        if note.epoch == 0:
            return
        yield version, reflected({"extra": note.extra})
