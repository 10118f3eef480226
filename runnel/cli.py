"""The verbs of the Python interface in the shell: results on stdout, everything else on stderr.

`list`, `history`, `status`, `alter` and `repair` read the catalog and the commit logs only, so they start no Spark.
With `--json`, stdout carries exactly one JSON document, also when a command fails.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from decimal import Decimal
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from runnel import __version__
from runnel import settings as settings_module
from runnel.bind.expand import join_key, split_key
from runnel.definition import Definition
from runnel.errors import DefinitionError, RunnelError
from runnel.observe.record import Action, RefreshRecord
from runnel.state import Catalog

if TYPE_CHECKING:
    from runnel.api import Runnel

ANYWHERE = {"--warehouse": 1, "--catalog": 1, "--set": 1, "--json": 0, "--debug": 0}
"""Global options with their number of values; they may stand before or after the command."""
HOME = "spark_catalog.default."
MODES = "AUTO, DIFFERENTIAL (or INCREMENTAL), STRICT (or INCREMENTAL STRICT) or FULL."


@dataclass
class Options:
    """The global options of one call. Set by `globals_`, before the command runs; only read after."""

    warehouse: str = "runnel-warehouse"
    catalog: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    json: bool = False
    debug: bool = False

    @property
    def folder(self) -> str:
        return os.path.abspath(self.warehouse)

    @property
    def catalog_url(self) -> str:
        return self.catalog or f"sqlite:///{self.folder}/_runnel/catalog.db"


class Verbs(TyperGroup):
    """Takes global options anywhere, and turns every failure into a message and an exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, hoisted(args))

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        before = words[: words.index("--")] if "--" in words else words
        as_json, debug = "--json" in before, "--debug" in before
        extra["standalone_mode"] = False
        try:
            code = super().main(words, *rest, **extra)
        except KeyboardInterrupt:
            code = 130
        except typer.Abort:
            code = 1
        except Exception as error:
            code = failed(error, as_json, debug)
        sys.exit(code if isinstance(code, int) else 0)


def hoisted(args: Sequence[str]) -> list[str]:
    """The arguments with the global options first.

    >>> hoisted(["list", "--json", "--warehouse", "w"])
    ['--json', '--warehouse', 'w', 'list']
    """
    front: list[str] = []
    rest: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            return [*front, *rest, word, *words]
        name = word.partition("=")[0]
        if name not in ANYWHERE:
            rest.append(word)
            continue
        front.append(word)
        if name == word and ANYWHERE[name]:
            front.extend(value for value in [next(words, None)] if value is not None)
    return [*front, *rest]


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Stream tables for Apache Spark: write a query once, and Runnel keeps its result fresh.",
    epilog="Global options may stand before or after the command.",
)


@app.callback()
def globals_(
    context: typer.Context,
    warehouse: str = typer.Option("./runnel-warehouse", envvar="RUNNEL_WAREHOUSE", help="Folder of tables and stream tables."),
    catalog: str = typer.Option(
        "", envvar="RUNNEL_CATALOG", metavar="URL", help="Catalog to share, postgresql://...; default: a file in the warehouse."
    ),
    set_: list[str] = typer.Option([], "--set", metavar="NAME=VALUE", help="A setting (docs/settings.md); repeatable."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON document."),
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks and Spark's own log."),
) -> None:
    wrong = [s for s in set_ if "=" not in s]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]!r} is not name=value", param_hint="--set")
    settings = {name.strip(): value.strip() for name, _, value in (s.partition("=") for s in set_)}
    context.obj = Options(warehouse, catalog or None, settings, as_json, debug)


# -- define ------------------------------------------------------------------------------------------------------------


@app.command()
def init(context: typer.Context) -> None:
    """Make the warehouse folder."""
    options: Options = context.obj
    made = not os.path.isdir(options.folder)
    try:
        os.makedirs(options.folder, exist_ok=True)
    except OSError as error:
        raise DefinitionError(
            f"cannot make {options.folder}", code="WAREHOUSE", detail=f"{error.strerror}.", hint="Name another folder with --warehouse."
        ) from error
    Catalog.open(options.catalog_url).close()
    if options.json:
        _print_json({"warehouse": options.folder, "created": made})
        return
    out = _stdout()
    out.print(f"{'made' if made else 'found'} the warehouse {options.folder}", soft_wrap=True, highlight=False)
    out.print("next:", style="dim")
    for line in (
        'runnel query "CREATE TABLE orders (id INT, customer STRING, amount DECIMAL(10,2)) USING delta"',
        "runnel query \"INSERT INTO orders VALUES (1, 'ada', 12.50), (2, 'bob', 8.00)\"",
        'runnel create totals "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"',
        'runnel query "SELECT * FROM totals"',
    ):
        out.print(f"  {line}", soft_wrap=True, highlight=False, markup=False)


@app.command()
def create(
    context: typer.Context,
    name: str = typer.Argument("", help="Name, schema.name or catalog.schema.name."),
    query: str = typer.Argument("", help='"SELECT ..."'),
    mode: str = typer.Option("AUTO", help=MODES),
    comment: str = typer.Option("", help="A line about the stream table."),
    replace: bool = typer.Option(False, "--replace", help="Replace a stream table of this name."),
    if_not_exists: bool = typer.Option(False, "--if-not-exists", help="Leave a stream table of this name alone."),
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
    with _connected(context.obj) as (rn, say):
        say(f"loading {name}")
        record = rn.create(name, query, mode, comment=comment, replace=replace, if_not_exists=if_not_exists)
        shown = record.as_dict() if record else {"stream_table": rn._name(name), "created": False, "reason": "it exists already"}
    if context.obj.json:
        _print_json(shown)
        return
    if record is None:
        _stdout().print(f"{shown['stream_table']} exists already", highlight=False)
        return
    _print_records([record])


def _run_file(options: Options, file: Path) -> None:
    results: list[dict[str, Any]] = []
    with _connected(options) as (rn, say):
        for number, statement in enumerate(statements(file.read_text()), 1):
            say(f"{file.name}, statement {number}")
            frame = rn.sql(statement)
            results.append({"statement": statement, "rows": [_record(row) for row in frame.take(100)]})
    if options.json:
        _print_json(results)
        return
    for result in results:
        _stdout().print(" ".join(result["statement"].split())[:100], style="dim", highlight=False, markup=False)
        if result["rows"]:
            _stdout().print(_table(list(result["rows"][0]), [list(r.values()) for r in result["rows"]]))


def statements(text: str) -> list[str]:
    """The statements of a text, split where a semicolon stands outside strings and comments.

    >>> statements("SELECT ';' ; -- one; two")
    ["SELECT ';'"]
    """
    from sqlglot.dialects.spark import Spark
    from sqlglot.tokens import TokenType

    found: list[str] = []
    start: int | None = None
    end = 0
    for token in Spark().tokenize(text):
        if token.token_type is TokenType.SEMICOLON:
            found += [text[start:end]] if start is not None else []
            start = None
            continue
        start, end = token.start if start is None else start, token.end + 1
    return [*found, text[start:end]] if start is not None else found


@app.command()
def alter(
    context: typer.Context,
    name: str,
    mode: str = typer.Option("", help=MODES),
    property_: list[str] = typer.Option(
        [], "--property", metavar="KEY=VALUE", help="A property, such as runnel.differential_ceiling=0.3; repeatable."
    ),
) -> None:
    """Change how a stream table is refreshed."""
    if (not mode and not property_) or any("=" not in p for p in property_):
        raise typer.BadParameter("give --mode MODE, or --property KEY=VALUE")
    with _offline(context.obj) as rn:
        definition = rn.alter(name, mode=mode or None, properties=dict(p.split("=", 1) for p in property_))
    if context.obj.json:
        _print_json(definition.line())
        return
    _stdout().print(f"{definition.name}: refresh mode is {definition.mode}", highlight=False)


@app.command()
def drop(
    context: typer.Context,
    name: str,
    cascade: bool = typer.Option(False, "--cascade", help="Drop the stream tables that read it, too."),
    if_exists: bool = typer.Option(False, "--if-exists", help="No error when it does not exist."),
) -> None:
    """Remove a stream table; its sources stay."""
    _known(context.obj, [] if if_exists else [name])
    with _connected(context.obj) as (rn, _):
        gone = rn.drop(name, cascade=cascade, if_exists=if_exists)
    if context.obj.json:
        _print_json({"dropped": gone})
        return
    _stdout().print("\n".join(f"dropped {g}" for g in gone) or "nothing to drop", highlight=False)


# -- run ---------------------------------------------------------------------------------------------------------------


@app.command()
def refresh(
    context: typer.Context,
    names: list[str] = typer.Argument(None, help="Stream tables; none means all."),
    full: bool = typer.Option(False, "--full", help="Recompute instead of applying changes."),
) -> None:
    """Bring stream tables up to their sources, sources before readers."""
    options: Options = context.obj
    chosen = _known(options, names or [])
    if not chosen:
        _print_json([]) if options.json else _stdout().print("there are no stream tables yet", highlight=False)
        return
    with _connected(options) as (rn, say):
        results = refresh_all(rn, chosen, full, say)
    if options.json:
        _print_json([r.as_dict() if isinstance(r, RefreshRecord) else r for r in results])
    else:
        _print_records([r for r in results if isinstance(r, RefreshRecord)])
        for result in results:
            if not isinstance(result, RefreshRecord):
                _show_error(result["error"], result["stream_table"])
    if any(not isinstance(r, RefreshRecord) for r in results):
        raise typer.Exit(1)


def refresh_all(rn: Runnel, definitions: Mapping[str, Definition], full: bool, say: Callable[[str], None]) -> list[RefreshRecord | dict[str, Any]]:
    """One result per stream table: its record or its error. A reader of one that failed is left as it is."""
    results: list[RefreshRecord | dict[str, Any]] = []
    broken: set[str] = set()
    for name in in_order(definitions):
        say(f"refreshing {short(name)}")
        if below := sorted(broken & set(definitions[name].source_keys)):
            broken.add(name)
            reason = f"{', '.join(below)} could not be refreshed"
            results.append(
                {"stream_table": name, "action": str(Action.SKIP), "error": {"code": "SKIPPED", "message": reason, "detail": "", "hint": ""}}
            )
            continue
        try:
            results.append(rn.refresh(name, full=full))
        except RunnelError as error:
            if len(definitions) == 1:
                raise
            broken.add(name)
            results.append({"stream_table": name, "error": error.as_dict()})
    return results


def in_order(definitions: Mapping[str, Definition]) -> list[str]:
    """Names with sources before readers."""
    graph = {name: [s for s in d.source_keys if s in definitions] for name, d in definitions.items()}
    return list(TopologicalSorter(graph).static_order())


@app.command()
def compact(context: typer.Context, names: list[str] = typer.Argument(None, help="Stream tables; none means all.")) -> None:
    """Fold what refreshes appended into the base, for faster reads."""
    chosen = _known(context.obj, names or [])
    done: list[dict[str, Any]] = []
    with _connected(context.obj) as (rn, say):
        for name in chosen:
            say(f"compacting {short(name)}")
            done.append({"stream_table": name, "version": rn.compact(name)})
    if context.obj.json:
        _print_json(done)
        return
    _stdout().print(
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
    with _offline(options) as rn:
        done = [rn.vacuum(name, hours=hours) for name in _known(options, names or [])]
    if options.json:
        _print_json([asdict(d) for d in done])
    else:
        _stdout().print("\n".join(map(str, done)) or "there are no stream tables yet", highlight=False)


@app.command()
def repair(context: typer.Context) -> None:
    """Rebuild the catalog from the backing tables."""
    from runnel.state import quarantine

    _check_folder(context.obj)
    aside = quarantine(context.obj.catalog_url)
    with _offline(context.obj) as rn:
        found = rn.repair()
    if context.obj.json:
        _print_json({"found": found, "put_aside": aside})
        return
    if aside:
        _stdout().print(f"put the damaged catalog aside as {aside}", highlight=False, soft_wrap=True)
    _stdout().print(
        f"the catalog holds {len(found)} stream tables{': ' if found else ''}{', '.join(map(short, found))}", highlight=False, soft_wrap=True
    )


# -- read and understand -----------------------------------------------------------------------------------------------


@app.command()
def query(
    context: typer.Context,
    statement: str = typer.Argument(..., help='"SELECT ...", or any statement of Spark or Runnel.'),
    limit: int = typer.Option(100, min=0, help="Rows to show."),
) -> None:
    """Run a statement and show its rows."""
    with _connected(context.obj) as (rn, say):
        say("running")
        frame = rn.sql(statement)
        names = frame.columns
        rows = frame.take(limit + 1) if names else []
    more = len(rows) > limit
    rows = rows[:limit]
    if context.obj.json:
        _print_json({"columns": names, "rows": [_record(row) for row in rows], "more": more})
        return
    if not names:
        _stdout().print("done", highlight=False)
        return
    if names == ["plan"] and len(rows) == 1:
        _stdout().print(rows[0][0], soft_wrap=True, highlight=False, markup=False)
        return
    _stdout().print(_table(names, [list(row) for row in rows]))
    _stdout().print(f"{len(rows)} rows{', more with --limit' if more else ''}", style="dim", highlight=False)


@app.command()
def explain(
    context: typer.Context,
    name: str,
    at: str = typer.Option("", metavar="BORDER", help="One of definition, tree, canonical, layout, facts, decision, plan, reading, stages."),
    trace: bool = typer.Option(False, "--trace", help="Show the tree after each rule."),
    cost: bool = typer.Option(False, "--cost", help="Show what applying the changes and recomputing would cost, and what was measured."),
) -> None:
    """Show what the next refresh would do, and why."""
    _known(context.obj, [name])
    if cost:
        with _connected(context.obj) as (rn, _):
            costs = rn.explain_refresh_cost(name)
        _print_json(costs.as_dict()) if context.obj.json else _stdout().print(str(costs), soft_wrap=True, highlight=False, markup=False)
        return
    from runnel.execute.explain import BORDERS

    if at and at not in BORDERS:
        raise typer.BadParameter(f"{at!r} is not one of {', '.join(BORDERS)}", param_hint="--at")
    with _connected(context.obj) as (rn, _):
        explanation = rn.explain(name, trace=trace)
    shown = explanation.as_dict() if not at else {"stream_table": explanation.stream_table, at: explanation.borders.get(at, "")}
    if context.obj.json:
        _print_json(shown)
        return
    text = shown[at] or f"nothing: {explanation.borders.get('decision', '')}" if at else str(explanation)
    _stdout().print(text, soft_wrap=True, highlight=False, markup=False)


@app.command()
def verify(context: typer.Context, names: list[str] = typer.Argument(None, help="Stream tables; none means all.")) -> None:
    """Compare stream tables with their queries run from scratch; exit code 1 when one differs."""
    chosen = _known(context.obj, names or [])
    found = []
    with _connected(context.obj) as (rn, say):
        for name in chosen:
            say(f"verifying {short(name)}")
            found.append(rn.verify(name))
    if context.obj.json:
        _print_json([{k: getattr(v, k) for k in ("stream_table", "ok", "rows", "frontier", "missing", "extra")} for v in found])
    else:
        for verification in found:
            _stdout().print(str(verification), style="green" if verification.ok else "red", soft_wrap=True, highlight=False, markup=False)
        if not found:
            _stdout().print("there are no stream tables yet", highlight=False)
    if not all(v.ok for v in found):
        raise typer.Exit(1)


@app.command()
def status(context: typer.Context, name: str = typer.Argument("", help="A stream table; none means all.")) -> None:
    """Show where stream tables stand: mode, frontier, how far their sources are ahead."""
    with _offline(context.obj) as rn:
        found = [rn.status(n) for n in ([name] if name else [d["name"] for d in rn.list()])]
    if context.obj.json:
        _print_json(found[0] if name else found)
        return
    if name:
        _print_status(found[0])
        return
    head = ["stream table", "mode", "effective", "fresh", "epoch", "base rows", "tail rows", "last action", "behind"]
    rows = []
    for s in found:
        behind = ", ".join(f"{short(x['source'])} {x['since']}" for x in s["sources"] if x["since"] not in ("unchanged", "data-neutral"))
        last = (s["last_refresh"] or {}).get("action", "")
        rows.append(
            [
                short(s["name"]),
                s["mode"],
                s["effective"],
                "yes" if s["fresh"] else "no",
                s["epoch"],
                s["base_rows"],
                s["tail_rows"],
                str(last),
                behind,
            ]
        )
    _stdout().print(_table(head, rows))


def _print_status(found: dict[str, Any]) -> None:
    last = found.pop("last_refresh")
    sources = found.pop("sources")
    found["fresh"] = "yes" if found["fresh"] else "no"
    facts = [[k.replace("_", " "), v] for k, v in found.items() if v not in ("", None)]
    if last:
        facts.append(["last refresh", f"{last['action']} ({last['reason']}), {last['started_at']}, {last['ms']:.0f} ms"])
    _stdout().print(_table(["", ""], facts, header=False))
    _stdout().print(
        _table(["source", "frontier", "latest", "since then"], [[short(s["source"]), s["frontier"], s["latest"], s["since"]] for s in sources])
    )


@app.command()
def history(
    context: typer.Context,
    name: str = typer.Argument("", help="A stream table; none means all."),
    limit: int = typer.Option(20, min=1, help="Records to show, newest first."),
) -> None:
    """Show what past refreshes did."""
    if name:
        _known(context.obj, [name])
    with _catalog(context.obj) as catalog:
        records = catalog.history(full_name(name) if name else None, limit)
    if context.obj.json:
        _print_json([r.as_dict() for r in records])
        return
    if not records:
        _stdout().print("there are no refreshes yet", highlight=False)
        return
    _print_records(records, started=True)


@app.command()
def savings(context: typer.Context, name: str = typer.Argument("", help="A stream table; none means all.")) -> None:
    """Show what refreshes cost against recomputing."""
    with _offline(context.obj) as rn:
        ledgers = rn.savings(name or None)
    if context.obj.json:
        _print_json([ledger.as_dict() for ledger in ledgers])
        return
    if not ledgers:
        _stdout().print("there are no refreshes yet", highlight=False)
        return
    head = ["stream table", "refreshes", "differential", "full", "no data", "rows in", "rows out", "MB read", "MB written", "executor s", "took s"]
    rows = [
        [short(x.stream_table), x.refreshes, x.differential, x.full, x.no_data, x.rows_in, x.rows_out]
        + [round(n / d, 1) for n, d in ((x.bytes_read, 1 << 20), (x.bytes_written, 1 << 20), (x.executor_ms, 1000), (x.ms, 1000))]
        + [round(x.recompute_ms / 1000, 1), round(x.saved_ms / 1000, 1)]
        for x in ledgers
    ]
    _stdout().print(_table([*head, "recompute s", "saved s"], rows))


@app.command("list")
def list_(context: typer.Context) -> None:
    """List the stream tables."""
    with _catalog(context.obj) as catalog:
        lines = [Definition.from_dict(e.definition).line() for e in catalog.entries()]
    if context.obj.json:
        _print_json(lines)
        return
    if not lines:
        _stdout().print("there are no stream tables yet", highlight=False)
        return
    head = ["stream table", "mode", "effective", "sources", "why", "comment"]
    used = [i for i, _ in enumerate(head) if i < 4 or any(_list_row(found)[i] for found in lines)]
    _stdout().print(_table([head[i] for i in used], [[_list_row(found)[i] for i in used] for found in lines]))


def _list_row(found: dict[str, Any]) -> list[str]:
    sources = ", ".join(short(s) for s in found["sources"].split(", "))
    return [short(found["name"]), found["mode"], found["effective"], sources, found["reason"], found["comment"]]


# -- the rest ----------------------------------------------------------------------------------------------------------


@app.command()
def demo(context: typer.Context) -> None:
    """Watch three stream tables follow a small shop."""
    from runnel.demo import run

    options: Options = context.obj
    out = None if options.json else _stdout()
    with _connected(options, make=True) as (rn, say):
        result = run(rn, say, out, _flags(options))
    if options.json:
        _print_json(result)
    if not result["ok"]:
        raise typer.Exit(1)


def _flags(options: Options) -> str:
    """What has to follow `runnel` so that a command reaches the same warehouse. The catalog's address stays unsaid."""
    return "" if options.folder == os.path.abspath("runnel-warehouse") else f" --warehouse {options.warehouse}"


@app.command()
def version(context: typer.Context) -> None:
    """Show the versions of Runnel and of what it runs on."""
    from runnel.versions import DELTA, SPARK

    found = {"runnel": __version__, "spark": SPARK, "delta_lake": DELTA, "python": sys.version.split()[0]}
    if context.obj.json:
        _print_json(found)
        return
    _stdout().print(f"runnel {__version__} (Spark {SPARK}, Delta Lake {DELTA}, Python {found['python']})", highlight=False)


# -- names and connections ---------------------------------------------------------------------------------------------


def full_name(name: str) -> str:
    """A name with the default catalog and schema, in lower case.

    >>> full_name("Totals"), full_name("sales.totals")
    ('spark_catalog.default.totals', 'spark_catalog.sales.totals')
    """
    parts = [p.lower() for p in split_key(name)]
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise DefinitionError(f'"{name}" is not a table name', code="NAME", hint="Use name, schema.name or catalog.schema.name.")
    return join_key(("spark_catalog", "default")[: 3 - len(parts)] + tuple(parts))


def short(name: str) -> str:
    """A name as people write it."""
    return name.removeprefix(HOME).removeprefix("spark_catalog.")


def _known(options: Options, names: Sequence[str]) -> dict[str, Definition]:
    """The definitions of these stream tables, or of all; unknown names fail before Spark starts."""
    with _catalog(options) as catalog:
        every = {e.name: Definition.from_dict(e.definition) for e in catalog.entries()}
    for name in names:
        if full_name(name) not in every:
            known = ", ".join(short(n) for n in every)
            raise DefinitionError(
                f'stream table "{name}" does not exist',
                code="STREAM_TABLE_NOT_FOUND",
                detail=f"Stream tables are {known}." if known else "There are no stream tables yet.",
                hint='Create it with `runnel create NAME "SELECT ..."`, or run `runnel repair` if its backing table exists.',
            )
    return {n: every[n] for n in dict.fromkeys(map(full_name, names))} if names else every


def _check_folder(options: Options) -> None:
    if not os.path.isdir(options.folder):
        raise DefinitionError(
            f"there is no warehouse at {options.folder}",
            code="WAREHOUSE_NOT_FOUND",
            hint="Run `runnel init`, or name another folder with --warehouse.",
        )


@contextmanager
def _catalog(options: Options) -> Iterator[Catalog]:
    _check_folder(options)
    catalog = Catalog.open(options.catalog_url)
    try:
        yield catalog
    finally:
        catalog.close()


@contextmanager
def _offline(options: Options) -> Iterator[Runnel]:
    """A `Runnel` for the verbs that need the catalog and the logs only: list, status, alter, repair."""
    from runnel.api import Runnel
    from runnel.execute.engine import Engine

    class Offline(Runnel):
        def __init__(self, catalog: Catalog) -> None:
            self.folder = options.folder
            self.settings = settings_module.load(options.settings)
            self._engine = Engine(None, self.settings, catalog, None)  # type: ignore[arg-type]
            self._views = {}

        def _name(self, name: str | tuple[str, ...]) -> str:
            return full_name(name if isinstance(name, str) else join_key(name))

        def _sync(self) -> None:
            """No session, no views."""

    with _catalog(options) as catalog:
        yield Offline(catalog)


@contextmanager
def _connected(options: Options, make: bool = False) -> Iterator[tuple[Runnel, Callable[[str], None]]]:
    """A connection, and the function that says on stderr what is going on."""
    if make:
        os.makedirs(options.folder, exist_ok=True)
    _check_folder(options)
    settings = settings_module.load(options.settings)
    with _progress() as say:
        say("loading Spark")
        from runnel.api import connect
        from runnel.execute import session

        with _spark_to_file(options.debug):
            session.embedded(options.folder, say)
        say("opening the warehouse")
        rn = connect(warehouse=options.folder, catalog=options.catalog, settings=settings, progress=say)
        try:
            yield rn, say
        finally:
            rn.close()


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """A line on stderr that says what runs: with a spinner on a terminal, plain lines elsewhere. "" clears it."""
    with _own_stderr() as stream:
        console = Console(file=stream)
        if not console.is_terminal:
            yield lambda text: print(text, file=stream, flush=True) if text else None
            return
        status = console.status("")

        def say(text: str) -> None:
            if text:
                status.update(Text(text))
            status.start() if text else status.stop()

        try:
            yield say
        finally:
            status.stop()


@contextmanager
def _own_stderr() -> Iterator[TextIO]:
    """Stderr under a descriptor of its own, which stays with the terminal while Spark's goes to a file."""
    if not _is_console():
        yield sys.stderr
        return
    with os.fdopen(os.dup(2), "w") as stream:
        yield stream


@contextmanager
def _spark_to_file(debug: bool) -> Iterator[None]:
    """Let the Java process, started inside, write to a file instead of the console; its last lines show when it fails."""
    if debug or not _is_console():
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        failure = True
        try:
            yield
            failure = False
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, descriptor)
                os.close(copy)
            if failure:
                log.seek(0)
                sys.stderr.write("".join(log.read().decode(errors="replace").splitlines(keepends=True)[-10:]))


def _is_console() -> bool:
    try:
        return sys.stderr.fileno() == 2 and sys.stdout.fileno() == 1
    except (AttributeError, OSError, ValueError):
        return False


# -- printing ----------------------------------------------------------------------------------------------------------


def _stdout() -> Console:
    """Rich measures a terminal; a file or a pipe gets lines as long as they are."""
    console = Console(file=sys.stdout)
    return console if console.is_terminal else Console(file=sys.stdout, width=max(200, console.width))


def _stderr() -> Console:
    return Console(file=sys.stderr)


def _print_json(value: Any) -> None:
    print(json.dumps(plain(value), indent=2))


def plain(value: Any) -> Any:
    """A value that JSON can hold: exact decimals and times as text, NaN and infinities as text."""
    match value:
        case Mapping():
            return {str(k): plain(v) for k, v in value.items()}
        case list() | tuple() | set():
            return [plain(v) for v in value]
        case float() if not math.isfinite(value):
            return str(value)
        case datetime() | date():
            return value.isoformat()
        case bytes() | bytearray():
            return bytes(value).hex()
        case None | bool() | int() | float():
            return value
        case Decimal() | str():
            return str(value)
        case _:
            return plain(value.asDict(recursive=True)) if hasattr(value, "asDict") else str(value)


def _record(row: Any) -> dict[str, Any]:
    return dict(zip(row.__fields__, row, strict=True))


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]], header: bool = True) -> Table:
    """Numbers to the right, NULL told apart from text."""
    table = Table(show_header=header, header_style="bold", border_style="dim")
    for index, title in enumerate(head):
        numeric = any(isinstance(r[index], int | float | Decimal) for r in rows) and header
        table.add_column(Text(title), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def _cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, str | Decimal) or not hasattr(value, "asDict"):
        return Text(str(value))
    return Text(json.dumps(plain(value)))


def _print_records(records: Sequence[RefreshRecord], started: bool = False) -> None:
    head = ["stream table", "epoch", "action", "reason", "rows in", "rows out", "jobs", "ms"]
    rows = []
    for r in records:
        failure = f"FAILED: {(r.error or {}).get('message', '')}" if r.status == "FAILED" else r.reason
        row = [short(r.stream_table), r.epoch, str(r.action), failure, _count(r.rows_in), _count(r.rows_out), _count(r.jobs), round(r.ms)]
        rows.append([r.started_at[:19].replace("T", " "), *row] if started else row)
    _stdout().print(_table(["started (UTC)", *head] if started else head, rows))


def _count(number: int | None) -> int | str:
    return "" if number is None else number


def failed(error: Exception, as_json: bool, debug: bool) -> int:
    """Print a failure; the exit code: 2 when the command line is wrong, else 1."""
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads any more
        return 1
    if debug:
        traceback.print_exception(error)
    usage = hasattr(error, "exit_code") and hasattr(error, "format_message")
    if usage and not as_json:
        error.show()  # type: ignore[attr-defined]
        return int(error.exit_code)  # type: ignore[attr-defined]
    described = {"branch": "Usage", "code": "USAGE", "message": error.format_message()} if usage else describe(error)  # type: ignore[attr-defined]
    if as_json:
        _print_json({"error": described})
    else:
        _show_error(described)
    return int(error.exit_code) if usage else 1  # type: ignore[attr-defined]


def describe(error: Exception) -> dict[str, Any]:
    """Any failure in the shape of ours."""
    if isinstance(error, RunnelError):
        return error.as_dict()
    if type(error).__module__.startswith("pyspark"):
        from pyspark.errors import PySparkException

        from runnel.execute.lookup import translated

        if isinstance(error, PySparkException):
            return translated(error).as_dict() | {
                "branch": "Spark",
                "message": "Spark could not run it",
                "hint": "Correct the statement or the data it reads.",
            }
    message = str(error).strip().splitlines() or [type(error).__name__]
    return {
        "branch": "Internal",
        "code": type(error).__name__,
        "message": message[0][:300],
        "detail": "",
        "hint": "Run it again with --debug to see where.",
        "position": None,
    }


def _show_error(error: Mapping[str, Any], about: str = "") -> None:
    where = f" (line {error['position'][0]}, column {error['position'][1]})" if error.get("position") else ""
    console = _stderr()
    text = Text.assemble(("error", "bold red"), f" [{error['code']}] {f'{short(about)}: ' if about else ''}{error['message']}{where}")
    console.print(text, soft_wrap=True)
    for part in ("detail", "hint"):
        if error.get(part):
            console.print(Text.assemble((f"  {part}: ", "dim"), str(error[part])), soft_wrap=True)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
