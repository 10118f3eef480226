"""Where stream tables stand, as a scheduler wants to know it: what each has read, what its readers can read, how stale it is.

Read from the commit logs and the catalog, without Spark. The log of a table is read when it is first met; later a refresh says
where it went.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from runnel.definition import GROUP_SCHEDULE, Definition
from runnel.errors import RunnelError
from runnel.execute.engine import Engine
from runnel.schedule.daemon import GONE, Reached, View
from runnel.schedule.graph import Graph
from runnel.schedule.run_state import RunState
from runnel.schedule.schedules import Cron, next_runs
from runnel.schedule.tick import Moment, Table, Tick, decide, effective_periods
from runnel.schedule.watermarks import held_back
from runnel.sources.stream_table import ANEW, REFRESH
from runnel.tables.backing import CommitNote

BACK = 50
"""Commits that are looked back through for the last one with rows; a version that is too late costs one look at nothing."""
LATE = 2
"""How many periods a change may wait before a table is said to be late."""


class Standing:
    """Builds views for a scheduler, reading anew only what changed. May be asked by several threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._reached: dict[tuple[str, str], Reached] = {}
        self._tails: dict[str, CommitNote] = {}

    def view(self, known: View | None = None) -> View:
        """What is to be scheduled; `known` itself when neither a definition nor a word of an operator changed."""
        schedules = self._engine.catalog.schedules
        revision = (self._engine.known().revision, schedules.revision())
        if known is not None and known.revision == revision:
            return known
        found, states = self._engine.known(), schedules.states()
        tables = {n: self._table(n, d, states.get(n, RunState())) for n, d in found.definitions.items()}
        groups = tuple(schedules.groups().values())
        marks = {s: m.moment for s, m in schedules.watermarks().items()} if groups else {}
        return View(revision, found.graph, tables, frozenset(schedules.gates()), groups, marks, bool(schedules.paused()))

    def probe(self, sources: Collection[str]) -> dict[str, int]:
        """The latest versions of plain sources."""
        paths = self._paths()
        return {s: self._version(paths[s]) for s in sources if s in paths}

    def reached(self, name: str) -> Reached:
        """Where a stream table stands now, from its log."""
        backing = self._engine.backing(name)
        latest, note = backing.note()
        published = self._engine.catalog.published([name]).get(name)
        version = published.version if published is not None else latest
        found = Reached(self._frontier(backing.definition, note), self._with_rows(name, version))
        with self._lock:
            self._reached[name, backing.definition.id] = found
            self._tails[name] = note
        return found

    def tails(self) -> dict[str, CommitNote]:
        """The latest notes, by stream table."""
        with self._lock:
            return dict(self._tails)

    def _table(self, name: str, definition: Definition, state: RunState) -> Table:
        known = self._reached.get((name, definition.id))
        try:
            stands = known or self.reached(name)
        except (RunnelError, OSError):  # a log that cannot be read: the refresh says why
            stands = Reached({}, GONE)
        return Table(
            definition.when,
            stands.frontier,
            stands.version,
            state,
            definition.tier,
            definition.priority,
            bool(definition.clocks),
            definition.properties.get(GROUP_SCHEDULE) == "slowest",
            _seconds(definition.created_at),
            definition.id,
        )

    def _frontier(self, definition: Definition, note: CommitNote) -> dict[str, int]:
        """What was read of each source; a source that was made anew since has not been read."""
        found: dict[str, int] = {}
        for ref in definition.sources:
            version, identity = note.frontier.get(ref.key, (-1, None))
            try:
                path = ref.path if ref.kind == "delta" else self._engine.backing(ref.key).path
                found[ref.key] = int(version) if self._engine.log(path).table_id() == identity else -1
            except RunnelError:
                found[ref.key] = int(version)
        return found

    def _with_rows(self, name: str, version: int) -> int:
        """The last commit up to a version that brought rows: compaction and empty refreshes are nothing to read."""
        log = self._engine.backing(name).log
        for at in range(version, max(-1, version - BACK), -1):
            try:
                commit = log.commit(at)
            except FileNotFoundError:
                break
            kind = (commit.runnel or {}).get("kind")
            if kind in ANEW or (commit.adds and kind == REFRESH):
                return at
        return version

    def _paths(self) -> dict[str, str]:
        return {ref.key: ref.path for d in self._engine.known().definitions.values() for ref in d.sources if ref.kind == "delta"}

    def _version(self, path: str) -> int:
        try:
            return self._engine.log(path).version()
        except (RunnelError, OSError):
            return GONE


def next_tick(engine: Engine, everything: bool = False) -> tuple[View, Moment, Tick]:
    """What a tick would do now, and what it would look at: the decision of a daemon, without one."""
    standing = Standing(engine)
    view = standing.view()
    busy = [n for n in (leader(engine) or {}).get("running", ()) if n in view.tables]
    moment = Moment(
        engine.now().timestamp(),
        standing.probe(view.graph.plain),
        gated=view.gated,
        held_back=held_back(view.graph, view.groups, view.marks),
        busy=busy,
        paused=view.paused,
        everything=everything,
    )
    return view, moment, decide(view.graph, view.tables, moment)


def overview(engine: Engine) -> list[dict[str, Any]]:
    """One line per stream table: its schedule, how stale it is against it, what the next tick would do with it, and trouble."""
    view, moment, tick = next_tick(engine)
    now = moment.now
    due = {m: why for run in tick.runs for m, why in run.reasons.items()}
    periods = effective_periods(view.graph, view.tables)
    lags = waiting_since(engine, view.graph, view.tables, moment.versions)
    known = engine.known().definitions
    lines = []
    for name in view.graph.order:
        definition, table, since = known[name], view.tables[name], lags.get(name)
        lag = max(0.0, now - since) if since is not None else 0.0
        period = periods[name]
        state = table.state
        lines.append(
            {
                **definition.line(),
                "schedule": str(definition.when),
                "tier": str(definition.tier),
                "period_seconds": period,
                "status": "SUSPENDED" if state.suspended else "RUNNING" if name in moment.busy else "ACTIVE",
                "fresh": since is None,
                "behind_seconds": round(lag, 1),
                "late": period is not None and lag > LATE * max(period, 1.0),
                "next": due.get(name, ""),
                "next_at": next_runs(definition.when, now, 1)[0].isoformat() if isinstance(definition.when, Cron) else None,
                "waiting": tick.waiting.get(name, ""),
                "last_run": _iso(state.last_run),
                "last_ms": state.last_ms,
                "failures": state.failures,
                "backoff": state.backoff,
                "trouble": trouble_of(state),
                "fuse": str(state.blown) if state.blown else "",
            }
        )
    return lines


def trouble_of(state: RunState) -> dict[str, Any] | None:
    """Why a table is suspended or last failed, and what to do."""
    found = state.suspended or state.trouble
    if found is None:
        return None
    return {"code": found.code, "message": found.message, "detail": found.detail, "hint": found.hint, "at": found.at, "by": found.by}


def leader(engine: Engine) -> dict[str, Any] | None:
    """What the leading daemon says of itself, which is little at first; None when none leads."""
    owner = engine.catalog.schedules.holder(LEADER)
    said = engine.catalog.schedules.daemon() if owner is not None else {}
    return None if owner is None else said if said.get("owner") == owner else {"owner": owner}


LEADER = "daemon"
"""The lease that makes one daemon the leader."""


def waiting_since(engine: Engine, graph: Graph, tables: Mapping[str, Table], versions: Mapping[str, int]) -> dict[str, float]:
    """When the oldest commit that a stream table has not read was made, for those that have not read something."""
    found: dict[str, float] = {}
    definitions = engine.known().definitions
    for name in graph.order:
        paths = {ref.key: ref.path for ref in definitions[name].sources if ref.kind == "delta"}
        moments = []
        for source in graph.reads[name]:
            read = tables[name].frontier.get(source, -1)
            if source not in tables:
                if versions.get(source, read) != read:
                    moments.append(_committed_at(engine, paths[source], read + 1))
            elif tables[source].version > read:
                moments.append(_committed_at(engine, engine.backing(source).path, read + 1))
            elif source in found:
                moments.append(found[source])
        if moments:
            found[name] = min(moments)
    return found


def _committed_at(engine: Engine, path: str, version: int) -> float:
    try:
        moment = engine.log(path).commit(version).info.get("timestamp")
    except (OSError, RunnelError):
        moment = None
    return float(moment) / 1000 if moment is not None else engine.now().timestamp()


def _seconds(iso: str) -> float:
    try:
        return datetime.fromisoformat(iso).timestamp()
    except ValueError:
        return 0.0


def _iso(moment: float | None) -> str | None:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds") if moment is not None else None
