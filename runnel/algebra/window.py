"""change(window(Q)) = after - before of the partitions that change(Q) touches

NULL keys form one partition. Ties are broken when the query is bound, so equal bags of rows give equal results. Without
PARTITION BY there is one partition: every change recomputes the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import Column, Face, Node, col, named, references, select, table
from runnel.algebra.steps import Steps
from runnel.algebra.want import Origin


@dataclass(frozen=True)
class Window(Node):
    """`child` with one more column per call; all calls are partitioned by the columns `keys`."""

    child: Node
    keys: tuple[str, ...]
    outputs: tuple[Column, ...]
    calls: tuple[exp.Expr, ...]

    title = "Window"
    law_text = "after - before of the touched partitions"
    supports = (
        "ranking, LAG and LEAD, NTILE, FIRST, LAST and NTH_VALUE, CUME_DIST, PERCENT_RANK and aggregates OVER, with ROWS and RANGE frames; "
        "several windows with different partitions; windows inside expressions, over joins and aggregates; session_window()"
    )
    cost = "the touched partitions on both faces; without PARTITION BY the whole input"
    grows_with_inserts = False

    def __post_init__(self) -> None:
        assert len(self.outputs) == len(self.calls), "every output has one call"
        self.require(frozenset(self.keys).union(*(references(c) for c in self.calls)), self.child.names, "calls and keys")

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, *self.outputs)

    def select(self, *inputs: str) -> exp.Select:
        values = (named(c.copy(), o.name) for c, o in zip(self.calls, self.outputs, strict=True))
        return select((*(col(n) for n in self.child.names), *values)).from_(table(inputs[0]))

    def law(self, steps: Steps) -> str:
        if not self.keys:
            return super().law(steps)
        touched = steps.touched(self.child, self.keys)
        now = steps.define("window_now", self.select(steps.restrict(self.child, Face.AFTER, self.keys, touched)))
        if steps.stores(self):
            return steps.replaced(self, now, self.keys, touched)
        was = steps.define("window_was", self.select(steps.restrict(self.child, Face.BEFORE, self.keys, touched)))
        return steps.difference(self, now, was)

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        return self.child.origins(column, changed) if column in self.keys else None

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        if not set(keys) <= set(self.keys):
            return super().restricted(steps, face, keys, touched)
        return steps.define("window_touched", self.select(steps.restrict(self.child, face, keys, touched)))

    def arguments(self) -> str:
        calls = ", ".join(named(c, o.name).sql("spark") for c, o in zip(self.calls, self.outputs, strict=True))
        return f"by [{', '.join(self.keys)}] {calls}{'' if self.keys else ' (recomputed whole at each change)'}"
