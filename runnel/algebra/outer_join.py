"""change(L left join R) = change(L join R) + change(L anti R) padded with NULLs;  full: the same for R as well

By definition of the outer join as a bag sum, so any condition and any depth is exact. A condition that is NULL joins
nothing, and its row is padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.condition import conjuncts, equalities
from runnel.algebra.node import WEIGHT, Column, Face, Node, Sieve, col, named, references, select, table
from runnel.algebra.reach import Leaf, links, reach
from runnel.algebra.semi_join import SemiJoin, kept_origins, meeting, narrowed
from runnel.algebra.steps import Steps
from runnel.algebra.union_all import _all
from runnel.algebra.want import Origin


@dataclass(frozen=True)
class OuterJoin(Node):
    """LEFT join, or FULL join with `full`. A RIGHT join is bound as a LEFT join with its sides swapped."""

    left: Node
    right: Node
    condition: exp.Expr | None
    full: bool = False

    title = "OuterJoin"
    law_text = "the inner join's change, plus padded rows of the keys whose number of partners moved between zero and not zero"
    supports = "LEFT, RIGHT and FULL joins on any condition, chained to any depth; USING, NATURAL; correlated scalar and LEFT JOIN LATERAL subqueries"
    cost = "the changed rows joined with the other side, and the rows whose padding flips"
    grows_with_inserts = False

    def __post_init__(self) -> None:
        common = set(self.left.names) & set(self.right.names)
        assert not common, f"both sides have columns {sorted(common)}"
        if self.condition is not None:
            self.require(references(self.condition), self.names, "condition")

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.left.columns, *self.right.columns)

    def select(self, *inputs: str) -> exp.Select:
        on = self.condition.copy() if self.condition is not None else exp.true()
        kind = "full outer" if self.full else "left outer"
        return select(col(n) for n in self.names).from_(table(inputs[0], "l")).join(table(inputs[1], "r"), on=on, join_type=kind)

    def law(self, steps: Steps) -> str:
        return self._change(steps, {})

    def sifted(self, steps: Steps, sieves: Mapping[str, Sieve]) -> str | None:
        if self.full or meeting(steps, self.right, self.left, self.condition, sieves) == meeting(steps, self.right, self.left, self.condition):
            return None
        return self._change(steps, sieves)

    def _change(self, steps: Steps, sieves: Mapping[str, Sieve]) -> str:
        left = steps.net(self.left)
        right = steps.net(self.right) if self.full else meeting(steps, self.right, self.left, self.condition, sieves)
        pairs, rest = equalities(self.condition, self.left.names, self.right.names)
        # The rows that a change of the other side can match serve the inner join and the padding alike.
        lefts = narrowed(steps, self.left, Face.BEFORE, pairs, right, links(steps, self.left, self.right, rest)) if right is not None else ""
        near = links(steps, self.right, self.left, rest)
        rights = narrowed(steps, self.right, Face.BEFORE if self.full else Face.AFTER, pairs, left, near) if left is not None else ""
        conditions, names = conjuncts(self.condition), (*self.names, WEIGHT)
        found = []
        if left is not None:
            after = rights if not self.full else steps.face(self.right, Face.AFTER)
            others = [Leaf(after, self.right.names)]
            found.append(reach(steps, "outerjoin_term", Leaf(left, (*self.left.names, WEIGHT)), others, conditions, names))
        if right is not None:
            found.append(reach(steps, "outerjoin_term", Leaf(right, (*self.right.names, WEIGHT)), [Leaf(lefts, self.left.names)], conditions, names))
        found.append(self._padding(steps, self.left, self.right, lefts, sieves))
        if self.full:
            found.append(self._padding(steps, self.right, self.left, rights, {}))
        return steps.define("outerjoin_change", _all([exp.select(*(col(n) for n in names)).from_(table(f)) for f in found]))

    def _padding(self, steps: Steps, kept: Node, other: Node, before: str, sieves: Mapping[str, Sieve]) -> str:
        """The change of the rows of one side that have no partner, padded with NULLs."""
        alone = steps.define("alone_change", _all(SemiJoin(kept, other, self.condition, anti=True).terms(steps, before or None, sieves)))
        here = set(kept.names)
        values = (col(c.name) if c.name in here else named(null_of(c), c.name) for c in self.columns)
        return steps.define("padded_change", exp.select(*values, col(WEIGHT)).from_(table(alone)))

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        if self.full or column not in self.left.names:
            return None
        return kept_origins(self.left, self.right, self.condition, column, changed)

    def sieves(self, column: str) -> Iterator[Sieve]:
        if not self.full and column in self.left.names:
            yield from self.left.sieves(column)

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        if self.full or not set(keys) <= set(self.left.names):
            return super().restricted(steps, face, keys, touched)
        left = steps.restrict(self.left, face, keys, touched)
        pairs, _ = equalities(self.condition, self.left.names, self.right.names)
        return steps.define("outerjoin_touched", self.select(left, narrowed(steps, self.right, face, pairs, left)))

    def arguments(self) -> str:
        return f"{'full' if self.full else 'left'} on {self.condition.sql('spark') if self.condition is not None else 'anything'}"


def null_of(column: Column) -> exp.Expr:
    """NULL in the type of a column."""
    return exp.cast(exp.null(), exp.DataType.build(column.type, dialect="spark"))
