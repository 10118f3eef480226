"""The public face: `connect()` and `Runnel`."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Collection
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp
from sqlglot import parse_one as parse_any
from sqlglot.errors import SqlglotError

from runnel import settings as settings_module
from runnel.bind.expand import join_key, split_key
from runnel.bind.rewrites import REWRITES
from runnel.bind.statement import Statement, parse_statement
from runnel.canonicalize import RULES
from runnel.definition import Definition
from runnel.errors import DefinitionError, EnvironmentProblem
from runnel.execute import changes as changes_module
from runnel.execute import compact as compact_module
from runnel.execute import manage, operate, session
from runnel.execute import refresh as refresh_module
from runnel.execute.daemon import Daemon, Report
from runnel.execute.engine import Engine
from runnel.execute.explain import Explanation, explain
from runnel.execute.explain_cost import CostExplanation, explain_cost
from runnel.execute.lookup import SparkLookup, translated
from runnel.execute.publication import cut_of, version_seen, view
from runnel.execute.read import content_at
from runnel.execute.records import finish_orphans
from runnel.execute.standing import leader, next_tick, overview, trouble_of
from runnel.execute.unit import cut_for, refresh_unit, refresh_units
from runnel.execute.vacuum import Vacuumed, vacuum
from runnel.execute.verify import Verification, verify
from runnel.execute.workers import Workers
from runnel.observe.record import Mode, RefreshRecord, mode_of
from runnel.observe.savings import Savings, savings_of
from runnel.observe.timeline import Bar, bars_of, since_when
from runnel.project.apply import apply
from runnel.project.declare import declarations, sql_files
from runnel.project.export import export
from runnel.project.names import Home
from runnel.project.plan import Plan, plan
from runnel.schedule.cut import Cut
from runnel.schedule.daemon import Event
from runnel.schedule.failure import Failure
from runnel.schedule.graph import Graph, Unit
from runnel.schedule.schedules import next_runs, parse_schedule
from runnel.schedule.tick import Tick
from runnel.settings import Settings
from runnel.sources.delta_log import PATTERNS
from runnel.sources.reader import Reader
from runnel.sources.retention import kept_until
from runnel.state import Catalog, quarantine
from runnel.tables.view import drop_view
from runnel.tables.warehouse import Warehouse

Rows = list[dict[str, Any]]
Records = list[RefreshRecord]
Outcomes = list[RefreshRecord | Failure]
Ledger = list[Savings]
Bars = list[Bar]
Names = list[str]
Times = list[datetime]
"""Inside the class, `list` is the verb."""

LEDGER = 100_000
"""Records that the ledger adds up at most."""

log = logging.getLogger("runnel")

WRITES = re.compile(r"\s*(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|DROP|ALTER|CREATE|REPLACE|COPY|RESTORE)\b", re.I)


def connect(
    spark: SparkSession | None = None,
    warehouse: str | None = None,
    catalog: str | None = None,
    settings: Settings | dict[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
    config: dict[str, str] | None = None,
) -> Runnel:
    """Open a warehouse of stream tables.

    Without arguments: local Spark, `./runnel-warehouse`, a SQLite catalog inside it. A team passes its own session, a
    warehouse on shared storage and `catalog="postgresql://..."`. `config` holds Spark settings for the embedded session.
    """
    chosen = settings if isinstance(settings, Settings) else settings_module.load(settings)
    _check_rules(chosen)
    embedded = spark is None
    if spark is None:
        folder = _named(os.path.abspath(warehouse or "runnel-warehouse"))
        os.makedirs(folder, exist_ok=True)
        spark = session.embedded(folder, progress, config)
    else:
        folder = _named(_folder(warehouse or spark.conf.get("spark.sql.warehouse.dir") or "runnel-warehouse"))
    session.check(spark)
    session.check_shared(spark, folder)
    url = catalog or f"sqlite:///{folder}/_runnel/catalog.db"
    return Runnel(spark, folder, url, chosen, embedded)


class Runnel:
    """A connection: the verbs, and `rn.spark`, the session as it was."""

    _daemons: tuple[Daemon, ...] = ()

    def __init__(self, spark: SparkSession, folder: str, catalog_url: str, settings: Settings, embedded: bool) -> None:
        self.spark = spark
        self.folder = folder
        self.settings = settings
        self._catalog_url = catalog_url
        self._engine = Engine(spark, settings, Catalog.open(catalog_url), Reader(spark, settings.kernel_reads, settings.uses("rows_here")))
        self._workers = Workers(self._engine, settings.workers - 1)  # this thread works too
        self._engine.hire = self._workers.hire
        self._warehouse = Warehouse(spark, folder) if embedded and _in_memory(spark) else None
        self._views: dict[str, tuple[str, int | None]] = {}
        self._syncing = threading.RLock()
        finish_orphans(self._engine)
        self._engine.catalog.retire(settings.history_days)
        self._sync()
        self._warn_of_strays()

    # -- define ----------------------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        query: str,
        mode: str = "AUTO",
        *,
        comment: str = "",
        properties: dict[str, str] | None = None,
        replace: bool = False,
        if_not_exists: bool = False,
        schedule: str = "",
    ) -> RefreshRecord | None:
        """Define a stream table and load it; the record of the first load (None when `if_not_exists` found it there).

        `schedule` is one of `schedule/schedules.py`, as SQL or in short: "5m", "@hourly", "on update".
        """
        when = _schedule(schedule)
        self._sync()
        full = self._name(name)
        if if_not_exists and self._engine.catalog.get(full) is not None:
            return None
        record = manage.create(self._engine, self._tables_folder, full, query.strip().rstrip(";"), _mode(mode), comment, properties, replace, when)
        self._sync()
        return record

    def alter(
        self,
        name: str,
        *,
        mode: str | None = None,
        properties: dict[str, str] | None = None,
        query: str | None = None,
        schedule: str | None = None,
        comment: str | None = None,
        unset: Collection[str] = (),
    ) -> Definition:
        """Change how a stream table is refreshed, its mode, its schedule (an empty one drops it), its comment or some of its properties, of which
        `unset` names those to remove; or its query.

        A query that means the same changes nothing. Another one is computed while readers go on seeing the old result, and takes its
        place in one commit; stream tables above receive the difference.
        """
        when = _schedule(schedule) if schedule is not None else None
        self._sync()
        full, chosen = self._name(name), _mode(mode) if mode is not None else None
        if query is not None:
            manage.redefine(self._engine, full, query.strip().rstrip(";"), chosen, comment, properties, schedule=when)
            self._sync()
            return self._engine.backing(full).definition
        return manage.alter(self._engine, full, chosen, properties, when, comment=comment, unset=unset)

    def drop(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> Names:
        """Remove a stream table; the names that were removed."""
        dropped = manage.drop(self._engine, self._name(name), cascade, if_exists)
        for gone in dropped:
            self._views.pop(gone, None)
        return dropped

    def apply(self, *paths: str, dry_run: bool = False, prune: bool = False, defaults: dict[str, Any] | None = None) -> Plan:
        """Make stream tables as files or folders of SQL define them; the plan that was carried out, or with `dry_run` would be.

        What is already so is left alone. `prune` drops stream tables that the files do not define; `defaults` are options,
        such as the mode, of definitions that do not name them.
        """
        self._sync()
        wanted = declarations(sql_files(map(Path, paths)), self._home)
        chosen = plan(wanted, self._engine.definitions(), prune, defaults=defaults)
        if not dry_run:
            apply(self, chosen)
        return chosen

    def export(self, *names: str) -> str:
        """Definitions as SQL that makes them again, in the order in which they can be made; of all stream tables when none is named."""
        chosen = [self._engine.backing(self._name(name)).definition.name for name in names]
        return export(self._engine.definitions(), chosen or None, self._home)

    # -- run -------------------------------------------------------------------------------------------------------

    def refresh(self, name: str, *, full: bool = False) -> RefreshRecord:
        """Bring a stream table up to its sources' latest versions; `full` recomputes it.

        One that is published together with others brings them along, so that all of them are of one cut.
        """
        self._sync()
        name = self._name(name)
        unit = self._engine.graph().unit_of.get(name, Unit((name,)))
        if unit.alone:
            return refresh_module.refresh(self._engine, name, full)
        records = refresh_unit(self._engine, unit, cut_for(self._engine, [unit]), [name] if full else ())
        return next(r for r in records if r.stream_table == name)

    def refresh_all(self, *, full: bool = False, names: Names | None = None, say: Callable[[Unit], None] = lambda _: None) -> Outcomes:
        """Bring all stream tables, or those named and what is published with them, to one cut of their sources.

        A record for each one, or a `Failure`: its own, or of one that it reads. `say` is told what is refreshed next.
        """
        self._sync()
        chosen = None if names is None else {self._name(n) for n in names}
        units = [u for u in self._engine.graph().units if chosen is None or chosen & set(u.members)]
        return refresh_units(self._engine, units, cut_for(self._engine, units), full, say)

    def compact(self, name: str) -> int:
        """Fold the tail into the base now; the version that did it."""
        full = self._name(name)
        backing = self._engine.backing(full).in_force()
        with self._engine.catalog.lease(full, wait=self.settings.lock_wait_seconds, ttl=self.settings.lock_lease_seconds):
            return compact_module.compact(self._engine, backing)

    def vacuum(self, name: str, *, hours: float | None = None) -> Vacuumed:
        """Remove old files that neither a stream table above nor a running query can need; `hours` overrides the setting `vacuum_hours`."""
        full = self._name(name)
        backing = self._engine.backing(full)
        with self._engine.catalog.lease(full, wait=self.settings.lock_wait_seconds, ttl=self.settings.lock_lease_seconds):
            return vacuum(self._engine, backing, self.settings.vacuum_hours if hours is None else hours)

    def clear_caches(self) -> None:
        """Forget bound queries, plans and what was read of logs; the next refresh makes them anew."""
        self._engine.clear_caches()

    # -- read ------------------------------------------------------------------------------------------------------

    def table(self, name: str, *, cut: Cut | str | None = None) -> DataFrame:
        """The content of a stream table as of now, or any other table that Spark knows.

        `cut` reads it at a cut that `rn.cut` gave, so that several tables are read at the same moment of their sources; or at
        the one that readers of another stream table or of a group see now, given its name.
        """
        self._sync()
        full = self._name(name)
        if full not in self._engine.known().entries:
            return self._spark_table(name)
        backing = self._engine.backing(full).in_force()
        version = version_seen(self._engine, backing, self._group_or_name(cut) if isinstance(cut, str) else cut)
        return content_at(self._engine, backing, version)

    def cut(self, name: str) -> Cut:
        """The versions of the plain sources that readers of a stream table, or of a group, see now."""
        return cut_of(self._engine, self._group_or_name(name))

    def changes(self, name: str, from_version: int, to_version: int | None = None) -> DataFrame:
        """The rows that came and went in versions `from_version` to `to_version`, both included."""
        return changes_module.changes(self._engine, self._name(name), from_version, to_version)

    def sql(self, text: str) -> DataFrame:
        """Run a statement: Runnel's own, or anything Spark understands."""
        statement = parse_statement(text)
        self._sync()
        if statement is not None:
            try:
                return self._run(statement)
            finally:
                self._wake()
        dropped = self._guard(text)
        try:
            # A query finds the views of one publication: no other thread moves them while it is analysed.
            with self._syncing if not WRITES.match(text) else nullcontext():
                result = self.spark.sql(text)
        except PySparkException as error:
            if type(error).__name__ in ("AnalysisException", "ParseException"):
                raise translated(error) from error
            raise
        if self._warehouse is not None and WRITES.match(text):
            if dropped is not None:
                self._warehouse.remove(*dropped)
            self._warehouse.sync()
        if WRITES.match(text):
            self._wake()
        return result

    # -- understand ------------------------------------------------------------------------------------------------

    def explain(self, name: str, *, trace: bool = False) -> Explanation:
        """The plan at each border, the change SQL, the decision that a refresh would take now, and why."""
        self._sync()
        return explain(self._engine, self._name(name), trace)

    def explain_refresh_cost(self, name: str) -> CostExplanation:
        """What the next refresh would cost applied or recomputed, what past ones took, and which way is taken."""
        self._sync()
        return explain_cost(self._engine, self._name(name))

    def savings(self, name: str | None = None) -> Ledger:
        """What executed refreshes cost against the estimated recompute, per stream table."""
        full = self._name(name) if name is not None else None
        if full is not None:
            self._engine.backing(full)
        return savings_of(self._engine.catalog.history(full, LEDGER))

    def verify(self, name: str) -> Verification:
        """Compare the content with the query run from scratch at the frontier."""
        self._sync()
        return verify(self._engine, self._name(name))

    def list(self) -> Rows:
        """One line per stream table."""
        return [d.line() for d in self._engine.definitions().values()]

    def status(self, name: str) -> dict[str, Any]:
        """Where a stream table stands: mode and effective mode with the reason, frontier, how far its sources are ahead."""
        full = self._name(name)
        backing = self._engine.backing(full)
        version, note = backing.note()
        history = self._engine.catalog.history(full, 1)
        state = self._engine.catalog.schedules.state(full)
        sources, warnings = [], []
        for ref in backing.definition.sources:
            reached = note.versions().get(ref.key)
            latest = self._engine.source(ref).probe(reached, (note.frontier.get(ref.key) or [None, None])[1], ref.columns)
            kept = kept_until(self._engine.log(ref.path), reached) if ref.kind == "delta" and reached is not None and latest.changed else None
            line = {"source": ref.key, "frontier": reached, "latest": latest.after, "since": str(latest.kind)}
            sources.append(line | {"kept_until": kept[0].isoformat(timespec="seconds") if kept else None})
            if kept is not None and self._engine.now() > kept[0] - kept[1] / 2:
                warnings.append(
                    f"{ref.key} keeps the changes that were not read yet until {kept[0]:%Y-%m-%d %H:%M} UTC: "
                    f"refresh before, or the table is computed anew"
                )
        return {
            **backing.definition.line(),
            "epoch": note.epoch,
            "version": version,
            "published": published[full].version if (published := self._engine.catalog.published([full])) else version,
            "fresh": all(s["since"] in ("unchanged", "data-neutral") for s in sources),
            "sources": sources,
            "warnings": warnings,
            "base_rows": note.base_rows,
            "tail_rows": note.tail_rows,
            "tail_files": note.tail_files,
            "last_refresh": history[0].as_dict() if history else None,
            "next_runs": [t.isoformat() for t in self.next_runs(full)],
            "suspended": str(state.suspended or ""),
            "failures": state.failures,
            "trouble": trouble_of(state),
            "fuse": str(state.blown or ""),
        }

    def next_runs(self, name: str, count: int = 3) -> Times:
        """When a stream table's schedule says that it runs next; nothing where commits of sources or readers decide."""
        when = self._engine.backing(self._name(name)).definition.when
        return next_runs(when, self._engine.now().timestamp(), count)

    def graph(self) -> Graph:
        """Who reads whom: order, readers, what lies up- and downstream; as a tree, as Mermaid and as DOT."""
        return self._engine.graph()

    def history(self, name: str | None = None, limit: int = 50) -> Records:
        """What past refreshes did, newest first."""
        return self._engine.catalog.history(self._name(name) if name is not None else None, limit)

    def refresh_timeline(self, since: datetime | timedelta | str = timedelta(days=1), name: str | None = None) -> Bars:
        """When refreshes worked, oldest first, to plot: `since` is a time, a length of time before now, or a text such as "2h"."""
        now = datetime.now(UTC)
        start = since_when(since, now) if isinstance(since, str) else now - since if isinstance(since, timedelta) else since
        full = self._name(name) if name is not None else None
        return bars_of(self._engine.catalog.history(full, LEDGER, start.astimezone(UTC).isoformat(timespec="milliseconds")), now)

    # -- schedule ------------------------------------------------------------------------------------------------------

    def start(self, *, workers: int | None = None, tell: Callable[[Event], None] = lambda event: None, background: bool = True) -> Daemon:
        """Keep stream tables fresh from a thread of this process: `with rn.start() as daemon: ...` drains it at the end.

        `tell` hears of every refresh, from several threads. Commits through `rn.sql` wake it at once. Without `background`, call
        `run()` of what is returned, which ends when another thread calls `drain()`.
        """
        daemon = Daemon(self._engine, workers, tell, self._sync)
        self._daemons = (*self._daemons, daemon)
        return daemon.start() if background else daemon

    def run_once(self, *, everything: bool = False, workers: int | None = None, tell: Callable[[Event], None] = lambda event: None) -> Report:
        """One tick, for orchestrators: what is due is refreshed at one cut. `everything` asks for all that is behind its sources."""
        self._sync()
        return Daemon(self._engine, workers, tell, self._sync).once(everything, self.settings.lock_wait_seconds)

    def next_tick(self, *, everything: bool = False) -> Tick:
        """What a tick would do now: what would run and why, and why the others would not. Nothing runs."""
        return next_tick(self._engine, everything)[2]

    def overview(self) -> Rows:
        """One line per stream table: schedule, staleness against it, what the next tick would do with it, trouble."""
        return overview(self._engine)

    def daemon(self) -> dict[str, Any] | None:
        """What the leading daemon says of itself: who it is, what it refreshes; None when none leads."""
        return leader(self._engine)

    def suspend(self, name: str, reason: str = "") -> None:
        """Keep the scheduler from refreshing a stream table until it is resumed; `refresh` still works."""
        operate.suspend(self._engine, self._name(name), reason)

    def resume(self, name: str | None = None) -> bool:
        """Let the scheduler try a suspended stream table again; without a name, end a pause. Whether there was something to resume."""
        return operate.resume(self._engine, self._name(name)) if name is not None else operate.unpause(self._engine)

    def pause(self) -> None:
        """Let no daemon start anything until `resume()`; what runs is finished."""
        operate.pause(self._engine)

    def drain(self, timeout: float = 60.0) -> None:
        """Pause, and wait until nothing runs."""
        operate.drain(self._engine, timeout)

    def gate_source(self, source: str, note: str = "") -> None:
        """Let scheduled refreshes read nothing new of a source, as while it is being loaded."""
        operate.gate_source(self._engine, self._name(source), note)

    def ungate_source(self, source: str) -> bool:
        return operate.ungate_source(self._engine, self._name(source))

    def gates(self) -> Rows:
        """The gated sources, with the stream tables that wait."""
        return operate.gates(self._engine)

    def advance_watermark(self, source: str, moment: datetime | str) -> bool:
        """Say up to which moment of its data a source is loaded; it never goes back. False when that was known."""
        return operate.advance_watermark(self._engine, self._name(source), moment)

    def create_watermark_group(self, name: str, sources: Names, tolerance: float | str = 0.0) -> None:
        """Let stream tables wait that read two or more of these sources while their watermarks are further apart."""
        operate.create_watermark_group(self._engine, name, [self._name(s) for s in sources], tolerance)

    def drop_watermark_group(self, name: str) -> None:
        operate.drop_watermark_group(self._engine, name)

    def watermarks(self) -> dict[str, Any]:
        """Watermarks, and groups with the reason why their readers wait."""
        return operate.watermarks(self._engine)

    def reset_fuse(self, name: str, verdict: str = "apply") -> None:
        """Decide about a change that blew a fuse: "apply", "reinitialise", or "skip" until a source commits again."""
        operate.reset_fuse(self._engine, self._name(name), verdict)

    def fuses(self) -> Rows:
        """The fuses that blew."""
        return operate.fuses(self._engine)

    # -- keep ------------------------------------------------------------------------------------------------------

    def repair(self) -> Names:
        """Rebuild the catalog from the backing tables; the names found."""
        found = manage.repair(self._engine, self._tables_folder)
        self._views.clear()
        self._sync()
        return found

    def close(self) -> None:
        """Let go of the catalog; the Spark session goes on. A daemon that was started is drained."""
        for daemon in self._daemons:
            daemon.stop()
        self._workers.close(0.0)
        self._engine.reader.close()
        self._engine.catalog.close()

    # -- inside ----------------------------------------------------------------------------------------------------

    @property
    def _home(self) -> Home:
        return Home(self.spark.catalog.currentCatalog(), self.spark.catalog.currentDatabase())

    @property
    def _tables_folder(self) -> str:
        return f"{self.folder}/_runnel/tables"

    def _name(self, name: str | tuple[str, ...]) -> str:
        parts = tuple(split_key(name)) if isinstance(name, str) else name
        if not 1 <= len(parts) <= 3 or not all(parts):
            raise DefinitionError(f'"{name}" is not a table name', code="NAME", hint="Use name, schema.name or catalog.schema.name.")
        return join_key(SparkLookup(self.spark, {}).qualify(parts))

    def _group_or_name(self, name: str) -> str:
        return name if name in self._engine.graph().groups else self._name(name)

    def _sync(self) -> None:
        """See what other processes made: tables in the folder, stream tables in the catalog."""
        with self._syncing:
            known, published = self._engine.known(), self._engine.catalog.published()
            if self._warehouse is not None:
                self._warehouse.sync({split_key(name)[-2] for name in known.entries})
            for name, entry in known.entries.items():
                version = published[name].version if name in published else None
                if self._views.get(name) != (entry.id, version):
                    view(self._engine, name, version)
                    self._views[name] = (entry.id, version)
            for name in self._views.keys() - known.entries.keys():
                drop_view(self.spark, split_key(name))
                del self._views[name]

    def _wake(self) -> None:
        for daemon in self._daemons:
            daemon.hurry()

    def _warn_of_strays(self) -> None:
        folder = self._tables_folder
        known = {os.path.basename(e.path) for e in self._engine.catalog.entries()}
        strays = sorted(set(os.listdir(folder)) - known) if os.path.isdir(folder) else []
        if strays:
            log.warning("%d backing tables are not in the catalog (%s); run `runnel repair` to take them up", len(strays), ", ".join(strays[:5]))

    def _spark_table(self, name: str) -> DataFrame:
        try:
            return self.spark.table(name)
        except PySparkException as error:
            raise translated(error) from error

    def _run(self, statement: Statement) -> DataFrame:
        name = statement.name
        match statement.verb:
            case "create":
                record = self.create(
                    ".".join(f"`{p}`" for p in name),
                    statement.query,
                    statement.mode or Mode.AUTO,
                    comment=statement.comment,
                    properties=statement.properties,
                    replace=statement.replace,
                    if_not_exists=statement.if_not_exists,
                    schedule=statement.schedule or "",
                )
                runs = {"next_runs": ", ".join(t.isoformat() for t in self.next_runs(self._name(name)))}
                return self._frame([_summary(record) | runs] if record else [], f"{_SUMMARY}, next_runs string")
            case "alter":
                if statement.add and (there := self._engine.backing(self._name(name)).definition.schedule):
                    raise DefinitionError(
                        f'"{".".join(name)}" has a schedule already',
                        code="SCHEDULE",
                        detail=f"It is {there}.",
                        hint="Use SET instead of ADD to replace it.",
                    )
                line = self.alter(
                    self._name(name),
                    mode=statement.mode,
                    properties=statement.properties,
                    query=statement.query or None,
                    schedule=statement.schedule,
                ).line()
                line["next_runs"] = ", ".join(t.isoformat() for t in self.next_runs(self._name(name)))
                return self._frame([line], "name string, mode string, effective string, reason string, schedule string, next_runs string")
            case "suspend" | "resume":
                self.suspend(self._name(name)) if statement.verb == "suspend" else self.resume(self._name(name))
                return self._frame([{"name": self._name(name), "verb": statement.verb}], "name string, verb string")
            case "refresh":
                return self._frame([_summary(self.refresh(self._name(name), full=statement.full))], _SUMMARY)
            case "drop":
                gone = self.drop(self._name(name), cascade=statement.cascade, if_exists=statement.if_exists)
                return self._frame([{"dropped": g} for g in gone], "dropped string")
            case "show":
                return self._frame(
                    self.list(),
                    "name string, mode string, effective string, reason string, sources string, created_at string, comment string, schedule string",
                )
            case "describe":
                status = self.status(self._name(name))
                return self._frame([{"property": k, "value": str(v)} for k, v in status.items()], "property string, value string")
            case _:
                return self._frame([{"plan": str(self.explain(self._name(name)))}], "plan string")

    def _frame(self, rows: Rows, schema: str) -> DataFrame:
        names = [part.strip().split(" ")[0] for part in schema.split(",")]
        return self.spark.createDataFrame([tuple(r.get(n) for n in names) for r in rows], schema)

    def _guard(self, text: str) -> tuple[str, str] | None:
        """Refuse statements that would write to a stream table or take away what one reads; (schema, name) of a dropped table."""
        if not WRITES.match(text):
            return None
        try:
            tree = parse_any(text, dialect="spark")
        except (SqlglotError, RecursionError):
            return None
        target = (
            tree.find(exp.Table)
            if isinstance(tree, exp.Insert | exp.Update | exp.Delete | exp.Merge | exp.TruncateTable | exp.Drop | exp.Alter | exp.Create)
            else None
        )
        if target is None or not isinstance(target.this, exp.Identifier):
            return None
        name = self._name(tuple(p.name for p in target.parts)) if len(target.parts) <= 3 else ""
        if self._engine.catalog.get(name) is not None:
            drops = isinstance(tree, exp.Drop)
            raise DefinitionError(
                f'"{name}" is a stream table and maintained by Runnel',
                code="MAINTAINED",
                detail="Its content follows from its query.",
                hint="Use DROP STREAM TABLE." if drops else "Write to its sources, or change its query with CREATE OR REPLACE STREAM TABLE.",
            )
        if isinstance(tree, exp.Drop) and str(tree.args.get("kind", "")).upper() == "TABLE":
            above = manage.readers(self._engine, name)
            if above:
                raise DefinitionError(
                    f'"{name}" is read by {", ".join(above)}',
                    code="HAS_READERS",
                    hint=f"Drop them first: {'; '.join(f'DROP STREAM TABLE {r}' for r in above)}.",
                )
            schema, table = split_key(name)[-2:]
            return schema, table
        return None


_SUMMARY = "stream_table string, action string, reason string, rows_in long, rows_out long, jobs int, ms double"


def _summary(record: RefreshRecord) -> dict[str, Any]:
    data = record.as_dict()
    return {**data, "action": str(record.action), "ms": float(record.ms)}


def _mode(mode: str) -> Mode:
    found = mode_of(mode)
    if found is None:
        raise DefinitionError(f"refresh mode {mode} does not exist", code="MODE", hint=f"Use one of {', '.join(Mode)}.")
    return found


def _schedule(text: str) -> str:
    """A schedule in the words that a definition keeps."""
    return str(parse_schedule(text)) if text.strip() else ""


def _check_rules(settings: Settings) -> None:
    known = dict.fromkeys((*(r.name for r in REWRITES), *(r.__name__ for r in RULES)))
    for name in settings.disabled_rules:
        if name not in known:
            raise DefinitionError(
                f'rule "{name}" does not exist', code="RULE", detail=f"Rules are {', '.join(known)}.", hint="Use one of the names above."
            )


def _folder(path: str) -> str:
    local = re.sub(r"^file:/+", "/", path)
    return local if "://" in local else os.path.abspath(local)


def _named(folder: str) -> str:
    """A folder whose files Spark finds by their names."""
    if PATTERNS.isdisjoint(folder):
        return folder
    raise EnvironmentProblem(
        f"the folder {folder} cannot be a warehouse",
        detail="Spark takes each of the characters {}[]*?\\ in a path for a part of a pattern, and would not find what lies there.",
        hint="Choose a folder without them: runnel.connect(warehouse=...) or --warehouse.",
    )


def _in_memory(spark: SparkSession) -> bool:
    return spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory"


__all__ = ["Runnel", "connect", "quarantine"]
