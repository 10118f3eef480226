"""change(mark(L, R)) = change(L semi R) marked TRUE + change(L anti R) marked FALSE

The mark is never NULL, as Spark has it: an IN under OR, NOT or CASE is the existence of a match, and NOT IN counts a
comparison that is NULL as one, which the condition says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.condition import equalities
from runnel.algebra.node import Column, Face, Node, col, named, references, select, table
from runnel.algebra.project import Project
from runnel.algebra.semi_join import SemiJoin, narrowed
from runnel.algebra.steps import Steps
from runnel.algebra.union_all import UnionAll, _all


@dataclass(frozen=True)
class Mark(Node):
    """`left` with one more column that says whether a row has a partner in `right`."""

    left: Node
    right: Node
    condition: exp.Expr | None
    output: str

    title = "Mark"
    law_text = "the changes of the semi join marked TRUE and of the anti join marked FALSE"
    supports = "EXISTS and IN as values: under OR, NOT and CASE, in SELECT and HAVING"
    cost = "as SemiJoin"
    grows_with_inserts = False

    def __post_init__(self) -> None:
        common = (set(self.left.names) | {self.output}) & set(self.right.names)
        assert not common, f"both sides have columns {sorted(common)}"
        if self.condition is not None:
            self.require(references(self.condition), (*self.left.names, *self.right.names), "condition")

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.left.columns, Column(self.output, "boolean"))

    def select(self, *inputs: str) -> exp.Select:
        # Not as EXISTS in the select list: Spark's optimizer fails on several of those in one query.
        halves = []
        for kind, value in (("left semi", exp.true()), ("left anti", exp.false())):
            on = self.condition.copy() if self.condition is not None else exp.true()
            half = select((*(col(n) for n in self.left.names), named(value, self.output))).from_(table(inputs[0], "l"))
            halves.append(half.join(table(inputs[1], "r"), on=on, join_type=kind))
        return _all(halves)

    def law(self, steps: Steps) -> str:
        change = steps.change(self.parts)
        assert change is not None
        return change

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        if not set(keys) <= set(self.left.names):
            return super().restricted(steps, face, keys, touched)
        left = steps.restrict(self.left, face, keys, touched)
        pairs, _ = equalities(self.condition, self.left.names, self.right.names)
        return steps.define("mark_touched", self.select(left, narrowed(steps, self.right, face, pairs, left)))

    @property
    def parts(self) -> UnionAll:
        """The same rows as a bag sum of operators with laws of their own."""
        return UnionAll(tuple(self._marked(anti) for anti in (False, True)))

    def _marked(self, anti: bool) -> Node:
        rows = SemiJoin(self.left, self.right, self.condition, anti)
        return Project(rows, self.columns, (*(col(n) for n in self.left.names), exp.false() if anti else exp.true()))

    def arguments(self) -> str:
        return f"{self.output} on {self.condition.sql('spark') if self.condition is not None else 'anything'}"
