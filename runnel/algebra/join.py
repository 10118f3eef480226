"""change(L join R) = change(L) join R.after + L.before join change(R)

Exact at any depth, for any condition, because both versions of every table can be read. A condition that is NULL joins
nothing. Weights multiply; one side of each term is a plain relation, whose rows all weigh 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import WEIGHT, Column, Face, Node, col, references, select, table
from runnel.algebra.steps import Steps
from runnel.algebra.union_all import _all


@dataclass(frozen=True)
class Join(Node):
    """Inner join: equi, theta or cross (no condition). The two sides have no column name in common."""

    left: Node
    right: Node
    condition: exp.Expr | None

    title = "Join"
    law_text = "change(L) join R.after + L.before join change(R)"
    supports = "INNER, CROSS, comma and theta joins of any number of tables; self-joins; USING"
    cost = "the changed rows joined with the other side"

    def __post_init__(self) -> None:
        common = set(self.left.names) & set(self.right.names)
        assert not common, f"both sides have columns {sorted(common)}"
        if self.condition is not None:
            self.require(references(self.condition), self.names, "condition")

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.left.columns, *self.right.columns)

    def select(self, *inputs: str) -> exp.Select:
        return self._join(inputs[0], inputs[1], self.names)

    def law(self, steps: Steps) -> str:
        left, right = steps.net(self.left), steps.net(self.right)
        names = (*self.names, WEIGHT)
        terms = []
        if left is not None:
            terms.append(self._join(left, steps.face(self.right, Face.AFTER), names))
        if right is not None:
            terms.append(self._join(steps.face(self.left, Face.BEFORE), right, names))
        return steps.define("join_change", _all(terms))

    def _join(self, left: str, right: str, names: tuple[str, ...]) -> exp.Select:
        query = select(col(n) for n in names).from_(table(left, "l"))
        if self.condition is None:
            return query.join(table(right, "r"), join_type="cross")
        return query.join(table(right, "r"), on=self.condition.copy(), join_type="inner")

    def arguments(self) -> str:
        return f"on {self.condition.sql('spark')}" if self.condition is not None else "cross"
