"""change(filter(P, Q)) = filter(P, change(Q))

A predicate that is NULL keeps nothing, on either face. Weights pass through, so duplicates stay duplicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import Column, Face, Node, references, table
from runnel.algebra.steps import Steps
from runnel.algebra.want import Origin, Within


@dataclass(frozen=True)
class Filter(Node):
    """WHERE, HAVING, and ON of what is no longer a join."""

    child: Node
    predicate: exp.Expr

    title = "Filter"
    law_text = "the same filter on the child's change"
    supports = "WHERE and HAVING with any deterministic expression"
    cost = "the changed rows"
    linear = True

    def __post_init__(self) -> None:
        self.require(references(self.predicate), self.child.names, "predicate")

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns

    def select(self, *inputs: str) -> exp.Select:
        return exp.select("*").from_(table(inputs[0])).where(self.predicate.copy())

    def law(self, steps: Steps) -> str:
        change = steps.change(self.child)
        assert change is not None
        name = steps.define("filter_change", self.select(change))
        return steps.comes_net(name) if steps.netted(change) else name

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        return self.child.origins(column, changed)

    def near(self, steps: Steps, face: Face, bounds: Sequence[Within]) -> str:
        return steps.define("filter_near", self.select(steps.near(self.child, face, bounds)))

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        return steps.define("filter_touched", self.select(steps.restrict(self.child, face, keys, touched)))

    def arguments(self) -> str:
        return self.predicate.sql("spark")
