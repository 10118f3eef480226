"""What names mean at one place of a query: the columns of FROM, and those that a subquery takes from the query around it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from runnel.algebra import Node

Scope = dict[str, dict[str, str]]
"""alias -> column as written -> unique column of the tree."""

Place = tuple[str, str]
"""An alias and a column as written."""


@dataclass(frozen=True)
class Outer:
    """The query around a correlated subquery: its rows, and for each outer column the subquery reads its unique name."""

    node: Node
    columns: dict[Place, str]


@dataclass(frozen=True)
class Outputs:
    """A bound query: its node, and for each output the name users write and the unique name in the tree.

    A correlated subquery carries the outer columns along: `carried` maps them to columns of its own, by which its rows
    are looked up. `empties` are the outputs of a global aggregate over no rows at all, which such a look-up may find.
    """

    node: Node
    columns: tuple[tuple[str, str], ...]
    carried: dict[str, str] = field(default_factory=dict)
    empties: dict[str, exp.Expr] | None = None


def free(query: exp.Expr) -> dict[Place, exp.Column]:
    """The columns that a query reads from outside itself, as (alias, name)."""
    found: dict[Place, exp.Column] = {}
    for column in query.find_all(exp.Column):
        alias = column.table.lower()
        if alias and not _bound(column, alias, query):
            found.setdefault((alias, column.name.lower()), column)
    return found


def _bound(column: exp.Expr, alias: str, query: exp.Expr) -> bool:
    node: exp.Expr | None = column
    while node is not None:
        if isinstance(node, exp.Select) and alias in aliases(node):
            return True
        if node is query:
            return False
        node = node.parent
    return False


def aliases(select: exp.Select) -> set[str]:
    """The names that FROM, JOIN and LATERAL give at one level."""
    items = [select.args["from_"].this] if select.args.get("from_") else []
    items += [j.this for j in select.args.get("joins") or ()]
    items += list(select.args.get("laterals") or ())
    names: set[str] = set()
    while items:
        item = items.pop()
        names.add(item.alias_or_name.lower())
        items += [j.this for j in item.args.get("joins") or ()]
        if isinstance(item, exp.Paren):
            items.append(item.this)
    return names


def own(select: exp.Select, kinds: tuple[type[exp.Expr], ...]) -> list[exp.Expr]:
    """The nodes of some kinds in the clauses of one SELECT, leaving subqueries and FROM out."""
    clauses = [*select.expressions, *(select.args.get(k) for k in ("where", "group", "having", "order"))]
    clauses += [j.args.get("on") for j in select.args.get("joins") or ()]
    clauses += list(select.args.get("windows") or ()) + list(select.args.get("laterals") or ())
    return [n for c in clauses if c is not None for n in within(c, kinds)]


def within(expression: exp.Expr, kinds: tuple[type[exp.Expr], ...]) -> list[exp.Expr]:
    """The nodes of some kinds in an expression, leaving subqueries out."""
    return [n for n in expression.walk(prune=lambda n: isinstance(n, exp.Query)) if isinstance(n, kinds)]


def orderable(type_: str) -> bool:
    """Whether Spark can sort by a type."""
    return "map<" not in type_ and "variant" not in type_
