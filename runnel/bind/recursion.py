"""WITH RECURSIVE: the base bound once, the step over a reference to its own rows, both in the same columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from runnel.algebra import Column, Itself, Node, Recursive
from runnel.bind import refuse
from runnel.bind.scope import Outputs

if TYPE_CHECKING:
    from runnel.bind.binder import Binder, Ctes

NOT_MONOTONE = ("Aggregate", "Distinct", "Domain", "Except", "Intersect", "Limit", "Mark", "OuterJoin", "Window")


def reads_itself(cte: exp.Expr) -> bool:
    """Whether a WITH query names itself."""
    name = cte.alias.lower()
    return any(not t.db and t.name.lower() == name for t in cte.this.find_all(exp.Table) if isinstance(t.this, exp.Identifier))


def recursive(binder: Binder, cte: exp.Expr, ctes: Ctes) -> Outputs:
    """A recursive WITH query as the fixpoint of its step over its base."""
    from runnel.bind.binder import branch

    body = cte.this
    if not isinstance(body, exp.Union) or body.args.get("distinct"):
        raise refuse.unsupported("WITH RECURSIVE without UNION ALL", cte, "Spark defines recursion over UNION ALL only")
    base = binder.query(body.left, ctes)
    names = [c.name.lower() for c in cte.args["alias"].args.get("columns") or ()] or [n for n, _ in base.columns]
    types = {c.name: c.type for c in base.node.columns}
    name = binder.fresh(cte.alias)
    own = tuple(Column(binder.fresh(n), types[u]) for n, (_, u) in zip(names, base.columns, strict=True))
    outputs = tuple(Column(binder.fresh(n), c.type) for n, c in zip(names, own, strict=True))
    itself = Itself(name, own, tuple(c.name for c in outputs))
    step = binder.query(body.right, {**ctes, cte.alias.lower(): Outputs(itself, tuple((n, c.name) for n, c in zip(names, own, strict=True)))})
    _check_monotone(step.node, itself, body.right)
    node = Recursive(branch(base.node, [u for _, u in base.columns], outputs), branch(step.node, [u for _, u in step.columns], outputs), name)
    return Outputs(node, tuple((n, c.name) for n, c in zip(names, outputs, strict=True)))


def _check_monotone(step: Node, itself: Itself, tree: exp.Expr) -> None:
    """More rows in must never mean fewer rows out, or there is no least fixpoint to find."""
    for node in step.walk():
        if itself.key not in node.sources:
            continue
        negative = node.title == "SemiJoin" and (getattr(node, "anti", False) or itself.key in node.children[1].sources)
        if node.title in NOT_MONOTONE or negative:
            raise refuse.unsupported(f"{node.title} over the recursive reference", tree, "the recursion would not be monotone")
