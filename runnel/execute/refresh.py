"""One refresh: probe the logs, decide, plan, write the change, commit it. `explain` walks the same stages and stops early.

A crash before the commit leaves nothing but files that no commit names; after it, everything. The commit is made on top
of the version that was probed, so of two refreshes that race one commits and the other starts again.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from runnel.algebra import Face
from runnel.algebra.scan import columns_read
from runnel.bind import clock
from runnel.bind.expand import split_key
from runnel.definition import Definition
from runnel.differentiate import ChangePlan, recompute
from runnel.errors import Internal, RunnelError, SourceChanged, Transient
from runnel.execute.compact import compact
from runnel.execute.cost import Pruned
from runnel.execute.decide import decide, enforce, facts_of
from runnel.execute.due import due
from runnel.execute.engine import Engine
from runnel.execute.gather import Gathering, gatherings
from runnel.execute.make import STORED, change_of
from runnel.execute.near import shares, touched, version_of
from runnel.execute.noting import count, failed, note_of, record_of, running
from runnel.execute.prepare import Prepared, prepare
from runnel.execute.records import finish_orphans
from runnel.execute.sized import sized
from runnel.execute.trouble import runtime
from runnel.execute.weigh import weigh
from runnel.execute.work import Swap, Work
from runnel.observe.record import Action, RefreshRecord, Stage
from runnel.schedule.cut import differing
from runnel.sources.facts import Kind
from runnel.sources.source import Source
from runnel.state import Entry
from runnel.tables.backing import BASE, TAIL, BackingTable, Written, conflict
from runnel.tables.view import create_view

log = logging.getLogger("runnel")

LIGHT = 4 << 20
"""Bytes up to which a table is broadcast whole, beside what else is read: a dimension of some ten thousand rows."""
HEAVY = 32 << 20
"""Bytes from which on a pass over a table costs more than a job: about half a second of two cores, where a job costs a tenth."""
ATTEMPTS = 3
"""A conflict means that somebody else moved the frontier; looking again usually finds nothing left to do."""


def refresh(
    engine: Engine,
    name: str,
    full: bool = False,
    upto: Mapping[str, int] | None = None,
    given: Mapping[str, Source] | None = None,
    why: str = "",
    become: Prepared | None = None,
    moment: str | None = None,
) -> RefreshRecord:
    """Move one stream table's frontier to the latest versions of its sources, or to those of `upto` for the sources named there.

    A frontier that is beyond `upto` already stays. `given` are sources to read in place of the stored ones. With `become` the content
    turns into that of another definition in the same single commit. `moment` is what clocks show, by default the present one.
    """
    started = time.perf_counter()
    settings = engine.settings
    with engine.catalog.lease(name, wait=settings.lock_wait_seconds, ttl=settings.lock_lease_seconds) as lease:
        finish_orphans(engine, name)
        began = datetime.now(UTC).isoformat(timespec="milliseconds")
        for attempt in range(1, ATTEMPTS + 1):
            backing = engine.backing(name)
            swap = None if become is None else Swap(backing.definition, become.schema)
            if become is not None:
                backing = BackingTable(backing.path, become.definition, backing.log)
            work = Work(engine, backing, full or swap is not None, engine.jobs(name), upto or {}, given or {}, why, swap, moment, started=began)
            stages: list[Stage] = []
            try:
                with work.jobs.stages():
                    _run(work, stages, lease.check)
                record = record_of(work, stages, started)
            except Transient as error:
                _sweep(work)
                if attempt == ATTEMPTS:
                    engine.catalog.record(failed(work, stages, started, error))
                    raise
                continue
            except Exception as error:
                _sweep(work)
                known = runtime(error)
                engine.catalog.record(failed(work, stages, started, known or error))
                if known is not None:
                    raise known from error
                raise
            finally:
                engine.reader.clean()
                if work.backing.log.local is not None:
                    shutil.rmtree(f"{work.backing.log.local}/_steps", ignore_errors=True)
            engine.catalog.record(record)
            engine.catalog.retire(settings.history_days)
            return record
    raise Internal("refresh ended without a record")


def _run(work: Work, stages: list[Stage], still_mine: Callable[[], None]) -> None:
    for stage in STAGES:
        before = time.perf_counter()
        if stage is commit:
            still_mine()
        if stage.__name__ == write.__name__ and not work.empty:
            work.engine.catalog.record(running(work))
        try:
            if stage is not probe and not work.idle:
                work.jobs.now(stage.__name__)
            stage(work)
            if stage is probe:
                _check_one_cut(work)
        finally:
            stages.append(Stage(stage.__name__, round((time.perf_counter() - before) * 1000, 1)))
        if work.decision.action is Action.NO_DATA and not work.decision.moves:
            return


def probe(work: Work) -> None:
    """Where are we, and what happened to the sources since? No Spark job."""
    definition = work.backing.definition
    work.version, work.note = work.backing.note()
    if work.swap is None and work.note.definition_id not in ("", definition.id):
        take_over(work.engine, work.backing.in_force(), definition.id)
        raise conflict(definition.name)
    upto = {**_published(work), **work.upto}
    for ref in definition.sources:
        source = work.given.get(ref.key) or work.engine.source(ref)
        version, table_id = (None, None) if work.swap else work.note.frontier.get(ref.key, (None, None))
        work.sources[ref.key] = source
        work.facts.append(source.probe(version, table_id, ref.columns, upto.get(ref.key)))
    if definition.clocks:
        read, now = work.note.extra.get(clock.NOTED), clock.moment(work.engine.now())
        work.clock = clock.latest(work.moment or now, [read], now)
        zone = work.engine.reader.session.conf.get("spark.sql.session.timeZone") or "UTC"
        work.clocks = clock.moved(definition.clocks, read, work.clock, zone)


def _published(work: Work) -> dict[str, int]:
    """Stream tables that are published with others are read as published, never half-way to the next cut."""
    streams = [r.key for r in work.backing.definition.sources if r.kind == "stream" and r.key not in work.upto]
    return {name: p.version for name, p in work.engine.catalog.published(streams).items()} if streams else {}


def _check_one_cut(work: Work) -> None:
    """All that a refresh reads must reflect a common source at one version: else the result would be of no moment at all."""
    apart = differing(work.sources[f.key].reflects(f.after) for f in work.facts)
    if apart:
        key, (low, high) = next(iter(sorted(apart.items())))
        name = work.backing.definition.name
        raise Transient(
            f'what "{name}" reads reflects {key} at two versions',
            code="CUTS_DIFFER",
            detail=f"One of its sources reflects version {low}, another one version {high}.",
            hint=f"Refresh {name} by its name, which brings them to one cut.",
        )


def changes(work: Work) -> None:
    """Small changes are read here and now: what nets to nothing is known before a plan is made. No Spark job, where files can be read."""
    definition = work.backing.definition
    if work.idle or work.full or work.first or not definition.incremental or not work.engine.settings.uses("held_changes"):
        return
    columns = columns_read(work.engine.root(definition).maintained)
    for index, fact in enumerate(work.facts):
        held = work.engine.held(work.sources[fact.key], fact, columns.get(fact.key, frozenset())) if fact.changed else None
        if held is not None:
            work.held[fact.key] = held
            kind = Kind.INSERT_ONLY if held.grows else Kind.MIXED
            work.facts[index] = replace(fact, net=held.whole.num_rows, kind=kind if held.whole.num_rows else fact.kind)


def decision(work: Work) -> None:
    """Which action, and why. Plans are made without Spark, so the differential one is made to be weighed."""
    definition = work.backing.definition
    work.plan = _readable(work, _differential(work))
    work.gatherings = _gatherings(work)
    if (work.clocks or any(f.changed for f in work.facts)) and not any(f.broken for f in work.facts):
        work.weighing = weigh(work.engine, work.backing, work.note, work.facts, work.sources, work.plan, _pruned(work))
    work.decision = decide(definition, work.facts, work.first, work.full, work.clocks, work.weighing.choice if work.weighing else None)
    work.replaces = not work.first and work.decision.action in (Action.FULL, Action.REINITIALIZE) and work.engine.may_replace(definition)
    if work.why and work.decision.action is Action.FULL:
        work.decision = replace(work.decision, reason=work.why)
    enforce(definition, work.decision)
    if any(f.kind is Kind.SCHEMA for f in work.facts):
        _still_fits(work)


def _differential(work: Work) -> ChangePlan | None:
    """The plan that applies the changes, where the query and its sources allow one."""
    definition = work.backing.definition
    if work.first or work.full or not definition.incremental or any(f.broken for f in work.facts):
        return None
    light = frozenset(key for key, source in work.sources.items() if source.size() <= LIGHT)
    heavy = frozenset(key for key, source in work.sources.items() if source.size() >= HEAVY)
    facts = facts_of(work.facts, work.clocks, light, heavy)
    return work.engine.plan(definition, facts) if facts.changed else None


def _readable(work: Work, plan: ChangePlan | None) -> ChangePlan | None:
    """The plan, unless it reads a face of a table whose files are gone: those that were only rewritten are no part of a change, so that
    nobody missed them yet."""
    for index, fact in enumerate(work.facts):
        faces = [] if plan is None else [i.face for i in plan.inputs if i.source == fact.key and i.face is not Face.CHANGE]
        gone = next((file for face in faces if (file := work.sources[fact.key].gone(version_of(fact, face)))), None)
        if gone is not None:
            work.facts[index], plan = replace(fact, kind=Kind.LOST, reason=f"file {gone} was vacuumed"), None
    return plan


def _gatherings(work: Work) -> tuple[Gathering, ...]:
    """The passes over tables that serve several inputs of the differential plan at once."""
    if work.plan is None or not work.held or not work.engine.settings.uses("gathered_rows"):
        return ()
    return tuple(gatherings(work.plan.inputs, work.sources, {f.key: f for f in work.facts}, work.held))


def _pruned(work: Work) -> Pruned:
    """What is known of the passes of the differential plan."""
    if work.plan is None or not work.engine.settings.uses("near_files"):
        return Pruned()
    facts = {f.key: f for f in work.facts}
    near, rows = (ask(work.plan.inputs, work.sources, facts, work.held) for ask in (shares, touched))
    return Pruned(near, tuple(g.serves for g in work.gatherings), rows)


def _still_fits(work: Work) -> None:
    """After a schema change the query must still give the same columns; else only the user can say what should happen."""
    definition, engine = work.backing.definition, work.engine
    reasons = "; ".join(f"{f.key}: {f.reason}" for f in work.facts if f.kind is Kind.SCHEMA)
    hint = f'Correct the query with CREATE OR REPLACE STREAM TABLE "{definition.name}", or restore the column.'
    try:
        paths = {e.name: e.path for e in engine.catalog.entries()}
        fresh = prepare(engine.spark, engine.lookup(), engine.settings, definition.name, definition.sql, definition.mode, paths).definition
    except RunnelError as error:
        raise SourceChanged(
            f"a source of {definition.name} changed its schema", code="SCHEMA_CHANGED", detail=f"{reasons}. {error.message}.", hint=hint
        ) from error
    if [c.type for c in fresh.layout.output] != [c.type for c in definition.layout.output] or fresh.layout.stored != definition.layout.stored:
        raise SourceChanged(
            f"a source of {definition.name} changed its schema",
            code="SCHEMA_CHANGED",
            detail=f"{reasons}, so the result changes its type.",
            hint=hint,
        )
    work.backing.set_definition(_with_sources(definition, fresh))
    engine.catalog.put(entry_of(work.backing))
    engine.forget(definition.id)
    work.version = work.backing.log.version()


def plan(work: Work) -> None:
    """The SQL of the change. Pure, and free of Spark."""
    definition, action = work.backing.definition, work.decision.action
    if action not in (Action.NO_DATA, Action.DIFFERENTIAL):
        work.plan = recompute(work.engine.root(definition), None if work.anew else STORED) if definition.incremental else None


def write(work: Work) -> None:
    """One Spark job: compute the change and write it as files that nobody sees yet."""
    if work.empty or not work.direct:
        return
    size = sized(work)
    reader, level = work.engine.reader, BASE if work.anew else TAIL
    with reader.lock, reader.configured(**size.settings):
        change = change_of(work)
        with reader.configured(**change.settings):
            work.written = work.backing.write(change.rows, level, work.note.epoch + 1, size.here or bool(change.settings))


def commit(work: Work) -> None:
    """One Delta commit: the files, the frontier, the action and its reason."""
    note = note_of(work)
    anew = BASE if work.relaid or work.replaces else None
    if work.relaid:
        _keep_view(work)
    if work.direct or work.empty:
        schema = work.swap.schema if work.swap is not None and work.relaid else None
        work.committed = work.backing.commit(work.version, work.written, note, anew, schema)
    else:
        reader, level = work.engine.reader, BASE if work.anew else TAIL
        with reader.lock, reader.configured(**sized(work).settings):
            change = change_of(work)
            with reader.configured(**change.settings):
                work.committed = work.backing.commit_with_spark(work.engine.spark, work.version, change.rows, level, note, anew)
        work.written = Written((), sum(count(a) for a in work.backing.log.commit(work.committed).adds))
    if work.swap is not None:
        take_over(work.engine, work.backing, work.swap.old.id)


def _keep_view(work: Work) -> None:
    """Until there is a view for the new way of storing, the old one shows the version that it can read."""
    assert work.swap is not None
    seen = work.engine.catalog.published([work.swap.old.name]).get(work.swap.old.name)
    version = seen.version if seen is not None else work.version
    create_view(work.engine.spark, work.swap.old, work.backing.path, split_key(work.swap.old.name), version)


def take_over(engine: Engine, backing: BackingTable, old_id: str) -> None:
    """Write down everywhere which definition is in force; its commit has it already."""
    backing.set_definition(backing.definition)
    engine.catalog.swap(old_id, entry_of(backing))
    engine.forget(old_id)


def compaction(work: Work) -> None:
    """Keep the tail within its bound; the refresh is committed and visible already."""
    fold = due(work.backing, work.engine.settings) if work.committed is not None else None
    if fold is not None:
        compact(work.engine, work.backing, fold)


STAGES: tuple[Callable[[Work], None], ...] = (probe, changes, decision, plan, write, commit, compaction)


def _with_sources(definition: Definition, fresh: Definition) -> Definition:
    return replace(definition, sources=fresh.sources, sql=fresh.sql, refused=fresh.refused)


def entry_of(backing: BackingTable) -> Entry:
    """What the catalog remembers of a backing table."""
    d = backing.definition
    return Entry(id=d.id, name=d.name, path=backing.path, definition=d.as_dict(), created_at=d.created_at)


def _sweep(work: Work) -> None:
    """Remove files that this refresh wrote and did not commit."""
    root = work.backing.log.local
    if work.committed is None and root is not None:
        for folder in {a.path.rsplit("/", 1)[0] for a in work.written.adds}:
            shutil.rmtree(f"{root}/{folder}", ignore_errors=True)
