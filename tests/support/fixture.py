"""A fixture as text: tables, a query, commits, and what each commit must do to the result.

    # Title, then a sentence or two

    ## table orders (id int, customer string)        a table and its first rows
    ## view big                                      a view, as SQL
    ## query                                         the stream table; same_plan and unsupported fixtures have several
    ## error                                         after a query: the exact refusal
    ## plan                                          after several queries: the canonical tree that all of them have
    ## start                                         the content after the first load
    ## commit a title                                one step in time
    ### orders [truncate | overwrite]                rows that come (weight 1) and go (weight -1), in feed order
    ### action DIFFERENTIAL
    ### change                                       the change of the result, weighted
    ### content                                      the result

Cells are text: NULL is NULL, an empty string is ''. `render` prints what `parse` reads, so `pytest --rewrite` only moves
what is expected.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

FIXTURES = Path(__file__).parent.parent / "fixtures"

Row = tuple[str, ...]


@dataclass
class Table:
    """A source: its columns as (name, Spark type) and its first rows."""

    name: str
    columns: list[tuple[str, str]]
    rows: list[Row] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [n for n, _ in self.columns]


@dataclass
class Change:
    """What one commit does to one table. `how` tells Spark which statement to use; the rows say the same for DuckDB."""

    table: str
    rows: list[tuple[int, Row]]
    how: str = ""


@dataclass
class Commit:
    title: str
    changes: list[Change]
    action: str = ""
    expected_change: list[tuple[int, Row]] = field(default_factory=list)
    expected_content: list[Row] = field(default_factory=list)


@dataclass
class Fixture:
    title: str
    intro: str
    tables: list[Table]
    views: list[tuple[str, str]]
    queries: list[str]
    errors: list[str] = field(default_factory=list)
    plan: str = ""
    start: list[Row] | None = None
    commits: list[Commit] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    """The names of the result's columns, for printing."""

    @property
    def query(self) -> str:
        return self.queries[0]

    def table(self, name: str) -> Table:
        return next(t for t in self.tables if t.name == name)

    def states(self) -> list[dict[str, Counter[Row]]]:
        """The rows of every table at the start and after each commit."""
        now = {t.name: Counter(t.rows) for t in self.tables}
        states = [now]
        for commit in self.commits:
            now = {name: rows.copy() for name, rows in now.items()}
            for change in commit.changes:
                for weight, row in change.rows:
                    now[change.table][row] += weight
            for name, rows in now.items():
                gone = [r for r, n in rows.items() if n < 0]
                assert not gone, f"commit {commit.title!r} takes rows from {name} that are not there: {gone}"
                now[name] = +rows
            states.append(now)
        return states


def fixtures(folder: str = "*") -> list[Path]:
    return sorted(FIXTURES.glob(f"{folder}/*.md"))


def name_of(path: Path) -> str:
    return str(path.relative_to(FIXTURES).with_suffix(""))


# -- reading -------------------------------------------------------------------------------------------------------------


def parse(text: str) -> Fixture:
    head, *sections = re.split(r"^## ", text, flags=re.M)
    title, _, intro = head.strip().removeprefix("# ").partition("\n")
    result = Fixture(title.strip(), intro.strip(), [], [], [])
    for section in sections:
        heading, _, body = section.partition("\n")
        word, _, rest = heading.strip().partition(" ")
        match word:
            case "table":
                result.tables.append(_table(rest, body))
            case "view":
                result.views.append((rest.strip(), _code(body)))
            case "query":
                result.queries.append(_code(body))
            case "error":
                result.errors.append(_code(body))
            case "plan":
                result.plan = _code(body)
            case "start":
                result.columns, result.start = _rows(body)
            case "commit":
                result.commits.append(_commit(rest.strip(), body))
            case _:
                raise AssertionError(f"unknown section {word!r}")
    return result


def _table(heading: str, body: str) -> Table:
    name, _, columns = heading.partition("(")
    pairs = [tuple(c.strip().split(" ", 1)) for c in _split(columns.rstrip().removesuffix(")"))]
    return Table(name.strip(), pairs, _rows(body)[1])  # type: ignore[arg-type]


def _split(columns: str) -> list[str]:
    """
    >>> _split("id int, n decimal(10,2), s struct<a:int,b:array<int>>")
    ['id int', ' n decimal(10,2)', ' s struct<a:int,b:array<int>>']
    """
    parts, depth = [""], 0
    for character in columns:
        depth += (character in "(<") - (character in ")>")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _commit(title: str, body: str) -> Commit:
    commit = Commit(title, [])
    for part in re.split(r"^### ", body, flags=re.M)[1:]:
        heading, _, rest = part.partition("\n")
        word, _, how = heading.strip().partition(" ")
        match word:
            case "action":
                commit.action = how
            case "change":
                commit.expected_change = _weighted(rest)
            case "content":
                commit.expected_content = _rows(rest)[1]
            case _:
                commit.changes.append(Change(word, _weighted(rest), how))
    return commit


def _rows(body: str) -> tuple[list[str], list[Row]]:
    lines = [[c.strip() for c in line.strip().strip("|").split("|")] for line in body.splitlines() if line.startswith("|")]
    return (lines[0], [tuple(cells) for cells in lines[2:]]) if lines else ([], [])


def _weighted(body: str) -> list[tuple[int, Row]]:
    return [(int(weight), tuple(row)) for weight, *row in _rows(body)[1]]


def _code(body: str) -> str:
    found = re.search(r"^```\w*\n(.*?)^```", body, re.S | re.M)
    return found[1].rstrip() if found else ""


# -- writing -------------------------------------------------------------------------------------------------------------


def render(f: Fixture) -> str:
    blocks = [f"# {f.title}", f.intro]
    for table in f.tables:
        columns = ", ".join(f"{n} {t}" for n, t in table.columns)
        blocks += [f"## table {table.name} ({columns})", _grid(table.names, table.rows) if table.rows else ""]
    for name, sql in f.views:
        blocks += [f"## view {name}", f"```sql\n{sql}\n```"]
    for index, query in enumerate(f.queries):
        blocks += ["## query", f"```sql\n{query}\n```"]
        if f.errors:
            blocks += ["## error", f"```text\n{f.errors[index]}\n```"]
    if f.plan:
        blocks += ["## plan", f"```text\n{f.plan}\n```"]
    if f.start is not None:
        blocks += ["## start", _grid(f.columns, f.start)]
    for commit in f.commits:
        blocks.append(f"## commit {commit.title}")
        for change in commit.changes:
            blocks += [f"### {change.table} {change.how}".rstrip(), _grid(["weight", *f.table(change.table).names], _flat(change.rows))]
        blocks += [f"### action {commit.action}"]
        blocks += ["### change", _grid(["weight", *f.columns], _flat(commit.expected_change))]
        blocks += ["### content", _grid(f.columns, commit.expected_content)]
    return "\n\n".join(b for b in blocks if b) + "\n"


def _flat(rows: list[tuple[int, Row]]) -> list[Row]:
    return [(f"{weight:+d}", *row) for weight, row in rows]


def _grid(names: list[str], rows: list[Row]) -> str:
    widths = [max(map(len, cells)) for cells in zip(names, *rows, strict=True)]
    lines = [names, ["-" * w for w in widths], *rows]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines)
