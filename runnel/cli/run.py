"""Commands that bring stream tables up to date and keep their files in order: refresh, compact, vacuum, repair."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from runnel.cli.app import Options, app
from runnel.cli.connect import check_folder, connected, known, offline
from runnel.cli.names import short
from runnel.cli.show import print_json, print_records, show_error, stdout
from runnel.definition import Definition
from runnel.observe.record import RefreshRecord
from runnel.project.pipeline import Result

if TYPE_CHECKING:
    from runnel.api import Runnel


@app.command()
def refresh(
    context: typer.Context,
    names: list[str] = typer.Argument(None, help="Stream tables; none means all."),
    full: bool = typer.Option(False, "--full", help="Recompute instead of applying changes."),
) -> None:
    """Bring stream tables up to their sources, sources before readers."""
    options: Options = context.obj
    chosen = known(options, names or [])
    if not chosen:
        print_json([]) if options.json else stdout().print("there are no stream tables yet", highlight=False)
        return
    with connected(options) as (rn, say):
        results = refresh_all(rn, chosen, full, say)
    print_results(results, options.json)


def print_results(results: Sequence[Result], as_json: bool) -> None:
    """Records in a table and errors below; exit code 1 when there are errors."""
    if as_json:
        print_json([r.as_dict() if isinstance(r, RefreshRecord) else r for r in results])
    else:
        print_records([r for r in results if isinstance(r, RefreshRecord)])
        for result in results:
            if not isinstance(result, RefreshRecord):
                show_error(result["error"], result["stream_table"])
    if any(not isinstance(r, RefreshRecord) for r in results):
        raise typer.Exit(1)


def refresh_all(rn: Runnel, definitions: Mapping[str, Definition], full: bool, say: Callable[[str], None]) -> list[RefreshRecord | dict[str, Any]]:
    """One result per stream table: its record or its error, all at one cut. A reader of one that failed is left as it is.

    Those that are refreshed together with a chosen one are refreshed too.
    """
    if len(definitions) == 1:
        (name,) = definitions
        say(f"refreshing {short(name)}")
        return [rn.refresh(name, full=full)]
    found = rn.refresh_all(full=full, names=list(definitions), say=lambda unit: say(f"refreshing {', '.join(map(short, unit.members))}"))
    return [r if isinstance(r, RefreshRecord) else r.as_dict() for r in found]


@app.command()
def compact(context: typer.Context, names: list[str] = typer.Argument(None, help="Stream tables; none means all.")) -> None:
    """Fold what refreshes appended into the base, for faster reads."""
    chosen = known(context.obj, names or [])
    done: list[dict[str, Any]] = []
    with connected(context.obj) as (rn, say):
        for name in chosen:
            say(f"compacting {short(name)}")
            done.append({"stream_table": name, "version": rn.compact(name)})
    if context.obj.json:
        print_json(done)
        return
    stdout().print(
        "\n".join(f"{short(d['stream_table'])}: compacted in version {d['version']}" for d in done) or "there are no stream tables yet",
        highlight=False,
    )


@app.command()
def vacuum(
    context: typer.Context,
    names: list[str] = typer.Argument(None, help="Stream tables; none means all."),
    hours: float = typer.Option(None, help="How long files that were replaced are kept; the setting vacuum_hours by default."),
) -> None:
    """Remove old files that nobody can need any more. Starts no Spark."""
    options: Options = context.obj
    with offline(options) as rn:
        done = [rn.vacuum(name, hours=hours) for name in known(options, names or [])]
    if options.json:
        print_json([asdict(d) for d in done])
    else:
        stdout().print("\n".join(map(str, done)) or "there are no stream tables yet", highlight=False)


@app.command()
def repair(context: typer.Context) -> None:
    """Rebuild the catalog from the backing tables."""
    from runnel.state import quarantine

    check_folder(context.obj)
    aside = quarantine(context.obj.catalog_url)
    with offline(context.obj) as rn:
        found = rn.repair()
    if context.obj.json:
        print_json({"found": found, "put_aside": aside})
        return
    if aside:
        stdout().print(f"put the damaged catalog aside as {aside}", highlight=False, soft_wrap=True)
    stdout().print(
        f"the catalog holds {len(found)} stream tables{': ' if found else ''}{', '.join(map(short, found))}", highlight=False, soft_wrap=True
    )
