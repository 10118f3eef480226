"""change(filter(P, Q)) = filter(P, change(Q))

A predicate that is NULL keeps nothing, on either face. Weights pass through, so duplicates stay duplicates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import Column, Face, Node, Sieve, references, table
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
        return self._change(steps, change)

    def _change(self, steps: Steps, below: str) -> str:
        name = steps.define("filter_change", self.select(below))
        return steps.comes_net(name) if steps.netted(below) else name

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        return self.child.origins(column, changed)

    def sieves(self, column: str) -> Iterator[Sieve]:
        if len(self.linear_over) == 1:
            yield Sieve(self, column)
        else:
            yield from self.child.sieves(column)

    def sifted(self, steps: Steps, sieves: Mapping[str, Sieve]) -> str | None:
        below = steps.sifted(self.child, sieves)
        return None if below is None else self._change(steps, below)

    def identified(self, by: Collection[str]) -> bool:
        return self.child.identified(by)

    def near(self, steps: Steps, face: Face, bounds: Sequence[Within]) -> str:
        return steps.define("filter_near", self.select(steps.near(self.child, face, bounds)))

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        return steps.define("filter_touched", self.select(steps.restrict(self.child, face, keys, touched)))

    def both(self, steps: Steps, keys: Sequence[str], touched: str) -> str:
        return steps.define("filter_both_faces", self.select(steps.both(self.child, keys, touched)))

    def at_once(self, changed: frozenset[str]) -> bool:
        return self.child.at_once(changed)

    def arguments(self) -> str:
        return self.predicate.sql("spark")
