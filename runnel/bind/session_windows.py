"""session_window(ts, gap): rows of a group whose times follow each other within a gap are in one session.

A row alone makes the session from its time until its gap has passed. Sessions that touch are one: it opens with the first row
that no earlier session of the group reaches, and ends with the latest end of its rows. So the session of a row is found by
windows over the rows of its group, which are maintained as all windows are. A row without a time, or whose gap is not
positive, is in none; without GROUP BY each row has the session that it makes alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from runnel.algebra import Filter, Node
from runnel.algebra.node import col
from runnel.bind import groups, refuse, windows
from runnel.bind.scope import Scope, within

if TYPE_CHECKING:
    from runnel.bind.binder import Binder


def sessions(binder: Binder, tree: exp.Select, call: exp.Expr, node: Node, scope: Scope, carried: list[str]) -> tuple[Node, str]:
    """The rows beside their sessions, and the column that holds those."""
    moment, gap = (binder.resolve(e, scope) for e in call.expressions)
    zoned = binder.types(node, [moment]) != ["timestamp_ntz"]
    begin = exp.cast(moment, "timestamp", dialect="spark") if zoned else moment
    node, (start,) = binder.extended(node, [("start", begin)])
    node, (end,) = binder.extended(node, [("end", exp.Add(this=col(start), expression=exp.cast(gap, "interval")))])
    node = Filter(node, exp.GT(this=col(end), expression=col(start)))  # not for NULL either
    if groups.grouped(tree):
        keys = _other_keys(binder, tree, call, scope)
        node, start, end = _joined(binder, node, keys, start, end, carried)
    session = exp.Struct(
        expressions=[exp.PropertyEQ(this=exp.to_identifier(n), expression=col(c)) for n, c in (("start", start), ("end", end))],
    )
    node, (name,) = binder.extended(node, [(call.name, session)])
    return node, name


def _other_keys(binder: Binder, tree: exp.Select, call: exp.Expr, scope: Scope) -> list[exp.Expr]:
    """What rows of one session have in common besides it."""
    group = tree.args.get("group")
    if group is not None and any(group.args.get(k) for k in ("rollup", "cube", "grouping_sets")):
        raise refuse.unsupported("session_window() beside GROUPING SETS", call, "group by sessions in a subquery")
    shown = [e.unalias() for e in tree.expressions]
    keys = [e for e in shown if not groups.calls_in(e)] if group is not None and group.args.get("all") else groups.keys_of(group)
    if any(within(k, (exp.Query,)) for k in keys):
        raise refuse.unsupported("session_window() beside a subquery in GROUP BY", call, "compute the key in a subquery in FROM")
    return [binder.resolve(k, scope) for k in keys if not within(k, (type(call),)) or call not in within(k, (type(call),))]


def _joined(binder: Binder, node: Node, keys: list[exp.Expr], start: str, end: str, carried: list[str]) -> tuple[Node, str, str]:
    """The columns of start and end of the session that touching sessions make together."""

    def over(value: exp.Expr, partition: list[exp.Expr], frame: exp.WindowSpec | None = None) -> str:
        nonlocal node
        order = exp.Order(expressions=[exp.Ordered(this=col(start), nulls_first=True)]) if frame is not None else None
        window = exp.Window(this=exp.Max(this=value), partition_by=[p.copy() for p in partition], order=order, spec=frame)
        node, found = windows.bound(binder, node, window, carried)
        return found.name

    least = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this="MICROSECOND"))
    reached = over(col(end), keys, _until(least))
    alone = exp.or_(exp.Is(this=col(reached), expression=exp.null()), exp.GT(this=col(start), expression=col(reached)))
    opened = over(exp.Case().when(alone, col(start)), keys, _until("CURRENT ROW"))
    closed = over(col(end), [*keys, col(opened)])
    return node, opened, closed


def _until(last: exp.Expr | str) -> exp.WindowSpec:
    """All rows up to a time: those of the same time are in it or out of it together, whatever their order."""
    side = None if isinstance(last, str) else "PRECEDING"
    return exp.WindowSpec(kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end=last, end_side=side)
