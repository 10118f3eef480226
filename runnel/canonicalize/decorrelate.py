"""R join[d = r and C] domain(d) = project(R filtered by C over r, d := r): the subquery's own column serves as the outer one.

The domain may grow by it, to values that nobody asks for; whoever reads the subquery looks its rows up by these columns.
"""

from __future__ import annotations

from sqlglot import exp

from runnel.algebra import Domain, Filter, Join, Node, Project
from runnel.algebra.condition import equalities
from runnel.algebra.node import col


def decorrelate(node: Node) -> Node:
    """Drop the domain of a correlated subquery whose outer columns are each equated with a column of its own.

    (SELECT MAX(x) FROM r WHERE r.k = t.k)   ->   SELECT k, MAX(x) FROM r GROUP BY k, looked up by t.k
    """
    node = node.map_children(decorrelate)
    if not isinstance(node, Join) or not isinstance(node.right, Domain):
        return node
    types = {c.name: c.type for c in node.columns}
    pairs, rest = equalities(node.condition, node.left.names, node.right.names)
    values: dict[str, exp.Expr] = {}
    conditions = list(rest)
    for pair in pairs:
        own, outer = pair.left, pair.right
        plain = isinstance(own, exp.Column) and isinstance(outer, exp.Column) and types[own.name] == types[outer.name]
        if plain and outer.name not in values:
            values[outer.name] = own
            if not pair.null_safe:
                conditions.append(exp.not_(exp.Is(this=own.copy(), expression=exp.null())))
        else:
            conditions.append(pair.on(own, outer))
    if set(values) != set(node.right.names):
        return node

    def swap(e: exp.Expr) -> exp.Expr:
        return values[e.name].copy() if isinstance(e, exp.Column) and e.name in values else e

    kept = Filter(node.left, exp.and_(*(c.copy().transform(swap) for c in conditions))) if conditions else node.left
    return Project(kept, node.columns, (*(col(n) for n in node.left.names), *(values[n].copy() for n in node.right.names)))
