"""Commands of operation, which a running daemon hears: pause, resume, suspend, drain, gate, watermark, fuse. None starts Spark."""

from __future__ import annotations

from typing import Any

import typer

from runnel.cli.app import Options, app
from runnel.cli.connect import offline, short
from runnel.cli.show import grid, print_json, stdout


@app.command()
def pause(context: typer.Context) -> None:
    """Let no daemon start anything; what runs is finished."""
    with offline(context.obj) as rn:
        rn.pause()
    _said(context.obj, {"paused": True}, "paused; `runnel resume` goes on")


@app.command()
def resume(context: typer.Context, name: str = typer.Argument("", help="A suspended stream table; none ends a pause.")) -> None:
    """Go on after a pause, or try a suspended stream table again."""
    with offline(context.obj) as rn:
        done = rn.resume(name or None)
    what = name or "the scheduler"
    _said(
        context.obj,
        {"resumed": done},
        f"{what} goes on" if done else f"{what} was neither {'suspended nor in trouble' if name else 'paused nor drained'}",
    )


@app.command()
def suspend(context: typer.Context, name: str, reason: str = typer.Option("", help="Shown by status.")) -> None:
    """Keep the scheduler from refreshing a stream table."""
    with offline(context.obj) as rn:
        rn.suspend(name, reason)
    _said(context.obj, {"suspended": name}, f"{name} is suspended; `runnel resume {name}` goes on")


@app.command()
def drain(context: typer.Context, timeout: float = typer.Option(60.0, help="Seconds to wait.")) -> None:
    """Pause, and wait until nothing runs any more."""
    with offline(context.obj) as rn:
        rn.drain(timeout)
    _said(context.obj, {"drained": True}, "nothing runs; `runnel resume` goes on")


@app.command()
def gate(
    context: typer.Context,
    source: str = typer.Argument("", help="A source to gate; none shows the gates."),
    open_: bool = typer.Option(False, "--open", help="Open the gate again."),
    note: str = typer.Option("", help="Why, for others."),
) -> None:
    """Let scheduled refreshes read nothing new of a source, as while it is being loaded."""
    with offline(context.obj) as rn:
        if not source:
            found = rn.gates()
            _listed(context.obj, found, ["source", "since", "note", "readers"], "no source is gated")
            return
        if open_:
            was = rn.ungate_source(source)
            _said(context.obj, {"source": source, "gated": False, "was": was}, f"{source} is read again" if was else f"{source} was not gated")
            return
        rn.gate_source(source, note)
    _said(context.obj, {"source": source, "gated": True}, f"{source} is gated; `runnel gate {source} --open` goes on")


@app.command()
def watermark(
    context: typer.Context,
    source: str = typer.Argument("", help="A source; none shows watermarks and groups."),
    moment: str = typer.Argument("", help="Up to when it is loaded: 2026-01-31T12:00:00+00:00."),
    group: str = typer.Option("", help="With --with: keep sources together in a group of this name; alone: drop it with --drop."),
    others: list[str] = typer.Option([], "--with", metavar="SOURCE", help="A source of the group; repeatable."),
    tolerance: str = typer.Option("0s", help="How far sources of the group may be apart."),
    drop: bool = typer.Option(False, "--drop", help="Drop the group."),
) -> None:
    """Say how far a source is loaded, or keep sources together."""
    with offline(context.obj) as rn:
        if group and drop:
            rn.drop_watermark_group(group)
            _said(context.obj, {"dropped": group}, f"dropped watermark group {group}")
        elif group:
            rn.create_watermark_group(group, others, tolerance)
            _said(context.obj, {"group": group}, f"stream tables wait while {', '.join(others)} are more than {tolerance} apart")
        elif source and moment:
            moved = rn.advance_watermark(source, moment)
            _said(context.obj, {"source": source, "moment": moment, "moved": moved}, f"{source} is loaded up to {moment}")
        else:
            _show_watermarks(context.obj, rn.watermarks())


def _show_watermarks(options: Options, found: dict[str, Any]) -> None:
    if options.json:
        print_json(found)
        return
    _listed(options, found["watermarks"], ["source", "moment", "advanced_at"], "there are no watermarks yet")
    if found["groups"]:
        _listed(options, found["groups"], ["name", "sources", "tolerance_seconds", "aligned", "reason"], "")


@app.command()
def fuse(
    context: typer.Context,
    name: str = typer.Argument("", help="A stream table; none shows the fuses that blew."),
    verdict: str = typer.Argument("", help="apply, reinitialise, or skip until a source commits again."),
) -> None:
    """Decide about a change that blew a fuse."""
    with offline(context.obj) as rn:
        if not name:
            _listed(context.obj, rn.fuses(), ["stream_table", "rows", "ceiling", "at", "verdict"], "no fuse has blown")
            return
        if not verdict:
            raise typer.BadParameter("say apply, reinitialise or skip", param_hint="VERDICT")
        rn.reset_fuse(name, verdict)
    _said(context.obj, {"stream_table": name, "verdict": verdict}, f"{name}: {verdict} with the next tick")


def _said(options: Options, found: dict[str, Any], text: str) -> None:
    print_json(found) if options.json else stdout().print(text, highlight=False, soft_wrap=True)


def _listed(options: Options, rows: list[dict[str, Any]], columns: list[str], none: str) -> None:
    if options.json:
        print_json(rows)
    elif not rows:
        stdout().print(none, highlight=False)
    else:
        stdout().print(grid([c.replace("_", " ") for c in columns], [[_shown(row[c]) for c in columns] for row in rows]))


def _shown(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(short(str(v)) for v in value)
    return short(value) if isinstance(value, str) else value
