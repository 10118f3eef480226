"""Queries, SELECT, FROM: from a syntax tree with full names to operators, level by level.

The order inside one SELECT is SQL's own: FROM, WHERE, GROUP BY, HAVING, windows, SELECT, DISTINCT, ORDER BY, LIMIT.
Ideas with a file of their own are called from here: subqueries, groups, windows, pivots, generators, recursion.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from runnel.algebra import (
    Column,
    Constant,
    Distinct,
    Domain,
    Except,
    Intersect,
    Join,
    Limit,
    Node,
    OuterJoin,
    Project,
    Scan,
    SemiJoin,
    UnionAll,
)
from runnel.algebra.condition import conjuncts, together
from runnel.algebra.node import col, named, references
from runnel.bind import clock, column_names, generators, groups, pivots, recursion, refuse, subqueries, time_windows, windows
from runnel.bind.expand import join_key
from runnel.bind.lookup import Lookup, Relation
from runnel.bind.parse import position
from runnel.bind.scope import Outer, Outputs, Scope, free, orderable, own, within
from runnel.errors import DefinitionError, Internal

Ctes = dict[str, Outputs]
Selected = list[tuple[str, exp.Expr]]
CLOCKS = "__runnel_clocks"
"""The alias under which a scope knows the clocks that a SELECT reads."""


class Binder:
    """Holds what is the same for a whole query: who to ask, which names are taken, and what the user should know."""

    def __init__(self, lookup: Lookup, relations: dict[str, Relation]) -> None:
        self.lookup = lookup
        self.relations = {k.lower(): r for k, r in relations.items()}
        self.taken: set[str] = set()
        self.notes: list[str] = []

    def fresh(self, base: str) -> str:
        """A column name not used anywhere else in this tree."""
        base = re.sub(r"\W+", "_", base.lower()).strip("_") or "column"
        name, n = base, 1
        while name in self.taken:
            n += 1
            name = f"{base}_{n}"
        self.taken.add(name)
        return name

    # -- queries ---------------------------------------------------------------------------------------------------

    def query(self, tree: exp.Expr, ctes: Ctes, outer: Outer | None = None) -> Outputs:
        ctes = self.with_(tree, ctes, outer)
        for name, title in (("sort", "SORT BY"), ("cluster", "CLUSTER BY"), ("distribute", "DISTRIBUTE BY")):
            if tree.args.get(name):
                self.notes.append(f"{title} is dropped: a stream table has no order")
        match tree:
            case exp.Subquery():
                return self.limited(tree, self.query(tree.this, ctes, outer))
            case exp.SetOperation():
                return self.limited(tree, self._set_operation(tree, ctes, outer))
            case exp.Select():
                return self._select(tree, ctes, outer)
            case exp.Values() | exp.Table():
                return self.query(exp.select("*").from_(tree.copy()), ctes, outer)
            case _:
                raise refuse.unsupported(type(tree).__name__.upper(), tree)

    def with_(self, tree: exp.Expr, ctes: Ctes, outer: Outer | None) -> Ctes:
        with_ = tree.args.get("with_")
        if with_ is None:
            return ctes
        ctes = dict(ctes)
        for cte in with_.expressions:
            inside = outer if outer is not None and free(cte.this) else None
            if with_.recursive and recursion.reads_itself(cte):
                ctes[cte.alias.lower()] = recursion.recursive(self, cte, ctes)
            else:
                ctes[cte.alias.lower()] = renamed(self.query(cte.this, ctes, inside), cte)
        return ctes

    def _set_operation(self, tree: exp.SetOperation, ctes: Ctes, outer: Outer | None) -> Outputs:
        word = type(tree).__name__.upper()
        if tree.args.get("by_name"):
            raise refuse.unsupported(f"{word} BY NAME", tree)
        sides = [self.query(side, ctes, outer) for side in (tree.left, tree.right)]
        counts = [len(s.columns) for s in sides]
        if counts[0] != counts[1]:
            raise DefinitionError(
                f"{word} of {counts[0]} and {counts[1]} columns",
                code=word,
                hint="Give both sides the same number of columns.",
                position=position(tree.right),
            )
        names = [n for n, _ in sides[0].columns]
        carried = list(sides[0].carried)
        pairs = [[*(u for _, u in s.columns), *(s.carried[c] for c in carried)] for s in sides]
        outputs = tuple(Column(self.fresh(n), t) for n, t in zip([*names, *carried], self._common_types(sides, pairs), strict=True))
        left, right = (branch(s.node, p, outputs) for s, p in zip(sides, pairs, strict=True))
        all_ = not tree.args.get("distinct")
        node: Node
        match tree:
            case exp.Union():
                node = UnionAll((left, right)) if all_ else Distinct(UnionAll((left, right)))
            case exp.Intersect():
                node = Intersect(left, right, all_)
            case exp.Except():
                node = Except(left, right, all_)
            case _:
                raise refuse.unsupported(word, tree)
        unique = [c.name for c in outputs]
        return Outputs(node, tuple(zip(names, unique, strict=False)), dict(zip(carried, unique[len(names) :], strict=True)))

    def _common_types(self, sides: list[Outputs], pairs: list[list[str]]) -> list[str]:
        types = [{c.name: c.type for c in s.node.columns} for s in sides]
        rows = [[t[u] for u in p] for t, p in zip(types, pairs, strict=True)]
        if rows[0] == rows[1]:
            return rows[0]
        selects = (", ".join(f"CAST(NULL AS {t}) AS c{i}" for i, t in enumerate(row)) for row in rows)
        return [c.type for c in self.lookup.describe(" UNION ALL ".join(f"SELECT {s}" for s in selects))]

    # -- SELECT ----------------------------------------------------------------------------------------------------

    def _select(self, tree: exp.Select, ctes: Ctes, outer: Outer | None) -> Outputs:
        for name in ("match", "sample"):
            if tree.args.get(name):
                raise refuse.unsupported(name.upper(), tree.args[name])
        node, scope, carried = self._from(tree, ctes, outer)
        windows.determine(self, tree, node, scope)
        if tree.args.get("where"):
            node = subqueries.filtered(self, node, tree.args["where"].this, scope, ctes)
        node = time_windows.generated(self, tree, node, scope, list(carried.values()))
        selected = [(e.alias_or_name, e.unalias()) for e in self._expanded(tree, node, scope)]
        order = [o.copy() for o in tree.args["order"].expressions] if tree.args.get("order") else []
        empties = None
        if groups.grouped(tree):
            node, scope, selected, order, empties = groups.aggregate(self, tree, node, scope, selected, order, carried, ctes)
        node, selected, order = windows.windowed(self, node, scope, selected, order, list(carried.values()))
        node, selected = generators.selected(self, node, scope, selected)
        values: Selected = []
        for name, e in selected:
            node, value = subqueries.expression(self, node, e, scope, ctes)
            values.append((name, value))
        keys, hidden = self._order(order, values, scope)
        if hidden and not tree.args.get("limit") and not tree.args.get("offset"):
            keys, hidden = [], []
        everything = [*values, *hidden, *((c, col(c)) for c in carried.values())]
        node = self.project(node, everything)
        names = node.names
        columns = tuple((n, u) for (n, _), u in zip(values, names, strict=False))
        moved = dict(zip(carried, names[len(values) + len(hidden) :], strict=True))
        if (distinct := tree.args.get("distinct")) is not None:
            if distinct.args.get("on"):
                raise refuse.unsupported("DISTINCT ON", distinct)
            node = Distinct(node)
        over_nothing = {u: e for (_, u), e in zip(columns, empties, strict=True)} if empties is not None else None
        outputs = Outputs(node, columns, moved, over_nothing)
        return self._cut(tree, outputs, [ordered_by(o, names[i]) for o, i in keys])

    def _expanded(self, tree: exp.Select, node: Node, scope: Scope) -> list[exp.Expr]:
        """The select list, with a star that name resolution left standing spelled out."""
        for e in [e for e in tree.expressions if isinstance(e, exp.Dot) and isinstance(e.expression, exp.Star)]:
            e.replace(self._fields(e, node, scope))
        found: list[exp.Expr] = []
        for e in tree.expressions:
            if isinstance(e, exp.Star) or (isinstance(e, exp.Column) and isinstance(e.this, exp.Star)):
                at = [e.table.lower()] if isinstance(e, exp.Column) and e.table else [a for a in scope if a not in (CLOCKS, time_windows.PLACE)]
                found += [exp.alias_(exp.column(n, table=a), n) for a in at for n in scope[a]]
            else:
                found.append(e)
        return found

    def _fields(self, star: exp.Expr, node: Node, scope: Scope) -> list[exp.Expr]:
        """s.* of a struct: its fields."""
        (type_,) = self.types(node, [self.resolve(star.this, scope)])
        names = column_names.fields(type_)
        if not names:
            raise DefinitionError(
                f'"{star.sql("spark")}" is the star of no table and no struct',
                code="COLUMN_NOT_FOUND",
                detail=f"Its type is {type_}.",
                hint="Write the star of a table, or of a column that is a struct.",
                position=position(star),
            )
        return [exp.alias_(exp.Dot(this=star.this.copy(), expression=exp.to_identifier(n, quoted=True)), n, quoted=True) for n in names]

    def _order(self, order: list[exp.Expr], values: Selected, scope: Scope) -> tuple[list[tuple[exp.Expr, int]], Selected]:
        """Each ORDER BY key as the position of an output, or of a hidden column that is added for it."""
        keys: list[tuple[exp.Expr, int]] = []
        hidden: Selected = []
        named_ = {n.lower(): i for i, (n, _) in reversed(list(enumerate(values)))}
        for o in order:
            e = o.this
            if isinstance(e, exp.Column) and not e.table and e.name.lower() in named_:
                keys.append((o, named_[e.name.lower()]))
                continue
            value = self.resolve(e, scope)
            if isinstance(value, exp.Literal) and not value.is_string and 0 < int(value.this) <= len(values):
                keys.append((o, int(value.this) - 1))
                continue
            same = [i for i, (_, v) in enumerate([*values, *hidden]) if v == value]
            if not same:
                hidden.append(("order", value))
            keys.append((o, same[0] if same else len(values) + len(hidden) - 1))
        return keys, hidden

    def limited(self, tree: exp.Expr, outputs: Outputs) -> Outputs:
        """ORDER BY, LIMIT and OFFSET of a set operation or a query in parentheses, whose keys are its outputs."""
        order = tree.args["order"].expressions if tree.args.get("order") else []
        if not order and not tree.args.get("limit") and not tree.args.get("offset"):
            return outputs
        names = {n.lower(): u for n, u in outputs.columns}
        keys: list[exp.Expr] = []
        hidden: Selected = []
        for o in order:
            e = o.this
            if isinstance(e, exp.Literal) and not e.is_string:
                keys.append(ordered_by(o, outputs.columns[int(e.this) - 1][1]))
                continue
            value = e.transform(lambda c: col(names[c.name.lower()]) if isinstance(c, exp.Column) and c.name.lower() in names else c)
            if not isinstance(value, exp.Column):
                hidden.append(("order", value))
            keys.append(_reordered(o, value))
        if not hidden or (not tree.args.get("limit") and not tree.args.get("offset")):
            return self._cut(tree, outputs, keys)
        node, added = self.extended(outputs.node, hidden)
        computed = dict(zip((e for _, e in hidden), added, strict=True))
        keys = [ordered_by(k, computed[k.this]) if k.this in computed else k for k in keys]
        cut = self._cut(tree, Outputs(node, outputs.columns, outputs.carried), keys)
        kept = tuple(c for c in cut.node.columns if c.name not in added)
        return Outputs(Project(cut.node, kept, tuple(col(c.name) for c in kept)), cut.columns, cut.carried)

    def _cut(self, tree: exp.Expr, outputs: Outputs, keys: list[exp.Expr]) -> Outputs:
        """LIMIT and OFFSET over a total order: what ORDER BY leaves open, the other columns decide."""
        count, offset = number(tree.args.get("limit")), number(tree.args.get("offset"))
        if count is None and not offset:
            if tree.args.get("order"):
                self.notes.append("ORDER BY without LIMIT is dropped: a stream table has no order")
            return outputs
        used = {c.name for k in keys for c in k.find_all(exp.Column)}
        types = {c.name: c.type for c in outputs.node.columns}
        written = tree.args.get("order") or exp.Order(expressions=[])
        for name, unique in outputs.columns:
            if unique not in used and orderable(types[unique]):
                keys.append(exp.Ordered(this=col(unique), nulls_first=True))
                written.append("expressions", exp.Ordered(this=exp.column(exp.to_identifier(name, quoted=True)), nulls_first=True))
        if written.expressions:
            tree.set("order", written)
        node = Limit(outputs.node, tuple(keys), count, offset or 0, tuple(outputs.carried.values()))
        return Outputs(node, outputs.columns, outputs.carried)

    def project(self, node: Node, selected: Selected) -> Project:
        """A projection with fresh output names, typed by the engine."""
        types = self.types(node, [e for _, e in selected])
        outputs = tuple(Column(self.fresh(n), t) for (n, _), t in zip(selected, types, strict=True))
        return Project(node, outputs, tuple(e for _, e in selected))

    def extended(self, node: Node, added: Selected) -> tuple[Node, list[str]]:
        """A node with more columns, and their names; a plain column is taken as it is."""
        new = [(n, e) for n, e in added if not isinstance(e, exp.Column)]
        if not new:
            return node, [e.name for _, e in added]
        types = self.types(node, [e for _, e in new])
        outputs = tuple(Column(self.fresh(n), t) for (n, _), t in zip(new, types, strict=True))
        names = iter(c.name for c in outputs)
        widened = Project(node, (*node.columns, *outputs), (*(col(n) for n in node.names), *(e for _, e in new)))
        return widened, [e.name if isinstance(e, exp.Column) else next(names) for _, e in added]

    def types(self, node: Node, expressions: list[exp.Expr]) -> list[str]:
        """The types that the engine gives expressions over a node's columns."""
        known = {c.name: c.type for c in node.columns}
        if all(isinstance(e, exp.Column) for e in expressions):
            return [known[e.name] for e in expressions]
        used = sorted(set().union(*(references(e) for e in expressions)))
        inputs = ", ".join(f"CAST(NULL AS {known[u]}) AS {col(u).sql('spark')}" for u in used)
        outputs = ", ".join(named(e.copy(), f"c{i}").sql("spark") for i, e in enumerate(expressions))
        # The plain column beside them makes an aggregate function that we do not know an error instead of a wrong plan.
        sql = f"SELECT {outputs}, __runnel_probe FROM (SELECT {inputs + ', ' if inputs else ''}1 AS __runnel_probe) AS t"
        return [c.type for c in self.lookup.describe(sql)[:-1]]

    def resolve(self, expression: exp.Expr, scope: Scope) -> exp.Expr:
        """Replace qualified columns by the unique names of the tree, and readings of the clock by its column.

        Subqueries are left as they are: they are bound where they stand, with this scope around them.
        """
        if isinstance(expression, exp.Query):
            return expression.copy()
        if isinstance(expression, exp.Column):
            return self.column(expression, scope)
        if (kind := clock.reading(expression)) is not None and kind in scope.get(CLOCKS, {}):
            return clock.value(expression, col(scope[CLOCKS][kind]))
        if (window := time_windows.value(expression, scope)) is not None:
            return col(window)
        copy = expression.copy()
        for key, value in expression.args.items():
            if isinstance(value, exp.Expr):
                copy.set(key, self.resolve(value, scope))
            elif isinstance(value, list):
                copy.set(key, [self.resolve(v, scope) if isinstance(v, exp.Expr) else v for v in value])
        return copy

    def column(self, e: exp.Column, scope: Scope) -> exp.Expr:
        parts = [p.name for p in e.parts]
        if not e.table and e.name in self.taken:
            return e.copy()  # a column of the tree already
        for i in range(len(parts) - 1):
            alias, name = parts[i].lower(), parts[i + 1].lower()
            if alias in scope and name in scope[alias]:
                found: exp.Expr = col(scope[alias][name])
                for field in parts[i + 2 :]:
                    found = exp.Dot(this=found, expression=exp.to_identifier(field, quoted=True))
                return found
        if len(parts) == 1:
            matches = [columns[parts[0].lower()] for columns in scope.values() if parts[0].lower() in columns]
            if len(matches) == 1:
                return col(matches[0])
        shown = {a: c for a, c in scope.items() if a not in (CLOCKS, time_windows.PLACE)}
        raise DefinitionError(
            f'column "{".".join(parts)}" does not exist here',
            code="COLUMN_NOT_FOUND",
            detail=" ".join(f"Columns of {a} are {', '.join(c)}." for a, c in shown.items()),
            hint="Use one of the columns above.",
            position=position(e),
        )

    # -- FROM ------------------------------------------------------------------------------------------------------

    def _from(self, tree: exp.Select, ctes: Ctes, outer: Outer | None) -> tuple[Node, Scope, dict[str, str]]:
        """The rows of FROM, what names mean there, and the outer columns among them when the query is correlated."""
        carried: dict[str, str] = {}
        scope: Scope = {}
        clocks = clock.kinds(groups.below(tree) if groups.grouped(tree) else own(tree, (exp.Func,)))
        joins = tree.args.get("joins") or []
        early = any(
            clock.reading(n) is not None or (isinstance(n, exp.Column) and outer is not None and (n.table.lower(), n.name.lower()) in outer.columns)
            for j in joins
            for n in (j.args["on"].walk() if j.args.get("on") else ())
        )
        node: Node | None = None
        if tree.args.get("from_") is not None:
            node, scope, carried = self.relation(tree.args["from_"].this, ctes, outer)
        if outer is not None and not carried and (early or node is None or any(isinstance(j.this, exp.Lateral) for j in joins)):
            node, carried = self._with_domain(node, scope, outer)
        if early:
            node = self.with_clocks(node, scope, clocks)
        if node is None and not joins and not clocks:
            node = one_row()
        for join in joins:
            assert node is not None
            node = self._join(node, scope, join, ctes, outer, carried)
        if outer is not None and not carried:
            node, carried = self._with_domain(node, scope, outer)
        if not early:
            node = self.with_clocks(node, scope, clocks)
        assert node is not None
        for lateral in tree.args.get("laterals") or ():
            node = generators.lateral_view(self, node, scope, lateral)
        if outer is not None:
            for (alias, name), unique in outer.columns.items():
                if name not in scope.get(alias, {}):
                    scope.setdefault(alias, {})[name] = carried[unique]
        return node, scope, carried

    def _with_domain(self, node: Node | None, scope: Scope, outer: Outer) -> tuple[Node, dict[str, str]]:
        """Every row beside every value of the outer columns for which the subquery is asked."""
        unique = list(dict.fromkeys(outer.columns.values()))
        types = {c.name: c.type for c in outer.node.columns}
        outputs = tuple(Column(self.fresh(f"outer_{u}"), types[u]) for u in unique)
        domain = Domain(Project(outer.node, outputs, tuple(col(u) for u in unique)))
        carried = {u: c.name for u, c in zip(unique, outputs, strict=True)}
        for (alias, name), u in outer.columns.items():
            if alias not in scope:
                scope.setdefault(alias, {})
            scope[alias].setdefault(name, carried[u])
        return (domain if node is None else Join(node, domain, None)), carried

    def with_clocks(self, node: Node | None, scope: Scope, clocks: list[str]) -> Node | None:
        """Every row beside what some clocks show; the scope learns their columns."""
        for kind in clocks:
            name = self.fresh(kind.partition(".")[2])
            moment = Scan(kind, (Column(name, clock.TYPES[kind]),), (clock.COLUMN,))
            node = moment if node is None else Join(node, moment, None)
            scope.setdefault(CLOCKS, {})[kind] = name
        return node

    def _join(self, left: Node, scope: Scope, join: exp.Join, ctes: Ctes, outer: Outer | None, carried: dict[str, str]) -> Node:
        side, kind, method = (str(join.args.get(k) or "").upper() for k in ("side", "kind", "method"))
        if method not in ("", "NATURAL") or join.args.get("using"):
            raise refuse.unsupported(f"{method or 'USING'} JOIN", join)
        condition = join.args.get("on")
        if condition is not None and isinstance(condition, exp.Boolean) and condition.this:
            condition = None
        if isinstance(join.this, exp.Lateral):
            return subqueries.lateral(self, left, scope, join, condition, side, ctes)
        right, names, also = self.relation(join.this, ctes, outer)
        around = dict(scope)
        scope.update(names)
        asked = [c for c in conjuncts(condition) if within(c, (exp.Query,))]
        outwards = bool(side) or kind not in ("", "INNER", "CROSS")
        plain = together([c for c in conjuncts(condition) if c not in asked])
        on = self.resolve(plain, scope) if plain is not None else None
        for part in asked if outwards else ():
            left, right, value = self._asked_of_side(left, right, part, around, names, ctes, join)
            on = exp.and_(*conjuncts(on), value)
        if outer is not None and (carried or also) and side:
            if side == "FULL":
                raise refuse.unsupported("FULL JOIN inside a correlated subquery", join, "Spark itself gives other rows there than SQL defines")
            left, right = self._same_domain(left, right, carried, also, outer)
        if also and carried:
            same = [exp.NullSafeEQ(this=col(carried[u]), expression=col(also[u])) for u in carried]
            on = exp.and_(*conjuncts(on), *same)
        elif also:
            carried.update(also)
        match (side, kind):
            case (("" | "LEFT"), ("SEMI" | "ANTI")):
                for alias in names:
                    del scope[alias]
                scope.update(around)
                return SemiJoin(left, right, on, kind == "ANTI")
            case ("LEFT", _):
                return OuterJoin(left, right, on)
            case ("RIGHT", _):
                carried.update(also)
                for (alias, name), unique in outer.columns.items() if outer is not None and also else ():
                    scope.setdefault(alias, {})[name] = also[unique]
                return OuterJoin(right, left, on)
            case ("FULL", _):
                return OuterJoin(left, right, on, full=True)
            case ("", ("" | "INNER" | "CROSS")):
                joined = Join(left, right, on)
                return subqueries.filtered(self, joined, exp.and_(*asked), scope, ctes) if asked else joined
            case _:
                raise refuse.unsupported(f"{side} {kind} JOIN".strip(), join)

    def _asked_of_side(
        self, left: Node, right: Node, part: exp.Expr, around: Scope, names: Scope, ctes: Ctes, join: exp.Join
    ) -> tuple[Node, Node, exp.Expr]:
        """A condition with a subquery in the ON of a join that pads or tests: a column of the side that it speaks about."""
        used = {alias for alias, _ in free(part)}
        if used <= set(names):
            right, value = subqueries.expression(self, right, subqueries.pushed_not(part), names, ctes)
        elif used <= set(around):
            left, value = subqueries.expression(self, left, subqueries.pushed_not(part), around, ctes)
        else:
            raise refuse.unsupported("a subquery over both sides in the ON of an outer, semi or anti join", join)
        return left, right, value

    def _same_domain(self, left: Node, right: Node, carried: dict[str, str], also: dict[str, str], outer: Outer) -> tuple[Node, Node]:
        """Both sides of a padding join beside the outer values, so that a padded row still says for which of them it is."""
        if not carried:
            left, found = self._with_domain(left, {}, outer)
            carried.update(found)
        if not also:
            right, found = self._with_domain(right, {}, outer)
            also.update(found)
        return left, right

    def relation(self, tree: exp.Expr, ctes: Ctes, outer: Outer | None) -> tuple[Node, Scope, dict[str, str]]:
        """One item of FROM: its rows, its columns by alias, and the outer columns it carries."""
        if tree.args.get("sample"):
            raise refuse.unsupported("TABLESAMPLE", tree, "a sample differs each time it is taken")
        if isinstance(tree, exp.Paren):
            return self.relation(tree.this, ctes, outer)
        alias = tree.alias_or_name.lower()
        carried: dict[str, str] = {}
        node: Node
        if isinstance(tree, exp.Table) and isinstance(tree.this, exp.Identifier):
            if not tree.db and tree.name.lower() in ctes:
                node, columns, carried = self._reference(renamed(ctes[tree.name.lower()], tree))
            else:
                node, columns = self._scan(tree)
        elif isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Query):
            outputs = renamed(self.query(tree.this, ctes, outer if outer is not None and free(tree.this) else None), tree)
            node, columns, carried = subqueries.total(self, outputs, outer), dict(outputs.columns), outputs.carried
        elif isinstance(tree, exp.Table | exp.Values):
            node, columns = self.constant(tree)
        else:
            raise refuse.unsupported(type(tree).__name__.upper(), tree)
        if tree.args.get("pivots"):
            for pivot in tree.args["pivots"]:
                alias = pivot.alias.lower() or alias
                node, columns = pivots.pivoted(self, node, {alias: columns}, columns, pivot)
        scope: Scope = {alias: columns}
        for lateral in tree.args.get("laterals") or ():
            node = generators.lateral_view(self, node, scope, lateral)
        for join in tree.args.get("joins") or ():
            node = self._join(node, scope, join, ctes, outer, carried)
        return node, scope, carried

    def _reference(self, outputs: Outputs) -> tuple[Node, dict[str, str], dict[str, str]]:
        """One use of a CTE: the shared node under names of its own."""
        types = {c.name: c.type for c in outputs.node.columns}
        columns = {n: self.fresh(n) for n, _ in outputs.columns}
        carried = {u: self.fresh(c) for u, c in outputs.carried.items()}
        if len(columns) != len(outputs.columns):
            raise DefinitionError("a column name appears twice in a WITH query", code="AMBIGUOUS", hint="Give each of its columns its own alias.")
        old = [*(u for _, u in outputs.columns), *outputs.carried.values()]
        new = [*columns.values(), *carried.values()]
        node = Project(outputs.node, tuple(Column(n, types[o]) for n, o in zip(new, old, strict=True)), tuple(col(o) for o in old))
        return node, columns, carried

    def _scan(self, tree: exp.Table) -> tuple[Node, dict[str, str]]:
        parts = [p.name for p in tree.parts]
        relation = self.relations.get(join_key(parts).lower()) or self.relations.get(join_key(parts[1:]).lower())
        if relation is None:
            raise Internal(f"table {'.'.join(parts)} was not expanded")
        columns = {c.name.lower(): self.fresh(c.name) for c in relation.columns}
        outputs = tuple(Column(columns[c.name.lower()], c.type) for c in relation.columns)
        return Scan(relation.key, outputs, tuple(c.name for c in relation.columns)), columns

    def constant(self, tree: exp.Expr) -> tuple[Node, dict[str, str]]:
        """VALUES, range() and other table functions of constants."""
        bare = tree.copy()
        for name in ("joins", "laterals", "pivots"):
            bare.set(name, None)
        if list(bare.find_all(exp.Column)):
            raise refuse.unsupported("a table function of columns outside LATERAL", tree)
        query = exp.select("*").from_(bare)
        described = self.lookup.describe(query.sql("spark"))
        names = [c.name for c in bare.args["alias"].args.get("columns") or ()] if bare.args.get("alias") else []
        columns = {(names[i] if names else c.name).lower(): self.fresh(c.name) for i, c in enumerate(described)}
        outputs = tuple(Column(u, c.type) for u, c in zip(columns.values(), described, strict=True))
        return Constant(query, outputs, tuple(c.name for c in described)), columns


def one_row() -> Node:
    """What SELECT without FROM selects from."""
    return Constant(exp.select("1"), (), ())


def branch(node: Node, unique: list[str], outputs: tuple[Column, ...]) -> Node:
    """One side of a set operation in the types that both sides share."""
    types = {c.name: c.type for c in node.columns}
    casts = (
        col(u) if types[u] == c.type else exp.cast(col(u), exp.DataType.build(c.type, dialect="spark")) for u, c in zip(unique, outputs, strict=True)
    )
    return Project(node, outputs, tuple(casts))


def renamed(outputs: Outputs, aliased: exp.Expr) -> Outputs:
    """Outputs under the column names of an alias, as in `AS t(a, b)`."""
    names = [c.name for c in aliased.args["alias"].args.get("columns") or ()] if aliased.args.get("alias") else []
    if not names:
        return outputs
    return Outputs(outputs.node, tuple((n.lower(), u) for n, (_, u) in zip(names, outputs.columns, strict=True)), outputs.carried, outputs.empties)


def ordered_by(o: exp.Expr, name: str) -> exp.Expr:
    """An ORDER BY key with its direction, over a column."""
    return _reordered(o, col(name))


def _reordered(o: exp.Expr, value: exp.Expr) -> exp.Expr:
    copy = o.copy()
    copy.set("this", value)
    return copy


def number(clause: exp.Expr | None) -> int | None:
    """The constant of LIMIT or OFFSET, which may be written as a sum."""
    if clause is None:
        return None
    value = simplify(clause.expression.copy(), dialect="spark")
    if isinstance(value, exp.Literal) and not value.is_string and str(value.this).isdigit():
        return int(value.this)
    if isinstance(value, exp.Var | exp.Column) and value.name.upper() == "ALL":
        return None
    raise refuse.unsupported("LIMIT or OFFSET that is not a number", clause)
