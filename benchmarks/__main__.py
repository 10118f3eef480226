"""The command: `python -m benchmarks [part ...] [--quick | --full]`.

Parts are matrix, tpch, tpch_every, medallion, growth, stages, operators, reads, plans, ticks, shared, wake; `all` is every one of them. Results
go to `<out>/<date>-<part>.json` and `.svg`, and a table is printed.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

from rich.console import Console

from benchmarks import machine
from benchmarks.bench import Bench, opened
from benchmarks.part import Options, Part
from benchmarks.parts import PARTS
from benchmarks.results import Measured, table, write_json


def main() -> None:
    chosen = _arguments()
    names = list(PARTS) if "all" in chosen.parts else chosen.parts
    console = Console(stderr=True, highlight=False)
    with opened(console.print) as bench:
        for name in names:
            part = PARTS[name]
            run(bench, part, _options(part, chosen), Path(chosen.out), console)


def run(bench: Bench, part: Part, options: Options, out: Path, console: Console) -> None:
    """Measure one part; the numbers are on disk after each result."""
    where, path = machine.describe(), out / f"{date.today():%Y%m%d}-{part.name}.json"
    found: list[Measured] = []
    console.rule(part.title)
    for measured in part.measure(bench, options):
        found.append(measured)
        write_json(path, where, asdict(options), found)
    for ending, svg in part.figures(found, machine.sentence(where)).items():
        path.with_name(f"{path.stem}{ending}.svg").write_text(svg, encoding="utf-8")
    Console(width=150).print(table(part.title, part.shown(found), part.against))
    console.print(f"{machine.sentence(where)}; numbers in {path}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["all"], choices=[*PARTS, "all"], metavar="part")
    level = parser.add_mutually_exclusive_group()
    level.add_argument("--quick", action="store_true", help="a selection that takes minutes (the default)")
    level.add_argument("--full", action="store_true", help="every size and rate, which takes hours")
    parser.add_argument("--sizes", type=_numbers, help="rows of the source, or the scale of TPC-H: 100000,1000000")
    parser.add_argument("--rates", type=_numbers, help="share of the rows that changes: 0.001,0.01")
    parser.add_argument("--queries", type=lambda text: tuple(text.split(",")), help="names, as a part calls them")
    parser.add_argument("--ways", type=lambda text: tuple(text.split(",")), help="of matrix, tpch, growth and operators: auto,overwrite")
    parser.add_argument("--rounds", type=int, help="counted rounds; one more goes before to warm up")
    parser.add_argument("--refreshes", type=int, help="growth: the longest series of refreshes on one table")
    parser.add_argument("--verify-up-to", type=float, help="the largest size at which content is verified at the end")
    parser.add_argument("--out", default="docs/benchmarks", help="where JSON and SVG go")
    return parser.parse_args()


def _options(part: Part, chosen: argparse.Namespace) -> Options:
    """The part's own choice, with what was asked for in its place."""
    asked = {k: getattr(chosen, k) for k in ("sizes", "rates", "queries", "ways", "rounds", "refreshes", "verify_up_to")}
    return replace(part.full if chosen.full else part.quick, **{k: v for k, v in asked.items() if v is not None})


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(n) if "." in n or "e" in n else int(n) for n in text.replace("_", "").split(","))


if __name__ == "__main__":
    main()
