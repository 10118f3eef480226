"""change(L left join R) = change(L join R) + change(L anti R) padded with NULLs;  full: the same for R as well

By definition of the outer join as a bag sum, so any condition and any depth is exact. A condition that is NULL joins
nothing, and its row is padded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.condition import equalities
from runnel.algebra.join import Join
from runnel.algebra.node import Column, Face, Node, col, references, select, table
from runnel.algebra.project import Project
from runnel.algebra.semi_join import SemiJoin, narrowed
from runnel.algebra.steps import Steps
from runnel.algebra.union_all import UnionAll


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
        change = steps.change(self.parts)
        assert change is not None
        return change

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        if self.full or not set(keys) <= set(self.left.names):
            return super().restricted(steps, face, keys, touched)
        left = steps.restrict(self.left, face, keys, touched)
        pairs, _ = equalities(self.condition, self.left.names, self.right.names)
        return steps.define("outerjoin_touched", self.select(left, narrowed(steps, self.right, face, pairs, left)))

    @property
    def parts(self) -> UnionAll:
        """The same rows as a bag sum of operators with laws of their own."""
        pieces: list[Node] = [Join(self.left, self.right, self.condition), self._padded(self.left, self.right)]
        if self.full:
            pieces.append(self._padded(self.right, self.left))
        return UnionAll(tuple(pieces))

    def _padded(self, kept: Node, other: Node) -> Node:
        alone = SemiJoin(kept, other, self.condition, anti=True)
        here = set(kept.names)
        return Project(alone, self.columns, tuple(col(c.name) if c.name in here else null_of(c) for c in self.columns))

    def arguments(self) -> str:
        return f"{'full' if self.full else 'left'} on {self.condition.sql('spark') if self.condition is not None else 'anything'}"


def null_of(column: Column) -> exp.Expr:
    """NULL in the type of a column."""
    return exp.cast(exp.null(), exp.DataType.build(column.type, dialect="spark"))
