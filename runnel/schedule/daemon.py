"""The scheduler: looks, decides, hands units to workers, remembers what came of them. Every effect is passed in.

One thread calls `step` again and again and sleeps in between as long as `step` says; workers report through `done`. Each tick
fixes its own cut. A unit starts when the units that it reads are done in its tick; what is still at work from an earlier tick is
left alone and its readers wait, so a slow table does not hold up the others.
"""

from __future__ import annotations

import queue
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from runnel.observe.record import RefreshRecord
from runnel.schedule.fuse import Blown
from runnel.schedule.graph import Graph, Name, Unit
from runnel.schedule.pulse import Pulse
from runnel.schedule.run_state import RunState, Trouble, failed, looked, started, succeeded
from runnel.schedule.tick import Moment, Run, Table, Tick, decide
from runnel.schedule.watermarks import WatermarkGroup, held_back

REST = 5.0
"""Seconds without work after which there is time for housekeeping."""
LONGEST_SLEEP = 5.0
GONE = -2
"""The version of a source that cannot be read: the refresh of its readers says what is wrong."""


@dataclass(frozen=True)
class View:
    """What there is to schedule, as the catalog and the logs have it. `revision` moves when anything in it does."""

    revision: tuple[int, ...]
    graph: Graph
    tables: Mapping[Name, Table]
    gated: frozenset[Name] = frozenset()
    groups: tuple[WatermarkGroup, ...] = ()
    marks: Mapping[Name, datetime] = field(default_factory=dict)
    paused: bool = False


@dataclass(frozen=True)
class Reached:
    """Where a stream table stands after a run: what it has read, and the version that its readers can read."""

    frontier: Mapping[Name, int]
    version: int


@dataclass(frozen=True)
class Outcome:
    """What came of a job: records, or trouble of one member, or fuses that blew before anything ran."""

    records: tuple[RefreshRecord, ...] = ()
    reached: Mapping[Name, Reached] = field(default_factory=dict)
    trouble: Trouble | None = None
    culprit: Name = ""
    blown: Mapping[Name, Blown] = field(default_factory=dict)


@dataclass(eq=False)
class Job:
    """A unit of one tick. `cut` is whatever the effects made of the tick's moment; `waits_for` shrinks as others are done."""

    run: Run
    cut: Any
    versions: Mapping[Name, int]
    waits_for: set[Unit]
    before: Mapping[Name, RunState] = field(default_factory=dict)
    """The states of the members before the job began; a failure counts as no run."""
    fused: bool = True
    """Whether fuses are looked at; not after somebody decided to apply a change."""

    @property
    def members(self) -> tuple[Name, ...]:
        return self.run.unit.members


@dataclass(frozen=True)
class Event:
    """Something to tell: `kind` is refreshed, failed, suspended, blown, skipped or compacted."""

    kind: str
    stream_table: Name
    text: str = ""
    record: RefreshRecord | None = None
    trouble: Trouble | None = None


class Effects(Protocol):
    """The world of a scheduler."""

    def now(self) -> float: ...

    def view(self, known: View | None) -> View:
        """What is to be scheduled; `known` itself when nothing changed."""

    def probe(self, sources: Collection[Name]) -> Mapping[Name, int]:
        """The latest versions of plain sources; `GONE` for those that cannot be read."""

    def cut(self, units: Iterable[Unit], gated: Collection[Name]) -> tuple[Any, Mapping[Name, int]]:
        """The versions that a tick reads: as the workers want them, and by source."""

    def start(self, job: Job, done: Callable[[Outcome], None]) -> None:
        """Refresh a unit on a worker, and report once."""

    def tidy(self, done: Callable[[], None]) -> Name | None:
        """Begin one piece of housekeeping on a worker; the stream table it is for, None when there is nothing to do."""

    def remember(self, states: Mapping[Name, RunState]) -> None:
        """Keep states beyond this process."""

    def tell(self, event: Event) -> None: ...


@dataclass(frozen=True)
class Limits:
    """`per_schema` is 0 where schemas have no bound of their own; `failures` in a row suspend a table."""

    workers: int = 4
    per_schema: int = 0
    failures: int = 3
    backoff: bool = True
    idle_probe: float = 5.0


class Scheduler:
    """Not for several threads, except `done` and the callables that it hands out."""

    def __init__(self, effects: Effects, limits: Limits, chance: Callable[[], float] = random.random) -> None:
        self._effects, self._limits, self._chance = effects, limits, chance
        self._pulse = Pulse(limits.idle_probe)
        self._view: View | None = None
        self._tables: dict[Name, Table] = {}
        self._versions: dict[Name, int] = {}
        self._changed_at: dict[Name, float] = {}
        self._pending: list[Job] = []
        self._running: list[Job] = []
        self._tidying: Name | None = None
        self._results: queue.SimpleQueue[tuple[Job | None, Outcome]] = queue.SimpleQueue()
        self._wake_at: float | None = None
        self._stepped_at = 0.0
        self._dirty = True
        self._rested_at: float | None = None
        self.draining = False
        self.last_tick = Tick()

    # -- ask -----------------------------------------------------------------------------------------------------------

    @property
    def running(self) -> tuple[Name, ...]:
        """The stream tables that workers are at."""
        return tuple(m for job in self._running for m in job.members)

    @property
    def paused(self) -> bool:
        return self._view is not None and self._view.paused

    @property
    def revision(self) -> tuple[int, ...]:
        """That of the catalog as it was last taken up."""
        return self._view.revision if self._view is not None else ()

    @property
    def idle(self) -> bool:
        """Nothing runs and nothing waits for a worker."""
        return not self._running and not self._pending and self._tidying is None

    def hurry(self) -> None:
        """Look at all sources with the next step."""
        self._pulse.hurry()

    # -- run -----------------------------------------------------------------------------------------------------------

    def step(self, plan: bool = True, everything: bool = False) -> float:
        """One turn; the seconds until the next one is needed, unless something wakes the caller earlier.

        Without `plan` only what was planned goes on. `everything` runs all that has something to read, whatever schedules say.
        """
        now = self._effects.now()
        if not self.draining:
            self._adopt(self._effects.view(self._view))
        self._collect(now)
        if self.draining:
            self._pending.clear()
            return LONGEST_SLEEP
        if plan:
            self._plan(now, everything)
        self._dispatch(now)
        if plan:
            self._housekeep(now)
        self._stepped_at = now
        return self._sleep(now)

    def _plan(self, now: float, everything: bool) -> None:
        view = self._view
        assert view is not None
        self._look(view, now, everything)
        if not self._dirty:
            return
        self._dirty = False
        tick = decide(view.graph, self._tables, self._moment(view, now, everything))
        self.last_tick, self._wake_at = tick, tick.wake_at
        for name in tick.fresh:
            table = self._tables[name]
            self._tables[name] = replace(table, state=looked(table.state, now, table.period))
        if tick.runs:
            cut, versions = self._effects.cut([r.unit for r in tick.runs], view.gated)
            self._versions.update({s: v for s, v in versions.items() if s not in view.gated})
            for run in tick.runs:
                fused = not any((b := self._tables[m].state.blown) is not None and b.verdict in ("apply", "reinitialise") for m in run.unit.members)
                self._pending.append(Job(run, cut, versions, set(run.after), fused=fused))

    def _look(self, view: View, now: float, everything: bool) -> None:
        """The latest versions of those sources whose turn it is; of all when a table comes due by time."""
        # A table that comes due by time sees the latest versions, and a clock that was put back lets everything be looked at.
        timed = everything or now < self._stepped_at or (self._wake_at is not None and now >= self._wake_at)
        self._dirty = self._dirty or timed
        sources = view.graph.plain if timed else self._pulse.due(now)
        for source, version in self._effects.probe(sources).items():
            before = self._versions.get(source)
            changed = before != version
            if changed:
                if before is not None:  # a source met for the first time may have waited for any time
                    self._changed_at[source] = now
                self._versions[source] = version
                self._dirty = True
            self._pulse.looked(source, changed, now)

    def _adopt(self, view: View) -> None:
        """Take up a changed catalog. What this process knows better is kept: where tables stand, runs under way, looks without a change."""
        if view is self._view:
            return
        running = set(self.running)
        anew = {n for n, table in view.tables.items() if n in self._tables and self._tables[n].identity != table.identity}
        for name, table in view.tables.items():
            mine = self._tables.get(name)
            if mine is not None and name not in anew:
                state = table.state
                if name in running:
                    state = replace(mine.state, suspended=state.suspended)
                elif state.anchor is not None and mine.state.anchor is not None:
                    state = replace(state, anchor=max(state.anchor, mine.state.anchor))
                unread = dict.fromkeys(anew.intersection(view.graph.reads[name]), -1)
                table = replace(table, state=state, frontier={**mine.frontier, **unread}, version=mine.version)
            self._tables[name] = table
        for gone in self._tables.keys() - view.tables.keys():
            del self._tables[gone]
        # What waits for a worker is planned anew when it is no longer a unit, and not at all during a pause.
        self._pending = [] if view.paused else [j for j in self._pending if view.graph.unit_of.get(j.members[0]) == j.run.unit]
        self._pulse.watch(view.graph.plain)
        self._view, self._dirty = view, True

    def _moment(self, view: View, now: float, everything: bool) -> Moment:
        busy = {m for job in (*self._running, *self._pending) for m in job.members} | ({self._tidying} if self._tidying else set())
        apart = held_back(view.graph, view.groups, view.marks) if view.groups else {}
        awaited = {s for job in self._pending for m in job.members for s in view.graph.reads.get(m, ())}
        return Moment(now, self._versions, self._changed_at, view.gated, apart, busy, awaited, view.paused, everything)

    def _dispatch(self, now: float) -> None:
        """Hand out what is ready, most urgent first, as far as there are workers."""
        for job in sorted(self._pending, key=lambda j: j.run.rank):
            if len(self._running) >= self._limits.workers:
                return
            if job.waits_for or not self._fits(job):
                continue
            self._pending.remove(job)
            if not self._has_work(job):
                self._dirty = True
                self._settle(job, failed=False)
                self._dispatch(now)
                return
            self._running.append(job)
            self._dirty = self._dirty or bool(self.last_tick.waiting)  # what it was about to read may move now
            job.before = {m: self._tables[m].state for m in job.members if m in self._tables}
            for name in job.before:
                table = self._tables[name]
                self._tables[name] = replace(table, state=started(table.state, now, table.period))
            self._effects.start(job, lambda outcome, job=job: self._results.put((job, outcome)))  # type: ignore[misc]

    def _fits(self, job: Job) -> bool:
        bound = self._limits.per_schema
        if not bound:
            return True
        running = Counter(schema_of(m) for j in self._running for m in j.members[:1])
        return running[schema_of(job.members[0])] < bound

    def _has_work(self, job: Job) -> bool:
        """Whether a member still has something to read, now that those below are done."""
        assert self._view is not None
        for name in job.members:
            table = self._tables.get(name)
            if table is None:
                return False
            if table.clocked or name in job.run.full:
                return True
            for source in self._view.graph.reads.get(name, ()):
                read = table.frontier.get(source, -1)
                below = self._tables.get(source)
                if below.version > read if below is not None else job.versions.get(source, GONE) != read:
                    return True
        return False

    def _collect(self, now: float) -> None:
        while True:
            try:
                job, outcome = self._results.get_nowait()
            except queue.Empty:
                return
            self._dirty = True
            if job is None:
                self._tidying = None
                continue
            self._running.remove(job)
            self._note(job, outcome, now)
            self._settle(job, failed=bool(outcome.trouble or outcome.blown))

    def _settle(self, job: Job, failed: bool) -> None:
        """Readers in the same tick go on, or stay where they are after a failure; the next tick looks at them again."""
        unit, cut = job.run.unit, job.cut
        for other in [j for j in self._pending if j.cut is cut and unit in j.waits_for]:
            other.waits_for.discard(unit)
            if failed:
                self._pending.remove(other)
                self._effects.tell(Event("skipped", other.members[0], f"{unit.members[0]} could not be refreshed"))
                self._settle(other, failed=True)

    def _note(self, job: Job, outcome: Outcome, now: float) -> None:
        """Remember an outcome, and tell of it."""
        kept: dict[Name, RunState] = {}
        took = {r.stream_table: r.ms for r in outcome.records}
        for name in job.members:
            table = self._tables.get(name)
            if table is None:  # dropped meanwhile
                continue
            state, before = table.state, job.before.get(name, table.state)
            if outcome.trouble is None and not outcome.blown:
                state = succeeded(state, took.get(name, 0.0), table.pace, self._limits.backoff)
            else:
                state = replace(state, anchor=before.anchor, last_run=before.last_run)
            if name in outcome.blown:
                state = replace(state, blown=outcome.blown[name])
            elif name == outcome.culprit and outcome.trouble is not None:
                state = failed(state, outcome.trouble, now, self._limits.failures, self._chance())
            table = replace(table, state=state)
            reached = outcome.reached.get(name)
            if reached is not None:
                table = replace(table, frontier=self._read(name, reached, job, bool(outcome.records)), version=reached.version)
            self._tables[name] = table
            kept[name] = state
        self._effects.remember(kept)
        self._report(outcome, kept)

    def _read(self, name: Name, reached: Reached, job: Job, done: bool) -> dict[Name, int]:
        """What a table has read. A commit without rows is passed over and not noted, yet it need not be looked at again."""
        frontier = dict(reached.frontier)
        for source in self._view.graph.reads.get(name, ()) if done and self._view is not None else ():
            offered = self._tables[source].version if source in self._tables else job.versions.get(source, -1)
            frontier[source] = max(frontier.get(source, -1), offered)
            if frontier[source] > self._versions.get(source, GONE) and source not in self._tables:
                self._pulse.hurry()  # somebody else was quicker
        return frontier

    def _report(self, outcome: Outcome, kept: Mapping[Name, RunState]) -> None:
        for record in outcome.records:
            self._effects.tell(Event("refreshed", record.stream_table, record=record))
        for name, blown in outcome.blown.items():
            self._effects.tell(Event("blown", name, str(blown)))
        if outcome.trouble is not None:
            state = kept.get(outcome.culprit, RunState())
            kind = "suspended" if state.suspended is not None else "failed"
            self._effects.tell(Event(kind, outcome.culprit, f"failure {state.failures}", trouble=outcome.trouble))

    def _housekeep(self, now: float) -> None:
        """After a while without work there is time to make reading faster."""
        if self._running or self._pending or self.last_tick.runs:
            self._rested_at = None
            return
        if self._rested_at is None:
            self._rested_at = now
        if self._tidying is None and (now - self._rested_at >= REST or self._rested_at > now) and not self.paused:
            self._tidying = self._effects.tidy(lambda: self._results.put((None, Outcome())))
            if self._tidying is None:
                self._rested_at = now

    def _sleep(self, now: float) -> float:
        if self._dirty:
            return 0.0
        ends = [at - now for at in (self._wake_at, self._pulse.next_look()) if at is not None]
        return max(0.0, min([LONGEST_SLEEP, *ends]))


def schema_of(name: Name) -> str:
    """
    >>> schema_of("spark_catalog.sales.totals")
    'spark_catalog.sales'
    """
    return name.rpartition(".")[0]
