"""Text as written -> text that binding understands: the rewrites in their order, and the runner that wraps each.

Each takes a query and gives a query of the same meaning. What one of them leaves unsaid, a later one could not read: a query
that needs a rewrite which is switched off is not maintained but recomputed, and the reason says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from sqlglot import exp

from runnel.bind import refuse
from runnel.bind.column_names import name_columns
from runnel.bind.determine import determine_calls
from runnel.bind.expand import expand
from runnel.bind.faithful import faithful
from runnel.bind.lookup import Lookup, Relation
from runnel.bind.pivots import name_pivots
from runnel.bind.qualify import qualify_columns
from runnel.bind.spell import spell
from runnel.bind.time_windows import name_time_windows
from runnel.errors import Unsupported
from runnel.passes import Pass


@dataclass(frozen=True)
class Written:
    """A query on its way to be bound, and the tables that it reads, by key, once they are known."""

    tree: exp.Query
    relations: dict[str, Relation]


@dataclass(frozen=True)
class Rewrite:
    """One step; `because` says what would be missing without it."""

    name: str
    because: str
    apply: Callable[[Written, Lookup], Written]


def _text(rewrite: Callable[[exp.Query], exp.Query]) -> Callable[[Written, Lookup], Written]:
    """A rewrite that needs nothing but the query."""
    return lambda written, _: replace(written, tree=rewrite(written.tree))


def _expanded(written: Written, lookup: Lookup) -> Written:
    tree, relations = expand(written.tree, lookup)
    return Written(tree, relations)


def _possible(tree: exp.Query) -> exp.Query:
    """The query as it is, unless it uses what cannot be maintained."""
    refuse.nondeterministic(tree)
    refuse.constructs(tree)
    return tree


def _with_user_aggregates(written: Written, lookup: Lookup) -> Written:
    """Calls of aggregates that users registered, as what they are: the parser cannot know."""
    tree = written.tree.copy()
    for call in list(tree.find_all(exp.Anonymous)):
        if lookup.aggregates(call.name, len(call.expressions)):
            call.replace(exp.AnonymousAggFunc(this=call.name, expressions=call.expressions))
    return replace(written, tree=tree)


REWRITES: tuple[Rewrite, ...] = (
    # first, while the text is as short as the user wrote it
    Rewrite("spell", "Spark does not read QUALIFY, DISTINCT ON, or ANY and ALL over subqueries", _text(spell)),
    Rewrite("name_time_windows", "`window` would be taken for a column", _text(name_time_windows)),
    # views bring tables and columns of their own, so names are completed after them
    Rewrite("expand", "names would depend on the session, and views could not be followed", _expanded),
    Rewrite("name_columns", "columns that Spark names itself could not be found", lambda w, _: replace(w, tree=name_columns(w.tree, w.relations))),
    Rewrite("name_pivots", "the columns that PIVOT makes could not be found", _text(name_pivots)),
    Rewrite("refuse", "a result that differs each time would be kept", _text(_possible)),
    Rewrite("user_aggregates", "an aggregate of the user's own would be taken for a function of one row", _with_user_aggregates),
    Rewrite("qualify", "a column could mean several", lambda w, _: replace(w, tree=qualify_columns(w.tree, w.relations))),
    # last, over calls whose arguments are resolved
    Rewrite("determine_calls", "results would depend on the order of rows", _text(determine_calls)),
    Rewrite("faithful", "some functions would be printed as others", _text(faithful)),
)


def rewritten(tree: exp.Query, lookup: Lookup, disabled: Collection[str] = (), trace: list[Pass] | None = None) -> Written:
    """Apply `REWRITES` from first to last."""
    written = Written(tree, {})
    for rewrite in REWRITES:
        after = rewrite.apply(written, lookup)
        changed = after.tree != written.tree
        if changed and rewrite.name in disabled:
            raise Unsupported(
                f'the query needs the rewrite "{rewrite.name}", which is switched off',
                code="REWRITE_DISABLED",
                detail=f"Without it {rewrite.because}.",
                hint="Take it out of disabled_rules, or use REFRESH MODE FULL.",
            )
        if trace is not None:
            trace.append(Pass(rewrite.name, changed, after.tree.sql("spark", pretty=True)))
        written = after
    return written
