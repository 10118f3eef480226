"""Stored definitions -> SQL that makes them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from runnel.bind.expand import split_key
from runnel.definition import Definition
from runnel.project.clauses import CLAUSES
from runnel.project.names import Home, portable_text
from runnel.schedule.graph import Graph


def export(definitions: Mapping[str, Definition], names: Iterable[str] | None = None, home: Home | None = None) -> str:
    """The statements that make stream tables again, each after those that it reads; of `names`, or of all."""
    chosen = set(definitions if names is None else names)
    order = Graph({name: d.source_keys for name, d in definitions.items()}).order
    return "\n\n".join(statement(definitions[name], home or Home()) for name in order if name in chosen) + ("\n" if chosen else "")


def statement(definition: Definition, home: Home) -> str:
    """One CREATE STREAM TABLE, ended by a semicolon."""
    clauses = (clause.write(getattr(definition, clause.option)) for clause in CLAUSES)
    query = portable_text(definition, home).strip()
    # A comment in the last line would swallow the semicolon.
    end = "\n;" if "--" in query.rpartition("\n")[2] else ";"
    name = ".".join(exp.to_identifier(p, quoted=not p.isidentifier()).sql("spark") for p in split_key(home.short(definition.name)))
    return "\n".join([f"CREATE STREAM TABLE {name}", *(c for c in clauses if c), f"AS {query}{end}"])
