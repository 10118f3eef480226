"""window(C, window(D, Q)) = window(D and C, Q), where both have the same partitions and C does not read what D computes"""

from __future__ import annotations

from runnel.algebra import Node, Window
from runnel.algebra.node import references


def merge_windows(node: Node) -> Node:
    """One window operator where there was one per call: a change then computes touched partitions once, not once per call on both faces.

    SELECT *, MIN(x) OVER (PARTITION BY k) FROM (SELECT *, MAX(x) OVER (PARTITION BY k) FROM t)
    ->   SELECT *, MAX(x) OVER (PARTITION BY k), MIN(x) OVER (PARTITION BY k) FROM t
    """
    node = node.map_children(merge_windows)
    if not isinstance(node, Window) or not isinstance(node.child, Window) or set(node.keys) != set(node.child.keys):
        return node
    below = node.child
    computed = {o.name for o in below.outputs}
    if computed & frozenset().union(*map(references, node.calls)):
        return node
    return Window(below.child, below.keys, (*below.outputs, *node.outputs), (*below.calls, *node.calls))
