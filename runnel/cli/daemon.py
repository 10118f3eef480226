"""The command that keeps stream tables fresh: run."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from runnel.cli.app import Options, app
from runnel.cli.connect import connected, offline, short
from runnel.cli.show import print_json, print_records, show_error, stdout
from runnel.schedule.daemon import Event

if TYPE_CHECKING:
    from runnel.execute.daemon import Daemon, Report


@app.command()
def run(
    context: typer.Context,
    once: bool = typer.Option(False, "--once", help="One tick: refresh what is due, then end. Exit code 1 when something failed."),
    everything: bool = typer.Option(False, "--all", help="With --once: all that is behind its sources, whatever schedules say."),
    workers: int = typer.Option(None, min=1, help="Refreshes at once; the setting `workers` by default."),
    dry_run: bool = typer.Option(False, "--dry-run", help="With --once: show what would run, and why the others would not."),
) -> None:
    """Keep stream tables fresh by their schedules. Ctrl-C finishes what runs; a second one stops at once."""
    options: Options = context.obj
    if (everything or dry_run) and not once:
        raise typer.BadParameter("give it with --once", param_hint="--all" if everything else "--dry-run")
    if once and not _is_due(options, everything, dry_run):
        return
    with connected(options) as (rn, say):
        if once:
            report = rn.run_once(everything=everything, workers=workers, tell=lambda event: say(_line(event)))
            say("")
            _show_report(report, options.json)
            if not report.ok:
                raise typer.Exit(1)
            return
        say("")
        daemon = rn.start(workers=workers, tell=_printer(options.json), background=False)
        with _interrupts(daemon):
            daemon.run()


def _is_due(options: Options, everything: bool, dry_run: bool) -> bool:
    """Whether a tick would run something; asked without Spark, which takes longer to start than to find nothing to do."""
    from runnel.execute.daemon import Report

    with offline(options) as rn:
        tick = rn.next_tick(everything=everything)
    if not dry_run:
        if not tick.runs:
            _show_report(Report(waiting=tick.waiting), options.json)
        return bool(tick.runs)
    if options.json:
        print_json({"run": [{"unit": r.unit.members, "reasons": r.reasons, "full": r.full} for r in tick.runs], "waiting": tick.waiting})
    else:
        stdout().print(str(tick), highlight=False, markup=False, soft_wrap=True)
    return False


def _printer(as_json: bool) -> Callable[[Event], None]:
    """A line for each event: words for people, one JSON document a line for programs. Workers print too."""
    lock = threading.Lock()

    def tell(event: Event) -> None:
        with lock:
            if as_json:
                print_json_line(event)
            else:
                stdout().print(
                    f"{datetime.now():%H:%M:%S} {_line(event)}", style=STYLES.get(event.kind, ""), highlight=False, markup=False, soft_wrap=True
                )
            sys.stdout.flush()

    return tell


STYLES = {"failed": "yellow", "suspended": "red", "blown": "red", "skipped": "yellow", "standby": "dim", "leading": "dim", "compacted": "dim"}


def print_json_line(event: Event) -> None:
    import json

    from runnel.cli.show import plain

    found: dict[str, Any] = {"event": event.kind, "stream_table": event.stream_table or None, "text": event.text}
    if event.record is not None:
        found["record"] = event.record.as_dict()
    if event.trouble is not None:
        found["error"] = {"code": event.trouble.code, "message": event.trouble.message, "detail": event.trouble.detail, "hint": event.trouble.hint}
    print(json.dumps(plain(found)))


def _line(event: Event) -> str:
    name = short(event.stream_table)
    match event.kind:
        case "refreshed" if event.record is not None:
            r = event.record
            counts = f"{'?' if r.rows_in is None else f'{r.rows_in:,}'} in, {'?' if r.rows_out is None else f'{r.rows_out:,}'} out"
            return f"{name}  {r.action}  {r.reason}  {counts}  {r.ms:.0f} ms"
        case "failed" | "suspended" if event.trouble is not None:
            remedy = f"; then: runnel resume {name}" if event.kind == "suspended" else ""
            return f"{name}  {event.kind.upper()}  {event.trouble}  ({event.text}) {event.trouble.hint}{remedy}".rstrip()
        case "blown":
            return f"{name}  FUSE  {event.text}; decide: runnel fuse {name} apply|reinitialise|skip"
        case "leading":
            return "this daemon leads"
        case "standby":
            return f"standing by: {event.text}"
        case "compacted":
            return f"{name}  compacted"
        case _:
            return f"{name}  {event.kind.upper()}  {event.text}"


def _show_report(report: Report, as_json: bool) -> None:
    if as_json:
        print_json(report.as_dict())
        return
    if report.records:
        print_records(report.records)
    for name, trouble in report.troubles.items():
        show_error({"code": trouble.code, "message": trouble.message, "detail": trouble.detail, "hint": trouble.hint}, name)
    for name, text in {**report.blown, **report.skipped}.items():
        stdout().print(f"{short(name)}: {text}", style="yellow", highlight=False, soft_wrap=True)
    for name, why in report.waiting.items():
        stdout().print(f"{short(name)}: {why}", style="dim", highlight=False, soft_wrap=True)
    if not report.records and report.ok:
        stdout().print("nothing is due", highlight=False)


@contextmanager
def _interrupts(daemon: Daemon) -> Iterator[None]:
    """The first interrupt drains, the second one ends the process: what is half done was not committed."""
    asked = False

    def interrupted(number: int, frame: object) -> None:
        nonlocal asked
        if asked:
            os._exit(130)
        asked = True
        print("finishing what runs; once more stops at once", file=sys.stderr, flush=True)
        daemon.drain()

    before = {n: signal.signal(n, interrupted) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
