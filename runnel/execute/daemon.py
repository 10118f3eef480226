"""The daemon: a scheduler whose effects are real. One process leads, by a lease in the catalog; others stand by and take over.

The leader's thread probes logs, decides and waits; workers refresh. A daemon that loses its lease starts nothing more and stands by
again: what its workers still do is safe, since each refresh holds the lease of its table and commits on top of what it has read.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import AnalysisException

from runnel.definition import FUSE
from runnel.errors import RunnelError, Transient
from runnel.execute import compact as compaction
from runnel.execute.due import WORTHWHILE, Fold
from runnel.execute.engine import Engine
from runnel.execute.lookup import translated
from runnel.execute.records import finish_orphans
from runnel.execute.standing import LEADER, Standing
from runnel.execute.trouble import runtime
from runnel.execute.unit import refresh_unit, take_cut
from runnel.execute.workers import Workers
from runnel.observe.record import Action, RefreshRecord
from runnel.schedule.daemon import Event, Job, Limits, Outcome, Reached, Scheduler, View
from runnel.schedule.fuse import Blown, parse_fuse
from runnel.schedule.graph import Graph, Unit
from runnel.schedule.run_state import RunState, Trouble
from runnel.settings import Settings
from runnel.state import Lease
from runnel.tables.backing import CommitNote

log = logging.getLogger("runnel")

PAST = 50
"""Past refreshes that tell how large a usual change is."""
ANSWER = 1.0
"""Seconds between two words of the leader about itself, while nothing else happens."""
ASKING = 0.2
"""Seconds that a standby asks for the lease at a time: long enough to find that the process of the leader is dead."""
MOST_FILES = 8
"""Files in a tail that is left alone when there is time to fold it."""
SHARE = 4
"""At rest a tail is folded into the base at this fraction of the share that folds it under work."""

Tell = Callable[[Event], None]


class SparkEffects:
    """See `Effects`. Shared by the scheduler's thread and the workers."""

    def __init__(self, engine: Engine, workers: Workers, wake: Callable[[], None], tell: Tell, sync: Callable[[], None]) -> None:
        self._engine, self._workers, self._wake, self._tell, self._sync = engine, workers, wake, tell, sync
        self.standing = Standing(engine)
        self._unfolded: dict[str, CommitNote] = {}
        """Where tables stood that could not be compacted: others come first until they moved on."""

    def now(self) -> float:
        return time.time()

    def view(self, known: View | None) -> View:
        found = self.standing.view(known)
        if found is not known:
            self._sync()
        return found

    def probe(self, sources: Collection[str]) -> Mapping[str, int]:
        return self.standing.probe(sources) if sources else {}

    def cut(self, units: Iterable[Unit], gated: Collection[str]) -> tuple[Any, Mapping[str, int]]:
        graph = self._engine.graph()
        names = [m for unit in units for m in unit.members if m in graph.reads]
        found = take_cut(self._engine, Graph({n: graph.reads[n] for n in names}), gated)
        return found, found.versions

    def start(self, job: Job, done: Callable[[Outcome], None]) -> None:
        def work(engine: Engine) -> None:
            done(self._refreshed(engine, job))
            self._wake()

        self._workers.submit(work)

    def tidy(self, done: Callable[[], None]) -> str | None:
        for name, note, fold in self._untidy():

            def work(engine: Engine, name: str = name, note: CommitNote = note, fold: Fold = fold) -> None:
                try:
                    _compact(engine, name, fold)
                    self._tell(Event("compacted", name))
                except Exception as error:
                    self._unfolded[name] = note
                    log.warning("%s was not compacted: %s", name, error)
                finally:
                    self._settle(name)
                    done()
                    self._wake()

            self._workers.submit(work)
            return name
        return None

    def remember(self, states: Mapping[str, RunState]) -> None:
        known = self._engine.known().entries
        self._engine.catalog.schedules.remember({n: s for n, s in states.items() if n in known})

    def tell(self, event: Event) -> None:
        if event.kind == "suspended" and event.trouble is not None:
            self._alert(event.stream_table, event.trouble, event.text)
        elif event.kind == "blown":
            log.warning(
                "the fuse of %s blew: %s; decide with `runnel fuse %s apply|reinitialise|skip`", event.stream_table, event.text, event.stream_table
            )
        self._tell(event)

    # -- on a worker -------------------------------------------------------------------------------------------------------

    def _refreshed(self, engine: Engine, job: Job) -> Outcome:
        """Refresh a unit and say where its members stand, whatever happened."""
        trouble, culprit = None, ""
        records: tuple[RefreshRecord, ...] = ()
        try:
            blown = _blown(engine, job) if job.fused else {}
            if blown:
                return Outcome(blown=blown)
            records = refresh_unit(engine, job.run.unit, job.cut, job.run.full)
        except Exception as error:
            culprit = getattr(error, "stream_table", None) or job.members[0]
            trouble = trouble_from(error, culprit)
        reached: dict[str, Reached] = {}
        for name in job.members:
            if (stands := self._settle(name)) is not None:
                reached[name] = stands
        return Outcome(records, reached, trouble, culprit)

    def _settle(self, name: str) -> Reached | None:
        try:
            return self.standing.reached(name)
        except (RunnelError, OSError):
            return None

    def _untidy(self) -> Iterable[tuple[str, CommitNote, Fold]]:
        known = self._engine.known().definitions
        for name, note in self.standing.tails().items():
            if name in known and note.tail_files > 0 and self._unfolded.get(name) != note:
                total = note.base_rows + note.tail_rows
                share = self._engine.settings.compact_tail_ratio / SHARE
                if total <= WORTHWHILE or note.tail_rows > share * note.base_rows:
                    yield name, note, Fold.BASE
                elif note.tail_files > MOST_FILES:
                    yield name, note, Fold.TAIL

    def _alert(self, name: str, trouble: Trouble, failures: str) -> None:
        """A suspension is logged, recorded in the history and shown by `status`."""
        remedy = trouble.hint or "Look at its history and remove the cause."
        log.warning("%s is suspended after %s: %s. %s Then run `runnel resume %s`.", name, failures, trouble, remedy, name)
        error = {
            "branch": trouble.branch,
            "code": trouble.code,
            "message": trouble.message,
            "detail": trouble.detail,
            "hint": remedy,
            "position": None,
        }
        record = RefreshRecord(name, 0, Action.SKIP, f"suspended after {failures}", status="SUSPENDED", started_at=trouble.at, error=error)
        self._engine.catalog.record(record)


def trouble_from(error: Exception, name: str) -> Trouble:
    """A failure as a scheduler remembers it."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    known = error if isinstance(error, RunnelError) else runtime(error)
    if known is None and isinstance(error, AnalysisException):
        known = translated(error)  # the query no longer fits its sources
    if known is not None:
        return Trouble(known.message, at, known.code, known.branch, known.detail, known.hint)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    hint = f"See `runnel explain {name}` and the log of Spark."
    return Trouble(lines[0][:300], at, type(error).__name__, "", "", hint)


def _blown(engine: Engine, job: Job) -> dict[str, Blown]:
    """The members whose fuse does not let the change of this cut pass. Read from the logs, without Spark."""
    found: dict[str, Blown] = {}
    for name in job.members:
        backing = engine.backing(name)
        fuse = parse_fuse(backing.definition.properties.get(FUSE, "off"))
        note = backing.note()[1]
        if fuse.off or note.epoch == 0 or name in job.run.full:
            continue
        past = [r.rows_in or 0 for r in engine.catalog.history(name, PAST) if r.status == "COMPLETED" and r.action == Action.DIFFERENTIAL]
        ceiling = fuse.ceiling(past)
        if ceiling is None:
            continue
        rows, versions = 0, dict[str, int]()
        for ref in backing.definition.sources:
            version, identity = note.frontier.get(ref.key, (None, None))
            facts = engine.source(ref).probe(version, identity, ref.columns)
            rows += (facts.rows or 0) if facts.changed else 0
            versions[ref.key] = job.versions.get(ref.key, facts.after)
        if rows > ceiling:
            found[name] = Blown(rows, ceiling, datetime.now(UTC).isoformat(timespec="milliseconds"), versions)
    return found


def _compact(engine: Engine, name: str, fold: Fold) -> None:
    with engine.catalog.lease(name, wait=0.0, ttl=engine.settings.lock_lease_seconds):
        compaction.compact(engine, engine.backing(name), fold)


@dataclass
class Report:
    """What one tick did: records, failures and fuses as they came, and why the others did not run."""

    records: list[RefreshRecord] = field(default_factory=list)
    troubles: dict[str, Trouble] = field(default_factory=dict)
    suspended: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    blown: dict[str, str] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.troubles and not self.blown

    def hear(self, event: Event) -> None:
        match event.kind:
            case "refreshed" if event.record is not None:
                self.records.append(event.record)
            case "failed" | "suspended" if event.trouble is not None:
                self.troubles[event.stream_table] = event.trouble
                self.suspended += [event.stream_table] if event.kind == "suspended" else []
            case "skipped":
                self.skipped[event.stream_table] = event.text
            case "blown":
                self.blown[event.stream_table] = event.text

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "refreshed": [r.as_dict() for r in self.records],
            "failed": {n: {"code": t.code, "message": t.message, "hint": t.hint} for n, t in self.troubles.items()},
            "suspended": self.suspended,
            "skipped": self.skipped,
            "blown": self.blown,
            "waiting": dict(self.waiting),
        }


class Daemon:
    """Keeps stream tables fresh until it is told to stop. `run` blocks; `start` runs it in a thread.

    `tell` hears what happens; `sync` makes the session know what other processes created.
    """

    def __init__(self, engine: Engine, workers: int | None = None, tell: Tell = lambda event: None, sync: Callable[[], None] = lambda: None) -> None:
        settings = engine.settings
        self._engine, self._tell, self._sync = engine, tell, sync
        self._limits = _limits(settings, workers)
        self._woken = threading.Event()
        self._changed = threading.Condition()
        self._stopping = False
        self._asked = self._answered = self._quiet = 0
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self.leads = False

    # -- from any thread -----------------------------------------------------------------------------------------------------

    def start(self) -> Daemon:
        self._thread = threading.Thread(target=self._guarded, name="runnel-daemon", daemon=True)
        self._thread.start()
        return self

    def hurry(self) -> int:
        """Somebody committed: look at all sources at once."""
        with self._changed:
            self._asked += 1
            asked = self._asked
        self._woken.set()
        return asked

    def settle(self, timeout: float = 60.0) -> bool:
        """Wait until everything that is due now is done; whether it was in time."""
        asked = self.hurry()
        with self._changed:
            return self._changed.wait_for(lambda: self._quiet >= asked or self._failure is not None, timeout) and self._failure is None

    def drain(self) -> None:
        """Finish what runs and start nothing more; `run` then returns."""
        self._stopping = True
        self._woken.set()

    def stop(self, timeout: float | None = None) -> None:
        """Drain, and wait for it."""
        self.drain()
        if self._thread is not None:
            self._thread.join(timeout)
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Daemon:
        return self if self._thread is not None else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- run -----------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Lead when nobody else does, stand by otherwise, until drained."""
        told = False
        while not self._stopping:
            try:
                with self._lease(wait=ASKING) as lease:
                    self._lead(lease)
                    told = False
            except Transient as error:
                if error.code == "BUSY" and not told:
                    told = True
                    self._tell(Event("standby", "", f"another daemon leads ({error.values.get('owner', '')})"))
                elif error.code != "BUSY":
                    log.warning("the daemon starts again: %s", error.message)
                self._rest(min(1.0, self._limits.idle_probe))

    def once(self, everything: bool = False, wait: float = 0.0) -> Report:
        """One tick: what is due runs, then it ends. `everything` asks for all that has something to read."""
        report = Report()

        def tell(event: Event) -> None:
            report.hear(event)
            self._tell(event)

        with self._alone(wait) as lease:
            workers = Workers(self._engine, self._limits.workers)
            effects = SparkEffects(self._engine, workers, self._woken.set, tell, self._sync)
            scheduler = Scheduler(effects, self._limits)
            try:
                scheduler.step(everything=everything)
                report.waiting = scheduler.last_tick.waiting
                while not scheduler.idle:
                    self._rest(1.0)
                    lease.check()
                    scheduler.draining = self._stopping
                    scheduler.step(plan=False)
            finally:
                workers.close(0.0)
        return report

    def _lead(self, lease: Lease) -> None:
        self._tell(Event("leading", ""))
        finish_orphans(self._engine)  # of the leader before, if it died at work
        workers = Workers(self._engine, self._limits.workers)
        effects = SparkEffects(self._engine, workers, self._woken.set, self._tell, self._sync)
        scheduler = Scheduler(effects, self._limits)
        said: tuple[Any, ...] = ()
        said_at = 0.0
        self.leads = True
        try:
            while not (self._stopping and scheduler.idle):
                if lease.lost:
                    log.warning("another daemon may lead now; this one stands by")
                    return
                scheduler.draining = self._stopping
                with self._changed:
                    asked = self._asked
                if asked > self._answered:
                    self._answered = asked
                    scheduler.hurry()
                pause = self._step(scheduler)
                now = (scheduler.running, scheduler.paused, scheduler.revision)
                if now != said or time.monotonic() - said_at >= ANSWER:
                    self._say(scheduler)
                    said, said_at = now, time.monotonic()
                if scheduler.idle and not scheduler.last_tick.runs:
                    with self._changed:
                        self._quiet = self._answered
                        self._changed.notify_all()
                if not (self._stopping and scheduler.idle):
                    self._rest(pause)
        finally:
            self.leads = False
            workers.close(0.0)

    def _step(self, scheduler: Scheduler) -> float:
        try:
            return scheduler.step()
        except Transient as error:
            log.warning("the catalog did not answer: %s", error.message)
            return 1.0

    def _say(self, scheduler: Scheduler) -> None:
        """Tell other processes what runs, and how far their words were heard."""
        facts = {
            "owner": f"{socket.gethostname()}:{os.getpid()}",
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "running": list(scheduler.running),
            "paused": scheduler.paused,
            "workers": self._limits.workers,
            "revision": scheduler.revision[-1] if scheduler.revision else -1,
        }
        self._engine.catalog.schedules.put_daemon(facts)

    @contextmanager
    def _alone(self, wait: float) -> Iterator[Lease]:
        with ExitStack() as stack:
            try:
                lease = stack.enter_context(self._lease(wait))
            except Transient as error:
                if error.code != "BUSY":
                    raise
                raise Transient(
                    "another daemon leads",
                    code="DAEMON_LEADS",
                    detail=error.detail,
                    hint="Let it do the work, which `runnel status` shows, or stop it first.",
                ) from error
            yield lease

    def _lease(self, wait: float) -> AbstractContextManager[Lease]:
        return self._engine.catalog.lease(LEADER, wait=wait, ttl=self._engine.settings.leader_lease_seconds)

    def _rest(self, seconds: float) -> None:
        self._woken.wait(seconds)
        self._woken.clear()

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:
            log.exception("the daemon ended")
            with self._changed:
                self._failure = error
                self._changed.notify_all()


def _limits(settings: Settings, workers: int | None) -> Limits:
    return Limits(
        max(1, workers if workers is not None else settings.workers),
        settings.workers_per_schema,
        max(1, settings.suspend_after_failures),
        settings.auto_backoff,
        settings.probe_idle_seconds,
    )


__all__ = ["Daemon", "Report", "SparkEffects", "trouble_from"]
