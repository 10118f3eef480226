"""Subqueries outside FROM: EXISTS and IN as semi joins or marks, scalar ones as joins, LATERAL as a join by domain.

A correlated subquery is bound over the domain of the outer values it is asked for, and looked up by them, NULL equal to
NULL. `decorrelate` removes the domain afterwards wherever an equality makes it superfluous.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from runnel.algebra import Aggregate, Call, Column, Distinct, Domain, Filter, Join, Mark, Node, OuterJoin, Project, SemiJoin
from runnel.algebra.condition import conjuncts, together
from runnel.algebra.node import col
from runnel.bind import generators, refuse
from runnel.bind.scope import Outer, Outputs, Scope, free, within

if TYPE_CHECKING:
    from runnel.bind.binder import Binder, Ctes

_PREDICATES = (exp.Exists, exp.In)


# -- predicates ----------------------------------------------------------------------------------------------------------


def filtered(binder: Binder, node: Node, predicate: exp.Expr, scope: Scope, ctes: Ctes) -> Node:
    """WHERE or HAVING: plain conjuncts first, so that subqueries are asked about fewer rows."""
    plain: list[exp.Expr] = []
    asked: list[exp.Expr] = []
    for part in conjuncts(pushed_not(predicate)):
        (asked if within_queries(part) else plain).append(part)
    if plain:
        node = Filter(node, binder.resolve(exp.and_(*plain), scope))
    for part in asked:
        negated = isinstance(part, exp.Not)
        inner = part.this.unnest() if negated else part
        if _is_predicate(inner):
            node = _semi(binder, node, inner, negated, scope, ctes)
            continue
        node, value = expression(binder, node, part, scope, ctes)
        node = Filter(node, value)
    return node


def pushed_not(predicate: exp.Expr) -> exp.Expr:
    """NOT moved inwards over AND and OR until it stands at what it negates, as far as subqueries are concerned.

    NOT (a OR x IN (...))   ->   NOT a AND NOT x IN (...)
    """
    predicate = predicate.unnest()
    if not within_queries(predicate):
        return predicate
    match predicate:
        case exp.And():
            return exp.and_(pushed_not(predicate.this), pushed_not(predicate.expression))
        case exp.Or():
            return exp.or_(pushed_not(predicate.this), pushed_not(predicate.expression))
        case exp.Not():
            inner = predicate.this.unnest()
            match inner:
                case exp.Not():
                    return pushed_not(inner.this)
                case exp.And():
                    return exp.or_(*(pushed_not(exp.not_(p.copy())) for p in (inner.this, inner.expression)))
                case exp.Or():
                    return exp.and_(*(pushed_not(exp.not_(p.copy())) for p in (inner.this, inner.expression)))
    return predicate


def within_queries(e: exp.Expr) -> bool:
    return bool(within(e, (exp.Query,)))


def _is_predicate(e: exp.Expr) -> bool:
    return (isinstance(e, exp.Exists) and isinstance(e.this, exp.Query)) or (isinstance(e, exp.In) and e.args.get("query") is not None)


def _semi(binder: Binder, node: Node, predicate: exp.Expr, negated: bool, scope: Scope, ctes: Ctes) -> Node:
    node, asked = _asked(binder, node, predicate, negated, scope, ctes)
    for right, condition in asked:
        node = SemiJoin(node, right, condition, anti=negated)
    return node


def _marked(binder: Binder, node: Node, predicate: exp.Expr, negated: bool, scope: Scope, ctes: Ctes) -> tuple[Node, exp.Expr]:
    node, asked = _asked(binder, node, predicate, negated, scope, ctes)
    marks = []
    for right, condition in asked:
        mark = binder.fresh("exists")
        node = Mark(node, right, condition, mark)
        marks.append(col(mark))
    found = exp.paren(exp.or_(*marks)) if len(marks) > 1 else marks[0]
    return node, exp.not_(found) if negated else found


def _asked(
    binder: Binder, node: Node, predicate: exp.Expr, negated: bool, scope: Scope, ctes: Ctes
) -> tuple[Node, list[tuple[Node, exp.Expr | None]]]:
    """What must exist (one relation and condition), or for NOT IN what must not: a match, a NULL there, any row for a NULL here."""
    if isinstance(predicate, exp.Exists):
        sub = bound(binder, node, predicate.this, scope, ctes)
        right = total(binder, sub, Outer(node, {})) if sub.carried else _any_row(binder, sub.node)
        return node, [(right, together(_lookups(sub)))]
    values = predicate.this.expressions if isinstance(predicate.this, exp.Tuple) else [predicate.this]
    resolved = []
    for value in values:
        node, plain = expression(binder, node, value.unnest(), scope, ctes)
        resolved.append(plain)
    sub = bound(binder, node, predicate.args["query"], scope, ctes)
    right = total(binder, sub, None if not sub.carried else Outer(node, {}))
    if len(sub.columns) != len(resolved):
        raise refuse.unsupported(f"IN of {len(resolved)} values and a subquery of {len(sub.columns)} columns", predicate)
    found = [col(u) for _, u in sub.columns]
    equal = [exp.EQ(this=v.copy(), expression=f) for v, f in zip(resolved, found, strict=True)]
    looked = _lookups(sub)
    if not negated:
        return node, [(right, exp.and_(*looked, *equal))]
    if len(equal) > 1:
        undecided = [exp.paren(exp.or_(e, exp.Is(this=exp.paren(e.copy()), expression=exp.null()))) for e in equal]
        return node, [(right, exp.and_(*looked, *undecided))]
    unknown = Filter(right, exp.Is(this=found[0].copy(), expression=exp.null()))
    here = exp.Is(this=resolved[0].copy(), expression=exp.null())
    asked: list[tuple[Node, exp.Expr | None]] = [(right, exp.and_(*looked, *equal))]
    asked.append(_existing(binder, unknown, sub, []))
    asked.append(_existing(binder, right, sub, [here]))
    return node, asked


def _existing(binder: Binder, right: Node, sub: Outputs, conditions: list[exp.Expr]) -> tuple[Node, exp.Expr | None]:
    """Whether there is any row, per looked-up value, under columns of its own."""
    types = {c.name: c.type for c in right.columns}
    names = {u: binder.fresh(c) for u, c in sub.carried.items()}
    if not names:
        return _any_row(binder, right), together(conditions)
    outputs = tuple(Column(names[u], types[c]) for u, c in sub.carried.items())
    found = Distinct(Project(right, outputs, tuple(col(c) for c in sub.carried.values())))
    return found, exp.and_(*(exp.NullSafeEQ(this=col(u), expression=col(n)) for u, n in names.items()), *conditions)


def _any_row(binder: Binder, node: Node) -> Node:
    """One row when there is any."""
    return Distinct(Project(node, (Column(binder.fresh("any_row"), "int"),), (exp.Literal.number(1),)))


def _lookups(sub: Outputs) -> list[exp.Expr]:
    return [exp.NullSafeEQ(this=col(u), expression=col(c)) for u, c in sub.carried.items()]


# -- values --------------------------------------------------------------------------------------------------------------


def expression(binder: Binder, node: Node, e: exp.Expr, scope: Scope, ctes: Ctes) -> tuple[Node, exp.Expr]:
    """An expression over unique names, its subqueries replaced by columns that the node then has."""
    if not within_queries(e):
        return node, binder.resolve(e, scope)
    if isinstance(e, exp.Not) and _is_predicate(e.this.unnest()):
        return _marked(binder, node, e.this.unnest(), True, scope, ctes)
    if _is_predicate(e):
        return _marked(binder, node, e, False, scope, ctes)
    if isinstance(e, exp.Subquery):
        return _scalar(binder, node, e, scope, ctes)
    if isinstance(e, exp.Query):
        return _scalar(binder, node, e.subquery(), scope, ctes)
    copy = e.copy()
    for key, value in e.args.items():
        if isinstance(value, exp.Expr):
            node, replaced = expression(binder, node, value, scope, ctes)
            copy.set(key, replaced)
        elif isinstance(value, list):
            parts = []
            for v in value:
                node, part = expression(binder, node, v, scope, ctes) if isinstance(v, exp.Expr) else (node, v)
                parts.append(part)
            copy.set(key, parts)
    return node, copy


def _scalar(binder: Binder, node: Node, query: exp.Subquery, scope: Scope, ctes: Ctes) -> tuple[Node, exp.Expr]:
    """The one value of a subquery: NULL when it has no row, an error when it has several."""
    sub = bound(binder, node, query, scope, ctes)
    if len(sub.columns) != 1:
        raise refuse.unsupported(f"a scalar subquery of {len(sub.columns)} columns", query)
    (_, value) = sub.columns[0]
    if sub.empties is None:
        sub = _single(binder, sub)
        value = sub.columns[0][1]
    if not sub.carried:
        return Join(node, sub.node, None), col(value)
    empty = sub.empties[value] if sub.empties is not None else exp.null()
    if isinstance(empty, exp.Null):
        return OuterJoin(node, sub.node, together(_lookups(sub))), col(value)
    right, (present,) = binder.extended(sub.node, [("present", exp.true())])
    joined = OuterJoin(node, right, together(_lookups(sub)))
    return joined, exp.Case().when(exp.Is(this=col(present), expression=exp.null()), empty).else_(col(value))


def _single(binder: Binder, sub: Outputs) -> Outputs:
    """At most one row per looked-up value; more than one raises Spark's own kind of error when it is read."""
    types = {c.name: c.type for c in sub.node.columns}
    (name, value) = sub.columns[0]
    keys = tuple(sub.carried.values())
    rows, only = Column(binder.fresh("rows"), "bigint"), Column(binder.fresh(name), types[value])
    calls = (Call(rows, exp.Count(this=exp.Star(), big_int=True)), Call(only, exp.Max(this=col(value))))
    node = Aggregate(sub.node, keys, calls)
    message = exp.Literal.string("more than one row returned by a subquery used as an expression")
    error = exp.cast(exp.Anonymous(this="raise_error", expressions=[message]), exp.DataType.build(types[value], dialect="spark"))
    checked = exp.Case().when(exp.GT(this=col(rows.name), expression=exp.Literal.number(1)), error).else_(col(only.name))
    output = Column(binder.fresh(name), types[value])
    kept = tuple(c for c in node.columns if c.name in keys)
    return Outputs(Project(node, (output, *kept), (checked, *(col(c.name) for c in kept))), ((name, output.name),), sub.carried)


# -- correlation ---------------------------------------------------------------------------------------------------------


def bound(binder: Binder, node: Node, query: exp.Expr, scope: Scope, ctes: Ctes) -> Outputs:
    """A subquery inside a SELECT whose rows so far are `node`."""
    inner = query.this if isinstance(query, exp.Subquery) and isinstance(query.this, exp.Query) else query
    outside = free(inner)
    if not outside:
        return binder.query(inner, ctes)
    columns = {}
    for place, column in outside.items():
        found = binder.column(column, scope)
        while isinstance(found, exp.Dot):
            found = found.this
        columns[place] = found.name
    return binder.query(inner, ctes, Outer(node, columns))


def total(binder: Binder, sub: Outputs, outer: Outer | None) -> Node:
    """A correlated global aggregate with its row for every outer value, also for those that no inner row belongs to."""
    if sub.empties is None or not sub.carried or outer is None:
        return sub.node
    types = {c.name: c.type for c in sub.node.columns}
    domain_types = {c.name: c.type for c in outer.node.columns}
    outputs = tuple(Column(binder.fresh(f"outer_{u}"), domain_types[u]) for u in sub.carried)
    domain = Domain(Project(outer.node, outputs, tuple(col(u) for u in sub.carried)))
    inner, (present,) = binder.extended(sub.node, [("present", exp.true())])
    same = exp.and_(*(exp.NullSafeEQ(this=col(o.name), expression=col(c)) for o, c in zip(outputs, sub.carried.values(), strict=True)))
    # The names of the subquery go on to stand for the total rows; inside they are given away.
    away = {n: binder.fresh(n) for n in inner.names}
    hidden = Project(inner, tuple(Column(away[c.name], c.type) for c in inner.columns), tuple(col(c.name) for c in inner.columns))
    joined = OuterJoin(domain, hidden, same.transform(lambda e: col(away[e.name]) if isinstance(e, exp.Column) and e.name in away else e))
    absent = exp.Is(this=col(away[present]), expression=exp.null())
    columns: list[Column] = []
    values: list[exp.Expr] = []
    for _, u in sub.columns:
        columns.append(Column(u, types[u]))
        values.append(exp.Case().when(absent.copy(), sub.empties[u].copy()).else_(col(away[u])))
    for c, o in zip(sub.carried.values(), outputs, strict=True):
        columns.append(Column(c, o.type))
        values.append(col(o.name))
    return Project(joined, tuple(columns), tuple(values))


def lateral(binder: Binder, left: Node, scope: Scope, join: exp.Join, condition: exp.Expr | None, side: str, ctes: Ctes) -> Node:
    """JOIN LATERAL: a generator, or a subquery asked for each row so far."""
    item = join.this
    if not isinstance(item.this, exp.Subquery):
        if condition is not None:
            raise refuse.unsupported("a condition on LATERAL of a function", join)
        return generators.lateral_view(binder, left, scope, item, outer=side == "LEFT")
    query = item.this
    sub = bound(binder, left, query, scope, ctes)
    node = total(binder, sub, Outer(left, {})) if sub.carried else sub.node
    names = [c.name.lower() for c in item.args["alias"].args.get("columns") or ()] if item.args.get("alias") else []
    columns = {(names[i] if names else n): u for i, (n, u) in enumerate(sub.columns)}
    scope[item.alias_or_name.lower()] = columns
    on = together([*_lookups(sub), *conjuncts(binder.resolve(condition, scope) if condition is not None else None)])
    return OuterJoin(left, node, on) if side == "LEFT" else Join(left, node, on)
