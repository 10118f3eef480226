"""The command line itself: global options anywhere, every failure as a message and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from runnel import settings as settings_module
from runnel.cli import names
from runnel.cli.show import failed
from runnel.project.folder import Project, find, load
from runnel.project.names import Home
from runnel.settings import Settings

ANYWHERE = {"--project": 1, "--warehouse": 1, "--catalog": 1, "--set": 1, "--json": 0, "--debug": 0}
"""Global options with their number of values; they may stand before or after the command."""


@dataclass
class Options:
    """The global options of one call. Set by `globals_`, before the command runs; only read after."""

    warehouse: str = "runnel-warehouse"
    catalog: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    json: bool = False
    debug: bool = False
    project: Project | None = None
    named: bool = False
    """The warehouse was named, by the command line or the environment, and wins over any project's."""

    @property
    def home(self) -> Home:
        """Where names without a schema live."""
        return self.project.home if self.project else Home()

    @property
    def config(self) -> dict[str, str]:
        """Settings for Spark."""
        return dict(self.project.spark) if self.project else {}

    def loaded_settings(self) -> Settings:
        return settings_module.load(dict(self.settings), project=self.project.settings if self.project else None)

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
    project: str = typer.Option(
        "", envvar="RUNNEL_PROJECT", metavar="FOLDER", help="Folder with a runnel.toml; default: this one, or the nearest one above that has it."
    ),
    warehouse: str = typer.Option(
        "", envvar="RUNNEL_WAREHOUSE", metavar="FOLDER", help="Folder of tables and stream tables; default: the project's, else ./runnel-warehouse."
    ),
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
    found = _project(project, context.invoked_subcommand)
    options = Options(warehouse or "./runnel-warehouse", catalog or None, settings, as_json, debug, named=bool(warehouse))
    context.obj = in_project(options, found) if found else options
    names.home = context.obj.home


def in_project(options: Options, project: Project) -> Options:
    """The options of a call inside a project. What was named wins; a catalog belongs to its warehouse and comes with it."""
    if options.named:
        return replace(options, project=project)
    return replace(options, project=project, warehouse=project.warehouse, catalog=options.catalog or project.catalog)


def _project(named: str, command: str | None) -> Project | None:
    """The project that was named, or the one around this folder. `init` may make one, and `version` needs none."""
    if named and command != "init":
        return load(Path(named))
    file = find(Path.cwd()) if command not in ("init", "version", "demo") else None
    return load(file) if file else None
