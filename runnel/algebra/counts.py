"""Existence by counting: what is there now, less what came, is what was there before."""

from __future__ import annotations

from sqlglot import exp


def flipped(now: exp.Expr, moved: exp.Expr) -> exp.Expr:
    """+1 when something came into being, -1 when the last of it went, else 0; `now` are there, `moved` came on balance."""
    return exp.Sub(this=_some(now), expression=_some(exp.Sub(this=now.copy(), expression=moved)))


def _some(count: exp.Expr) -> exp.Expr:
    return exp.Case().when(exp.GT(this=exp.paren(count.copy()), expression=exp.Literal.number(0)), exp.Literal.number(1)).else_(exp.Literal.number(0))
