"""Commands that say what exists: init, create, alter, drop."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from runnel.bind.script import pieces
from runnel.cli.app import Options, app, in_project
from runnel.cli.connect import connected, known, offline
from runnel.cli.show import as_record, grid, print_json, print_records, print_runs, stdout
from runnel.errors import DefinitionError
from runnel.project.folder import FILE, TEMPLATE, Project, load
from runnel.project.pipeline_spec import FILES
from runnel.state import Catalog

WHEN = "When it is refreshed: 5m, @hourly, '0 3 * * *', 'on update at most every 1m', 'target_lag 10m', or as in SQL."
MODES = "AUTO, DIFFERENTIAL (or INCREMENTAL), STRICT (or INCREMENTAL STRICT) or FULL."


@app.command()
def init(
    context: typer.Context,
    folder: Path = typer.Argument(None, help="Folder of the project; default: this one. With --warehouse and no folder, only the warehouse is made."),
) -> None:
    """Make a project: a runnel.toml, a folder for SQL, and the warehouse."""
    options: Options = context.obj
    project = None if options.named and folder is None else _project(folder or Path.cwd())
    if project is not None:
        options = in_project(options, project)
    made = not os.path.isdir(options.folder)
    _make(options.folder)
    Catalog.open(options.catalog_url).close()
    if options.json:
        print_json({"warehouse": options.folder, "created": made, **({"project": str(project.file)} if project else {})})
        return
    out = stdout()
    if project is not None:
        out.print(f"project {project.file}", soft_wrap=True, highlight=False)
    out.print(f"{'made' if made else 'found'} the warehouse {options.folder}", soft_wrap=True, highlight=False)
    out.print("next:", style="dim")
    for line in (
        'runnel query "CREATE TABLE orders (id INT, customer STRING, amount DECIMAL(10,2)) USING delta"',
        "runnel query \"INSERT INTO orders VALUES (1, 'ada', 12.50), (2, 'bob', 8.00)\"",
        'runnel create totals "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"',
        'runnel query "SELECT * FROM totals"',
    ):
        out.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)
    if project is not None:
        out.print("or write definitions into files of the folder sql, and run `runnel apply`", style="dim", highlight=False)


def _project(folder: Path) -> Project:
    """The project in a folder, made where there is none."""
    found = next((folder / name for name in (FILE, *FILES) if (folder / name).is_file()), None)
    if found is None:
        _make(str(folder / "sql"))
        found = folder / FILE
        found.write_text(TEMPLATE)
    return load(found)


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise DefinitionError(f"cannot make {folder}", code="WAREHOUSE", detail=f"{error.strerror}.", hint="Name another folder.") from error


@app.command()
def create(
    context: typer.Context,
    name: str = typer.Argument("", help="Name, schema.name or catalog.schema.name."),
    query: str = typer.Argument("", help='"SELECT ..."'),
    mode: str = typer.Option("AUTO", help=MODES),
    comment: str = typer.Option("", help="A line about the stream table."),
    replace: bool = typer.Option(False, "--replace", help="Replace a stream table of this name."),
    if_not_exists: bool = typer.Option(False, "--if-not-exists", help="Leave a stream table of this name alone."),
    schedule: str = typer.Option("", help=WHEN),
    file: Path = typer.Option(None, "--file", "-f", exists=True, dir_okay=False, help="A file of statements, such as CREATE STREAM TABLE."),
) -> None:
    """Define a stream table and load it."""
    if (file is None) != bool(name and query):
        raise typer.BadParameter('give NAME "SELECT ..." or --file, not both', param_hint="NAME QUERY")
    if replace and if_not_exists:
        raise typer.BadParameter("--replace and --if-not-exists exclude each other")
    if file is not None:
        _run_file(context.obj, file)
        return
    with connected(context.obj) as (rn, say):
        say(f"loading {name}")
        record = rn.create(name, query, mode, comment=comment, replace=replace, if_not_exists=if_not_exists, schedule=schedule)
        runs = rn.next_runs(name)
        shown = record.as_dict() if record else {"stream_table": rn._name(name), "created": False, "reason": "it exists already"}
    if context.obj.json:
        print_json(shown | {"next_runs": runs})
        return
    if record is None:
        stdout().print(f"{shown['stream_table']} exists already", highlight=False)
        return
    print_records([record])
    print_runs(runs)


def _run_file(options: Options, file: Path) -> None:
    results: list[dict[str, Any]] = []
    with connected(options) as (rn, say):
        for number, piece in enumerate(pieces(file.read_text()), 1):
            say(f"{file.name}, statement {number}")
            frame = rn.sql(piece.text)
            results.append({"statement": piece.text, "rows": [as_record(row) for row in frame.take(100)]})
    if options.json:
        print_json(results)
        return
    for result in results:
        stdout().print(" ".join(result["statement"].split())[:100], style="dim", highlight=False, markup=False)
        if result["rows"]:
            stdout().print(grid(list(result["rows"][0]), [list(r.values()) for r in result["rows"]]))


@app.command()
def alter(
    context: typer.Context,
    name: str,
    mode: str = typer.Option("", help=MODES),
    schedule: str = typer.Option(None, help=f"{WHEN} Empty drops it."),
    property_: list[str] = typer.Option(
        [], "--property", metavar="KEY=VALUE", help="A property, such as runnel.differential_ceiling=0.3; repeatable."
    ),
) -> None:
    """Change how a stream table is refreshed."""
    if (not mode and not property_ and schedule is None) or any("=" not in p for p in property_):
        raise typer.BadParameter("give --mode MODE, --schedule WHEN, or --property KEY=VALUE")
    with offline(context.obj) as rn:
        definition = rn.alter(name, mode=mode or None, properties=dict(p.split("=", 1) for p in property_), schedule=schedule)
        runs = rn.next_runs(name)
    if context.obj.json:
        print_json(definition.line() | {"next_runs": runs})
        return
    stdout().print(
        f"{definition.name}: refresh mode is {definition.mode}{f', {definition.schedule}' if definition.schedule else ''}", highlight=False
    )
    print_runs(runs)


@app.command()
def drop(
    context: typer.Context,
    name: str,
    cascade: bool = typer.Option(False, "--cascade", help="Drop the stream tables that read it, too."),
    if_exists: bool = typer.Option(False, "--if-exists", help="No error when it does not exist."),
) -> None:
    """Remove a stream table; its sources stay."""
    known(context.obj, [] if if_exists else [name])
    with connected(context.obj) as (rn, _):
        gone = rn.drop(name, cascade=cascade, if_exists=if_exists)
    if context.obj.json:
        print_json({"dropped": gone})
        return
    stdout().print("\n".join(f"dropped {g}" for g in gone) or "nothing to drop", highlight=False)
