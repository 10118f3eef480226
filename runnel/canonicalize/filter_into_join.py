"""filter(P, L join[C] R) = filter(P_L, L) join[C and P_LR] filter(P_R, R), by the columns that each conjunct reads.

Of a semi or an outer join only the left side may take conjuncts.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from runnel.algebra import Filter, Join, Mark, Node, OuterJoin, SemiJoin
from runnel.algebra.condition import conjuncts
from runnel.algebra.node import references


def filter_into_join(node: Node) -> Node:
    """Give each conjunct to the side it speaks of, and the rest to the join's condition.

    SELECT * FROM a, b WHERE a.id = b.id AND b.x > 1   ->   SELECT * FROM a JOIN (SELECT * FROM b WHERE x > 1) ON a.id = b.id
    """
    if isinstance(node, Filter) and isinstance(node.child, Join):
        join = node.child
        sides: dict[str, list[exp.Expr]] = {"left": [], "right": [], "both": []}
        for conjunct in conjuncts(node.predicate):
            used = references(conjunct)
            where = "left" if used and used <= set(join.left.names) else "right" if used and used <= set(join.right.names) else "both"
            sides[where].append(conjunct)
        condition = [*([join.condition] if join.condition is not None else []), *sides["both"]]
        node = Join(_filtered(join.left, sides["left"]), _filtered(join.right, sides["right"]), exp.and_(*condition) if condition else None)
    elif isinstance(node, Filter) and isinstance(node.child, SemiJoin | Mark | OuterJoin) and not getattr(node.child, "full", False):
        outer = node.child
        left = [c for c in conjuncts(node.predicate) if references(c) and references(c) <= set(outer.left.names)]
        rest = [c for c in conjuncts(node.predicate) if c not in left]
        node = replace(outer, left=_filtered(outer.left, left))
        node = Filter(node, exp.and_(*rest)) if rest else node
    return node.map_children(filter_into_join)


def _filtered(node: Node, conjuncts: list[exp.Expr]) -> Node:
    if not conjuncts:
        return node
    if isinstance(node, Filter):
        return Filter(node.child, exp.and_(node.predicate, *conjuncts))
    return Filter(node, exp.and_(*conjuncts))
