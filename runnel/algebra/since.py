"""How far windows look: calls of which none sees a row after its own give rows before the first changed one of a partition the same
result as before.

NULLs come first in the order, so a change of a row without a value there touches the whole partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

_WHOLE = frozenset("ntile percent_rank cume_dist lead".split())
"""Calls that see the whole partition, or rows after their own, whatever their frame."""
_RANKS = frozenset("row_number rank dense_rank".split())
_NESTED = ("array", "map", "struct", "variant", "interval", "float", "double")


@dataclass(frozen=True)
class Back:
    """Windows look back along `column`, the first they are ordered by: `rows` of them at most, None when all.

    `order` is the whole order, where all calls have the same.
    """

    column: str
    rows: int | None
    order: tuple[exp.Expr, ...]

    @property
    def reversed(self) -> list[exp.Expr]:
        """The order from a row back to those before it."""
        return [exp.Ordered(this=o.this.copy(), desc=not o.args.get("desc"), nulls_first=not o.args.get("nulls_first")) for o in self.order]


def looks_back(calls: Sequence[exp.Expr], types: dict[str, str]) -> Back | None:
    """How windows look back; None when one of them looks ahead, or when they are ordered in ways of which that cannot be told."""
    windows = [c for c in calls if isinstance(c, exp.Window)]
    orders = [tuple(w.args["order"].expressions) for w in windows if w.args.get("order")]
    if not calls or len(orders) < len(calls):
        return None
    first = orders[0][0]
    if any(o[0] != first for o in orders) or not isinstance(first.this, exp.Column) or first.args.get("desc") or not first.args.get("nulls_first"):
        return None
    if types.get(first.this.name, "").startswith(_NESTED) or not all(map(_only_back, windows)):
        return None
    rows = [_rows(w) for w in windows]
    bounded = all(o == orders[0] for o in orders) and None not in rows
    return Back(first.this.name, max(r or 0 for r in rows) if bounded else None, orders[0])


def _only_back(window: exp.Window) -> bool:
    """Whether a call sees rows up to its own, and those that the order holds equal, but none after them."""
    spec = window.args.get("spec")
    if _name(window) in _WHOLE:
        return False
    if spec is None or _name(window) in _RANKS | {"lag"}:
        return True
    return str(spec.args.get("end") or "CURRENT ROW").upper() == "CURRENT ROW" or str(spec.args.get("end_side", "")).upper() == "PRECEDING"


def _rows(window: exp.Window) -> int | None:
    """How many rows before its own a call sees; None when all."""
    spec, call = window.args.get("spec"), window.this
    if isinstance(call, exp.Lag):
        return _number(call.args.get("offset") or exp.Literal.number(1))
    if spec is None or str(spec.args.get("kind", "")).upper() != "ROWS" or _name(window) in _RANKS:
        return None
    start = spec.args.get("start")
    if isinstance(start, str):
        return 0 if start.upper() == "CURRENT ROW" else None
    return _number(start) if str(spec.args.get("start_side", "")).upper() == "PRECEDING" else None


def _number(value: exp.Expr | None) -> int | None:
    return int(value.name) if isinstance(value, exp.Literal) and not value.is_string and value.name.isdigit() else None


def _name(window: exp.Window) -> str:
    call = window.this
    while isinstance(call, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        call = call.this
    return (call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower()
