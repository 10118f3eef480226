"""Equalities between values of different types are hidden from the laws, which look rows up by equal keys.

Both '1' and '1.0' equal the number 1: partners counted by one value are not those that another one has, although the two are equal. Hidden,
such an equality is a condition like any other, which every law can tell from its rows. An engine reads it as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from runnel.algebra import Filter, Join, Mark, Node, OuterJoin, SemiJoin
from runnel.algebra.condition import INTEGERS, conjuncts
from runnel.algebra.node import references

DIGITS = 38
BEFORE = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""Digits that a decimal takes, as Spark counts them."""
Types = Callable[[Node, list[exp.Expr]], list[str]]
"""The types that an engine gives expressions over a node's columns."""


def hide_unlike(node: Node, types: Types) -> Node:
    """The tree with `a = b` as NOT NOT `a = b` where one value of `a` may equal several of `b`.

    SELECT * FROM l JOIN r ON l.number = r.text   ->   SELECT * FROM l JOIN r ON NOT NOT l.number = r.text
    """
    node = node.map_children(lambda child: hide_unlike(child, types))
    match node:
        case Filter():
            return replace(node, predicate=_hidden(node.predicate, node.child, types))
        case Join() | OuterJoin() | SemiJoin() | Mark() if node.condition is not None:
            return replace(node, condition=_hidden(node.condition, Join(node.left, node.right, None), types))
    return node


def _hidden(condition: exp.Expr, over: Node, types: Types) -> exp.Expr:
    parts = conjuncts(condition)
    equal = [p for p in parts if isinstance(p, exp.EQ | exp.NullSafeEQ) and references(p.this) and references(p.expression)]
    if not equal:
        return condition
    found = types(over, [side.copy() for p in equal for side in (p.this, p.expression)])
    unlike = [p for p, left, right in zip(equal, found[::2], found[1::2], strict=True) if not _alike(left, right)]
    return exp.and_(*(exp.Not(this=exp.Not(this=p)) if _in(p, unlike) else p for p in parts), copy=False) if unlike else condition


def _alike(left: str, right: str) -> bool:
    """Whether a value of one type equals one of the other at most. Numbers are compared in a decimal type that has the digits of both: beyond
    38 of them an engine cuts those behind the point.

    >>> _alike("int", "decimal(38,27)"), _alike("int", "decimal(38,30)"), _alike("decimal(10,2)", "decimal(12,4)"), _alike("int", "string")
    (True, False, True, False)
    """
    if left == right or {left, right} <= INTEGERS:
        return True
    one, other = _digits(left), _digits(right)
    return one is not None and other is not None and sum(map(max, one, other)) <= DIGITS


def _digits(type_: str) -> tuple[int, int] | None:
    """The digits of a number before and behind the point."""
    if type_ in INTEGERS:
        return BEFORE[type_], 0
    found = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", type_)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def _in(part: exp.Expr, parts: Sequence[exp.Expr]) -> bool:
    return any(part is p for p in parts)
