"""From the log of a backing table to its content, without ever shuffling or grouping the base.

Rows of level *base* are compacted: plain rows of weight 1, or one row per group. Rows of level *tail* came since.
The general form is right for any log, so it is what the view holds; `LogFacts` of one version allow shorter forms.

rows:   rows that nothing took away + the touched rows, summed up; where no row is twice in the base, base rows that did not go + those that came
groups: base groups plus the tail's sums + groups that only the tail has
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra import WEIGHT, Column
from runnel.algebra.steps import UNGROUPABLE
from runnel.differentiate.layout import BASE, CONTENT, LEVEL, TAIL, Layout

HASH = "__runnel_hash"
BELOW = "weighs less than nothing: "
"""Begins the error of a checked content."""
HASH_VERSION = "xxhash64-1"
HASHES = 4_000_000
"""Rows of the tail up to which the hashes of those that went are broadcast, 8 bytes each: else the base is shuffled to meet them."""
CELLS = 4_000_000
"""Values in the tail up to which whole groups of it are broadcast: some ten megabytes of numbers."""
"""Kept in the table's properties, since engines change their hashes between releases."""


@dataclass(frozen=True)
class LogFacts:
    """What the commits of one version say about the log; what they do not say is taken for the worst."""

    tail: bool = True
    negatives: bool = True
    grows: bool = True
    """Something in the tail weighs more than nothing: without that no group is new."""
    rows: int | None = None
    """Rows of the tail, None when nobody counted them."""
    net: bool = False
    """No row comes and goes in the tail, and each group is in it once."""
    distinct: bool = False
    """All hashes of the base differ, so that each of them is one row."""
    nulls: frozenset[str] | None = None
    """Columns that are NULL somewhere in the tail, None when nobody knows."""


def finished_sql(layout: Layout, log: str, facts: LogFacts | None = None) -> str:
    """What users read, over the relation `log`."""
    return f"WITH {CONTENT} AS ({content_sql(layout, log, facts)}) SELECT * FROM ({layout.finish}) AS finished"


def content_sql(layout: Layout, log: str, facts: LogFacts | None = None, checked: bool = False) -> str:
    """The stored columns of the content: every row of a bag, or one row per group with its weight.

    `checked`, a row or group that weighs less than nothing is an error that says `BELOW`, not left out.
    """
    facts = facts or LogFacts()
    return _rows(layout, log, facts, checked) if layout.kind == "rows" else _groups(layout, log, facts, checked)


def _rows(layout: Layout, log: str, facts: LogFacts, checked: bool) -> str:
    columns = ", ".join(quote(c.name) for c in layout.stored)
    base, tail = f"{LEVEL} = '{BASE}'", f"{LEVEL} = '{TAIL}'"
    if not facts.tail:
        return f"SELECT {columns} FROM {log} WHERE {base}"
    if not facts.negatives:
        return _expanded(layout, f"SELECT {columns}, {WEIGHT} FROM {log}")
    hint = "/*+ BROADCAST(m) */ " if facts.rows is not None and facts.rows <= HASHES else ""
    gone = f"(SELECT {HASH} FROM {log} WHERE {tail} AND {WEIGHT} < 0) AS m ON b.{HASH} = m.{HASH}"
    if facts.net and facts.distinct and not checked:
        came = _expanded(layout, f"SELECT {columns}, {WEIGHT} FROM {log} WHERE {tail} AND {WEIGHT} > 0")
        return f"SELECT {hint}{columns} FROM {log} AS b LEFT ANTI JOIN {gone} WHERE b.{base} UNION ALL {came}"
    untouched = f"SELECT {hint}{columns}, {WEIGHT} FROM {log} AS b LEFT ANTI JOIN {gone}"
    outputs = ", ".join(f"any_value({quote(c.name)}) AS {quote(c.name)}" if c.type in UNGROUPABLE else quote(c.name) for c in layout.stored)
    groups = ", ".join(f"to_json({quote(c.name)})" if c.type in UNGROUPABLE else quote(c.name) for c in layout.stored)
    total = f"SUM({WEIGHT})"
    touched = (
        f"SELECT {hint}{outputs}, {_weight(total, groups, checked)} AS {WEIGHT} FROM {log} AS b LEFT SEMI JOIN {gone} "
        f"GROUP BY {groups} HAVING {_there(total, checked)}"
    )
    return f"{_expanded(layout, untouched)} UNION ALL {_expanded(layout, touched)}"


def _expanded(layout: Layout, weighted: str) -> str:
    """Each row as often as it weighs."""
    columns = ", ".join(quote(c.name) for c in layout.stored)
    return f"SELECT {columns} FROM ({weighted}) AS w LATERAL VIEW explode(array_repeat(0, CAST({WEIGHT} AS INT))) AS __runnel_copy"


def _weight(weight: str, row: str, checked: bool) -> str:
    """A weight; where it is below zero an error that names the row. In the selection, since conditions may move to where weights are not summed up yet."""
    return f"IF({weight} < 0, raise_error(concat('{BELOW}', CAST(struct({row}) AS STRING))), {weight})" if checked else weight


def _there(weight: str, checked: bool) -> str:
    return f"{weight} {'<>' if checked else '>'} 0"


def _groups(layout: Layout, log: str, facts: LogFacts, checked: bool) -> str:
    keys, summed = [quote(k) for k in layout.keys], [*(quote(p) for p in layout.partials), WEIGHT]
    types = {quote(c.name): c.type for c in layout.stored} | {WEIGHT: "bigint"}
    if layout.always_one_row:
        return f"SELECT {', '.join(f'{_sum(s, types[s], always=True)} AS {s}' for s in summed)} FROM {log}"
    base = f"SELECT {', '.join((*keys, *summed))} FROM {log} WHERE {LEVEL} = '{BASE}'"
    if not facts.tail:
        return base
    sums = ", ".join(f"{_sum(s, types[s])} AS {s}" for s in summed)
    tail = f"SELECT {', '.join(keys)}, {sums} FROM {log} WHERE {LEVEL} = '{TAIL}' GROUP BY {', '.join(keys)}"
    if facts.net:
        tail = f"SELECT {', '.join((*keys, *summed))} FROM {log} WHERE {LEVEL} = '{TAIL}'"
    # Equality that takes NULL for a value is slower by half: it is needed only where the tail has one.
    same = " AND ".join(f"b.{quote(k)} {'<=>' if facts.nulls is None or k in facts.nulls else '='} t.{quote(k)}" for k in layout.keys)
    few = facts.rows is not None and facts.rows * len(layout.stored) <= CELLS
    t, b = ("/*+ BROADCAST(t) */ ", "/*+ BROADCAST(b) */ ") if few else ("", "")
    # A sum that is NULL overflowed, and stays so.
    both = {s: f"CAST(b.{s} + IF(t.{WEIGHT} IS NULL, 0, t.{s}) AS {types[s]})" for s in summed}

    def chosen(side: str, values: dict[str, str]) -> str:
        names = [f"{side}.{k}" for k in keys]
        values = values | {WEIGHT: _weight(values[WEIGHT], ", ".join(names), checked)}
        return ", ".join((*names, *(f"{value} AS {name}" for name, value in values.items())))

    moved = f"SELECT {t}{chosen('b', both)} FROM ({base}) AS b LEFT JOIN ({tail}) AS t ON {same} WHERE {_there(both[WEIGHT], checked)}"
    if not facts.grows and not checked:
        return moved
    maybe = f"SELECT * FROM ({tail}) AS t WHERE {_there(f't.{WEIGHT}', checked)}"
    known = f"SELECT {t}{', '.join(keys)} FROM ({base}) AS b LEFT SEMI JOIN ({maybe}) AS t ON {same}"
    new = {s: f"t.{s}" for s in summed}
    return f"{moved} UNION ALL SELECT {b}{chosen('t', new)} FROM ({maybe}) AS t LEFT ANTI JOIN ({known}) AS b ON {same}"


def _sum(column: str, type_: str, always: bool = False) -> str:
    """The sum of stored sums, with `always` zero over nothing. One that is NULL overflowed, and so does theirs."""
    total = f"SUM({column})"
    if type_.startswith("decimal"):
        total = f"CASE WHEN COUNT({column}) = COUNT(1) THEN {total} END"
    if always:
        total = f"IF(COUNT(1) = 0, 0, {total})"
    return f"CAST({total} AS {type_})"


def hash_sql(columns: tuple[Column, ...]) -> str:
    """The stored hash of a row. Equal rows have equal hashes: -0.0 is 0.0, and what cannot be hashed is hashed as JSON."""
    parts = []
    for c in columns:
        name = quote(c.name)
        if c.type in ("float", "double"):
            name = f"{name} + CAST(0 AS {c.type})"
        elif c.type in UNGROUPABLE or "map<" in c.type:
            name = f"to_json({name})"
        parts.append(name)
    return f"xxhash64({', '.join(parts)})" if parts else "CAST(0 AS BIGINT)"


def quote(name: str) -> str:
    """A name as a Spark identifier."""
    return exp.to_identifier(name, quoted=True).sql("spark")
