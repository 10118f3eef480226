"""Syntax tree -> operator tree: every name resolved, every expression typed, what has no operator refused."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from runnel.algebra import Node
from runnel.algebra.node import col
from runnel.bind.alike import hide_unlike
from runnel.bind.binder import Binder
from runnel.bind.lookup import Lookup
from runnel.bind.parse import parse_query, too_deep
from runnel.bind.pivots import plain_pivots
from runnel.bind.rewrites import rewritten
from runnel.bind.time_windows import called_by_name
from runnel.passes import Pass


@dataclass(frozen=True)
class Bound:
    """A query as an operator tree. `node` has one column per output, in order; `sql` stands on its own and leaves no tie
    to chance, so that running it twice over the same rows gives the same result."""

    node: Node
    sql: str
    notes: tuple[str, ...] = ()
    """What the user should know: clauses that were dropped, parts that are recomputed whole."""

    def __str__(self) -> str:
        return str(self.node)


def bind(text: str, lookup: Lookup, disabled: Collection[str] = (), trace: list[Pass] | None = None) -> Bound:
    """The operator tree of a query, or a `DefinitionError` that says what is wrong and where."""
    try:
        written = rewritten(parse_query(text), lookup, disabled, trace)
        before = written.tree.sql("spark") if trace is not None else ""
        binder = Binder(lookup, written.relations)
        outputs = binder.query(written.tree, {})
        node = hide_unlike(binder.project(outputs.node, [(n, col(u)) for n, u in outputs.columns]), binder.types)
        if trace is not None:  # the binder writes into the text what it decides between rows that an order holds equal
            trace.append(Pass("decide_ties", written.tree.sql("spark") != before, written.tree.sql("spark", pretty=True)))
        return Bound(node, called_by_name(plain_pivots(written.tree)).sql("spark"), tuple(dict.fromkeys(binder.notes)))
    except RecursionError as error:
        raise too_deep() from error
