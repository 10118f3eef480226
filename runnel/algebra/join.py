"""change(L join R) = change(L) join R.after + L.before join change(R)

A chain of joins is one join of many relations, taken one by one, each linked to those before it where a condition allows. What
changed among those before meets the next relation as it is in one join, so that it is read once for all their changes; and its own
change reaches back to them as they were. Exact at any depth, for any condition, because both versions of every table can be read.
A condition that is NULL joins nothing. Weights multiply; one side of each term is a plain relation, whose rows all weigh 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from runnel.algebra.condition import Pairs, conjuncts, equated, pairs_of, partner
from runnel.algebra.filter import Filter
from runnel.algebra.node import WEIGHT, Column, Face, Node, Sieve, col, joined, references, select, table
from runnel.algebra.reach import Leaf, leaf, linked, links, reach, touched_leaf
from runnel.algebra.semi_join import narrowed
from runnel.algebra.steps import Steps
from runnel.algebra.union_all import _all
from runnel.algebra.want import Origin, Within


@dataclass(frozen=True)
class Join(Node):
    """Inner join: equi, theta or cross (no condition). The two sides have no column name in common."""

    left: Node
    right: Node
    condition: exp.Expr | None

    title = "Join"
    law_text = "change(L) join R.after + L.before join change(R)"
    supports = "INNER, CROSS, comma and theta joins of any number of tables; self-joins; USING"
    cost = "the changed rows joined with the other side"

    def __post_init__(self) -> None:
        common = set(self.left.names) & set(self.right.names)
        assert not common, f"both sides have columns {sorted(common)}"
        if self.condition is not None:
            self.require(references(self.condition), self.names, "condition")

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.left.columns, *self.right.columns)

    def select(self, *inputs: str) -> exp.Select:
        return self._join(inputs[0], inputs[1], self.names)

    def law(self, steps: Steps) -> str:
        first, *rest = linked(steps, *self.chain)
        conditions = self.chain[1]
        open_ = [*conditions]  # what holds for rows that were reached and is not yet asked of them
        before, change = first, self._meeting(steps, first)
        for node in rest:
            names, known = (*before.names, *node.names, WEIGHT), frozenset((*before.names, *node.names))
            on = [c for c in open_ if references(c) <= known]
            open_ = [c for c in open_ if c not in on]
            terms = []
            if change is not None:
                near = _near(steps, node, Face.AFTER, before, change, on)
                terms.append(reach(steps, "join_term", Leaf(change, (*before.names, WEIGHT)), [near], on, names))
            own = self._meeting(steps, node)
            if own is not None:
                holds = [c for c in conditions if references(c) <= known]
                nodes = before.chain[0] if isinstance(before, Join) else [before]
                others = [_near(steps, n, Face.BEFORE, node, own, holds) for n in nodes]
                terms.append(reach(steps, "join_term", Leaf(own, (*node.names, WEIGHT)), others, holds, names))
            if terms:
                change = steps.define("join_change", _all([select((col(n) for n in names), table(t)) for t in terms])) if terms[1:] else terms[0]
            before = Join(before, node, exp.and_(*(c.copy() for c in on), copy=False) if on else None)
        assert change is not None
        return change

    def _meeting(self, steps: Steps, node: Node) -> str | None:
        """The change of one relation, of which only rows matter that meet the others."""
        return steps.net_meeting(node, self, {n: n for n in node.names})

    def sieves(self, column: str) -> Iterator[Sieve]:
        if self._filters:
            yield Sieve(self, column)
        for node in self.chain[0]:
            own = column if column in node.names else partner(self._pairs, column, node.names)
            if own is not None:
                yield from node.sieves(own)

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        leaves, conditions = self.chain
        start, same = touched_leaf(steps, touched, tuple(keys), {c.name: c.type for c in self.columns})
        others = [leaf(steps, n, face, _touched(steps, n, touched, keys, self._pairs)) for n in leaves]
        return reach(steps, f"join_{face}_touched", start, others, [*same, *conditions], self.names)

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        found: frozenset[Origin] = frozenset()
        for node in self.chain[0]:
            if node.sources & changed:
                own = column if column in node.names else partner(self._pairs, column, node.names)
                origins = node.origins(own, changed) if own is not None else None
                if origins is None:
                    return None
                found |= origins
        return found

    @cached_property
    def chain(self) -> tuple[list[Node], list[exp.Expr]]:
        """The relations of nested joins from left to right, and the conjuncts of all their conditions."""
        leaves: list[Node] = []
        found = conjuncts(self.condition)
        for side in (self.left, self.right):
            inner, conditions = side.chain if isinstance(side, Join) else ([side], [])
            leaves += inner
            found += conditions
        return leaves, found

    @cached_property
    def _pairs(self) -> Pairs:
        return pairs_of(self.chain[1])

    @cached_property
    def _filters(self) -> bool:
        """Whether a filter is anywhere below."""
        return any(isinstance(n, Filter) for n in self.walk())

    def _join(self, left: str, right: str, names: tuple[str, ...]) -> exp.Select:
        on = self.condition.copy() if self.condition is not None else None
        return joined(select((col(n) for n in names), table(left, "l")), table(right, "r"), "cross" if on is None else "inner", on)

    def arguments(self) -> str:
        return f"on {self.condition.sql('spark')}" if self.condition is not None else "cross"


def _near(steps: Steps, node: Node, face: Face, other: Node, change: str, conditions: list[exp.Expr]) -> Leaf:
    """A face of a relation that meets the change of another one. Of groups that are looked up by their keys no others are computed."""
    pairs = [e for e in equated(conditions, other.names, node.names) if e is not None]
    keys = [p.right.name for p in pairs if isinstance(p.right, exp.Column)]
    if steps.uses("met_groups") and len(keys) == len(pairs) and node.identified(keys) and not node.identified(()):
        return Leaf(narrowed(steps, node, face, pairs, change), node.names)
    return leaf(steps, node, face, links(steps, node, other, conditions))


def _touched(steps: Steps, node: Node, touched: str, keys: Sequence[str], pairs: Pairs) -> tuple[Within, ...]:
    """How the columns of a relation must lie to the touched keys of its join: those that are keys, and those that equal one."""
    own = {k if k in node.names else partner(pairs, k, node.names): k for k in keys}
    return Within.each({name: steps.origins(touched, k) for name, k in own.items() if name is not None})
