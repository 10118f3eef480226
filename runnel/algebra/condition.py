"""Join conditions taken apart: which conjuncts equate one side with the other, and what is left."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import references
from runnel.algebra.want import Side


@dataclass(frozen=True)
class Equality:
    """`left = right`, or `left <=> right` when NULL equals NULL; each side reads columns of one relation only."""

    left: exp.Expr
    right: exp.Expr
    null_safe: bool

    def on(self, left: exp.Expr, right: exp.Expr) -> exp.Expr:
        """The same comparison between other expressions."""
        return exp.NullSafeEQ(this=left, expression=right) if self.null_safe else exp.EQ(this=left, expression=right)


INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_NOBODY = {"tinyint": -127, "smallint": -32767, "int": -2147483647, "bigint": -9223372036854775807}


def same(type_: str, left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """`left <=> right`. Of integers as an equality of one number each, which engines look up several times faster.

    NULL takes the place of a number there, and what follows tells it from that number.
    """
    if type_ not in INTEGERS:
        return exp.NullSafeEQ(this=left, expression=right)
    nobody = exp.cast(exp.Literal.number(_NOBODY[type_]), type_)
    equal = exp.EQ(this=exp.func("coalesce", left, nobody), expression=exp.func("coalesce", right, nobody.copy()))
    both = exp.Case().when(_null(left.copy()), _null(right.copy())).else_(exp.not_(_null(right.copy())))
    return exp.and_(equal, both)


def _null(e: exp.Expr) -> exp.Expr:
    return exp.Is(this=e, expression=exp.null())


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
    parts = conjuncts(condition)
    found = equated(parts, left, right)
    return [e for e in found if e is not None], [p for p, e in zip(parts, found, strict=True) if e is None]


def equated(parts: Iterable[exp.Expr], left: Collection[str], right: Collection[str]) -> list[Equality | None]:
    """Each conjunct as an equality between two relations, None where it is none."""
    one, other = frozenset(left), frozenset(right)
    return [_equality(part, one, other) for part in parts]


Pairs = tuple[tuple[str, str], ...]
"""Columns that conjuncts equate, two by two."""


def pairs_of(conditions: Iterable[exp.Expr]) -> Pairs:
    """The columns that conjuncts equate with each other.

    >>> pairs_of([exp.condition("a = b"), exp.condition("c <=> d"), exp.condition("e = f + 1")])
    (('a', 'b'), ('c', 'd'))
    """
    equal = (c for c in conditions if isinstance(c, exp.EQ | exp.NullSafeEQ))
    return tuple((c.this.name, c.expression.name) for c in equal if isinstance(c.this, exp.Column) and isinstance(c.expression, exp.Column))


def partner(pairs: Pairs, column: str, others: Collection[str]) -> str | None:
    """The column among `others` that is equated with `column`."""
    for one, other in pairs:
        if one == column and other in others:
            return other
        if other == column and one in others:
            return one
    return None


def orders(conditions: list[exp.Expr], own: Collection[str], others: Collection[str]) -> list[tuple[str, Side, str]]:
    """The columns of `own` that conjuncts hold above or below columns of `others`. That a bound itself is left out is not told.

    >>> orders([exp.condition("t BETWEEN a AND b"), exp.condition("c > t")], {"t"}, {"a", "b", "c"})
    [('t', <Side.FROM: '>='>, 'a'), ('t', <Side.UP_TO: '<='>, 'b'), ('t', <Side.UP_TO: '<='>, 'c')]
    """
    found = []
    for part in conditions:
        if isinstance(part, exp.Between):
            pairs = [(part.args["low"], part.this), (part.this, part.args["high"])]
        elif isinstance(part, exp.LT | exp.LTE):
            pairs = [(part.this, part.expression)]
        elif isinstance(part, exp.GT | exp.GTE):
            pairs = [(part.expression, part.this)]
        else:
            pairs = []
        for low, high in pairs:
            if isinstance(low, exp.Column) and isinstance(high, exp.Column):
                if high.name in own and low.name in others:
                    found.append((high.name, Side.FROM, low.name))
                elif low.name in own and high.name in others:
                    found.append((low.name, Side.UP_TO, high.name))
    return found


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
