"""BIT_XOR, BIT_AND and BIT_OR: for each bit, the number of values that have it.

A bit of the result is set when that number is odd, all of the values, or any of them. The sign is the highest bit, which
counts negatively in two's complement. BIGINT would need 64 counters per group, more than computing a group again costs.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from runnel.algebra.functions.partial import Partial, Rule, additive, counted, integer, positive, present, recomputed, when
from runnel.algebra.functions.reading import Reading
from runnel.algebra.node import col

_BITS = {"tinyint": 8, "smallint": 16, "int": 32}


def rule(call: Reading, types: Mapping[str, str], result: str) -> Rule | None:
    columns = call.columns
    if call.name not in ("bit_xor", "bit_and", "bit_or") or columns is None or len(columns) != 1:
        return None
    width = _BITS.get(types[columns[0]])
    if width is None:
        return None if call.name != "bit_xor" else recomputed()

    def finish(*p: exp.Expr) -> exp.Expr:
        *counts, values = p
        total: exp.Expr = integer(0)
        for index, count in enumerate(counts):
            bit = when(_is_set(call.name, count, values), integer(2**index), integer(0))
            total = (exp.Sub if index == width - 1 else exp.Add)(this=total, expression=bit)
        return when(positive(values), exp.cast(exp.paren(total), result))

    return additive((*(_bit(columns[0], i) for i in range(width)), present(columns[0])), finish)


def _bit(argument: str, index: int) -> Partial:
    """Widened to BIGINT a negative value keeps its bits, the sign included."""
    mask = exp.cast(integer(2**index), "bigint")
    masked = exp.paren(exp.BitwiseAnd(this=exp.cast(col(argument), "bigint"), expression=mask))
    return counted(f"{argument}__bit{index}", exp.NEQ(this=masked, expression=integer(0)))


def _is_set(name: str, count: exp.Expr, values: exp.Expr) -> exp.Expr:
    match name:
        case "bit_xor":
            return exp.EQ(this=exp.Mod(this=count.copy(), expression=integer(2)), expression=integer(1))
        case "bit_and":
            return exp.EQ(this=count.copy(), expression=values.copy())
        case _:
            return positive(count)
