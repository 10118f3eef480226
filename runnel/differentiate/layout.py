"""How a stream table is stored, and how the stored rows are finished into what users read.

*rows*: the output columns and a weight; equal rows with weights that sum to n are n rows.
*groups*: the group's keys, one column per partial sum, and a weight = the number of rows in the group.

A layout is plain data: it travels in the definition, so that a table can be read without binding its query again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import sqlglot
from sqlglot import exp

from runnel.algebra import Column

CONTENT = "content"
"""The relation that `finish` selects from."""
AGREEING = "agreeing"
"""The relation over which columns are only said to be NULL or never NULL, as Spark's analysis of the query has them."""
LEVEL, BASE, TAIL = "__runnel_level", "base", "tail"
"""The column that says whether a stored row is compacted or came since."""


@dataclass(frozen=True)
class Layout:
    """`stored` are the columns of the backing table besides weight, level and hash; `keys` and `partials` name some of
    them in a groups layout. `finish` is Spark SQL over `content` with the columns users see."""

    kind: str
    stored: tuple[Column, ...]
    keys: tuple[str, ...]
    partials: tuple[str, ...]
    finish: str
    output: tuple[Column, ...]
    required: tuple[str, ...] = ()
    """Stored columns that are never NULL."""
    finish_change: str = ""
    """`finish` over a content that has weights, where it works row by row; empty where it does not, as with LIMIT."""

    def __post_init__(self) -> None:
        assert self.kind in ("rows", "groups"), self.kind
        assert {c.name for c in self.stored} >= {*self.keys, *self.partials}

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """What identifies a stored row: the group, or the whole row."""
        return tuple(c for c in self.stored if c.name in self.keys) if self.kind == "groups" else self.stored

    @cached_property
    def copies(self) -> dict[str, str]:
        """The columns that users see of which finishing only changes the name, and the stored ones that they are, in lower case."""
        types = {c.name.lower(): c.type for c in self.stored}
        found = copied(sqlglot.parse_one(self.finish, dialect="spark"))
        return {o.name.lower(): found[o.name.lower()] for o in self.output if types.get(found.get(o.name.lower(), "")) == o.type}

    @cached_property
    def renames(self) -> bool:
        """Stored rows are what users read, under other names, and maybe not all of their columns."""
        if self.kind != "rows" or len(self.copies) < len(self.output):
            return False
        finish = sqlglot.parse_one(self.finish, dialect="spark")
        return not any(
            s.args.get(part) for s in finish.find_all(exp.Select) for part in ("where", "group", "having", "distinct", "limit", "laterals")
        )

    @property
    def always_one_row(self) -> bool:
        """An aggregate without keys has its row even over nothing."""
        return self.kind == "groups" and not self.keys

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Layout:
        columns = {k: tuple(Column(**c) for c in data[k]) for k in ("stored", "output")}
        return cls(
            **{**data, **columns, "keys": tuple(data["keys"]), "partials": tuple(data["partials"]), "required": tuple(data.get("required", ()))}
        )

    def __str__(self) -> str:
        columns = ", ".join(map(str, self.stored))
        what = "rows with a weight" if self.kind == "rows" else f"one row per group of [{', '.join(self.keys)}], partial sums"
        return f"{what}: {columns}\nfinish: {self.finish}"


def copied(query: exp.Expr, known: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, str]:
    """The output columns of a query over `content` that are columns of it as they are, and which.

    >>> copied(sqlglot.parse_one("WITH f AS (SELECT a AS b, a + 1 AS c FROM content) SELECT b AS x, c FROM f"))
    {'x': 'a'}
    """
    known = dict(known or {})
    if not isinstance(query, exp.Select):
        return {}
    for cte in query.ctes:
        known[cte.alias.lower()] = copied(cte.this, known)
    source = query.args["from_"].this if query.args.get("from_") else None
    if query.args.get("joins") or source is None:
        return {}
    inner = copied(source.this, known) if isinstance(source, exp.Subquery) else known.get(source.name.lower())
    found = {}
    for column in query.expressions:
        if isinstance(column, exp.Star):
            return dict(inner or {})
        value = _agreeing(column.unalias()) if source.alias == AGREEING else column.unalias()
        if isinstance(value, exp.Column):
            name = value.name.lower()
            origin = name if inner is None else inner.get(name)
            found.update({column.alias_or_name.lower(): origin} if origin is not None else {})
    return found


def _agreeing(value: exp.Expr) -> exp.Expr:
    """The column of which a default that is never taken, or a condition that always holds, only says whether it can be NULL."""
    if isinstance(value, exp.Coalesce):
        return value.this  # type: ignore[no-any-return]
    return value.args["ifs"][0].args["true"] if isinstance(value, exp.Case) else value
