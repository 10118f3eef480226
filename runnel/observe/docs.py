"""The pages that come from code: docs/support.md from the operators, docs/settings.md from the settings.

`python -m runnel.observe.docs` writes them, `--check` fails when they are stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

from runnel import settings
from runnel.algebra import OPERATORS
from runnel.algebra.functions import CLASSES
from runnel.bind import refuse

FOLDER = Path(__file__).parents[2] / "docs"

RECOMPUTED: tuple[tuple[str, str], ...] = (
    ("LEFT, RIGHT, FULL, SEMI and ANTI JOIN, NATURAL JOIN", "recomputed"),
    ("subqueries outside FROM: IN, EXISTS, scalar", "recomputed"),
    ("INTERSECT, EXCEPT, UNION BY NAME", "recomputed"),
    ("ORDER BY, LIMIT, OFFSET, SORT BY, CLUSTER BY, DISTRIBUTE BY", "recomputed; an order alone is better left to the reader"),
    ("window functions, QUALIFY", "recomputed"),
    ("GROUPING SETS, CUBE, ROLLUP", "recomputed"),
    ("aggregate functions outside the table above; DISTINCT or FILTER inside an aggregate", "recomputed"),
    ("LATERAL, generator and table functions, PIVOT, UNPIVOT, TABLESAMPLE, DISTINCT ON", "recomputed"),
    ("WITH RECURSIVE", "recomputed"),
)
"""What `bind` refuses to differentiate. The fixtures in tests/fixtures/unsupported hold the exact words of each refusal."""


def pages() -> dict[str, str]:
    """File name -> text."""
    return {"support.md": support(), "settings.md": settings.markdown()}


def support() -> str:
    """The page docs/support.md."""
    lines = [
        "# What is maintained incrementally",
        "",
        "Generated from `runnel/algebra` and `runnel/bind/refuse.py` by `make docs`.",
        "",
        "A stream table whose query uses only the operators below is refreshed as DIFFERENTIAL. In mode AUTO anything else is",
        "recomputed, and `status`, `explain` and each record say why; mode DIFFERENTIAL refuses it when the table is created.",
        "",
        "## Operators",
        "",
        "| operator | covers | law of change | a refresh costs | linear |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {o.title} | {o.supports} | {o.law_text} | {o.cost} | {'yes' if o.linear else 'no'} |" for o in OPERATORS]
    lines += [
        "",
        "Expressions in SELECT, WHERE, ON, GROUP BY and HAVING may be anything deterministic that Spark evaluates row by row. Common table",
        "expressions, subqueries in FROM, views (inlined) and self-joins combine freely and at any depth.",
        "",
        "## Aggregate functions",
        "",
        "| function | how it is kept |",
        "|---|---|",
    ]
    lines += [f"| `{name.upper()}` | {kind} |" for name, kind in CLASSES.items()]
    lines += [
        "",
        "*Additive* functions at the root of a query append partial sums and read neither the state nor the sources. As soon as one function",
        "of a GROUP BY works by *touched groups*, the whole GROUP BY does: the groups that a change touches are computed again.",
        "",
        "## Recomputed",
        "",
        "| construct | in mode AUTO or FULL |",
        "|---|---|",
    ]
    lines += [f"| {what} | {how} |" for what, how in RECOMPUTED]
    lines += [
        f"| the clock: {_names(refuse.CLOCK)} | recomputed at each refresh, with one moment for the whole refresh |",
        "",
        "## Refused",
        "",
        "These differ between two evaluations over the same rows, so a result that uses them can be neither kept nor checked. Modes AUTO and",
        "DIFFERENTIAL refuse them; mode FULL takes them as they come.",
        "",
        f"{_names(refuse.NONDETERMINISTIC)}, and user functions that are declared non-deterministic.",
        "",
        "## Sources",
        "",
        "Delta tables by name or by path (`` delta.`/path` ``), other stream tables, and views over both. Other formats are refused with the",
        "code `INPUT_NOT_IN_DELTA`.",
    ]
    return "\n".join(lines) + "\n"


def _names(functions: frozenset[str]) -> str:
    return ", ".join(f"`{name}()`" for name in sorted(functions))


def stale(folder: Path = FOLDER) -> list[str]:
    """The pages that differ from what the code says."""
    return [name for name, text in pages().items() if not (folder / name).is_file() or (folder / name).read_text() != text]


def main(arguments: list[str]) -> int:
    wrong = stale()
    if "--check" in arguments:
        for name in wrong:
            print(f"docs/{name} is stale: run `make docs`", file=sys.stderr)
        return 1 if wrong else 0
    FOLDER.mkdir(exist_ok=True)
    for name in wrong:
        (FOLDER / name).write_text(pages()[name])
        print(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
