"""Commands about definitions in files: apply, export, check, pipeline."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from runnel.cli import names
from runnel.cli.app import Options, app, in_project
from runnel.cli.connect import connected, known, offline, opened_catalog, progress, spark_to_file, use
from runnel.cli.names import short
from runnel.cli.run import print_results
from runnel.cli.show import grid, print_json, show_error, stdout
from runnel.definition import Definition
from runnel.errors import DefinitionError, RunnelError
from runnel.project import lock
from runnel.project.apply import Done
from runnel.project.apply import apply as carry_out
from runnel.project.declare import Declarations, declarations, sql_files
from runnel.project.export import export as as_sql
from runnel.project.folder import load
from runnel.project.pipeline import Selection, refresh_in_order
from runnel.project.plan import Plan, Step, Verb, plan

if TYPE_CHECKING:
    from runnel.api import Runnel
    from runnel.project.check import Report


@app.command()
def apply(
    context: typer.Context,
    paths: list[Path] = typer.Argument(None, help="Files or folders of SQL; none means those of the project."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show what would be done, and do nothing. Starts no Spark."),
    prune: bool = typer.Option(False, "--prune", help="Drop stream tables that no file defines."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Prune without asking."),
) -> None:
    """Make stream tables as SQL files define them; what is already so is left alone."""
    options: Options = context.obj
    chosen = _plan(options, _declared(options, paths or []), prune)
    if dry_run:
        _print_plan(chosen, options.json)
        return
    if gone := chosen.of(Verb.PRUNE):
        _confirm([short(step.name) for step in gone], yes, options.json)
    done: list[Done] = []
    if not chosen.empty:
        done = _carried_out(options, chosen)
    if options.json:
        print_json([d.as_dict() for d in done])
        return
    if not chosen.steps:
        stdout().print("no file defines anything", highlight=False)
        return
    _print_done(done)
    unchanged = sum(step.declared is not None for step in chosen.of(Verb.UNCHANGED))
    stdout().print(f"{len(done)} done, {unchanged} unchanged", style="dim", highlight=False)


def _carried_out(options: Options, chosen: Plan) -> list[Done]:
    """Carry out a plan; what was done before an error is shown. Options alone are altered without Spark."""
    if all(step.verb is Verb.ALTER for step in chosen.steps if step.acts):
        with offline(options) as rn:
            return carry_out(rn, chosen)
    with connected(options, make=True) as (rn, say):
        try:
            return carry_out(rn, chosen, _telling(say))
        except RunnelError as error:
            if not options.json:
                say("")
                _print_done(error.values.pop("done", []))
            raise


def _declared(options: Options, paths: list[Path]) -> Declarations:
    if paths:
        only_batch = options.project.only_batch if options.project else False
        return declarations(sql_files(paths), options.home, only_batch=only_batch)
    if options.project is None:
        raise DefinitionError(
            "there is no project here", code="PROJECT_NOT_FOUND", hint="Name files or folders of SQL, or make a project with `runnel init`."
        )
    return options.project.declarations()


def _plan(options: Options, wanted: Declarations, prune: bool = False) -> Plan:
    return plan(wanted, _existing(options), prune, _present(options), options.project.defaults if options.project else {})


def _existing(options: Options) -> dict[str, Definition]:
    """The stream tables of the catalog; none where there is no warehouse yet."""
    if options.catalog is None and not os.path.isdir(options.folder):
        return {}
    os.makedirs(options.folder, exist_ok=True)
    with opened_catalog(options) as catalog:
        return {e.name: Definition.from_dict(e.definition) for e in catalog.entries() if not e.name.endswith("__building")}


def _present(options: Options) -> set[str]:
    """The Delta tables in the warehouse folder, which is the catalog of an embedded session."""
    from runnel.tables.warehouse import tables_in

    return {f"spark_catalog.{schema}.{table}" for schema, table in tables_in(options.folder)}


def _confirm(gone: list[str], yes: bool, as_json: bool) -> None:
    if yes:
        return
    if as_json:
        raise DefinitionError(f"would drop {', '.join(gone)}", code="NOT_CONFIRMED", hint="Repeat it with --yes.")
    typer.confirm(f"drop {', '.join(gone)}?", abort=True, err=True)


def _print_plan(chosen: Plan, as_json: bool) -> None:
    if as_json:
        print_json([step.as_dict() for step in chosen.steps])
        return
    rows = [[str(s.verb), short(s.name), s.why, _place(s.as_dict())] for s in chosen.steps]
    stdout().print(grid(["step", "table", "why", "place"], rows) if rows else "no file defines anything", highlight=False)


def _telling(say: Callable[[str], None]) -> Callable[[Step], None]:
    return lambda step: say(f"{step.verb} {short(step.name)}")


def _place(step: dict[str, Any]) -> str:
    return f"{step['file']}:{step['line']}" if step["file"] else ""


def _print_done(done: list[Done]) -> None:
    if done:
        rows = [
            [str(d.step.verb), short(d.step.name), d.step.why, d.record.rows_out if d.record else "", round(d.record.ms) if d.record else ""]
            for d in done
        ]
        stdout().print(grid(["step", "table", "why", "rows", "ms"], rows))


@app.command()
def export(
    context: typer.Context,
    tables: list[str] = typer.Argument(None, metavar="[NAMES]...", help="Stream tables; none means all."),
    output: Path = typer.Option(None, "--output", "-o", help="A file to write; default: standard output."),
) -> None:
    """Write definitions as SQL that makes them again. Starts no Spark."""
    options: Options = context.obj
    chosen = known(options, tables or [])
    every = known(options, [])
    text = as_sql(every, chosen, options.home)
    if output is not None:
        try:
            output.write_text(text)
        except OSError as error:
            raise DefinitionError(
                f"cannot write {output}", code="FILE_NOT_WRITABLE", detail=f"{error.strerror}.", hint="Name another file."
            ) from error
    if options.json:
        print_json([{"name": name, "sql": as_sql(every, [name], options.home)} for name in chosen])
    elif output is None:
        print(text, end="")


@app.command()
def check(
    context: typer.Context,
    update: bool = typer.Option(False, "--update", help="Write runnel.lock anew."),
) -> None:
    """For CI: fail when a definition is wrong, would be recomputed, or is maintained otherwise than runnel.lock says. Reads no data."""
    from runnel.project.check import Report, compared, recomputed

    options: Options = context.obj
    wanted = _declared(options, [])
    assert options.project is not None
    report = _checked(options, wanted)
    file = options.project.lock
    if update and not any(f.kind == "error" for f in report.findings):
        file.write_text(lock.write(report.classes))
    elif not update:
        report = compared(report, lock.read(file))
    stray = {n: lock.Classification.of(d) for n, d in _existing(options).items() if n not in report.classes}
    full = [recomputed(n, c) for n, c in sorted(stray.items()) if c.silently_full]
    report = Report(report.classes, (*report.findings, *full))
    _print_report(report, options)
    if not report.ok:
        raise typer.Exit(1)


def _checked(options: Options, wanted: Declarations) -> Report:
    """The check, in a session whose new tables go to a folder that is removed afterwards."""
    from runnel.project.check import Report
    from runnel.project.check import check as bind_all

    assert options.project is not None
    if not wanted.stream_tables:
        return Report({}, ())
    with progress() as say, tempfile.TemporaryDirectory(prefix="runnel-check-") as scratch, _scratch_session(options, scratch, say) as spark:
        return bind_all(spark, options.loaded_settings(), wanted, options.project.defaults, say)


@contextmanager
def _scratch_session(options: Options, scratch: str, say: Any) -> Iterator[Any]:
    """Spark over an empty folder, with the tables of the warehouse known by their place: their columns count, their rows do not."""
    say("loading Spark")
    from runnel.execute import session
    from runnel.tables.content import quote
    from runnel.tables.warehouse import Warehouse

    with spark_to_file(options.debug):
        spark = session.embedded(scratch, say, options.config)
    Warehouse(spark, options.folder).sync()
    before = spark.catalog.currentDatabase()
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(options.home.schema)}")
    spark.catalog.setCurrentDatabase(options.home.schema)
    try:
        yield spark
    finally:
        spark.catalog.setCurrentDatabase(before)


def _print_report(report: Report, options: Options) -> None:
    if options.json:
        classes = {name: asdict(found) for name, found in report.classes.items()}
        print_json({"ok": report.ok, "definitions": classes, "problems": [f.as_dict() for f in report.findings]})
        return
    rows = [
        [short(n), "DIFFERENTIAL" if c.incremental and c.mode != "FULL" else "FULL", c.layout, ", ".join(c.aggregates), c.reason]
        for n, c in report.classes.items()
    ]
    if rows:
        stdout().print(grid(["stream table", "effective", "layout", "aggregates", "why"], rows))
    for finding in report.findings:
        if finding.error is not None:
            show_error(finding.error, finding.name)
        else:
            place = f" ({finding.place})" if finding.place else ""
            shown = finding.message.replace(finding.name, short(finding.name), 1)
            message = f"{short(finding.name)}: {shown}" if finding.kind != "lock" else f"runnel.lock: {shown}"
            stdout().print(f"{message}{place}", style="red", soft_wrap=True, highlight=False, markup=False)
    if any(f.kind == "lock" for f in report.findings):
        stdout().print("run `runnel check --update` if that is meant, and commit runnel.lock", style="dim", highlight=False)
    if report.ok:
        stdout().print(f"{len(report.classes)} definitions are fine", style="green", highlight=False)


pipeline = typer.Typer(no_args_is_help=True, help="Run the project in the words of Spark Declarative Pipelines.")
app.add_typer(pipeline, name="pipeline")

SPEC = typer.Option(None, "--spec", exists=True, dir_okay=False, help="A spark-pipeline.yml or runnel.toml; default: the project's.")


@pipeline.command()
def run(
    context: typer.Context,
    spec: Path = SPEC,
    refresh: list[str] = typer.Option([], "--refresh", metavar="NAMES", help="Tables to update, with commas between."),
    full_refresh: list[str] = typer.Option([], "--full-refresh", metavar="NAMES", help="Tables to compute anew, with commas between."),
    full_refresh_all: bool = typer.Option(False, "--full-refresh-all", help="Compute all tables anew."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only check the definitions."),
    remote: str = typer.Option("", "--remote", metavar="URL", help="A Spark Connect server, as in sc://host:15002."),
) -> None:
    """Apply the project and refresh its tables, those that are read before their readers."""
    options = _with_spec(context.obj, spec)
    selection = Selection.of(refresh, full_refresh, full_refresh_all)
    wanted = _declared(options, [])
    chosen = selection.chosen([d.name for d in wanted.stream_tables], options.home)
    if dry_run:
        _dry_run(options, wanted)
        return
    if not chosen:
        print_json([]) if options.json else stdout().print("no file defines a table", highlight=False)
        return
    with _connected(options, remote) as (rn, say):
        done = carry_out(rn, plan(wanted, rn._engine.definitions(), defaults=options.project.defaults if options.project else {}), _telling(say))
        loaded = {d.step.name: d.record for d in done if d.record is not None}
        definitions = {n: d for n, d in rn._engine.definitions().items() if n in chosen and n not in loaded}
        anew = {name for name, full in chosen.items() if full}
        results = refresh_in_order(lambda n, full: rn.refresh(n, full=full), definitions, anew, lambda n: say(f"refreshing {short(n)}"))
    print_results([*loaded.values(), *results], options.json)


@pipeline.command("dry-run")
def dry_run(context: typer.Context, spec: Path = SPEC) -> None:
    """Check the definitions, and load nothing."""
    options = _with_spec(context.obj, spec)
    _dry_run(options, _declared(options, []))


def _dry_run(options: Options, wanted: Declarations) -> None:
    report = _checked(options, wanted)
    _print_report(report, options)
    if any(f.kind == "error" for f in report.findings):
        raise typer.Exit(1)


def _with_spec(options: Options, spec: Path | None) -> Options:
    """The options of this call with another project file, which the command line still wins over."""
    if spec is None:
        return options
    found = in_project(options, load(spec))
    names.home = found.home
    return found


@contextmanager
def _connected(options: Options, remote: str) -> Iterator[tuple[Runnel, Any]]:
    """The embedded session, or one of a Spark Connect server."""
    if not remote:
        with connected(options, make=True) as found:
            yield found
        return
    with progress() as say:
        say(f"connecting to {remote}")
        from runnel.api import connect
        from runnel.execute import session

        spark = session.remote(remote, options.config)
        rn = connect(spark, warehouse=options.folder, catalog=options.catalog, settings=options.loaded_settings())
        try:
            use(rn, options.home)
            yield rn, say
        finally:
            rn.close()
