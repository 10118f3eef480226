"""Joins of several relations that start from a small one and reach outward, one relation at a time.

A change of one table in a join of many touches few rows of the others. Beginning with it, each step joins what was
reached so far with one more relation, by an equality where there is one, so that no two large relations ever meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.condition import conjuncts, orders, pairs_of, partner, same
from runnel.algebra.node import Face, Node, col, joined, references, select, table
from runnel.algebra.steps import Steps
from runnel.algebra.want import Within


@dataclass(frozen=True)
class Leaf:
    """One relation of the join: the step that holds its rows, and its columns."""

    relation: str
    names: tuple[str, ...]
    light: bool = False
    """So small a table that it is the side to broadcast, whatever meets it."""


def reach(steps: Steps, label: str, start: Leaf, others: list[Leaf], conditions: list[exp.Expr], output: tuple[str, ...]) -> str:
    """The step with the columns `output` of all relations joined on all conditions, beginning at `start`."""
    reached, names = start.relation, list(start.names)
    left, open_ = [_Condition(c, references(c)) for c in conditions], list(others)
    if not open_:
        own = [c.expression.copy() for c in left if c.reads <= set(names)]
        query = select((col(n) for n in output), table(reached, "l"))
        return steps.define(label, query.where(*own, copy=False) if own else query)
    while open_:
        known = set(names)
        nearest = min(open_, key=lambda leaf: (_distance(leaf.names, known, left), not leaf.light))
        open_.remove(nearest)
        on = [c for c in left if c.reads <= known.union(nearest.names)]
        left = [c for c in left if c not in on]
        needed = {n for c in left for n in c.reads} | set(output)
        kept = [n for n in (*names, *nearest.names) if n in needed] if open_ else list(output)
        condition = exp.and_(*(c.expression.copy() for c in on), copy=False) if on else None
        query = joined(select((col(n) for n in kept), table(reached, "l")), table(nearest.relation, "r"), "inner" if on else "cross", condition)
        reached = steps.define(label if not open_ else f"{label}_reached", steps.broadcast(query, "r" if nearest.light else "l"))
        names = kept
    return reached


@dataclass(frozen=True, eq=False)
class _Condition:
    """A conjunct and the columns it reads, looked up once."""

    expression: exp.Expr
    reads: frozenset[str]


def _distance(names: tuple[str, ...], reached: set[str], conditions: list[_Condition]) -> int:
    """0 when an equality leads there, 1 for any other condition, 2 for none."""
    own = set(names)
    linked = [c for c in conditions if c.reads & own and c.reads & reached and c.reads <= own | reached]
    if any(isinstance(c.expression, exp.EQ | exp.NullSafeEQ) for c in linked):
        return 0
    return 1 if linked else 2


def touched_leaf(steps: Steps, touched: str, keys: tuple[str, ...], types: Mapping[str, str]) -> tuple[Leaf, list[exp.Expr]]:
    """The touched keys as a relation to start from, under names of their own, and what they must equal."""
    names = tuple(f"__runnel_touched_{k}" for k in keys)
    query = exp.select(*(exp.alias_(col(k), exp.to_identifier(n, quoted=True)) for k, n in zip(keys, names, strict=True))).from_(table(touched))
    on = [c for k, n in zip(keys, names, strict=True) for c in conjuncts(same(types[k], col(k), col(n)))]
    return Leaf(steps.define(f"{touched}_keys", query), names), on


def leaf(steps: Steps, node: Node, face: Face, bounds: Sequence[Within] = ()) -> Leaf:
    """A face of a node of which only rows within the bounds matter."""
    return Leaf(steps.near(node, face, bounds), node.names, is_light(steps, node))


def is_light(steps: Steps, node: Node) -> bool:
    """Whether a relation has only rows of one table, and that is so small that it is broadcast whole."""
    return steps.uses("light_first") and node.linear_over <= steps.facts.light


def linked(steps: Steps, leaves: list[Node], conditions: list[exp.Expr]) -> list[Node]:
    """Relations in their order, but for those that only later ones link to what comes before them, and light ones as soon as they are
    linked: what they filter out never meets a large one.

    A light one that an equality also links to a large one still to come waits for it. Alone, the first equality may be one of many
    with many: customers and suppliers of one nation, before the lines of an order say which supplier.
    """
    parts = [_Condition(c, references(c)) for c in conditions]
    open_, found = leaves[1:], leaves[:1]
    while open_:
        known = {n for node in found for n in node.names}
        large = {n for node in open_ if not is_light(steps, node) for n in node.names}
        nearest = min(
            open_, key=lambda node: (_distance(node.names, known, parts), not is_light(steps, node) or _distance(node.names, large, parts) == 0)
        )
        open_.remove(nearest)
        found.append(nearest)
    return found


def links(steps: Steps, node: Node, changed: Node, conditions: list[exp.Expr]) -> tuple[Within, ...]:
    """How the columns of a relation must lie to the change of another one to meet it, where conditions compare them."""
    pairs = pairs_of(conditions)
    partners = {name: partner(pairs, name, changed.names) for name in node.names}
    equal = {name: changed.origins(other, steps.facts.changed) for name, other in partners.items() if other is not None}
    found = list(Within.each(equal))
    for name, side, other in orders(conditions, node.names, changed.names):
        found += Within.each({name: changed.origins(other, steps.facts.changed)}, side)
    return tuple(dict.fromkeys(found))
