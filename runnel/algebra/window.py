"""change(window(Q)) = after - before of the partitions that change(Q) touches

NULL keys form one partition. Ties are broken when the query is bound, so equal bags of rows give equal results. Without
PARTITION BY there is one partition: every change recomputes the whole. Calls that only look back give the rows before the first
changed one of a partition the same result as before, so those are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.node import Column, Face, Node, col, joined, named, references, select, table
from runnel.algebra.since import Back, looks_back
from runnel.algebra.steps import Steps
from runnel.algebra.want import Origin, Within

FIRST, BACK = "__runnel_first", "__runnel_back"
FAR = 16
"""Rows that calls look back from which on numbering the rows of a partition costs less than computing calls for all of them."""


@dataclass(frozen=True)
class Window(Node):
    """`child` with one more column per call; all calls are partitioned by the columns `keys`."""

    child: Node
    keys: tuple[str, ...]
    outputs: tuple[Column, ...]
    calls: tuple[exp.Expr, ...]

    title = "Window"
    law_text = "after - before of the touched partitions"
    supports = (
        "ranking, LAG and LEAD, NTILE, FIRST, LAST and NTH_VALUE, CUME_DIST, PERCENT_RANK and aggregates OVER, with ROWS and RANGE frames; "
        "several windows with different partitions; windows inside expressions, over joins and aggregates; session_window()"
    )
    cost = "the touched partitions on both faces, from the first changed row on where calls only look back; without PARTITION BY the whole input"
    grows_with_inserts = False

    def __post_init__(self) -> None:
        assert len(self.outputs) == len(self.calls), "every output has one call"
        self.require(frozenset(self.keys).union(*(references(c) for c in self.calls)), self.child.names, "calls and keys")

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, *self.outputs)

    def select(self, *inputs: str) -> exp.Select:
        values = (named(c.copy(), o.name) for c, o in zip(self.calls, self.outputs, strict=True))
        return select((*(col(n) for n in self.child.names), *values)).from_(table(inputs[0]))

    def law(self, steps: Steps) -> str:
        if not self.keys:
            return super().law(steps)
        touched = steps.touched(self.child, self.keys)
        back = looks_back(self.calls, {c.name: c.type for c in self.child.columns})
        if back is not None and steps.uses("later_rows") and not steps.touched_at_hand(self.child, self.keys):
            return self._later(steps, touched, back)
        now = steps.define("window_now", self.select(steps.restrict(self.child, Face.AFTER, self.keys, touched)))
        if steps.stores(self):
            return steps.replaced(self, now, self.keys, touched)
        was = steps.define("window_was", self.select(steps.restrict(self.child, Face.BEFORE, self.keys, touched)))
        return steps.difference(self, now, was)

    def _later(self, steps: Steps, touched: str, back: Back) -> str:
        """The law for windows that only look back: after - before of the rows from the first changed one of their partition on."""
        first = self._first(steps, back)
        now = self._since(steps, self._near(steps, Face.AFTER, touched), first, back)
        if steps.stores(self):
            return steps.replaced(self, now, self.keys, first, since=(back.column, FIRST))
        was = self._since(steps, self._near(steps, Face.BEFORE, touched), first, back)
        return steps.difference(self, now, was)

    def _near(self, steps: Steps, face: Face, touched: str) -> str:
        """Rows of touched partitions, and of a table maybe others: those are left out where rows meet the first changed one."""
        if self.child.children:
            return steps.restrict(self.child, face, self.keys, touched)
        return steps.near(self.child, face, Within.each({k: steps.origins(touched, k) for k in self.keys}))

    def _first(self, steps: Steps, back: Back) -> str:
        """The touched partitions, each with the least value that the first order column has in a changed row; NULL if that is NULL."""
        change = steps.net(self.child)
        assert change is not None
        value = col(back.column)
        every = exp.EQ(this=exp.Count(this=exp.Star()), expression=exp.Count(this=value))
        least = named(exp.Case().when(every, exp.Min(this=value.copy())), FIRST)
        query = select((*(col(k) for k in self.keys), least), table(change)).group_by(*(col(k) for k in self.keys), copy=False)
        name = steps.define("window_first", query, small=True)
        return steps.among(name, change, {**{k: k for k in self.keys}, FIRST: back.column})

    def _since(self, steps: Steps, rows: str, first: str, back: Back) -> str:
        """The window over some partitions, but only its rows from the first changed one on. Of those before, only as many are looked at as
        calls can see."""
        names = (*(col(n, "c") for n in self.child.names), col(FIRST, "t"))
        query = joined(select(names, table(rows, "c")), table(first, "t"), "inner", steps.on(self.child.columns, self.keys))
        seen = steps.define("window_seen", steps.broadcast(query, "t"))
        later = exp.or_(exp.Is(this=col(FIRST), expression=exp.null()), exp.GTE(this=col(back.column), expression=col(FIRST)))
        if back.rows is not None and back.rows >= FAR:
            number = exp.Window(
                this=exp.RowNumber(), partition_by=[*(col(k) for k in self.keys), later.copy()], order=exp.Order(expressions=back.reversed)
            )
            rank = steps.define("window_ranked", select((exp.Star(), named(number, BACK)), table(seen)))
            seen = steps.define(
                "window_near",
                select([exp.Star()], table(rank)).where(
                    exp.or_(later.copy(), exp.LTE(this=col(BACK), expression=exp.Literal.number(back.rows))), copy=False
                ),
            )
        result = steps.define("window_rows", self.select(seen).select(col(FIRST)))
        return steps.define("window_later", select((col(n) for n in self.names), table(result)).where(later, copy=False))

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        return self.child.origins(column, changed) if column in self.keys else None

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        if not set(keys) <= set(self.keys):
            return super().restricted(steps, face, keys, touched)
        return steps.define("window_touched", self.select(steps.restrict(self.child, face, keys, touched)))

    def arguments(self) -> str:
        calls = ", ".join(named(c, o.name).sql("spark") for c, o in zip(self.calls, self.outputs, strict=True))
        return f"by [{', '.join(self.keys)}] {calls}{'' if self.keys else ' (recomputed whole at each change)'}"
