"""change(distinct(Q)) = rows whose count in Q moved between zero and not zero

At the root the count itself is kept (an additive group without partials) and finished at read. Inside a query, touched
rows are counted as they are now; less their change, that is what they were. NULL equals NULL, as DISTINCT has it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.counts import flipped
from runnel.algebra.node import OWN, WEIGHT, Column, Face, Node, col, named, table
from runnel.algebra.steps import UNGROUPABLE, Steps
from runnel.algebra.want import Origin

PRESENT = f"{OWN}present"


@dataclass(frozen=True)
class Distinct(Node):
    """SELECT DISTINCT over all columns of its child."""

    child: Node

    title = "Distinct"
    law_text = "root: weights are counts, finished at read; inside: touched rows whose count moved between zero and not zero"
    supports = "SELECT DISTINCT, UNION"
    cost = "root: the changed rows; inside: the touched rows on one face"
    grows_with_inserts = False

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns

    def select(self, *inputs: str) -> exp.Select:
        return exp.select(*(col(n) for n in self.names)).from_(table(inputs[0])).distinct()

    def law(self, steps: Steps) -> str:
        if any(c.type in UNGROUPABLE for c in self.columns):
            return super().law(steps)
        change = steps.net(self.child)
        assert change is not None
        if not steps.netted(change):
            change = steps.consolidate("distinct_net", change, self.columns)
        names = [col(n) for n in self.names]
        near = steps.restrict(self.child, Face.AFTER, self.names, change)
        now = exp.select(*names, named(exp.Count(this=exp.Star()), PRESENT)).from_(table(near)).group_by(*(n.copy() for n in names))
        same = exp.and_(*(exp.NullSafeEQ(this=col(n, "m"), expression=col(n, "n")) for n in self.names))
        count = exp.func("coalesce", col(PRESENT, "n"), exp.Literal.number(0))
        rows = exp.select(*(col(n, "m") for n in self.names), named(exp.cast(flipped(count, col(WEIGHT, "m")), "bigint"), WEIGHT))
        rows = rows.from_(table(change, "m")).join(table(steps.define("distinct_present", now), "n"), on=same, join_type="left")
        moved = steps.define("distinct_counted", rows)
        return steps.define("distinct_change", exp.select("*").from_(table(moved)).where(exp.NEQ(this=col(WEIGHT), expression=exp.Literal.number(0))))

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        return self.child.origins(column, changed)

    def identified(self, by: Collection[str]) -> bool:
        return set(self.names) <= set(by) or self.child.identified(by)

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        return steps.define("distinct_touched", self.select(steps.restrict(self.child, face, keys, touched)))
