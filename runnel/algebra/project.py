"""change(project(E, Q)) = project(E, change(Q))

Expressions see NULL as Spark does. Rows that become equal simply share a weight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from runnel.algebra.node import WAS, WEIGHT, Column, Face, Node, Sieve, col, named, references, select, table
from runnel.algebra.steps import Steps
from runnel.algebra.want import Origin, Within


@dataclass(frozen=True)
class Project(Node):
    """SELECT of expressions, row by row."""

    child: Node
    outputs: tuple[Column, ...]
    expressions: tuple[exp.Expr, ...]

    title = "Project"
    law_text = "the same expressions on the child's change"
    supports = "all deterministic Spark expressions"
    cost = "the changed rows"
    linear = True

    def __post_init__(self) -> None:
        assert len(self.outputs) == len(self.expressions), "every output has one expression"
        assert len({c.name for c in self.outputs}) == len(self.outputs), f"output names repeat: {[c.name for c in self.outputs]}"
        for e in self.expressions:
            self.require(references(e), self.child.names, "expression")

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.outputs

    def select(self, *inputs: str) -> exp.Select:
        outputs = [named(e.copy(), c.name) for e, c in zip(self.expressions, self.outputs, strict=True)]
        return select(outputs, table(inputs[0]))

    def law(self, steps: Steps) -> str:
        change = steps.change(self.child)
        assert change is not None
        return self._change(steps, change)

    def _change(self, steps: Steps, below: str) -> str:
        name = steps.define("project_change", self.select(below).select(col(WEIGHT), copy=False))
        if steps.netted(below) and {e.name for e in self._renamed.values()} == set(self.child.names):
            steps.comes_net(name)
        return steps.takes(name, below, {n: e.name for n, e in self._renamed.items()})

    @property
    def _renamed(self) -> dict[str, exp.Column]:
        """The outputs that are columns of the child under a name."""
        return {n: e for n, e in zip(self.names, self.expressions, strict=True) if isinstance(e, exp.Column)}

    def sieves(self, column: str) -> Iterator[Sieve]:
        if column in self._renamed:
            yield from self.child.sieves(self._renamed[column].name)

    def sifted(self, steps: Steps, sieves: Mapping[str, Sieve]) -> str | None:
        below = steps.sifted(self.child, {self._renamed[c].name: s for c, s in sieves.items() if c in self._renamed})
        return None if below is None else self._change(steps, below)

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        value = self.expressions[self.names.index(column)]
        return self.child.origins(value.name, changed) if isinstance(value, exp.Column) else None

    def identified(self, by: Collection[str]) -> bool:
        return self.child.identified([self._renamed[c].name for c in by if c in self._renamed])

    def near(self, steps: Steps, face: Face, bounds: Sequence[Within]) -> str:
        values = dict(zip(self.names, self.expressions, strict=True))
        below = [replace(b, column=values[b.column].name) for b in bounds if isinstance(values[b.column], exp.Column)]
        return steps.define("project_near", self.select(steps.near(self.child, face, below))) if below else steps.face(self, face)

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        below = self._below(keys)
        if below is None:
            return super().restricted(steps, face, keys, touched)
        handed = steps.renamed("keys_below", touched, dict(zip(below, keys, strict=True)))
        return steps.define("project_touched", self.select(steps.restrict(self.child, face, below, handed)))

    def both(self, steps: Steps, keys: Sequence[str], touched: str) -> str:
        below = self._below(keys)
        if below is None:
            return super().both(steps, keys, touched)
        handed = steps.renamed("keys_below", touched, dict(zip(below, keys, strict=True)))
        return steps.define("project_both_faces", self.select(steps.both(self.child, below, handed)).select(col(WEIGHT), col(WAS)))

    def _below(self, keys: Sequence[str]) -> list[str] | None:
        """The columns of the child that keys are, if each is one of its own."""
        found = list(dict.fromkeys(self._renamed[k].name for k in keys if k in self._renamed))
        return found if len(found) == len(keys) else None

    def at_once(self, changed: frozenset[str]) -> bool:
        return self.child.at_once(changed)

    def arguments(self) -> str:
        return ", ".join(named(e, c.name).sql("spark") for e, c in zip(self.expressions, self.outputs, strict=True))

    @property
    def renames_only(self) -> bool:
        return all(isinstance(e, exp.Column) for e in self.expressions)
