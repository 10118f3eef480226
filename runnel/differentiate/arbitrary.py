"""Sketches and histograms: of all results that the order of rows permits, the one that was computed last is kept.

At the root of a query that does no harm. A touched group is computed again, and the row to take back is the one that is
stored. Anywhere else the rows before a refresh would have to be computed again, to the same bytes: that is refused.
Columns that show such a result cannot be checked against a query from scratch, and `verify` leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from runnel.algebra import Aggregate, Filter, Limit, Node, Project, Window
from runnel.algebra.functions import ARBITRARY, function_name, function_of
from runnel.algebra.node import references
from runnel.bind.determine import UNDETERMINED
from runnel.differentiate.plan import Root
from runnel.errors import Unsupported


def arbitrary_columns(tree: Node, root: Root) -> tuple[int, ...]:
    """The positions of the outputs of a canonical tree that show an arbitrary result; refused when it cannot be kept."""
    for node in root.maintained.walk():
        for _, call in _arbitrary(node):
            if not (root.replaces and node is root.maintained):
                raise _refused(call, "inside a larger query")
    found = dict(_arbitrary(root.maintained))
    names = set(found)
    for node in reversed(list(_above(tree, root.maintained))):
        match node:
            case Project():
                names = {o.name for o, e in zip(node.outputs, node.expressions, strict=True) if references(e) & names}
            case Filter() if references(node.predicate) & names:
                raise _refused(next(iter(found.values())), "under a filter of its result")
            case Limit() if any(references(o) & names for o in node.order):
                raise _refused(next(iter(found.values())), "in the order of a LIMIT")
    return tuple(i for i, c in enumerate(tree.columns) if c.name in names)


def _above(tree: Node, maintained: Node) -> Iterator[Node]:
    """The operators that are finished at read, from the top."""
    while tree is not maintained:
        yield tree
        tree = tree.children[0]


def _arbitrary(node: Node) -> Iterator[tuple[str, str]]:
    """The columns that a node makes by such functions, with the function of each."""
    calls: list[tuple[str, exp.Expr]] = []
    match node:
        case Aggregate():
            calls = [(c.output.name, c.expression) for c in node.calls]
        case Window():
            calls = [(o.name, c.this) for o, c in zip(node.outputs, node.calls, strict=True)]
    for output, call in calls:
        name = function_name(function_of(call))
        if name in ARBITRARY:
            yield output, name


def _refused(name: str, where: str) -> Unsupported:
    return Unsupported(
        f"{name}() {where} is not maintained incrementally",
        detail=f"{UNDETERMINED[name][:1].upper()}{UNDETERMINED[name][1:]}, so the rows to take back cannot be computed again.",
        hint="Make it a stream table of its own, and read that; or use REFRESH MODE AUTO or FULL.",
        construct=f"{name}()",
    )
