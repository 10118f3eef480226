"""window(ts, '10 minutes'): each row in the time window it falls into, or in several that overlap.

GROUP BY window(ts, ...)   ->   a generator that puts every row beside its windows, and a plain key above it

Spark gives the call the name `window`, by which the other clauses may speak of it. A row without a time falls into none.
session_window() is read alike; `session_windows.py` finds the sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from runnel.algebra import Column, Generate, Node
from runnel.bind import refuse
from runnel.bind.scope import Scope, aliases, within
from runnel.bind.session_windows import sessions
from runnel.errors import DefinitionError

if TYPE_CHECKING:
    from runnel.bind.binder import Binder

NAME, SESSION, LAST_MOMENT = "window", "session_window", "window_time"
PLACE = "__runnel_time_windows"
"""The alias under which a scope knows the time windows of a SELECT."""


def name_time_windows(tree: exp.Query) -> exp.Query:
    """`window`, `window.start` and `window.end` as the call in GROUP BY that they stand for.

    >>> import sqlglot
    >>> text = "SELECT window.start, COUNT(*) AS n FROM t GROUP BY k, window(ts, '1 hour') HAVING window.end > d"
    >>> print(name_time_windows(sqlglot.parse_one(text, dialect="spark")).sql("spark"))
    SELECT WINDOW(ts, '1 hour').start AS start, COUNT(*) AS n FROM t GROUP BY k, WINDOW(ts, '1 hour') HAVING WINDOW(ts, '1 hour').end > d
    """
    if not any(is_time_window(n) or n.name.lower() == LAST_MOMENT for n in tree.find_all(exp.Anonymous)):
        return tree
    root = tree.transform(_last_moment)
    assert isinstance(root, exp.Query)
    for select in root.find_all(exp.Select):
        group = select.args.get("group")
        calls = [c for c in (within(group, (exp.Anonymous,)) if group is not None else []) if is_time_window(c)]
        if calls and calls[0].name.lower() not in aliases(select):
            _name(select, calls[0])
    return root


def called_by_name(tree: exp.Query) -> exp.Query:
    """The other way round, where Spark wants it: HAVING and ORDER BY find the call no more, but its name.

    >>> import sqlglot
    >>> text = "SELECT COUNT(*) AS n FROM t GROUP BY window(ts, '1 hour') HAVING window(ts, '1 hour').end > d"
    >>> from runnel.bind.faithful import SparkText
    >>> called_by_name(sqlglot.parse_one(text, dialect=SparkText)).sql("spark")
    "SELECT COUNT(*) AS n FROM t GROUP BY WINDOW(ts, '1 hour') HAVING window.end > d"
    """
    root = tree.copy()
    for select in root.find_all(exp.Select):
        for clause in (select.args[k] for k in ("having", "order") if select.args.get(k)):
            for call in [c for c in within(clause, (exp.Anonymous,)) if is_time_window(c)]:
                call.replace(exp.column(call.name.lower()))
    return root


def _last_moment(e: exp.Expr) -> exp.Expr:
    """window_time(w) asks for a mark that Spark puts on the columns of window(), and that stored ones have lost."""
    if not isinstance(e, exp.Anonymous) or e.name.lower() != LAST_MOMENT or len(e.expressions) != 1:
        return e
    least = exp.Interval(this=exp.Literal.string("1"), unit=exp.Var(this="MICROSECOND"))
    return exp.paren(exp.Sub(this=exp.Dot(this=e.expressions[0].copy(), expression=exp.to_identifier("end")), expression=least))


def _name(select: exp.Select, call: exp.Expr) -> None:
    for item in list(select.expressions):
        if (called := _called(item, call)) is not None:
            item.replace(exp.alias_(called, item.name))
    clauses = [*select.expressions, *(select.args[k] for k in ("having", "order") if select.args.get(k))]
    for reference in [r for c in clauses for r in within(c, (exp.Column,))]:
        if (called := _called(reference, call)) is not None:
            reference.replace(called)


def _called(reference: exp.Expr, call: exp.Expr) -> exp.Expr | None:
    """The call, or the part of it, that a name stands for."""
    if not isinstance(reference, exp.Column):
        return None
    if reference.table.lower() == call.name.lower() and not reference.args.get("db"):
        return exp.Dot(this=call.copy(), expression=reference.this.copy())
    return call.copy() if not reference.table and reference.name.lower() == call.name.lower() else None


def is_time_window(e: exp.Expr) -> bool:
    return isinstance(e, exp.Anonymous) and e.name.lower() in (NAME, SESSION)


def generated(binder: Binder, tree: exp.Select, node: Node, scope: Scope, carried: list[str]) -> Node:
    """The rows of a SELECT beside their time windows, when it speaks of any."""
    where = tree.args.get("where")
    if where is not None and any(is_time_window(n) for n in within(where, (exp.Anonymous,))):
        raise refuse.unsupported("window() in WHERE", where, "compute the window in a subquery, and filter above it")
    clauses = [*tree.expressions, *(tree.args[k] for k in ("group", "having", "order") if tree.args.get(k))]
    calls = list(dict.fromkeys(n for c in clauses for n in within(c, (exp.Anonymous,)) if is_time_window(n)))
    if not calls:
        return node
    if len(calls) > 1:
        raise DefinitionError(
            "several time windows in one SELECT", code="TIME_WINDOW", detail="Spark permits one.", hint="Compute one of them in a subquery."
        )
    if calls[0].name.lower() == SESSION:
        node, name = sessions(binder, tree, calls[0], node, scope, carried)
        scope.setdefault(PLACE, {})[calls[0].sql("spark")] = name
        return node
    call = binder.resolve(calls[0], scope)
    name = binder.fresh(NAME)
    scope.setdefault(PLACE, {})[calls[0].sql("spark")] = name
    return Generate(node, call, (Column(name, binder.types(node, [call])[0]),))


def value(e: exp.Expr, scope: Scope) -> str | None:
    """The column that holds a time window."""
    return scope.get(PLACE, {}).get(e.sql("spark")) if PLACE in scope and is_time_window(e) else None
