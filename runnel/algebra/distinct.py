"""change(distinct(Q)) = rows whose count in Q moved between zero and not zero

At the root the count itself is kept (an additive group without partials) and finished at read. Inside a query, touched
rows are looked up on both faces. NULL equals NULL, as DISTINCT has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import Column, Face, Node, col, table
from runnel.algebra.steps import Steps


@dataclass(frozen=True)
class Distinct(Node):
    """SELECT DISTINCT over all columns of its child."""

    child: Node

    title = "Distinct"
    law_text = "root: weights are counts, finished at read; inside: after - before of the touched rows"
    supports = "SELECT DISTINCT, UNION"
    cost = "root: the changed rows; inside: the touched rows on both faces"
    grows_with_inserts = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns

    def select(self, *inputs: str) -> exp.Select:
        return exp.select(*(col(n) for n in self.names)).from_(table(inputs[0])).distinct()

    def law(self, steps: Steps) -> str:
        touched = steps.touched(self.child, self.names)
        after = steps.restrict(self.child, Face.AFTER, self.names, touched)
        before = steps.restrict(self.child, Face.BEFORE, self.names, touched)
        return steps.difference(self, steps.define("distinct_now", self.select(after)), steps.define("distinct_was", self.select(before)))

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        return steps.define("distinct_touched", self.select(steps.restrict(self.child, face, keys, touched)))
