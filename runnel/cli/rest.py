"""Commands about Runnel itself: demo, version."""

from __future__ import annotations

import os
import sys

import typer

from runnel import __version__
from runnel.cli.app import Options, app
from runnel.cli.connect import connected
from runnel.cli.show import print_json, stdout


@app.command()
def demo(context: typer.Context) -> None:
    """Watch three stream tables follow a small shop."""
    from runnel.demo import run

    options: Options = context.obj
    out = None if options.json else stdout()
    with connected(options, make=True) as (rn, say):
        result = run(rn, say, out, _flags(options))
    if options.json:
        print_json(result)
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
        print_json(found)
        return
    stdout().print(f"runnel {__version__} (Spark {SPARK}, Delta Lake {DELTA}, Python {found['python']})", highlight=False)
