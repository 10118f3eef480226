"""The options of a stream table besides its query: how each is written in SQL. An option has one name everywhere.

It is a field of `Statement` and of `Definition`, and an argument of `create` and `alter`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from runnel.bind.statement import Statement
from runnel.definition import Definition
from runnel.observe.record import Mode


@dataclass(frozen=True)
class Clause:
    """`write` gives the SQL for a value, empty where the value is the one that holds without the clause."""

    option: str
    write: Callable[[Any], str]


def literal(text: str) -> str:
    """A string as Spark reads it.

    >>> print(literal("it's"))
    'it\\'s'
    """
    return exp.Literal.string(text).sql("spark")


CLAUSES: tuple[Clause, ...] = (
    Clause("comment", lambda text: f"COMMENT {literal(text)}" if text else ""),
    Clause(
        "properties", lambda found: f"TBLPROPERTIES ({', '.join(f'{literal(k)} = {literal(v)}' for k, v in sorted(found.items()))})" if found else ""
    ),
    Clause("mode", lambda mode: f"REFRESH MODE {mode}" if mode is not Mode.AUTO else ""),
    Clause("schedule", str),
)


def said(statement: Statement, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a statement asks for; what it leaves open is as the project's defaults have it."""
    standard = {"mode": Mode.AUTO, "schedule": "", **defaults}
    values = {c.option: getattr(statement, c.option) for c in CLAUSES}
    return {option: standard.get(option) if value is None else value for option, value in values.items()}


def changes(wanted: Mapping[str, Any], definition: Definition) -> dict[str, tuple[Any, Any]]:
    """The options that differ: option -> what it is, what it shall be."""
    found = {c.option: (getattr(definition, c.option), wanted[c.option]) for c in CLAUSES}
    return {option: pair for option, pair in found.items() if pair[0] != pair[1]}
