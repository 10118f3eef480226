"""project(E2, project(E1, Q)) = project(E2 over E1, Q), when no computed expression would be computed twice."""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from runnel.algebra import Node, Project
from runnel.canonicalize.substitute import below


def merge_projects(node: Node) -> Node:
    """Fold a projection into the one above it.

    SELECT a + 1 AS b FROM (SELECT x AS a FROM t)   ->   SELECT x + 1 AS b FROM t
    """
    node = node.map_children(merge_projects)
    while isinstance(node, Project) and isinstance(node.child, Project) and _cheap(node, node.child):
        inner = node.child
        node = Project(inner.child, node.outputs, tuple(below(e, inner) for e in node.expressions))
    return node


def _cheap(outer: Project, inner: Project) -> bool:
    uses = Counter(c.name for e in outer.expressions for c in e.find_all(exp.Column))
    return all(isinstance(e, exp.Column) or uses[c.name] <= 1 for c, e in zip(inner.outputs, inner.expressions, strict=True))
