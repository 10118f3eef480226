"""The aggregate functions that `Aggregate` maintains: what each one keeps per group, and how its result is finished.

*additive*: the result is finished from partial sums, and the partial sums of a change can be added to stored ones.
*mergeable on inserts*: the result over old and new rows together follows from both results, but a row cannot leave again.
*touched groups*: the result is computed again for the groups that a change touches.

Comes in: a call over plain columns, with its FILTER. Goes out: a `Rule`. One file per idea: what is summed for counts and
sums, floats, moments, booleans, bits; the fold of sorted values for what has no exact sums; what merges results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from runnel.algebra.functions import bits, booleans, moments, sums
from runnel.algebra.functions.classes import ARBITRARY, CLASSES
from runnel.algebra.functions.folds import OF_ONE, OF_TWO, SUMS, fold
from runnel.algebra.functions.merging import merge
from runnel.algebra.functions.partial import ADDITIVE, MERGEABLE_ON_INSERTS, TOUCHED_GROUPS, Partial, Rule, folded, only, recomputed
from runnel.algebra.functions.reading import Reading, function_name, function_of, is_aggregate, read

__all__ = [
    "ADDITIVE",
    "ARBITRARY",
    "CLASSES",
    "MERGEABLE_ON_INSERTS",
    "TOUCHED_GROUPS",
    "Partial",
    "Rule",
    "function_name",
    "function_of",
    "is_aggregate",
    "rule",
]

_BUILDERS: tuple[Callable[[Reading, Mapping[str, str], str], Rule | None], ...] = (sums.rule, moments.rule, booleans.rule, bits.rule)


def rule(call: exp.Expr, types: Mapping[str, str], result: str) -> Rule:
    """The way to keep a call, by its function and the types of the columns it reads; `result` is the call's own type.

    >>> import sqlglot
    >>> kept = rule(sqlglot.parse_one("SUM(`x`) FILTER (WHERE `f`)", dialect="spark"), {"x": "int", "f": "boolean"}, "bigint")
    >>> kept.kind, [p.name for p in kept.partials]
    ('additive', ['x__sum__where__f', 'x__present__where__f'])
    """
    reading = read(call)
    kept = _kept(reading, types, result)
    if isinstance(reading.filter, exp.Column):
        kept = only(kept, reading.filter, "where", reading.filter.name)
    kept = replace(kept, merge=merge(reading, types, result) if reading.plain else None)
    return replace(kept, kind=MERGEABLE_ON_INSERTS) if kept.merge is not None and kept.kind == TOUCHED_GROUPS else kept


def _kept(reading: Reading, types: Mapping[str, str], result: str) -> Rule:
    """The rule of a call without its FILTER."""
    if reading.name in ARBITRARY:
        return folded(None)
    if not reading.plain:
        return recomputed()
    if reading.distinct:
        return folded(fold(reading, result)) if _rounds(reading, types) else recomputed()
    return next((found for build in _BUILDERS if (found := build(reading, types, result)) is not None), recomputed())


def _rounds(reading: Reading, types: Mapping[str, str]) -> bool:
    """Whether a call adds doubles up, so that its last bits follow the order of rows."""
    rounding = {"avg": ("float", "double", "string", "bigint")}.get(reading.name, ("float", "double", "string"))
    added = {types.get(c.name, "") for a in reading.arguments for c in a.find_all(exp.Column)}
    return reading.name in (*OF_ONE, *OF_TWO) or (reading.name in SUMS and bool(added & set(rounding)))
