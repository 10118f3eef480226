"""change(constant) = nothing

Rows that the query itself spells out. They are read like a table and never change.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import Column, Face, Node, named
from runnel.algebra.steps import Steps


@dataclass(frozen=True)
class Constant(Node):
    """VALUES, range() or a SELECT without FROM. `query` has the columns `outputs` under the names `origin`."""

    query: exp.Select
    outputs: tuple[Column, ...]
    origin: tuple[str, ...]

    title = "Constant"
    law_text = "nothing: it never changes"
    supports = "VALUES and range() in FROM; SELECT without FROM"
    cost = "none"
    linear = True

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.outputs

    def select(self, *inputs: str) -> exp.Select:
        outputs = (named(exp.column(exp.to_identifier(o, quoted=True)), c.name) for o, c in zip(self.origin, self.outputs, strict=True))
        return exp.select(*list(outputs) or [exp.Literal.number(1)]).from_(self.query.copy().subquery("c"))

    def relation(self, steps: Steps, face: Face) -> str:
        return steps.define("constant", self.select())

    def arguments(self) -> str:
        return self.query.sql("spark")
