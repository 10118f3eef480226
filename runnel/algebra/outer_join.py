"""change(L left join R) = change(L join R) + change(L anti R) padded with NULLs;  full: the same for R as well

By definition of the outer join as a bag sum, so any condition and any depth is exact. A condition that is NULL joins
nothing, and its row is padded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from runnel.algebra.condition import Equality, conjuncts, equalities
from runnel.algebra.node import OWN, WAS, WEIGHT, Column, Face, Node, Sieve, col, each, joined, named, references, select, table
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

    def both(self, steps: Steps, keys: Sequence[str], touched: str) -> str:
        """Each row of the left side with its partners and, where it has none, with NULLs; which of the two a face has is said by the weights.

        A partner that the rest of the condition refuses weighs nothing: it is asked of touched rows only, and once for both faces.
        """
        pairs, rest = self._plain
        if not pairs or not set(keys) <= set(self.left.names):
            return super().both(steps, keys, touched)
        theirs, own = [p.right.name for p in pairs], [p.left.name for p in pairs]
        left = steps.both(self.left, keys, touched)
        partners = dict(zip(theirs, own, strict=True))
        near = steps.renamed("keys_below", touched, partners) if set(own) == set(keys) else steps.distinct("keys_near", left, partners)
        right = self._counted(steps, steps.both(self.right, theirs, near), theirs, rest)
        on = exp.and_(*(p.on(p.left.copy(), p.right.copy()) for p in pairs))
        weights = [named(col(w, side), f"{OWN}{side}_{n}") for side in "lr" for w, n in _FACES]
        counts = [col(f"{OWN}partners_{n}") for _, n in _FACES]
        met = joined(select((*(col(n) for n in self.names), *weights, *counts, col(NTH)), table(left, "l")), table(right, "r"), "left outer", on)
        kinds = select((exp.Star(), each([exp.false(), exp.true()], PADDED)), table(steps.define("outerjoin_met", met)))
        columns: list[exp.Expr] = [*map(col, self.left.names)]
        columns += [named(exp.Case().when(exp.not_(col(PADDED)), col(n)), n) for n in self.right.names]
        query = select((*columns, *map(_weight, _FACES)), table(steps.define("outerjoin_kinds", kinds)))
        found = steps.define("outerjoin_weighed", query)
        some = exp.or_(*(exp.NEQ(this=col(w), expression=exp.Literal.number(0)) for w, _ in _FACES))
        return steps.define("outerjoin_both_faces", exp.select("*").from_(table(found)).where(some, copy=False))

    def at_once(self, changed: frozenset[str]) -> bool:
        return not self.sources & changed or (bool(self._plain[0]) and self.left.at_once(changed) and self.right.at_once(changed))

    @cached_property
    def _plain(self) -> tuple[list[Equality], list[exp.Expr]]:
        """The condition as equalities of columns of one type and what it asks of the right side alone; nothing where it is another one."""
        pairs, rest = equalities(self.condition, self.left.names, self.right.names)
        types = {c.name: c.type for c in self.columns}
        alike = all(isinstance(e, exp.Column) for p in pairs for e in (p.left, p.right)) and all(
            types[p.left.name] == types[p.right.name] for p in pairs
        )
        once = len({p.right.name for p in pairs}) == len(pairs)
        asked = all(references(c) <= set(self.right.names) for c in rest)
        return (pairs, rest) if alike and once and asked and not self.full else ([], [])

    def _counted(self, steps: Steps, right: str, keys: Sequence[str], rest: Sequence[exp.Expr]) -> str:
        """Rows of the right side beside the partners that their keys have on each face, the first row of each key known."""
        holds = exp.and_(*(c.copy() for c in rest)) if rest else exp.true()
        weights = [named(exp.Case().when(holds.copy(), col(w)).else_(exp.Literal.number(0)) if rest else col(w), w) for w, _ in _FACES]
        asked = steps.define("partners_asked", select((*(col(n) for n in self.right.names), *weights), table(right)))
        by = [col(k) for k in keys]
        counts = [named(exp.Window(this=exp.Sum(this=col(w)), partition_by=[*by]), f"{OWN}partners_{n}") for w, n in _FACES]
        first = exp.Window(this=exp.RowNumber(), partition_by=[*by], order=exp.Order(expressions=[exp.Ordered(this=k.copy()) for k in by]))
        columns = (*(col(n) for n in (*self.right.names, WEIGHT, WAS)), *counts, named(first, NTH))
        return steps.define("partners_counted", select(columns, table(asked)))

    def arguments(self) -> str:
        return f"{'full' if self.full else 'left'} on {self.condition.sql('spark') if self.condition is not None else 'anything'}"


_FACES = ((WEIGHT, "now"), (WAS, "was"))
NTH, PADDED = f"{OWN}nth", f"{OWN}padded"


def _weight(face: tuple[str, str]) -> exp.Expr:
    """What a row of the left side weighs with a partner; padded, that is once and only without any."""
    weight, word = face
    own, other, partners = (
        exp.func("coalesce", col(n), exp.Literal.number(0)) for n in (f"{OWN}l_{word}", f"{OWN}r_{word}", f"{OWN}partners_{word}")
    )
    once = exp.func("coalesce", col(NTH), exp.Literal.number(1))
    alone = exp.and_(exp.EQ(this=once, expression=exp.Literal.number(1)), exp.EQ(this=partners, expression=exp.Literal.number(0)))
    case = exp.Case().when(exp.not_(col(PADDED)), exp.Mul(this=own, expression=other)).when(alone, own.copy())
    return named(case.else_(exp.Literal.number(0)), weight)


def null_of(column: Column) -> exp.Expr:
    """NULL in the type of a column."""
    return exp.cast(exp.null(), exp.DataType.build(column.type, dialect="spark"))
