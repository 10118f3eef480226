"""Every column with the table it comes from, or a complaint that lists what there is."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from runnel.bind.expand import split_key
from runnel.bind.lookup import Relation
from runnel.errors import DefinitionError


def qualify_columns(tree: exp.Query, relations: dict[str, Relation]) -> exp.Query:
    """The query over full tables, its stars spelled out."""
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
        return _plain_keys(qualify(tree.copy(), dialect="spark", schema=schema, catalog=catalog, validate_qualify_columns=True))
    except SqlglotError as error:
        raise _unresolved(error, relations) from error


def _plain_keys(tree: exp.Query) -> exp.Query:
    """HAVING over grouping sets finds a qualified column only in a select list that has it without an alias: Spark resolves it there."""
    for select in tree.find_all(exp.Select):
        group = select.args.get("group")
        if select.args.get("having") and group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
            for item in list(select.expressions):
                if isinstance(item, exp.Alias) and isinstance(item.this, exp.Column) and item.alias == item.this.name:
                    item.replace(item.this)
    return tree


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
