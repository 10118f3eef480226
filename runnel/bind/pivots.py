"""PIVOT as an aggregate with a FILTER per value, UNPIVOT as a join with the names of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from runnel.algebra import Aggregate, Call, Column, Constant, Filter, Join, Node, Project
from runnel.algebra.node import col
from runnel.bind import groups, refuse
from runnel.bind.scope import Scope

if TYPE_CHECKING:
    from runnel.bind.binder import Binder


def pivoted(binder: Binder, node: Node, scope: Scope, columns: dict[str, str], pivot: exp.Expr) -> tuple[Node, dict[str, str]]:
    """The rows and columns of a relation after one PIVOT or UNPIVOT."""
    everything: Scope = {**scope, **{c.table.lower(): columns for c in pivot.find_all(exp.Column) if c.table}}
    everything[""] = columns
    if pivot.args.get("unpivot"):
        return _unpivot(binder, node, everything, columns, pivot)
    return _pivot(binder, node, everything, columns, pivot)


def _pivot(binder: Binder, node: Node, scope: Scope, columns: dict[str, str], pivot: exp.Expr) -> tuple[Node, dict[str, str]]:
    """PIVOT (SUM(x) FOR c IN ('a', 'b'))   ->   SUM(x) FILTER (WHERE c <=> 'a'), SUM(x) FILTER (WHERE c <=> 'b') by the rest"""
    if len(pivot.args["fields"]) != 1:
        raise refuse.unsupported("PIVOT over several fields", pivot)
    field = pivot.args["fields"][0]
    tested = [binder.resolve(c, scope) for c in _parts(field.this)]
    calls = [(e.alias if isinstance(e, exp.Alias) else "", binder.resolve(e.unalias(), scope)) for e in pivot.expressions]
    used = {c.name for e in (*tested, *(c for _, c in calls)) for c in e.find_all(exp.Column)}
    keys = {n: u for n, u in columns.items() if u not in used}
    filters: list[tuple[str, exp.Expr]] = []
    made: list[tuple[str, int, exp.Expr]] = []
    for value in field.expressions:
        wanted = _parts(value.unalias())
        test = exp.and_(*(exp.NullSafeEQ(this=t.copy(), expression=w.copy()) for t, w in zip(tested, wanted, strict=True)))
        filters.append(("chosen", test))
        made += [(named_(label(value), alias, call, len(calls)), len(filters) - 1, call) for alias, call in calls]
    node, arguments = binder.extended(node, [("argument", a) for a in dict.fromkeys(a for _, c in calls for a in groups.arguments(c))])
    names = dict(zip(dict.fromkeys(a for _, c in calls for a in groups.arguments(c)), arguments, strict=True))
    node, chosen = binder.extended(node, filters)
    templates: list[exp.Expr] = [exp.Filter(this=groups.template(c, names), expression=exp.Where(this=col(chosen[i]))) for _, i, c in made]
    there = [exp.Filter(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Where(this=col(c))) for c in chosen]
    types = groups.call_types(binder, node, [*templates, *there])
    calls_ = [Call(Column(binder.fresh("pivoted"), t), e) for e, t in zip([*templates, *there], types, strict=True)]
    aggregate = Aggregate(node, tuple(keys.values()), tuple(calls_))
    # A value without any row is NULL, for COUNT too.
    counts = calls_[len(made) :]
    outputs = [Column(binder.fresh(n), t) for (n, _, _), t in zip(made, types, strict=False)]
    values = [
        exp.Case().when(exp.GT(this=col(counts[i].output.name), expression=exp.Literal.number(0)), col(c.output.name))
        for (_, i, _), c in zip(made, calls_, strict=False)
    ]
    node = Project(aggregate, (*aggregate.key_columns, *outputs), (*(col(k) for k in aggregate.keys), *values))
    return node, keys | {n.lower(): o.name for (n, _, _), o in zip(made, outputs, strict=True)}


def label(value: exp.Expr) -> str:
    """What Spark calls a value of PIVOT: its alias, the value itself, or several in braces.

    >>> import sqlglot
    >>> label(sqlglot.parse_one("('a', 1)", dialect="spark")), label(sqlglot.parse_one("'a'", dialect="spark"))
    ('{a, 1}', 'a')
    """
    if isinstance(value, exp.PivotAlias | exp.Alias):
        return value.alias
    parts = [w.name if isinstance(w, exp.Literal) else w.sql("spark") for w in _parts(value)]
    return parts[0] if len(parts) == 1 else f"{{{', '.join(parts)}}}"


def named_(value: str, alias: str, call: exp.Expr, calls: int) -> str:
    """The column of one value and one call."""
    return f"{value}_{alias or call.sql('spark')}" if calls > 1 else value


def name_pivots(tree: exp.Query) -> exp.Query:
    """The query in which every PIVOT says what its columns are called, as name resolution wants to know."""
    if tree.find(exp.Pivot) is None:
        return tree
    root = tree.copy()
    for pivot in root.find_all(exp.Pivot):
        fields = pivot.args.get("fields") or []
        if pivot.args.get("unpivot") or len(fields) != 1:
            continue
        calls = [(e.alias if isinstance(e, exp.Alias) else "", e.unalias()) for e in pivot.expressions]
        made = [named_(label(v), alias, call, len(calls)) for v in fields[0].expressions for alias, call in calls]
        pivot.set("columns", [exp.to_identifier(n, quoted=True) for n in made])
    return root


def plain_pivots(tree: exp.Query) -> exp.Query:
    """The query in which PIVOT reads columns without a table before them, the only way to name them after it is gone."""
    root = tree.copy()
    for column in [c for pivot in root.find_all(exp.Pivot) for c in pivot.find_all(exp.Column)]:
        column.set("table", None)
    return root


def _unpivot(binder: Binder, node: Node, scope: Scope, columns: dict[str, str], pivot: exp.Expr) -> tuple[Node, dict[str, str]]:
    """UNPIVOT (v FOR n IN (a, b))   ->   every row beside 'a' and 'b', with a or b as its value"""
    field = pivot.args["fields"][0]
    values = [i.name for e in pivot.expressions for i in _parts(e)]
    sources, labels = [], []
    for item in field.expressions:
        parts = _parts(item.this if isinstance(item, exp.PivotAlias | exp.Alias) else item)
        sources.append([binder.resolve(p, scope) for p in parts])
        labels.append(item.alias if isinstance(item, exp.PivotAlias | exp.Alias) else "_".join(p.name for p in parts))
    gone = {c.name for row in sources for e in row for c in e.find_all(exp.Column)}
    number = binder.fresh("unpivoted")
    rows = [exp.Tuple(expressions=[exp.Literal.number(i)]) for i in range(len(sources))]
    listed = exp.Values(expressions=rows, alias=exp.TableAlias(this=exp.to_identifier("parts"), columns=[exp.to_identifier("n")]))
    joined = Join(node, Constant(exp.select("*").from_(listed), (Column(number, "int"),), ("n",)), None)
    kept = {n: u for n, u in columns.items() if u not in gone}
    added = [(field.this.name, _chosen(number, [exp.Literal.string(label) for label in labels]))]
    added += [(v, _chosen(number, [row[i] for row in sources])) for i, v in enumerate(values)]
    wide, names = binder.extended(joined, added)
    if not pivot.args.get("include_nulls"):
        known = [exp.not_(exp.Is(this=col(n), expression=exp.null())) for n in names[1:]]
        wide = Filter(wide, exp.or_(*known))
    found = kept | {n.lower(): u for (n, _), u in zip(added, names, strict=True)}
    types = {c.name: c for c in wide.columns}
    return Project(wide, tuple(types[u] for u in found.values()), tuple(col(u) for u in found.values())), found


def _chosen(number: str, values: list[exp.Expr]) -> exp.Expr:
    case = exp.Case(this=col(number))
    for i, value in enumerate(values):
        case = case.when(exp.Literal.number(i), value)
    return case


def _parts(e: exp.Expr) -> list[exp.Expr]:
    e = e.unnest() if isinstance(e, exp.Paren) else e
    return list(e.expressions) if isinstance(e, exp.Tuple) else [e]
