"""change(limit(Q)) = after - before, of the touched groups when the limit is per group

At the root the rows are kept and the limit is finished at read. The order is made total when the query is bound, so that
no tie is left to chance.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import Column, Face, Node, col, references, select, table
from runnel.algebra.steps import Steps


@dataclass(frozen=True)
class Limit(Node):
    """ORDER BY `order` LIMIT `count` OFFSET `offset`, over all rows or, for a correlated subquery, per value of `keys`."""

    child: Node
    order: tuple[exp.Expr, ...]
    count: int | None
    offset: int = 0
    keys: tuple[str, ...] = ()

    title = "Limit"
    law_text = "root: finished at read over the maintained rows; inside: after - before"
    supports = "ORDER BY with LIMIT and OFFSET, at the root, in subqueries and in LATERAL; ORDER BY alone is dropped"
    cost = "root: that of the query below; inside: one pass over the input on both faces"
    grows_with_inserts = False

    def __post_init__(self) -> None:
        self.require(frozenset(self.keys).union(*(references(o) for o in self.order)), self.child.names, "order and keys")

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns

    def select(self, *inputs: str) -> exp.Select:
        names = [col(n) for n in self.names]
        if not self.keys:
            query = select(names).from_(table(inputs[0])).order_by(*(o.copy() for o in self.order))
            query = query.limit(self.count) if self.count is not None else query
            return query.offset(self.offset) if self.offset else query
        rank = exp.Window(this=exp.RowNumber(), partition_by=[col(k) for k in self.keys], order=exp.Order(expressions=[o.copy() for o in self.order]))
        ranked = select((*names, exp.alias_(rank, RANK))).from_(table(inputs[0])).subquery("ranked")
        bounds: list[exp.Expr] = [exp.GT(this=col(RANK), expression=exp.Literal.number(self.offset))]
        if self.count is not None:
            bounds.append(exp.LTE(this=col(RANK), expression=exp.Literal.number(self.offset + self.count)))
        return select([c.copy() for c in names]).from_(ranked).where(*bounds)

    def law(self, steps: Steps) -> str:
        if not self.keys:
            return super().law(steps)
        touched = steps.touched(self.child, self.keys)
        faces = [steps.restrict(self.child, face, self.keys, touched) for face in (Face.AFTER, Face.BEFORE)]
        return steps.difference(self, *(steps.define(f"limit_{word}", self.select(f)) for word, f in zip(("now", "was"), faces, strict=True)))

    def arguments(self) -> str:
        order = ", ".join(o.sql("spark") for o in self.order)
        per = f" per [{', '.join(self.keys)}]" if self.keys else ""
        return f"{self.count if self.count is not None else 'all'}{f' offset {self.offset}' if self.offset else ''} by {order or 'nothing'}{per}"


RANK = "__runnel_rank"
