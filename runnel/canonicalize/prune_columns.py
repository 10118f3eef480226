"""Columns that nobody reads are not read: every operator keeps what the one above it uses."""

from __future__ import annotations

from dataclasses import replace

from runnel.algebra import (
    Aggregate,
    Constant,
    Filter,
    Generate,
    Join,
    Limit,
    Mark,
    Node,
    OuterJoin,
    Project,
    Scan,
    SemiJoin,
    UnionAll,
    Window,
)
from runnel.algebra.node import col, references


def prune_columns(node: Node) -> Node:
    """Narrow scans, projections and aggregates to the columns used above them.

    SELECT a FROM (SELECT a, b, c FROM t)   ->   scans t for a alone
    """
    return _keep(node, frozenset(node.names))


def _keep(node: Node, used: frozenset[str]) -> Node:
    """The node with at least the columns `used`, in its own order."""
    match node:
        case Scan():
            kept = [(c, o) for c, o in zip(node.outputs, node.origin, strict=True) if c.name in used]
            return Scan(node.source, tuple(c for c, _ in kept), tuple(o for _, o in kept))
        case Filter():
            return Filter(_keep(node.child, used | references(node.predicate)), node.predicate)
        case Project():
            pairs = [(c, e) for c, e in zip(node.outputs, node.expressions, strict=True) if c.name in used]
            below = frozenset().union(*(references(e) for _, e in pairs))
            return Project(_keep(node.child, below), tuple(c for c, _ in pairs), tuple(e for _, e in pairs))
        case Join() | OuterJoin() | SemiJoin() | Mark():
            needed = used | (references(node.condition) if node.condition is not None else frozenset())
            return replace(node, left=_keep(node.left, needed & set(node.left.names)), right=_keep(node.right, needed & set(node.right.names)))
        case UnionAll():
            return UnionAll(tuple(_exactly(_keep(b, used), [n for n in node.names if n in used]) for b in node.branches))
        case Aggregate():
            calls = tuple(c for c in node.calls if c.output.name in used)
            below = frozenset(node.keys).union(*(references(c.expression) for c in calls))
            return replace(node, child=_keep(node.child, below), calls=calls)
        case Generate():
            return replace(node, child=_keep(node.child, (used | references(node.generator)) & set(node.child.names)))
        case Window():
            calls_kept = [(c, o) for c, o in zip(node.calls, node.outputs, strict=True) if o.name in used]
            if not calls_kept:
                return _keep(node.child, used)
            below = (used & set(node.child.names)).union(node.keys, *(references(c) for c, _ in calls_kept))
            return Window(_keep(node.child, below), node.keys, tuple(o for _, o in calls_kept), tuple(c for c, _ in calls_kept))
        case Limit():
            return replace(node, child=_keep(node.child, used.union(node.keys, *(references(o) for o in node.order))))
        case Constant():
            kept = [(c, o) for c, o in zip(node.outputs, node.origin, strict=True) if c.name in used]
            return Constant(node.query, tuple(c for c, _ in kept), tuple(o for _, o in kept))
        case _:
            return node.map_children(lambda child: _keep(child, frozenset(child.names)))


def _exactly(node: Node, names: list[str]) -> Node:
    """Branches of a union must agree to the column; a branch that kept more is cut."""
    if list(node.names) == names:
        return node
    columns = {c.name: c for c in node.columns}
    return Project(node, tuple(columns[n] for n in names), tuple(col(n) for n in names))
