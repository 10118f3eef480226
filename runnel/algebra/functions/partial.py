"""What a rule is made of: partial sums, and the expressions they are written with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from runnel.algebra.node import col

Finish = Callable[..., exp.Expr]
Summand = Callable[[exp.Expr], exp.Expr]

ADDITIVE = "additive"
MERGEABLE_ON_INSERTS = "mergeable on inserts"
TOUCHED_GROUPS = "touched groups"


@dataclass(frozen=True)
class Partial:
    """One sum kept per group in the column `name`; `summand(weight)` is what is summed over rows.

    It is never NULL, so that partials can be added without care. Equal sums have equal names and are kept once: SUM(x),
    AVG(x) and COUNT(x) share one `x__present`.
    """

    name: str
    type: str
    summand: Summand


@dataclass(frozen=True)
class Fold:
    """Another way to the result of a call: the call that collects the values of a group, and the result over the list."""

    collected: exp.Expr
    value: Callable[[exp.Expr], exp.Expr]
    own: Callable[[Callable[[exp.Expr], exp.Expr]], exp.Expr] | None = None
    """The result by other functions of Spark, where its own of this name fails; takes what puts FILTER around each."""


@dataclass(frozen=True)
class Rule:
    """How one call is kept: its partial sums and the expression that finishes them, or neither when it is not additive.

    `stable` says whether the same rows always give the same bits when Spark computes the call itself. Sums of doubles do
    not: their last digits follow the order of rows.
    """

    kind: str
    partials: tuple[Partial, ...] = ()
    finish: Finish | None = None
    stable: bool = True
    merge: Callable[[str], exp.Expr] | None = None
    """The call over a column of results that gives the result of all their rows together, if there is one."""
    fold: Fold | None = None
    """For a call that is neither stable nor additive: a way to its result that is stable."""

    def __post_init__(self) -> None:
        assert (self.kind == ADDITIVE) == (self.finish is not None), f"a rule that is {self.kind} cannot be finished from partial sums"


def additive(partials: tuple[Partial, ...], finish: Finish, stable: bool = True) -> Rule:
    return Rule(ADDITIVE, partials, finish, stable)


def recomputed(kind: str = TOUCHED_GROUPS) -> Rule:
    return Rule(kind)


def folded(fold: Fold | None) -> Rule:
    """Touched groups of a call whose own last bits follow the order of rows."""
    return Rule(TOUCHED_GROUPS, stable=False, fold=fold)


def only(rule: Rule, condition: exp.Expr, word: str, name: str) -> Rule:
    """The same rule over the rows for which a condition is true; the others add nothing and are not present."""
    return replace(rule, partials=tuple(_only(p, condition, f"{p.name}__{word}__{name}") for p in rule.partials))


def _only(partial: Partial, condition: exp.Expr, name: str) -> Partial:
    nothing = double(0.0) if partial.type == "double" else integer(0)
    return replace(partial, name=name, summand=lambda w: when(condition.copy(), partial.summand(w), nothing.copy()))


# -- partials that several files share -----------------------------------------------------------------------------------


def present(*arguments: str) -> Partial:
    """The number of rows in which no argument is NULL."""
    names = sorted(set(arguments))
    return Partial(f"{'__and__'.join(names)}__present", "bigint", lambda w: unless_missing(names, w))


def counted(name: str, condition: exp.Expr) -> Partial:
    """The number of rows for which a condition is true."""
    return Partial(name, "bigint", lambda w: when(condition.copy(), w, integer(0)))


# -- expressions ---------------------------------------------------------------------------------------------------------


def times(value: exp.Expr, weight: exp.Expr, state: str) -> exp.Expr:
    """A value as often as its row counts, in the type of the sum."""
    factor = weight if state == "bigint" else exp.cast(weight, "decimal(10,0)")
    return exp.cast(exp.Mul(this=value, expression=factor), state)


def divide(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Div(this=left, expression=right, typed=False, safe=False)


def unless_missing(arguments: Iterable[str], value: exp.Expr) -> exp.Expr:
    """A summand of the rows in which no argument is NULL."""
    return when(exp.or_(*(is_null(a) for a in arguments)), integer(0), value)


def is_null(argument: str) -> exp.Expr:
    return exp.Is(this=col(argument), expression=exp.null())


def is_not_null(argument: str) -> exp.Expr:
    return exp.not_(is_null(argument))


def positive(value: exp.Expr) -> exp.Expr:
    return exp.GT(this=value.copy(), expression=integer(0))


def zero(value: exp.Expr) -> exp.Expr:
    return exp.EQ(this=value.copy(), expression=integer(0))


def when(condition: exp.Expr, then: exp.Expr, otherwise: exp.Expr | None = None) -> exp.Expr:
    """CASE WHEN .. THEN .. [ELSE ..] END. Built of nodes: the library's own methods copy the whole case for each of its parts."""
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=then.copy())], default=otherwise.copy() if otherwise is not None else None)


def integer(value: int) -> exp.Expr:
    return exp.Literal.number(value)


def double(value: float) -> exp.Expr:
    return exp.cast(exp.Literal.number(repr(value)), "double")


def decimal_of(type_: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type.

    >>> decimal_of("decimal(10,2)"), decimal_of("int")
    ((10, 2), None)
    """
    found = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", type_)
    return (int(found[1]), int(found[2])) if found else None
