"""change(generate(Q)) = the same generator on change(Q)

Each row gives its rows by itself, with its own weight. NULL or an empty array gives none, or with OUTER one row of NULLs.
window() is a generator that Spark writes as a column: a row falls into one time window, into several, or into none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import WEIGHT, Column, Face, Node, col, named, references, select, table
from runnel.algebra.steps import Steps
from runnel.algebra.want import Origin


@dataclass(frozen=True)
class Generate(Node):
    """LATERAL VIEW: `child` with the rows that `generator` makes of each of its rows, in the columns `outputs`."""

    child: Node
    generator: exp.Expr
    outputs: tuple[Column, ...]
    outer: bool = False

    title = "Generate"
    law_text = "the same generator on the child's change"
    supports = "LATERAL VIEW [OUTER], LATERAL and SELECT of explode, posexplode, inline, stack, json_tuple and other deterministic generators; window() over times, tumbling and sliding"
    cost = "the changed rows"
    linear = True

    def __post_init__(self) -> None:
        self.require(references(self.generator), self.child.names, "generator")

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, *self.outputs)

    def select(self, *inputs: str) -> exp.Select:
        if self.generator.name.lower() == "window":
            return select((*(col(n) for n in self.child.names), named(self.generator.copy(), self.outputs[0].name))).from_(table(inputs[0]))
        alias = exp.TableAlias(this=exp.to_identifier("g"), columns=[exp.to_identifier(c.name, quoted=True) for c in self.outputs])
        lateral = exp.Lateral(this=self.generator.copy(), view=True, outer=self.outer, alias=alias)
        query = select(col(n) for n in self.names).from_(table(inputs[0]))
        query.append("laterals", lateral)
        return query

    def law(self, steps: Steps) -> str:
        change = steps.change(self.child)
        assert change is not None
        return steps.define("generate_change", self.select(change).select(col(WEIGHT)))

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        return self.child.origins(column, changed) if column in self.child.names else None

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        if not set(keys) <= set(self.child.names):
            return super().restricted(steps, face, keys, touched)
        return steps.define("generate_touched", self.select(steps.restrict(self.child, face, keys, touched)))

    def arguments(self) -> str:
        return f"{'outer ' if self.outer else ''}{self.generator.sql('spark')} as {', '.join(c.name for c in self.outputs)}"
