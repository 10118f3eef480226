"""Text as written -> text that stands on its own: full table names, views replaced by their queries."""

from __future__ import annotations

from sqlglot import exp

from runnel.bind.lookup import Lookup, Relation
from runnel.bind.parse import parse_query, parts_of, position, tables_of
from runnel.errors import DefinitionError


def expand(tree: exp.Query, lookup: Lookup, path: tuple[str, ...] = ()) -> tuple[exp.Query, dict[str, Relation]]:
    """The query over full names with views inlined, and the tables it reads by key."""
    tree = tree.copy()
    relations: dict[str, Relation] = {}
    for reference in list(tables_of(tree)):
        if reference.args.get("version") or reference.args.get("when"):
            raise DefinitionError(
                f'the query pins "{reference.name}" to a version',
                code="TIME_TRAVEL",
                detail="A stream table follows the latest version of its sources.",
                hint="Leave VERSION AS OF and TIMESTAMP AS OF out, or read the old version into a table of its own.",
                position=position(reference),
            )
        relation = lookup.relation(parts_of(reference))
        if relation is None:
            raise _unknown(reference, lookup)
        if relation.view_text is None:
            relations[relation.key] = relation
            _point(reference, relation)
            continue
        if relation.key in path:
            raise DefinitionError(
                f"view {relation.key} reads itself", code="CYCLE", detail=" -> ".join((*path, relation.key)) + ".", hint="Break the cycle."
            )
        inner, found = expand(parse_query(relation.view_text), lookup, (*path, relation.key))
        relations.update(found)
        alias = exp.TableAlias(
            this=exp.to_identifier(reference.alias or reference.name, quoted=True),
            columns=[exp.to_identifier(c.name, quoted=True) for c in relation.columns],
        )
        subquery = exp.Subquery(this=inner, alias=alias)
        for name in ("joins", "laterals", "pivots"):
            if reference.args.get(name):
                subquery.set(name, reference.args[name])
        reference.replace(subquery)
    return tree, relations


def _point(reference: exp.Table, relation: Relation) -> None:
    """Rename a reference to its key, keeping the name that columns may be qualified with."""
    if not reference.alias:
        reference.set("alias", exp.TableAlias(this=exp.to_identifier(reference.name, quoted=True)))
    *qualifiers, name = split_key(relation.key)
    reference.set("this", exp.to_identifier(name, quoted=True))
    reference.set("db", exp.to_identifier(qualifiers[-1], quoted=True) if qualifiers else None)
    reference.set("catalog", exp.to_identifier(qualifiers[-2], quoted=True) if len(qualifiers) > 1 else None)


def split_key(key: str) -> list[str]:
    """The parts of a key, with dots inside backticks left alone.

    >>> split_key("spark_catalog.default.orders"), split_key("delta.`/a/b.c`")
    (['spark_catalog', 'default', 'orders'], ['delta', '/a/b.c'])
    """
    parts, current, quoted = [], "", False
    for character in key:
        if character == "`":
            quoted = not quoted
        elif character == "." and not quoted:
            parts.append(current)
            current = ""
        else:
            current += character
    return [*parts, current]


def join_key(parts: tuple[str, ...] | list[str]) -> str:
    """The inverse of `split_key`: parts that are not plain words are quoted."""
    return ".".join(p if p.replace("_", "a").isalnum() else f"`{p}`" for p in parts)


def _unknown(reference: exp.Table, lookup: Lookup) -> DefinitionError:
    known = lookup.known()
    return DefinitionError(
        f'table "{".".join(parts_of(reference))}" does not exist',
        code="TABLE_NOT_FOUND",
        detail=f"Tables are {', '.join(known[:20])}{' ...' if len(known) > 20 else ''}." if known else "There are no tables yet.",
        hint="Create the table first, or name it with its schema.",
        position=position(reference),
    )
