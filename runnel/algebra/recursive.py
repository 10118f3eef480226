"""change(fix(B, S)) = fix(change(B) + change(S) over the rows before, S.after applied to the change itself)

R = B + S(R), and S is linear in R, so D = R.after - R.before satisfies D = change(B) + (S.after - S.before)(R.before) +
S.after(D): a recursion over changes alone, with negative weights where rows go. Exact for bags, with cycles too as long
as the query itself ends. A step that reads itself twice is not linear: it is recomputed on both faces.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from runnel.algebra.facts import Facts
from runnel.algebra.node import WEIGHT, Column, Face, Node, col, named, table
from runnel.algebra.steps import Steps
from runnel.algebra.want import Want


@dataclass(frozen=True)
class Itself(Node):
    """The rows that the last round of a recursion found, inside its step. `origin` are the recursion's names for `outputs`."""

    name: str
    outputs: tuple[Column, ...]
    origin: tuple[str, ...]

    title = "Itself"
    law_text = "the rows of the last round"
    supports = "the recursive reference of WITH RECURSIVE"
    cost = "none"
    linear = True

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.outputs

    @property
    def sources(self) -> frozenset[str]:
        return frozenset({self.key})

    @property
    def key(self) -> str:
        return f"{self.name} itself"

    def select(self, *inputs: str) -> exp.Select:
        return exp.select(*(named(col(o), c.name) for o, c in zip(self.origin, self.outputs, strict=True))).from_(table(inputs[0]))

    def relation(self, steps: Steps, face: Face) -> str:
        return steps.define("itself", self.select(steps.input(self.key, Face.AFTER)))

    def law(self, steps: Steps) -> str:
        return steps.define("itself_change", self.select(steps.input(self.key, Face.CHANGE)).select(col(WEIGHT)))

    def arguments(self) -> str:
        return self.name


@dataclass(frozen=True)
class Recursive(Node):
    """WITH RECURSIVE `name` AS (base UNION ALL step); the step reads its own rows through `Itself`."""

    base: Node
    step: Node
    name: str

    title = "Recursive"
    law_text = "a recursion over the change, seeded by the change of the base and of the step over the rows before"
    supports = "WITH RECURSIVE ... UNION ALL: hierarchies, paths, reachability; inserts, updates and deletes of edges"
    cost = "the rows that come and go, round by round; a step that reads itself twice is recomputed"
    grows_with_inserts = True

    def __post_init__(self) -> None:
        assert self.base.columns == self.step.columns, f"base and step differ: {self.base.columns} and {self.step.columns}"

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.base.columns

    @cached_property
    def sources(self) -> frozenset[str]:
        return (self.base.sources | self.step.sources) - {self.key}

    @property
    def key(self) -> str:
        return f"{self.name} itself"

    @cached_property
    def linear_step(self) -> bool:
        """The step reads itself once, through operators that act row by row, or through joins with other relations."""
        reads = [n for n in self.step.walk() if self.key in n.sources]
        return sum(isinstance(n, Itself) for n in reads) == 1 and all(n.linear or n.title == "Join" for n in reads)

    def relation(self, steps: Steps, face: Face) -> str:
        def round_(inner: Steps) -> str:
            return inner.face(self.step, face)

        base = exp.select(*(col(n) for n in self.names)).from_(table(steps.face(self.base, face)))
        return self._loop(steps, f"recursive_{face}", base, self.names, round_, Steps(steps.facts, steps.laws, steps.off), Face.AFTER)

    def law(self, steps: Steps) -> str:
        if not self.linear_step:
            return super().law(steps)
        names = (*self.names, WEIGHT)
        seeds = [c for c in (steps.change(self.base), self._step_change(steps)) if c is not None]
        both = [exp.select(*(col(n) for n in names)).from_(table(s)) for s in seeds]
        seed = both[0] if len(both) == 1 else exp.union(both[0], both[1], distinct=False)
        kept = steps.define("recursive_seed", seed, small=True)
        if not steps.grows(self):
            kept = steps.consolidate("recursive_seed_net", kept, self.columns)

        def round_(inner: Steps) -> str:
            change = inner.change(self.step)
            assert change is not None
            return change

        start = exp.select(*(col(n) for n in names)).from_(table(kept))
        # Said to be insert-only: nothing may be consolidated inside a recursion, and linear operators need not be.
        inner = Steps(Facts(frozenset({self.key}), frozenset({self.key})), steps.laws, steps.off - {"insert_only"})
        return self._loop(steps, "recursive_change", start, names, round_, inner, Face.CHANGE)

    def _step_change(self, steps: Steps) -> str | None:
        """The change of the step while its own rows stay those of before."""
        if not (self.step.sources - {self.key}) & steps.facts.changed:
            return None
        inner = Steps(steps.facts, steps.laws, steps.off, inputs=steps.inputs, definitions=steps.definitions, small=steps.small)
        inner.inputs[Want(self.key, Face.AFTER)] = steps.face(self, Face.BEFORE)
        change = inner.change(self.step)
        del steps.inputs[Want(self.key, Face.AFTER)]
        return change

    def _loop(
        self, steps: Steps, label: str, start: exp.Select, names: tuple[str, ...], round_: Callable[[Steps], str], inner: Steps, face: Face
    ) -> str:
        """WITH RECURSIVE around a step whose own steps stand inside it as subqueries, since they read its rows."""
        inner.inputs = steps.inputs
        rows = f"{self.name}_{label}"
        inner.inputs[Want(self.key, face)] = rows
        result = round_(inner)
        again = inner.inlined(exp.select(*(col(n) for n in names)).from_(table(result)))
        del inner.inputs[Want(self.key, face)]
        body = exp.Union(this=start, expression=again, distinct=False)
        columns = [exp.to_identifier(n, quoted=True) for n in names]
        cte = exp.CTE(this=body, alias=exp.TableAlias(this=exp.to_identifier(rows, quoted=True), columns=columns))
        query = exp.select(*(col(n) for n in names)).from_(table(rows))
        query.set("with_", exp.With(expressions=[cte], recursive=True))
        return steps.define(label, query)

    def arguments(self) -> str:
        return f"{self.name}{'' if self.linear_step else ' (recomputed whole at each change)'}"
