"""Commands that read and explain: query, explain, verify, status, graph, history, timeline, savings, list."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import typer

from runnel.cli.app import app
from runnel.cli.connect import connected, known, offline, opened_catalog
from runnel.cli.names import full_name, short
from runnel.cli.show import as_record, grid, plain, print_json, print_records, show_error, stdout
from runnel.definition import Definition
from runnel.observe.timeline import draw, since_when
from runnel.schedule.duration import show_duration
from runnel.schedule.graph import Graph


@app.command()
def query(
    context: typer.Context,
    statement: str = typer.Argument(..., help='"SELECT ...", or any statement of Spark or Runnel.'),
    limit: int = typer.Option(100, min=0, help="Rows to show."),
) -> None:
    """Run a statement and show its rows."""
    with connected(context.obj) as (rn, say):
        say("running")
        frame = rn.sql(statement)
        names = frame.columns
        rows = frame.take(limit + 1) if names else []
    more = len(rows) > limit
    rows = rows[:limit]
    if context.obj.json:
        print_json({"columns": names, "rows": [as_record(row) for row in rows], "more": more})
        return
    if not names:
        stdout().print("done", highlight=False)
        return
    if names == ["plan"] and len(rows) == 1:
        stdout().print(rows[0][0], soft_wrap=True, highlight=False, markup=False)
        return
    stdout().print(grid(names, [list(row) for row in rows]))
    stdout().print(f"{len(rows)} rows{', more with --limit' if more else ''}", style="dim", highlight=False)


@app.command()
def explain(
    context: typer.Context,
    name: str,
    at: str = typer.Option("", metavar="BORDER", help="One of definition, tree, canonical, layout, facts, decision, plan, reading, stages."),
    trace: bool = typer.Option(False, "--trace", help="Show the tree after each rule."),
    cost: bool = typer.Option(False, "--cost", help="Show what applying the changes and recomputing would cost, and what was measured."),
) -> None:
    """Show what the next refresh would do, and why."""
    known(context.obj, [name])
    if cost:
        with connected(context.obj) as (rn, _):
            costs = rn.explain_refresh_cost(name)
        print_json(costs.as_dict()) if context.obj.json else stdout().print(str(costs), soft_wrap=True, highlight=False, markup=False)
        return
    from runnel.execute.explain import BORDERS

    if at and at not in BORDERS:
        raise typer.BadParameter(f"{at!r} is not one of {', '.join(BORDERS)}", param_hint="--at")
    with connected(context.obj) as (rn, _):
        explanation = rn.explain(name, trace=trace)
    shown = explanation.as_dict() if not at else {"stream_table": explanation.stream_table, at: explanation.borders.get(at, "")}
    if context.obj.json:
        print_json(shown)
        return
    text = shown[at] or f"nothing: {explanation.borders.get('decision', '')}" if at else str(explanation)
    stdout().print(text, soft_wrap=True, highlight=False, markup=False)


@app.command()
def verify(context: typer.Context, names: list[str] = typer.Argument(None, help="Stream tables; none means all.")) -> None:
    """Compare stream tables with their queries run from scratch; exit code 1 when one differs."""
    chosen = known(context.obj, names or [])
    found = []
    with connected(context.obj) as (rn, say):
        for name in chosen:
            say(f"verifying {short(name)}")
            found.append(rn.verify(name))
    if context.obj.json:
        print_json([{k: getattr(v, k) for k in ("stream_table", "ok", "rows", "frontier", "missing", "extra")} for v in found])
    else:
        for verification in found:
            stdout().print(str(verification), style="green" if verification.ok else "red", soft_wrap=True, highlight=False, markup=False)
        if not found:
            stdout().print("there are no stream tables yet", highlight=False)
    if not all(v.ok for v in found):
        raise typer.Exit(1)


@app.command()
def status(
    context: typer.Context,
    name: str = typer.Argument("", help="A stream table; none means all."),
    watch: bool = typer.Option(False, "--watch", "-w", help="Show it again and again, until Ctrl-C."),
    every: float = typer.Option(2.0, min=0.2, help="Seconds between two looks with --watch."),
) -> None:
    """Show where stream tables stand: schedule, staleness against it, effective mode, trouble; of one also its frontier. Starts no Spark."""
    options = context.obj
    with offline(options) as rn:
        if name:
            found = rn.status(name)
            print_json(found) if options.json else _print_status(found)
            return
        if not watch:
            lines = rn.overview()
            print_json(lines) if options.json else stdout().print(_overview(lines, rn.daemon()))
            return
        _watch(rn, options.json, every)


def _watch(rn: Any, as_json: bool, every: float) -> None:
    """Look again and again: one screen for people, one JSON document a line for programs."""
    import json
    import time

    from rich.live import Live

    if as_json:
        while True:
            print(json.dumps(plain({"daemon": rn.daemon(), "stream_tables": rn.overview()})), flush=True)
            time.sleep(every)
    with Live(_overview(rn.overview(), rn.daemon()), console=stdout(), auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(_overview(rn.overview(), rn.daemon()), refresh=True)


def _overview(lines: list[dict[str, Any]], daemon: dict[str, Any] | None) -> Any:
    from rich.console import Group
    from rich.text import Text

    head = ["stream table", "schedule", "effective", "state", "behind", "last run (UTC)", "ms", "next, or why not"]
    rows = []
    for line in lines:
        state = "late" if line["late"] and line["status"] == "ACTIVE" else line["status"].lower()
        behind = "fresh" if line["fresh"] else show_duration(round(line["behind_seconds"]))
        last = (line["last_run"] or "")[:19].replace("T", " ")
        schedule = line["schedule"].removeprefix("SCHEDULE ") + (f" ({line['tier']})" if line["tier"] != "hot" else "")
        schedule += f" x{line['backoff']}" if line["backoff"] > 1 else ""
        why = line["waiting"] or line["next"] or (f"at {line['next_at'][:16].replace('T', ' ')}" if line["next_at"] else "")
        rows.append([short(line["name"]), schedule, line["effective"], state, behind, last, round(line["last_ms"]), why])
    if daemon is None:
        said = "no daemon runs; start one with `runnel run`"
    else:
        work = ", ".join(map(short, daemon.get("running", ()))) or "nothing"
        said = f"daemon {daemon['owner']}{' (paused)' if daemon.get('paused') else ''} is refreshing {work}"
    return Group(grid(head, rows), Text(said, style="dim"))


def _print_status(found: dict[str, Any]) -> None:
    last = found.pop("last_refresh")
    sources, warnings, trouble = found.pop("sources"), found.pop("warnings"), found.pop("trouble")
    found["next_runs"] = ", ".join(found["next_runs"])
    found["fresh"] = "yes" if found["fresh"] else "no"
    facts = [[k.replace("_", " "), v] for k, v in found.items() if v not in ("", None)]
    if last:
        facts.append(["last refresh", f"{last['action']} ({last['reason']}), {last['started_at']}, {last['ms']:.0f} ms"])
    stdout().print(grid(["", ""], facts, header=False))
    stdout().print(
        grid(["source", "frontier", "latest", "since then"], [[short(s["source"]), s["frontier"], s["latest"], s["since"]] for s in sources])
    )
    if trouble:
        show_error(trouble, found["name"])
    for warning in warnings:
        stdout().print(f"warning: {warning}", style="yellow", soft_wrap=True, highlight=False)


class Form(StrEnum):
    """How a graph is written."""

    TREE = "tree"
    MERMAID = "mermaid"
    DOT = "dot"


@app.command()
def graph(
    context: typer.Context,
    name: str = typer.Argument("", help="A stream table: only what it reads. None means all."),
    form: Form = typer.Option(Form.TREE, "--format", help="tree, mermaid or dot."),
) -> None:
    """Show who reads whom."""
    chosen = [full_name(name)] if name else []
    if name:
        known(context.obj, [name])
    with opened_catalog(context.obj) as catalog:
        found = Graph({e.name: Definition.from_dict(e.definition).source_keys for e in catalog.entries()})
    if chosen:
        kept = {*chosen, *found.upstream(chosen[0])}
        found = Graph({n: s for n, s in found.reads.items() if n in kept})
    if context.obj.json:
        units = [{"members": u.members, "cyclic": u.cyclic} for u in found.units]
        print_json({"reads": found.reads, "plain": found.plain, "order": found.order, "units": units})
        return
    match form:
        case Form.MERMAID:
            text = found.mermaid()
        case Form.DOT:
            text = found.dot()
        case Form.TREE:
            ends = chosen or [n for n in found.order if not found.readers.get(n)]
            text = "\n".join(map(found.tree, ends)) or "there are no stream tables yet"
    print(text)


@app.command()
def history(
    context: typer.Context,
    name: str = typer.Argument("", help="A stream table; none means all."),
    limit: int = typer.Option(20, min=1, help="Records to show, newest first."),
) -> None:
    """Show what past refreshes did."""
    if name:
        known(context.obj, [name])
    with opened_catalog(context.obj) as catalog:
        records = catalog.history(full_name(name) if name else None, limit)
    if context.obj.json:
        print_json([r.as_dict() for r in records])
        return
    if not records:
        stdout().print("there are no refreshes yet", highlight=False)
        return
    print_records(records, started=True)


@app.command()
def timeline(
    context: typer.Context,
    name: str = typer.Argument("", help="A stream table; none means all."),
    since: str = typer.Option("1d", help="How far back: 30m, 2h, 7d, or a time such as 2026-01-31T12:00 (UTC)."),
    width: int = typer.Option(0, min=0, help="Characters to a line; 0 takes the terminal's."),
) -> None:
    """Show when refreshes ran, as bars along the clock. Starts no Spark."""
    if name:
        known(context.obj, [name])
    now = datetime.now(UTC)
    start = since_when(since, now)
    with offline(context.obj) as rn:
        bars = rn.refresh_timeline(start, name or None)
    if context.obj.json:
        print_json([bar.as_dict() for bar in bars])
        return
    shown = [replace(bar, stream_table=short(bar.stream_table)) for bar in bars]
    print(draw(shown, start, now, width or shutil.get_terminal_size((120, 24)).columns))


@app.command()
def savings(context: typer.Context, name: str = typer.Argument("", help="A stream table; none means all.")) -> None:
    """Show what refreshes cost against recomputing."""
    with offline(context.obj) as rn:
        ledgers = rn.savings(name or None)
    if context.obj.json:
        print_json([ledger.as_dict() for ledger in ledgers])
        return
    if not ledgers:
        stdout().print("there are no refreshes yet", highlight=False)
        return
    head = ["stream table", "refreshes", "differential", "full", "no data", "rows in", "rows out", "MB read", "MB written", "executor s", "took s"]
    rows = [
        [short(x.stream_table), x.refreshes, x.differential, x.full, x.no_data, x.rows_in, x.rows_out]
        + [round(n / d, 1) for n, d in ((x.bytes_read, 1 << 20), (x.bytes_written, 1 << 20), (x.executor_ms, 1000), (x.ms, 1000))]
        + [round(x.recompute_ms / 1000, 1), round(x.saved_ms / 1000, 1)]
        for x in ledgers
    ]
    stdout().print(grid([*head, "recompute s", "saved s"], rows))


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the stream tables."""
    with opened_catalog(context.obj) as catalog:
        lines = [Definition.from_dict(e.definition).line() for e in catalog.entries()]
    if context.obj.json:
        print_json(lines)
        return
    if not lines:
        stdout().print("there are no stream tables yet", highlight=False)
        return
    head = ["stream table", "mode", "effective", "sources", "why", "comment"]
    used = [i for i, _ in enumerate(head) if i < 4 or any(_list_row(found)[i] for found in lines)]
    stdout().print(grid([head[i] for i in used], [[_list_row(found)[i] for i in used] for found in lines]))


def _list_row(found: dict[str, Any]) -> list[str]:
    sources = ", ".join(short(s) for s in found["sources"].split(", "))
    return [short(found["name"]), found["mode"], found["effective"], sources, found["reason"], found["comment"]]
