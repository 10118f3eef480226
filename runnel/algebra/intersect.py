"""change(L intersect R) = after - before of the rows that a change of either side touches

NULL equals NULL, as set operations have it. With ALL a row appears as often as in the side that has it less often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from runnel.algebra.node import Column, Face, Node, col, table
from runnel.algebra.steps import Steps
from runnel.algebra.union_all import _all


@dataclass(frozen=True)
class Intersect(Node):
    """The rows that both sides have; both have the same columns."""

    left: Node
    right: Node
    all: bool = False

    title = "Intersect"
    law_text = "after - before of the touched rows"
    supports = "INTERSECT and INTERSECT ALL, nested anywhere"
    cost = "the touched rows on both faces of both sides"
    grows_with_inserts = False
    operation: ClassVar[type[exp.SetOperation]] = exp.Intersect

    def __post_init__(self) -> None:
        assert self.left.columns == self.right.columns, f"sides differ: {self.left.columns} and {self.right.columns}"

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns

    def select(self, *inputs: str) -> exp.Select:
        sides = [exp.select(*(col(n) for n in self.names)).from_(table(i)) for i in inputs]
        both = self.operation(this=sides[0], expression=sides[1], distinct=not self.all)
        return exp.select("*").from_(both.subquery("s"))

    def law(self, steps: Steps) -> str:
        changes = [c for c in (steps.net(self.left), steps.net(self.right)) if c is not None]
        rows = [exp.select(*(col(n) for n in self.names)).from_(table(c)) for c in changes]
        touched = steps.define(f"{self.slug}_touched", exp.select("*").from_(_all(rows).subquery("s")).distinct(), small=True)
        now, was = (
            steps.define(f"{self.slug}_{word}", self.select(*(steps.restrict(s, face, self.names, touched) for s in self.children)))
            for word, face in (("now", Face.AFTER), ("was", Face.BEFORE))
        )
        return steps.difference(self, now, was)

    def arguments(self) -> str:
        return "all" if self.all else ""
