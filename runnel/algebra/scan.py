"""change(scan) = the rows of the change feed between the two versions.

NULLs are ordinary values. Duplicates are ordinary rows: a feed may name the same row several times, weights add up.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import WEIGHT, Column, Face, Node, col, named, select, table
from runnel.algebra.steps import Steps, slug


@dataclass(frozen=True)
class Scan(Node):
    """A table that somebody else writes, or another stream table. `origin` are its own names for `outputs`."""

    source: str
    outputs: tuple[Column, ...]
    origin: tuple[str, ...]

    title = "Scan"
    law_text = "rows of the change feed between the two versions"
    supports = "Delta tables by name or path; other stream tables; views (inlined)"
    cost = "the changed rows"
    linear = True

    def __post_init__(self) -> None:
        assert len(self.outputs) == len(self.origin), "every output has one origin"

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.outputs

    @property
    def sources(self) -> frozenset[str]:
        return frozenset({self.source})

    @property
    def slug(self) -> str:
        return slug(self.source)

    def select(self, *inputs: str) -> exp.Select:
        outputs = (named(col(o), c.name) for o, c in zip(self.origin, self.outputs, strict=True))
        return select(outputs).from_(table(inputs[0]))

    def relation(self, steps: Steps, face: Face) -> str:
        return steps.define(f"{self.slug}_{face}", self.select(steps.input(self.source, face)))

    def law(self, steps: Steps) -> str:
        query = self.select(steps.input(self.source, Face.CHANGE)).select(col(WEIGHT))
        return steps.define(f"{self.slug}_change", query)

    def arguments(self) -> str:
        return f"{self.source} [{', '.join(self.names)}]"
