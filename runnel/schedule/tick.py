"""The decision of one tick: what runs, in which order and why, and why the others do not. A pure function of what is given.

A stream table is *stirred* when it has something to read: a source stands at a later version than it has read, or a stream table
below it is stirred and would run along. It is *due* when its schedule says so, and *wanted* when it is both, or when a reader
that is wanted decides for it. What is wanted runs unless something holds it: suspension, a pause before the next try, a fuse, a
frozen tier, watermarks that are apart, a refresh that is still at work. Units run as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from runnel.schedule.duration import show_duration
from runnel.schedule.graph import Graph, Name, Unit
from runnel.schedule.run_state import LONGEST_PAUSE, RunState
from runnel.schedule.schedules import Calculated, Cron, Every, OnUpdate, Schedule, TargetLag
from runnel.schedule.tier import Tier

BRISK = 1.0
"""Seconds that a warm or cold table triggered by updates multiplies, when it has no pause of its own."""
EARLY = 0.9
"""The share of a target lag at which a refresh should be done."""


@dataclass(frozen=True)
class Table:
    """One stream table. `frontier` is what it has read of each source, `version` what its readers can read of it.

    `clocked` queries read the clock, so that time alone changes them. `identity` tells a table from another one of its name.
    """

    schedule: Schedule
    frontier: Mapping[Name, int] = field(default_factory=dict)
    version: int = 0
    state: RunState = field(default_factory=RunState)
    tier: Tier = Tier.HOT
    priority: int = 0
    clocked: bool = False
    slowest: bool = False
    created: float = 0.0
    identity: str = ""

    @property
    def factor(self) -> int:
        return (self.tier.factor or 1) * self.state.backoff

    @property
    def pace(self) -> float | None:
        """The period that its refreshes should keep up with; times of cron do not move, whatever a refresh takes."""
        return None if isinstance(self.schedule, Cron) else self.schedule.period

    @property
    def period(self) -> float | None:
        """The time between two of its runs, with tier and backoff; times of cron are kept as they are."""
        own = self.schedule.period
        if isinstance(self.schedule, OnUpdate) and own is None and self.factor > 1:
            own = BRISK
        return own if own is None or isinstance(self.schedule, Cron) else own * self.factor


@dataclass(frozen=True)
class Moment:
    """What a tick sees besides the stream tables. `versions` are those of plain sources, `changed_at` when each was first seen.

    `held_back` are stream tables that wait for watermarks, `busy` those at work, `awaited` those that jobs of an earlier tick are
    about to read at its cut. `everything` asks for all, whatever schedules say.
    """

    now: float
    versions: Mapping[Name, int]
    changed_at: Mapping[Name, float] = field(default_factory=dict)
    gated: Collection[Name] = ()
    held_back: Mapping[Name, str] = field(default_factory=dict)
    busy: Collection[Name] = ()
    awaited: Collection[Name] = ()
    paused: bool = False
    everything: bool = False


@dataclass(frozen=True)
class Run:
    """A unit to refresh: why, after which others of this tick, and which members are computed anew."""

    unit: Unit
    reasons: Mapping[Name, str]
    after: tuple[Unit, ...] = ()
    full: tuple[Name, ...] = ()
    rank: tuple[int, int, int] = (0, 0, 0)
    """Place in the queue, lowest first: priority, tier, place in the graph."""


@dataclass(frozen=True)
class Tick:
    """`waiting` says why stream tables with something to read do not run, `fresh` are those that were due and have nothing to read.

    `wake_at` is when the next one comes due by time alone.
    """

    runs: tuple[Run, ...] = ()
    waiting: Mapping[Name, str] = field(default_factory=dict)
    fresh: tuple[Name, ...] = ()
    wake_at: float | None = None

    def __str__(self) -> str:
        lines = [f"run {', '.join(r.unit.members)}: {'; '.join(r.reasons.values())}" for r in self.runs]
        return "\n".join([*lines, *(f"wait {name}: {why}" for name, why in self.waiting.items())]) or "nothing to do"


class _Stir(NamedTuple):
    """What there is to read: where it comes from, since when, how long refreshing takes, and whether only the clock moved."""

    source: Name
    since: float
    seconds: float
    clock: bool


def decide(graph: Graph, tables: Mapping[Name, Table], moment: Moment) -> Tick:
    """What runs now."""
    if moment.paused:
        return Tick(waiting=dict.fromkeys(graph.order, "paused"))
    stirred: dict[Name, _Stir] = {}
    due: dict[Name, str] = {}
    held: dict[Name, str] = {}
    wakes: list[float] = []
    fresh: list[Name] = []
    for name in graph.order:
        table = tables[name]
        if why := _held(graph, name, tables, moment, wakes):
            held[name] = why
        stir = _stirred(graph, name, table, tables, moment, stirred, due, held)
        if stir is not None:
            stirred[name] = stir
        reason = _due(table, stir, moment, wakes)
        if reason and name not in held:
            if stir is not None:
                due[name] = reason
            else:
                fresh.append(name)
                wakes.extend(_after(table, moment.now))
    wanted = _wanted(graph, tables, stirred, due, held)
    runs = _runs(graph, tables, wanted, held)
    running = {m for r in runs for m in r.unit.members}
    waiting = {n: held[n] for n in stirred if n in held and n not in running}
    for unit in {graph.unit_of[n] for n in wanted if n not in running}:
        for member in unit.members:
            waiting.setdefault(member, _unit_waits(unit, held) or "waits until all of its group are due")
    waiting.update({n: why for n, why in _gated(graph, tables, moment).items() if n not in running and n not in waiting})
    return Tick(runs, waiting, tuple(fresh), min((w for w in wakes if w > moment.now), default=None))


def effective_periods(graph: Graph, tables: Mapping[Name, Table]) -> dict[Name, float | None]:
    """The time between two runs of each stream table; where readers decide, that of the most frequent one."""
    found: dict[Name, float | None] = {}
    for name in reversed(graph.order):
        table = tables[name]
        if isinstance(table.schedule, Calculated):
            above = [found.get(r) for r in graph.readers.get(name, ())]
            found[name] = min((p for p in above if p is not None), default=None)
        elif isinstance(table.schedule, OnUpdate):
            found[name] = table.period or 0.0
        else:
            found[name] = table.period
    return found


def _held(graph: Graph, name: Name, tables: Mapping[Name, Table], moment: Moment, wakes: list[float]) -> str:
    """Why a stream table may not run at all now, or nothing."""
    table = tables[name]
    state = table.state
    if name in moment.busy:
        return "is being refreshed"
    if state.suspended is not None:
        return f"is suspended: {state.suspended}"
    if table.tier is Tier.FROZEN:
        return "is frozen"
    if state.blown is not None and state.blown.holds(
        {s: tables[s].version if s in tables else moment.versions.get(s, -1) for s in graph.reads[name]}
    ):
        return f"has a blown fuse: {state.blown}"
    # A time of trying again beyond the longest pause was set by a clock that has been put back since.
    if state.retry_at is not None and moment.now < state.retry_at <= moment.now + 2 * LONGEST_PAUSE:
        wakes.append(state.retry_at)
        return f"tries again in {show_duration(round(state.retry_at - moment.now, 1))}: {state.trouble}"
    if moment.busy:
        for source in graph.reads[name]:
            if source in moment.busy:
                return f"waits for {source}, which is being refreshed"
    if name in moment.awaited:
        return "stays until those that read it in an earlier tick have begun"
    return moment.held_back.get(name, "") if moment.held_back else ""


def _stirred(
    graph: Graph,
    name: Name,
    table: Table,
    tables: Mapping[Name, Table],
    moment: Moment,
    stirred: Mapping[Name, _Stir],
    due: Mapping[Name, str],
    held: Mapping[Name, str],
) -> _Stir | None:
    best: _Stir | None = None
    seconds = 0.0
    for source in graph.reads[name]:
        below = tables.get(source)
        read = table.frontier.get(source, -1)
        found: _Stir | None = None
        if below is None:
            # An earlier version than was read means that the source was made anew.
            if moment.versions.get(source, read) != read and source not in moment.gated:
                found = _Stir(source, moment.changed_at.get(source, 0.0), 0.0, False)
        elif below.version > read:
            found = _Stir(source, below.state.last_run or 0.0, 0.0, False)
        elif source in stirred and source not in held and (source in due or moment.everything or isinstance(below.schedule, Calculated)):
            found = stirred[source]
            seconds = max(seconds, found.seconds)
        if found is not None and (best is None or (found.clock, found.since) < (best.clock, best.since)):
            best = found
    if best is None and table.clocked:
        best = _Stir("the clock", 0.0, 0.0, True)
    return best._replace(seconds=seconds + table.state.last_ms / 1000) if best is not None else None


def _due(table: Table, stir: _Stir | None, moment: Moment, wakes: list[float]) -> str:
    """Why the schedule says now, or nothing; what it says of later is added to `wakes`."""
    schedule, state, now = table.schedule, table.state, moment.now
    if moment.everything:
        return "asked for"
    at: float | None
    match schedule:
        case Every():
            period = table.period
            assert period is not None
            # An anchor in the future was set by a clock that has been put back since.
            at = now if state.anchor is None or state.anchor > now else state.anchor + period
            reason = f"every {show_duration(period)}"
        case Cron():
            anchor = state.anchor if state.anchor is not None else table.created
            at = now if anchor > now else schedule.after(anchor)
            reason = f"cron {schedule.text}"
        case OnUpdate() if stir is not None and not stir.clock:
            last = state.last_run
            at = now if last is None or last > now else last + (table.period or 0.0)
            reason = f"update of {stir.source}"
        case TargetLag() if stir is not None:
            since = (state.last_run or 0.0) if stir.clock else stir.since
            lag = table.period or 0.0
            at = now if since > now else since + max(0.0, EARLY * lag - stir.seconds)
            reason = f"target lag {show_duration(lag)}"
        case _:
            return ""
    if at is None:
        return ""
    if at > now:
        wakes.append(at)
        return ""
    return reason


def _after(table: Table, now: float) -> Iterator[float]:
    """When a table that has just been looked at comes due by time again."""
    at = table.schedule.after(now) if isinstance(table.schedule, Cron) else now + table.period if table.period else None
    if at is not None:
        yield at


def _wanted(
    graph: Graph, tables: Mapping[Name, Table], stirred: Mapping[Name, _Stir], due: Mapping[Name, str], held: Mapping[Name, str]
) -> dict[Name, str]:
    """What should run, each with the reason: readers are asked before what they read."""
    if not due:
        return {}
    wanted: dict[Name, str] = {}
    for name in reversed(graph.order):
        if name not in stirred or name in held:
            continue
        if name in due:
            wanted[name] = due[name]
        elif isinstance(tables[name].schedule, Calculated):
            for reader in graph.readers.get(name, ()):
                if reader in wanted:
                    wanted[name] = f"needed by {reader}"
                    break
    return wanted


def _runs(graph: Graph, tables: Mapping[Name, Table], wanted: Mapping[Name, str], held: Mapping[Name, str]) -> tuple[Run, ...]:
    """The units that run, in an order in which each comes after those that it reads."""
    if not wanted:
        return ()
    chosen: dict[Unit, int] = {}
    for place, unit in enumerate(graph.units):
        if any(m in wanted for m in unit.members) and not any(m in held for m in unit.members) and _agreed(unit, tables, wanted):
            chosen[unit] = place
    owner = {m: unit for unit in chosen for m in unit.members}
    after = {unit: tuple(dict.fromkeys(owner[s] for m in unit.members for s in graph.reads[m] if s in owner and owner[s] != unit)) for unit in chosen}
    urgency = {unit: (max(tables[m].priority for m in unit.members), -min(tables[m].tier.rank for m in unit.members)) for unit in chosen}
    for unit in reversed(chosen):
        for below in after[unit]:  # what an urgent table waits for is as urgent
            urgency[below] = max(urgency[below], urgency[unit])
    return tuple(
        Run(
            unit,
            {m: wanted.get(m, "refreshed with its group") for m in unit.members},
            after[unit],
            tuple(m for m in unit.members if (blown := tables[m].state.blown) is not None and blown.verdict == "reinitialise"),
            (-urgency[unit][0], -urgency[unit][1], place),
        )
        for unit, place in chosen.items()
    )


def _agreed(unit: Unit, tables: Mapping[Name, Table], wanted: Mapping[Name, str]) -> bool:
    """Whether a unit runs: with its fastest member, or when one says so with its slowest."""
    if not any(tables[m].slowest for m in unit.members):
        return True
    return all(m in wanted for m in unit.members if not isinstance(tables[m].schedule, Calculated))


def _unit_waits(unit: Unit, held: Mapping[Name, str]) -> str:
    for member in unit.members:
        if member in held:
            return held[member] if unit.alone else f"{member} {held[member]}"
    return ""


def _gated(graph: Graph, tables: Mapping[Name, Table], moment: Moment) -> dict[Name, str]:
    found: dict[Name, str] = {}
    for source in moment.gated:
        for reader in graph.readers.get(source, ()):
            read = tables[reader].frontier.get(source, -1)
            if moment.versions.get(source, read) != read:
                found[reader] = f"{source} is gated"
    return found


def iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
