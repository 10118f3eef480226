"""Syntax tree -> operator tree: every name resolved, every expression typed, what has no operator refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from runnel.algebra import Node
from runnel.algebra.node import col
from runnel.bind import refuse
from runnel.bind.binder import Binder
from runnel.bind.determine import determine_calls
from runnel.bind.expand import expand, split_key
from runnel.bind.faithful import faithful
from runnel.bind.column_names import name_columns
from runnel.bind.lookup import Lookup, Relation
from runnel.bind.parse import parse_query, too_deep
from runnel.bind.pivots import name_pivots, plain_pivots
from runnel.bind.spell import spell
from runnel.bind.time_windows import called_by_name, name_time_windows
from runnel.errors import DefinitionError


@dataclass(frozen=True)
class Bound:
    """A query as an operator tree. `node` has one column per output, in order; `sql` stands on its own and leaves no tie
    to chance, so that running it twice over the same rows gives the same result."""

    node: Node
    sql: str
    notes: tuple[str, ...] = ()
    """What the user should know: clauses that were dropped, parts that are recomputed whole."""

    def __str__(self) -> str:
        return str(self.node)


def bind(text: str, lookup: Lookup) -> Bound:
    """The operator tree of a query, or a `DefinitionError` that says what is wrong and where."""
    try:
        tree, relations = expand(name_time_windows(spell(parse_query(text))), lookup)
        tree = name_pivots(name_columns(tree, relations))
        refuse.nondeterministic(tree)
        refuse.constructs(tree)
        tree = _with_user_aggregates(tree, lookup)
        qualified = faithful(determine_calls(_qualify(tree, relations)))
        binder = Binder(lookup, relations)
        outputs = binder.query(qualified, {})
        node = binder.project(outputs.node, [(n, col(u)) for n, u in outputs.columns])
        return Bound(node, called_by_name(plain_pivots(qualified)).sql("spark"), tuple(dict.fromkeys(binder.notes)))
    except RecursionError as error:
        raise too_deep() from error


def _with_user_aggregates(tree: exp.Query, lookup: Lookup) -> exp.Query:
    """Calls of aggregates that users registered, as what they are: the parser cannot know."""
    for call in list(tree.find_all(exp.Anonymous)):
        if lookup.aggregates(call.name, len(call.expressions)):
            call.replace(exp.AnonymousAggFunc(this=call.name, expressions=call.expressions))
    return tree


def _qualify(tree: exp.Query, relations: dict[str, Relation]) -> exp.Query:
    schema = MappingSchema(dialect="spark", normalize=False)
    depth = max((len(split_key(k)) for k in relations), default=1)
    for key, relation in relations.items():
        parts = split_key(key)
        reference = exp.Table(
            this=exp.to_identifier(parts[-1].lower(), quoted=True),
            db=exp.to_identifier(parts[-2].lower(), quoted=True) if depth > 1 else None,
            catalog=exp.to_identifier(parts[-3].lower() if len(parts) > 2 else "path", quoted=True) if depth > 2 else None,
        )
        schema.add_table(
            reference, {c.name.lower(): "string" if c.type.startswith("struct") else c.type for c in relation.columns}, match_depth=False
        )
    try:
        catalog = "path" if depth > 2 else None
        return qualify(tree.copy(), dialect="spark", schema=schema, catalog=catalog, validate_qualify_columns=True)
    except SqlglotError as error:
        raise _unresolved(error, relations) from error


def _unresolved(error: SqlglotError, relations: dict[str, Relation]) -> DefinitionError:
    if unknown := re.fullmatch(r"Unknown column: (\w+).*", str(error), re.S):
        return _no_column(unknown[1], relations, None)
    found = re.search(r"Column '([^']+)' could not be resolved(?: for table: '([^']+)')?.*?(?:Line: (\d+), Col: (\d+))?$", str(error), re.S)
    if found is None:
        return DefinitionError("the query cannot be resolved", code="NAMES", detail=str(error)[:300], hint="Qualify the columns with their tables.")
    name, qualifier = found[1].split(".")[-1].strip('"`'), found[2]
    where = (int(found[3]), max(1, int(found[4]) - len(name) + 1)) if found[3] else None
    if not qualifier and any(c.name.lower() == name.lower() for r in relations.values() for c in r.columns):
        return DefinitionError(
            f'column "{name}" is ambiguous or out of reach',
            code="AMBIGUOUS",
            detail=_columns_of(relations),
            hint="Qualify the column with its table.",
            position=where,
        )
    return _no_column(f"{f'{qualifier}.' if qualifier else ''}{name}", relations, where)


def _no_column(name: str, relations: dict[str, Relation], where: tuple[int, int] | None) -> DefinitionError:
    return DefinitionError(
        f'column "{name}" does not exist',
        code="COLUMN_NOT_FOUND",
        detail=_columns_of(relations),
        hint="Use one of the columns above.",
        position=where,
    )


def _columns_of(relations: dict[str, Relation]) -> str:
    return " ".join(f"Columns of {split_key(k)[-1]} are {', '.join(c.name for c in r.columns)}." for k, r in sorted(relations.items()))
