"""Functions OVER a window: one Window operator per set of PARTITION BY columns, ties broken so that nothing is left to chance.

Where the result depends on the order of rows that ORDER BY leaves equal, the other columns of the query are added as
last keys. A frame in RANGE sees equal rows as one, so there the keys are added in other ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from runnel.algebra import Column, Node, Window
from runnel.algebra.aggregate import instead
from runnel.algebra.functions import rule
from runnel.algebra.node import col, references
from runnel.bind import groups, refuse
from runnel.bind.scope import Scope, orderable, within
from runnel.errors import DefinitionError

if TYPE_CHECKING:
    from runnel.bind.binder import Binder, Selected

_BY_ROW = frozenset("row_number ntile lag lead first first_value nth_value any_value".split())
_BY_PEERS = frozenset("rank dense_rank percent_rank cume_dist".split())
_LAST = frozenset({"last", "last_value"})


def determine(binder: Binder, tree: exp.Select, node: Node, scope: Scope) -> None:
    """Rewrite the windows of a SELECT in place, so that the text which is kept says the same as the operators."""
    clauses = [*tree.expressions, *(tree.args["order"].expressions if tree.args.get("order") else ())]
    found = [w for c in clauses for w in within(c, (exp.Window,))]
    if not found:
        return
    definitions = {w.name.lower(): w for w in tree.args.get("windows") or ()}
    types = {c.name: c.type for c in node.columns}
    ties = []
    for tie in _ties(tree, clauses):
        columns = [binder.column(c, scope) for c in within(tie, (exp.Column,)) if isinstance(c, exp.Column)]
        if all(isinstance(c, exp.Column) and orderable(types.get(c.name, "")) for c in columns):
            ties.append(tie)
    for window in found:
        window.replace(_determined(_whole(window, definitions), ties))
    tree.set("windows", None)


def _ties(tree: exp.Select, clauses: list[exp.Expr]) -> list[exp.Expr]:
    """What can tell rows apart in the result: the keys of a GROUP BY, or else the columns that the query shows."""
    group = tree.args.get("group")
    if groups.grouped(tree):
        shown = [e.unalias() for e in tree.expressions]
        keys = [e for e in shown if not groups.calls_in(e)] if group is not None and group.args.get("all") else groups.keys_of(group)
        return [k for k in dict.fromkeys(keys) if not within(k, (exp.Window, exp.Query)) and not isinstance(k, exp.Literal)]
    return list(dict.fromkeys(c for e in clauses for c in within(e, (exp.Column,)) if isinstance(c, exp.Column) and c.table))


def windowed(
    binder: Binder, node: Node, scope: Scope, selected: Selected, order: list[exp.Expr], carried: list[str]
) -> tuple[Node, Selected, list[exp.Expr]]:
    """The rows with a column per window call, and the select list and order over those columns."""
    results: dict[exp.Expr, exp.Expr] = {}
    for written in dict.fromkeys(w for e in (*(e for _, e in selected), *order) for w in within(e, (exp.Window,))):
        node, results[written] = bound(binder, node, binder.resolve(written, scope), carried)
    return node, [(n, _swapped(e, results)) for n, e in selected], [_swapped(o, results) for o in order]


def _whole(window: exp.Expr, definitions: dict[str, exp.Expr]) -> exp.Window:
    """A window with the definition it names put in."""
    assert isinstance(window, exp.Window)
    name = window.args.get("alias")
    if name is None:
        return window.copy()
    base = definitions.get(name.name.lower())
    if base is None:
        raise DefinitionError(f'window "{name.name}" is not defined', code="WINDOW_NOT_FOUND", hint="Define it in the WINDOW clause.")
    copy = window.copy()
    copy.set("alias", None)
    for key in ("partition_by", "order", "spec"):
        if base.args.get(key) and not copy.args.get(key):
            value = base.args[key]
            copy.set(key, [v.copy() for v in value] if isinstance(value, list) else value.copy())
    return copy


def _determined(window: exp.Window, ties: list[exp.Expr]) -> exp.Expr:
    """The same window with no tie left to chance."""
    name = _name(window)
    spec, order = window.args.get("spec"), window.args.get("order")
    by_rows = spec is not None and str(spec.args.get("kind", "")).upper() == "ROWS"
    skipping = spec is None and isinstance(window.this, exp.IgnoreNulls) and name not in ("lag", "lead")
    if name in _BY_PEERS or order is None or skipping:
        return window
    if name in _LAST | {"nth_value"} and spec is None:
        return _last_of_peers(window, ties) if name in _LAST else _nth(window, ties)
    if name in _BY_ROW or by_rows:
        return _with_ties(window, ties)
    return window


def _with_ties(window: exp.Window, ties: list[exp.Expr]) -> exp.Window:
    order = window.args["order"]
    known = {o.this for o in order.expressions} | set(window.args.get("partition_by") or ())
    for column in ties:
        if column not in known:
            order.append("expressions", exp.Ordered(this=column.copy(), nulls_first=True))
    return window


def _last_of_peers(window: exp.Window, ties: list[exp.Expr]) -> exp.Expr:
    """Up to the last row that ORDER BY holds equal: the last of those that share the order keys."""
    keys = [o.this.copy() for o in window.args["order"].expressions]
    rest = [t for t in ties if t not in keys]
    window.set("partition_by", [*(window.args.get("partition_by") or []), *keys])
    window.set("order", exp.Order(expressions=[exp.Ordered(this=t.copy(), nulls_first=True) for t in rest or keys]))
    window.set("spec", _everything())
    return window


def _nth(window: exp.Window, ties: list[exp.Expr]) -> exp.Expr:
    """The n-th row of the partition, for rows whose frame reaches that far."""
    count = window.copy()
    count.set("this", exp.Count(this=exp.Star(), big_int=True))
    n = _function(window.this).args.get("offset") or exp.Literal.number(1)
    nth = _with_ties(window.copy(), ties)
    nth.set("spec", _everything())
    return exp.Case().when(exp.GTE(this=count, expression=n.copy()), nth)


def _everything() -> exp.WindowSpec:
    return exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="UNBOUNDED", end_side="FOLLOWING")


def _name(window: exp.Expr) -> str:
    return refuse.function_name(_function(window.this))


def _function(e: exp.Expr) -> exp.Expr:
    return _function(e.this) if isinstance(e, exp.Filter | exp.IgnoreNulls | exp.RespectNulls) else e


def bound(binder: Binder, node: Node, call: exp.Expr, carried: list[str]) -> tuple[Node, exp.Expr]:
    """One window over a node that has its columns."""
    partition = [*(call.args.get("partition_by") or []), *(col(c) for c in carried)]
    node, keys = binder.extended(node, [("partition", p) for p in partition])
    call.set("partition_by", [col(k) for k in dict.fromkeys(keys)])
    if not keys:
        binder.notes.append("a window without PARTITION BY is recomputed whole at each change")
    node, value = _steady(binder, node, call)
    made: dict[exp.Expr, exp.Expr] = {}
    for part in dict.fromkeys(within(value, (exp.Window,))):
        output = Column(binder.fresh(_name(part)), _type(binder, node, part))
        node = Window(node, tuple(dict.fromkeys(keys)), (output,), (part,))
        made[part] = col(output.name)
    return node, _swapped(value, made)


def _steady(binder: Binder, node: Node, call: exp.Expr) -> tuple[Node, exp.Expr]:
    """A call that adds doubles up, written so that the same rows give the same bits in any order."""
    wide, plain = _over_columns(binder, node, call)
    kept = rule(plain.this, {c.name: c.type for c in wide.columns}, "double")
    spec = plain.args.get("spec")
    if kept.stable or (spec is not None and str(spec.args.get("kind", "")).upper() == "ROWS" and kept.finish is None):
        return node, call  # a frame in ROWS has a total order, and Spark adds up in that order
    if kept.finish is not None:
        sums = (_instead(plain, exp.Sum(this=p.summand(exp.Literal.number(1)))) for p in kept.partials)
        return wide, exp.paren(kept.finish(*(exp.func("coalesce", s, exp.Literal.number(0)) for s in sums)))
    if plain.args.get("order") is None and spec is None:
        plain.set("order", exp.Order(expressions=[exp.Ordered(this=col(c), nulls_first=True) for c in sorted(references(plain.this))]))
        plain.set("spec", _everything())
        return wide, plain
    if kept.fold is None:
        return node, call
    collected = plain.copy()
    collected.set("this", instead(plain.this, kept.fold.collected))
    return wide, kept.fold.value(collected)


def _over_columns(binder: Binder, node: Node, call: exp.Expr) -> tuple[Node, exp.Expr]:
    """A call whose arguments and FILTER are columns of the node."""
    copy = call.copy()
    inner = _function(copy.this)
    written = [a for a in (inner.args.get("this"), inner.args.get("expression"), *inner.expressions) if isinstance(a, exp.Expr)]
    written += [w.this for w in copy.this.find_all(exp.Where)]
    found = [a for a in written if references(a) and not isinstance(a, exp.Distinct)]
    node, names = binder.extended(node, [(groups.hint(a), a) for a in found])
    for argument, name in zip(found, names, strict=True):
        argument.replace(col(name))
    return node, copy


def _instead(call: exp.Expr, function: exp.Expr) -> exp.Expr:
    """Another function over the same frame; the rule of the call has its FILTER in it."""
    copy = call.copy()
    copy.set("this", function)
    return copy


def _type(binder: Binder, node: Node, call: exp.Expr) -> str:
    known = {c.name: c.type for c in node.columns}
    inputs = ", ".join(f"CAST(NULL AS {known[u]}) AS {col(u).sql('spark')}" for u in sorted(references(call))) or "1 AS one"
    return binder.lookup.describe(f"SELECT {call.sql('spark')} AS c0 FROM (SELECT {inputs}) AS t")[0].type


def _swapped(e: exp.Expr, results: dict[exp.Expr, exp.Expr]) -> exp.Expr:
    if e in results:
        return results[e].copy()
    if isinstance(e, exp.Query):
        return e.copy()
    copy = e.copy()
    for key, value in e.args.items():
        if isinstance(value, exp.Expr):
            copy.set(key, _swapped(value, results))
        elif isinstance(value, list):
            copy.set(key, [_swapped(v, results) if isinstance(v, exp.Expr) else v for v in value])
    return copy
