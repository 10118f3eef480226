"""explode() and its kin: LATERAL VIEW, LATERAL in FROM, and calls in the select list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from runnel.algebra import Column, Generate, Node
from runnel.algebra.node import col, references
from runnel.bind import refuse
from runnel.bind.scope import Scope

if TYPE_CHECKING:
    from runnel.bind.binder import Binder, Selected

NAMES = frozenset(
    "explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode variant_explode_outer".split()
)


def is_generator(e: exp.Expr) -> bool:
    """A function that makes rows of one row."""
    return isinstance(e, exp.Func) and refuse.function_name(e) in NAMES


def lateral_view(binder: Binder, node: Node, scope: Scope, lateral: exp.Expr, outer: bool = False) -> Node:
    """LATERAL VIEW [OUTER] f(...) t AS a, b; its columns join the scope."""
    generator = binder.resolve(lateral.this, scope)
    if not isinstance(generator, exp.Func):
        raise refuse.unsupported("LATERAL", lateral)
    alias = lateral.args.get("alias")
    names = [c.name for c in (alias.args.get("columns") or ())] if alias else []
    made = _made(binder, node, generator, names)
    scope[lateral.alias_or_name.lower()] = {n.lower(): c.name for n, c in made}
    return Generate(node, generator, tuple(c for _, c in made), outer or bool(lateral.args.get("outer")))


def selected(binder: Binder, node: Node, scope: Scope, items: Selected) -> tuple[Node, Selected]:
    """SELECT explode(a) AS x: the rows that the one generator of a select list makes, and the list over their columns."""
    found: Selected = []
    for name, item in items:
        call = item.this if isinstance(item, exp.Aliases) else item
        if not is_generator(call):
            found.append((name, item))
            continue
        generator = binder.resolve(call, scope)
        names = [i.name for i in item.expressions] if isinstance(item, exp.Aliases) else []
        made = _made(binder, node, generator, names or ([name] if name else []))
        node = Generate(node, generator, tuple(c for _, c in made))
        found += [(n, col(c.name)) for n, c in made]
    return node, found


def _made(binder: Binder, node: Node, generator: exp.Expr, names: list[str]) -> list[tuple[str, Column]]:
    """The columns a generator makes, under the names given, or its own where there are not enough."""
    known = {c.name: c.type for c in node.columns}
    inputs = ", ".join(f"CAST(NULL AS {known[u]}) AS {col(u).sql('spark')}" for u in sorted(references(generator))) or "1 AS one"
    described = binder.lookup.describe(f"SELECT {generator.sql('spark')} FROM (SELECT {inputs}) AS t")
    shown = names if len(names) == len(described) else [c.name for c in described]
    return [(n, Column(binder.fresh(n), c.type)) for n, c in zip(shown, described, strict=True)]
