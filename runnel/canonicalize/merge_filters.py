"""filter(P, filter(Q, R)) = filter(Q and P, R)"""

from __future__ import annotations

from sqlglot import exp

from runnel.algebra import Filter, Node


def merge_filters(node: Node) -> Node:
    """One filter where there was a stack of them.

    SELECT * FROM (SELECT * FROM t WHERE a > 1) WHERE b > 2   ->   SELECT * FROM t WHERE a > 1 AND b > 2
    """
    node = node.map_children(merge_filters)
    if isinstance(node, Filter) and isinstance(node.child, Filter):
        return Filter(node.child.child, exp.and_(node.child.predicate, node.predicate))
    return node
