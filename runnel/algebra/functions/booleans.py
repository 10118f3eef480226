"""COUNT_IF, BOOL_AND (EVERY) and BOOL_OR (ANY, SOME): the numbers of TRUE and of FALSE. NULL is neither."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from runnel.algebra.functions.partial import Partial, Rule, additive, counted, positive, recomputed, when, zero
from runnel.algebra.functions.reading import Reading
from runnel.algebra.node import col


def rule(call: Reading, types: Mapping[str, str], result: str) -> Rule | None:
    if call.name not in ("count_if", "bool_and", "bool_or"):
        return None
    columns = call.columns
    if columns is None or len(columns) != 1 or types[columns[0]] != "boolean":
        return recomputed()
    yes, no = _yes(columns[0]), _no(columns[0])
    match call.name:
        case "count_if":
            return additive((yes,), lambda t: t)
        case "bool_and":
            return additive((yes, no), lambda t, f: _decided(t, f, zero(f)))
        case _:
            return additive((yes, no), lambda t, f: _decided(t, f, positive(t)))


def _yes(argument: str) -> Partial:
    return counted(f"{argument}__true", col(argument))


def _no(argument: str) -> Partial:
    return counted(f"{argument}__false", exp.not_(col(argument)))


def _decided(yes: exp.Expr, no: exp.Expr, outcome: exp.Expr) -> exp.Expr:
    """NULL for a group without values."""
    return when(exp.or_(positive(yes), positive(no)), outcome)
