"""filter(P, project(E, Q)) = project(E, filter(P over E, Q)), when P reads plain columns of E only."""

from __future__ import annotations

from sqlglot import exp

from runnel.algebra import Filter, Node, Project
from runnel.algebra.node import references
from runnel.canonicalize.substitute import below


def filter_below_project(node: Node) -> Node:
    """Move a filter under a projection that only renames what the filter reads.

    SELECT * FROM (SELECT x AS a FROM t) WHERE a > 1   ->   SELECT x AS a FROM t WHERE x > 1
    """
    node = node.map_children(filter_below_project)
    if isinstance(node, Filter) and isinstance(node.child, Project):
        project = node.child
        defined = dict(zip(project.names, project.expressions, strict=True))
        if all(isinstance(defined[name], exp.Column) for name in references(node.predicate)):
            inner = filter_below_project(Filter(project.child, below(node.predicate, project)))
            return Project(inner, project.outputs, project.expressions)
    return node
