"""GROUP BY: keys and calls under names of their own, grouping sets by a join with their numbers, HAVING above.

GROUP BY ROLLUP (a, b)   ->   every row beside the numbers 0, 1, 2 of the sets (a, b), (a), (), with NULL for the keys
                              that a set leaves out; grouped by the keys and the number.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from sqlglot import exp

from runnel.algebra import Aggregate, Call, Column, Constant, Join, Node
from runnel.algebra.functions import is_aggregate
from runnel.algebra.node import col, named
from runnel.bind import clock, refuse, subqueries
from runnel.bind.parse import position
from runnel.bind.scope import Scope, own, within
from runnel.errors import DefinitionError

if TYPE_CHECKING:
    from runnel.bind.binder import Binder, Ctes, Selected

MAX_SETS = 4096
GROUPING = frozenset({"grouping", "grouping_id", "grouping__id"})
_COUNTS = frozenset({"count", "count_if", "countif", "approx_count_distinct", "regr_count"})
_LISTS = frozenset({"collect_list", "collect_set", "array_agg"})


def grouped(tree: exp.Select) -> bool:
    """Whether a SELECT groups its rows."""
    if tree.args.get("group") or tree.args.get("having"):
        return True
    order = tree.args.get("order")
    return any(calls_in(e) for e in (*tree.expressions, *(order.expressions if order else ())))


def calls_in(e: exp.Expr | None) -> list[exp.Expr]:
    """The aggregate calls in an expression: not functions under OVER, but what stands inside them, and no subqueries."""
    if e is None or isinstance(e, exp.Query):
        return []
    if is_call(e):
        return [e]
    if isinstance(e, exp.Window) and isinstance(e.this, exp.Expr):
        inner = _function(e.this)
        rest = [v for k, v in e.args.items() if k != "this"]
        return [c for part in (*inner.args.values(), *rest) for c in _each(part)]
    return [c for part in e.args.values() for c in _each(part)]


def is_call(e: exp.Expr) -> bool:
    """An aggregate call with what belongs to it: FILTER, WITHIN GROUP, IGNORE NULLS."""
    if isinstance(e, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        return is_call(e.this)
    return is_aggregate(e) and refuse.function_name(e) not in GROUPING


def _function(e: exp.Expr) -> exp.Expr:
    return _function(e.this) if isinstance(e, exp.Filter | exp.IgnoreNulls | exp.RespectNulls) else e


def _each(part: object) -> list[exp.Expr]:
    if isinstance(part, exp.Expr):
        return calls_in(part)
    return [c for p in part for c in _each(p)] if isinstance(part, list) else []


def aggregate(
    binder: Binder, tree: exp.Select, node: Node, scope: Scope, selected: Selected, order: list[exp.Expr], carried: dict[str, str], ctes: Ctes
) -> tuple[Node, Scope, Selected, list[exp.Expr], list[exp.Expr] | None]:
    """The grouped rows; names above them; the select list and order over them; and the outputs over no rows, if global."""
    having = tree.args["having"].this if tree.args.get("having") else None
    aliases = {n.lower(): e for n, e in selected}
    order = [o.transform(lambda e: aliases[e.name.lower()].copy() if _alias(e, aliases) else e) for o in order]
    sets = _sets(tree.args.get("group"), selected)
    keys = list(dict.fromkeys(k for s in sets for k in s))
    calls = list(dict.fromkeys(c for e in (*(e for _, e in selected), having, *order) for c in calls_in(e)))
    several = len(sets) > 1

    number = ""
    if several:
        node, number = _numbered(binder, node, len(sets))
    wanted: dict[exp.Expr, exp.Expr] = {}
    for k in keys:
        node, wanted[k] = subqueries.expression(binder, node, k, scope, ctes)
    values: dict[exp.Expr, exp.Expr] = {}
    for a in dict.fromkeys(a for c in calls for a in arguments(c)):
        node, values[a] = subqueries.expression(binder, node, a, scope, ctes)
    parts = [(hint(k), _kept(e, k, sets, number)) for k, e in wanted.items()]
    parts += [(hint(a), e) for a, e in values.items()]
    extra = [*([number] if several else []), *carried.values()]
    below = binder.project(node, [*parts, *((x, col(x)) for x in extra)])
    key_names = dict(zip(wanted, below.names, strict=False))
    argument_names = dict(zip(values, below.names[len(wanted) :], strict=False))
    extra_names = dict(zip(extra, below.names[len(wanted) + len(values) :], strict=True))

    templates = [template(c, argument_names) for c in calls]
    types = call_types(binder, below, templates)
    bound = tuple(Call(Column(binder.fresh(hint(c)), t), e) for c, t, e in zip(calls, types, templates, strict=True))
    result: Node = Aggregate(below, tuple(dict.fromkeys([*key_names.values(), *extra_names.values()])), bound)
    for u, c in carried.items():
        carried[u] = extra_names[c]
    results: dict[exp.Expr, exp.Expr] = {c: col(b.output.name) for c, b in zip(calls, bound, strict=True)}
    results |= {k: col(n) for k, n in key_names.items()}
    grouping = _Grouping(keys, sets, extra_names.get(number, ""))

    above: Scope = {}
    for k in keys:
        if isinstance(k, exp.Column) and k.table:
            above.setdefault(k.table.lower(), {})[k.name.lower()] = key_names[k]
    for alias, names in scope.items():
        for name, unique in names.items():
            if unique in extra_names:
                above.setdefault(alias, {})[name] = extra_names[unique]
            if unique in carried.values():
                above.setdefault(alias, {})[name] = unique
    result = _beside_clocks(
        binder, result, above, [replaced(e, results, grouping) for e in (*(e for _, e in selected), having, *order) if e is not None]
    )
    if having is not None:
        result = subqueries.filtered(binder, result, replaced(having, results, grouping), above, ctes)
    outputs = [(n, replaced(e, results, grouping)) for n, e in selected]
    keyed = [_reordered(o, replaced(o.this, results, grouping)) for o in order]
    alone = not keys and having is None and not several
    empties = [_empty(e, bound) for _, e in outputs] if alone else None
    if carried and clock.kinds(n for e in empties or () for n in within(e, (exp.Func,))):
        raise refuse.unsupported("the clock beside an aggregate over no rows", tree)
    return result, above, outputs, keyed, empties


def below(tree: exp.Select) -> list[exp.Expr]:
    """The functions of a grouped SELECT that are computed before rows are grouped: all but those around keys and calls."""
    shown = [*tree.expressions, *(e for k in ("having", "order") if (e := tree.args.get(k)) is not None)]
    group = tree.args.get("group")
    around = {id(n) for e in shown for n in within(e, (exp.Func,))}
    inside = [c for e in shown for c in (calls_in(e) or ([e] if group is not None and group.args.get("all") else []))]
    kept = {id(n) for c in inside for n in within(c, (exp.Func,))}
    return [n for n in own(tree, (exp.Func,)) if id(n) not in around or id(n) in kept]


def _beside_clocks(binder: Binder, node: Node, scope: Scope, shown: list[exp.Expr]) -> Node:
    """The groups beside the clocks that are read above them: a reading at the time of a SELECT would be of another moment."""
    found = binder.with_clocks(node, scope, clock.kinds(n for e in shown for n in within(e, (exp.Func,))))
    assert found is not None
    return found


def _alias(e: exp.Expr, aliases: dict[str, exp.Expr]) -> bool:
    return isinstance(e, exp.Column) and not e.table and e.name.lower() in aliases


def _reordered(o: exp.Expr, value: exp.Expr) -> exp.Expr:
    copy = o.copy()
    copy.set("this", value)
    return copy


# -- keys and sets -------------------------------------------------------------------------------------------------------


def _sets(group: exp.Group | None, selected: Selected) -> list[list[exp.Expr]]:
    """The grouping sets; one, which holds every key, for a plain GROUP BY."""
    if group is None:
        return [[]]
    if group.args.get("all"):
        return [list(dict.fromkeys(e for _, e in selected if not calls_in(e)))]
    plain = list(group.expressions)
    for name, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        for found in group.args.get(name) or ():
            if isinstance(found, kind) and not found.expressions:  # WITH ROLLUP, WITH CUBE: of all keys
                plain = [kind(expressions=plain)]
            else:
                plain.append(found)
    plain += list(group.args.get("grouping_sets") or ())
    sets = [[k for part in combination for k in part] for combination in product(*(_expanded(e) for e in plain))]
    if len(sets) > MAX_SETS:
        raise DefinitionError(f"{len(sets):,} grouping sets, more than {MAX_SETS:,}", code="TOO_LARGE", hint="Split the query.")
    return [list(dict.fromkeys(s)) for s in sets]


def keys_of(group: exp.Group | None) -> list[exp.Expr]:
    """Every key that GROUP BY names, in any of its sets."""
    return [k for s in _sets(group, []) for k in s]


def _expanded(e: exp.Expr) -> list[list[exp.Expr]]:
    match e:
        case exp.Rollup():
            parts = [_flat(p) for p in e.expressions]
            return [[k for p in parts[:n] for k in p] for n in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_flat(p) for p in e.expressions]
            chosen = product((True, False), repeat=len(parts))
            return [[k for p, keep in zip(parts, c, strict=True) if keep for k in p] for c in chosen]
        case exp.GroupingSets():
            return [s for p in e.expressions for s in (_expanded(p) if isinstance(p, exp.Rollup | exp.Cube | exp.GroupingSets) else [_flat(p)])]
        case _:
            return [[e]]


def _flat(e: exp.Expr) -> list[exp.Expr]:
    if isinstance(e, exp.Tuple):
        return list(e.expressions)
    return [e.this] if isinstance(e, exp.Paren) else [e]


def _numbered(binder: Binder, node: Node, sets: int) -> tuple[Node, str]:
    """Every row beside the number of every grouping set."""
    name = binder.fresh("grouping_set")
    values = exp.Values(
        expressions=[exp.Tuple(expressions=[exp.Literal.number(i)]) for i in range(sets)],
        alias=exp.TableAlias(this=exp.to_identifier("sets"), columns=[exp.to_identifier("n")]),
    )
    numbers = Constant(exp.select("*").from_(values), (Column(name, "int"),), ("n",))
    return Join(node, numbers, None), name


def _kept(value: exp.Expr, key: exp.Expr, sets: list[list[exp.Expr]], number: str) -> exp.Expr:
    """A key as the grouping sets see it: NULL in those that leave it out."""
    holding = [i for i, s in enumerate(sets) if key in s]
    if len(holding) == len(sets):
        return value
    return exp.Case().when(_one_of(number, holding), value)


def _one_of(number: str, numbers: list[int]) -> exp.Expr:
    return exp.In(this=col(number), expressions=[exp.Literal.number(i) for i in numbers])


class _Grouping:
    """grouping() and grouping_id() as expressions over the number of the set."""

    def __init__(self, keys: list[exp.Expr], sets: list[list[exp.Expr]], number: str) -> None:
        self.keys, self.sets, self.number = keys, sets, number

    def value(self, call: exp.Expr) -> exp.Expr | None:
        if not isinstance(call, exp.Func) or refuse.function_name(call) not in GROUPING:
            return None
        arguments = [a for a in (call.args.get("this"), *call.expressions) if isinstance(a, exp.Expr)]
        asked = arguments or self.keys
        unknown = [a for a in asked if a not in self.keys]
        if unknown:
            raise DefinitionError(
                f"{call.sql('spark')} asks for {unknown[0].sql('spark')}, which is not a grouping key",
                code="GROUPING",
                hint="Name columns of GROUP BY.",
                position=position(call),
            )
        single = refuse.function_name(call) == "grouping"
        numbers = [sum((k not in s) << (len(asked) - 1 - i) for i, k in enumerate(asked)) for s in self.sets]
        type_ = "tinyint" if single else "bigint"
        if len(set(numbers)) == 1:
            return exp.cast(exp.Literal.number(numbers[0]), type_)
        case = exp.Case(this=col(self.number))
        for i, n in enumerate(numbers):
            case = case.when(exp.Literal.number(i), exp.Literal.number(n))
        return exp.cast(case, type_)


# -- calls ---------------------------------------------------------------------------------------------------------------

_STRUCTURE = (exp.Filter, exp.Where, exp.WithinGroup, exp.Order, exp.Ordered, exp.IgnoreNulls, exp.RespectNulls, exp.Distinct, exp.Tuple)


def arguments(call: exp.Expr) -> list[exp.Expr]:
    """What a call reads, each as one expression below the aggregate. Constants stay in the call."""
    if isinstance(call, _STRUCTURE) or is_call(call):
        return [
            a for part in call.args.values() for p in (part if isinstance(part, list) else [part]) if isinstance(p, exp.Expr) for a in arguments(p)
        ]
    return [call] if _reads(call) else []


def template(call: exp.Expr, names: dict[exp.Expr, str]) -> exp.Expr:
    """The call over the columns below it."""
    if call in names:
        return col(names[call])
    copy = call.copy()
    if isinstance(call, exp.Count) and isinstance(call.this, exp.Literal):
        return exp.Count(this=exp.Star(), big_int=True)
    if not (isinstance(call, _STRUCTURE) or is_call(call)):
        return copy
    for key, part in call.args.items():
        if isinstance(part, exp.Expr):
            copy.set(key, template(part, names))
        elif isinstance(part, list):
            copy.set(key, [template(p, names) if isinstance(p, exp.Expr) else p for p in part])
    return copy


def _reads(e: exp.Expr) -> bool:
    return any(isinstance(n, exp.Column | exp.Query) or clock.reading(n) is not None for n in e.walk())


def call_types(binder: Binder, node: Node, calls: list[exp.Expr]) -> list[str]:
    if not calls:
        return []
    inputs = ", ".join(f"CAST(NULL AS {c.type}) AS {col(c.name).sql('spark')}" for c in node.columns) or "1 AS one"
    outputs = ", ".join(named(c.copy(), f"c{i}").sql("spark") for i, c in enumerate(calls))
    return [c.type for c in binder.lookup.describe(f"SELECT {outputs} FROM (SELECT {inputs}) AS t")]


def _empty(e: exp.Expr, calls: tuple[Call, ...]) -> exp.Expr:
    """An output of a global aggregate when there is no row at all."""
    values: dict[str, exp.Expr] = {}
    for call in calls:
        inner = call.expression
        while isinstance(inner, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
            inner = inner.this
        name = refuse.function_name(inner)
        zero = exp.Literal.number(0) if name in _COUNTS else exp.Array(expressions=[]) if name in _LISTS else exp.null()
        values[call.output.name] = exp.cast(zero, exp.DataType.build(call.output.type, dialect="spark"))
        if isinstance(zero, exp.Null) and e == col(call.output.name):
            return exp.null()
    return e.copy().transform(lambda x: values[x.name].copy() if isinstance(x, exp.Column) and x.name in values else x)


# -- above ---------------------------------------------------------------------------------------------------------------


def replaced(e: exp.Expr, results: dict[exp.Expr, exp.Expr], grouping: _Grouping | None = None, function: bool = False) -> exp.Expr:
    """An expression above a GROUP BY: calls and keys become columns of the aggregate."""
    if not function and e in results:
        return results[e].copy()
    if grouping is not None and (value := grouping.value(e)) is not None:
        return value
    if isinstance(e, exp.Query):
        return e.copy()
    if isinstance(e, exp.Column):
        raise DefinitionError(
            f'column "{e.name}" is neither grouped nor aggregated',
            code="MISSING_GROUP_BY",
            hint=f"Add {e.name} to GROUP BY, or wrap it in MIN() or MAX().",
            position=position(e),
        )
    copy = e.copy()
    over = isinstance(e, exp.Window)
    for key, value in e.args.items():
        inside = (over and key == "this") or (function and isinstance(e, exp.Filter | exp.IgnoreNulls | exp.RespectNulls) and key == "this")
        if isinstance(value, exp.Expr):
            copy.set(key, replaced(value, results, grouping, inside))
        elif isinstance(value, list):
            copy.set(key, [replaced(v, results, grouping) if isinstance(v, exp.Expr) else v for v in value])
    return copy


def hint(e: exp.Expr) -> str:
    """A readable base for a generated column name."""
    if isinstance(e, exp.Column):
        return e.name
    names = "_".join(dict.fromkeys(c.name for c in e.find_all(exp.Column)))
    return f"{refuse.function_name(e)}_{names}"[:40] if isinstance(e, exp.Func) else (names[:40] or "value")
