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
from runnel.bind.determine import UNDETERMINED

FOLDER = Path(__file__).parents[2] / "docs"

RECOMPUTED: tuple[tuple[str, str], ...] = (
    ("TABLESAMPLE", "a sample differs each time it is taken"),
    ("a subquery in the ON of an outer, semi or anti join that reads columns of both sides", "join the subquery in FROM"),
    ("FULL JOIN inside a correlated subquery whose ON reads outer columns", "Spark itself gives other rows there than SQL defines"),
    ("session_window() beside GROUPING SETS or a subquery in GROUP BY", "group by sessions in a subquery"),
    ("LIMIT or OFFSET of an expression that reads columns or calls functions", "write the number"),
)
"""What `bind` refuses to differentiate, besides functions. The fixtures in tests/fixtures/unsupported hold the exact words."""


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
        "In mode AUTO these are recomputed at each refresh; mode DIFFERENTIAL refuses them when the table is created.",
        "",
        "| construct | why, or what to write instead |",
        "|---|---|",
    ]
    lines += [f"| {what} | {how} |" for what, how in RECOMPUTED]
    lines += [f"| `{name.upper()}` below another operator | {why} |" for name, why in sorted(UNDETERMINED.items())]
    lines += [
        "",
        "## The clock",
        "",
        "`current_date()`, `current_timestamp()`, `now()`, `localtimestamp()` and `unix_timestamp()` read a clock that a cut fixes. The clock is a",
        "source of its own: rows that a moving `WHERE ts > now() - INTERVAL 7 DAYS` loses leave without any change of a table, and a query that",
        "reads the date alone has nothing to do until the day changes in the session's time zone.",
        "",
        "## Where SQL leaves the result open",
        "",
        "A result that depends on the order of rows is made *a* correct one that is the same for the same rows, now and after every refresh:",
        "",
        "- `ROW_NUMBER`, `NTILE`, `LAG`, `LEAD`, `FIRST_VALUE`, `NTH_VALUE` and ROWS frames: ties in ORDER BY are broken by the other columns that the",
        "  query shows, above a GROUP BY by its keys. `LAST_VALUE` over the default frame takes the greatest of the tied rows in that order.",
        "- LIMIT: ties are broken by the other columns of the result.",
        "- `FIRST` and `ANY_VALUE` give the least value, `LAST` the greatest; `COLLECT_LIST`, `COLLECT_SET` and `ARRAY_AGG` are sorted; `LISTAGG` without an order is",
        "  ordered by its value; `MODE` takes the least of equally frequent values; `PERCENTILE_APPROX` is exact.",
        "- `IN` as a value is TRUE or FALSE, as Spark evaluates it; in WHERE, NOT IN follows three-valued logic.",
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
