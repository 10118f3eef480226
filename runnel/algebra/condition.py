"""Join conditions taken apart: which conjuncts equate one side with the other, and what is left."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import references


@dataclass(frozen=True)
class Equality:
    """`left = right`, or `left <=> right` when NULL equals NULL; each side reads columns of one relation only."""

    left: exp.Expr
    right: exp.Expr
    null_safe: bool

    def on(self, left: exp.Expr, right: exp.Expr) -> exp.Expr:
        """The same comparison between other expressions."""
        return exp.NullSafeEQ(this=left, expression=right) if self.null_safe else exp.EQ(this=left, expression=right)


def conjuncts(predicate: exp.Expr | None) -> list[exp.Expr]:
    """The parts that AND holds together."""
    if predicate is None:
        return []
    predicate = predicate.unnest()
    return [c for p in predicate.flatten() for c in conjuncts(p)] if isinstance(predicate, exp.And) else [predicate.copy()]


def together(parts: list[exp.Expr]) -> exp.Expr | None:
    """The inverse of `conjuncts`."""
    return exp.and_(*parts) if parts else None


def equalities(condition: exp.Expr | None, left: Collection[str], right: Collection[str]) -> tuple[list[Equality], list[exp.Expr]]:
    """The equalities between two relations in a condition, and the conjuncts that are none."""
    found, rest = [], []
    for part in conjuncts(condition):
        equality = _equality(part, frozenset(left), frozenset(right))
        found.append(equality) if equality else rest.append(part)
    return found, rest


def _equality(part: exp.Expr, left: frozenset[str], right: frozenset[str]) -> Equality | None:
    if not isinstance(part, exp.EQ | exp.NullSafeEQ):
        return None
    null_safe = isinstance(part, exp.NullSafeEQ)
    one, other = references(part.this), references(part.expression)
    if not one or not other:
        return None
    if one <= left and other <= right:
        return Equality(part.this, part.expression, null_safe)
    if one <= right and other <= left:
        return Equality(part.expression, part.this, null_safe)
    return None
