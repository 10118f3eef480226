"""change(Q1 + Q2) = change(Q1) + change(Q2)

NULLs need no care. A row present in several branches has the sum of their weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from runnel.algebra.node import WEIGHT, Column, Face, Node, col, select, table
from runnel.algebra.steps import Steps
from runnel.algebra.want import Origin


@dataclass(frozen=True)
class UnionAll(Node):
    """The bag sum of branches whose columns have the same names and types, in the same order."""

    branches: tuple[Node, ...]

    title = "UnionAll"
    law_text = "the sum of the branches' changes"
    supports = "UNION ALL of any number of branches; UNION (as DISTINCT over UNION ALL)"
    cost = "the changed rows of the branches that changed"
    linear = True

    def __post_init__(self) -> None:
        assert len(self.branches) > 1, "a union has two branches or more"
        for b in self.branches[1:]:
            assert b.columns == self.branches[0].columns, f"branches differ: {b.columns} and {self.branches[0].columns}"

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.branches[0].columns

    def select(self, *inputs: str) -> exp.Select:
        return _all([select(col(n) for n in self.names).from_(table(i)) for i in inputs])

    def law(self, steps: Steps) -> str:
        changes = [c for c in (steps.change(b) for b in self.branches) if c is not None]
        return steps.define("unionall_change", _all([exp.select(*(col(n) for n in (*self.names, WEIGHT))).from_(table(c)) for c in changes]))

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        found = [b.origins(column, changed) for b in self.branches if b.sources & changed]
        return None if any(o is None for o in found) else frozenset().union(*(o for o in found if o is not None))

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        return steps.define("unionall_touched", self.select(*(steps.restrict(b, face, keys, touched) for b in self.branches)))


def _all(selects: list[exp.Select]) -> exp.Select:
    return reduce(lambda left, right: exp.union(left, right, distinct=False, copy=False), selects)  # type: ignore[return-value, arg-type]
