"""L semi[o <=> d] (R join[C] domain(d)) = L semi[C over o] R: a domain that is only looked up again needs no rows of its own."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from runnel.algebra import Domain, Filter, Join, Mark, Node, Project, SemiJoin
from runnel.algebra.condition import conjuncts, together
from runnel.algebra.node import col


def pull_up_correlation(node: Node) -> Node:
    """Compare with the outer row itself instead of with the domain of its values.

    WHERE EXISTS (SELECT 1 FROM r WHERE r.k = t.k AND r.x < t.x)   ->   t semi join r on r.k = t.k and r.x < t.x
    """
    node = node.map_children(pull_up_correlation)
    if not isinstance(node, SemiJoin | Mark | Join):
        return node
    meaning: dict[str, exp.Expr] = {n: col(n) for n in node.right.names}
    right = node.right
    filters: list[exp.Expr] = []
    while isinstance(right, Project | Filter):
        if isinstance(right, Filter):
            filters.append(right.predicate)
        else:
            inner = dict(zip(right.names, right.expressions, strict=True))
            meaning = {n: _put(e, inner) for n, e in meaning.items()}
            filters = [_put(f, inner) for f in filters]
        right = right.child
    if not isinstance(right, Join) or not isinstance(right.right, Domain):
        return node
    outer = _outer(node, meaning, set(right.right.names))
    if set(outer) != set(right.right.names):
        return node
    meaning = {n: _put(e, outer) for n, e in meaning.items()}
    condition = [_put(c, meaning) for c in conjuncts(node.condition)]
    condition += [_put(f, outer) for f in filters] + [_put(c, outer) for c in conjuncts(right.condition)]
    condition = [c for c in condition if not (isinstance(c, exp.NullSafeEQ) and c.this == c.expression)]
    if isinstance(node, SemiJoin | Mark):
        return replace(node, right=right.left, condition=together(condition))
    joined = Join(node.left, right.left, together(condition))
    return Project(joined, node.columns, (*(col(n) for n in node.left.names), *(meaning[n] for n in node.right.names)))


def _outer(node: SemiJoin | Mark | Join, meaning: dict[str, exp.Expr], domain: set[str]) -> dict[str, exp.Expr]:
    """For each column of the domain the outer column that it is looked up by."""
    found: dict[str, exp.Expr] = {}
    for c in conjuncts(node.condition):
        if isinstance(c, exp.NullSafeEQ) and isinstance(c.this, exp.Column) and isinstance(c.expression, exp.Column):
            value = meaning.get(c.expression.name)
            if c.this.name in node.left.names and isinstance(value, exp.Column) and value.name in domain:
                found[value.name] = c.this
    return found


def _put(e: exp.Expr, meaning: dict[str, exp.Expr]) -> exp.Expr:
    def swap(x: exp.Expr) -> exp.Expr:
        if not isinstance(x, exp.Column) or x.name not in meaning:
            return x
        value = meaning[x.name].copy()
        return value if isinstance(value, exp.Column | exp.Literal) else exp.paren(value)

    return e.copy().transform(swap)
