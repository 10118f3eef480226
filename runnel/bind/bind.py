"""Syntax tree -> operator tree: every name resolved, every expression typed, what has no operator refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from runnel.algebra import Aggregate, Call, Column, Distinct, Filter, Join, Node, Project, Scan, UnionAll
from runnel.algebra.functions import FUNCTIONS
from runnel.algebra.node import col, named, references
from runnel.bind import refuse
from runnel.bind.expand import expand, join_key, split_key
from runnel.bind.lookup import Lookup, Relation
from runnel.bind.parse import parse_query, position
from runnel.errors import DefinitionError, Internal


@dataclass(frozen=True)
class Bound:
    """A query as an operator tree. `node` has one column per output, in order; `sql` stands on its own."""

    node: Node
    sql: str

    def __str__(self) -> str:
        return str(self.node)


def bind(text: str, lookup: Lookup) -> Bound:
    """The operator tree of a query, or a `DefinitionError` that says what is wrong and where."""
    tree, relations = expand(parse_query(text), lookup)
    refuse.nondeterministic(tree)
    refuse.constructs(tree)
    qualified = _qualify(tree, relations)
    binder = _Binder(lookup, relations)
    outputs = binder.query(qualified, {})
    node = binder.project(outputs.node, [(n, col(u)) for n, u in outputs.columns])
    return Bound(node, qualified.sql("spark"))


def _qualify(tree: exp.Query, relations: dict[str, Relation]) -> exp.Query:
    schema = MappingSchema(dialect="spark", normalize=False)
    depth = max((len(split_key(k)) for k in relations), default=1)
    for key, relation in relations.items():
        parts = split_key(key)
        reference = exp.Table(
            this=exp.to_identifier(parts[-1].lower(), quoted=True),
            db=exp.to_identifier(parts[-2].lower(), quoted=True) if depth > 1 else None,
            catalog=exp.to_identifier(parts[-3].lower() if len(parts) > 2 else "path", quoted=True) if depth > 2 else None,
        )
        schema.add_table(
            reference, {c.name.lower(): "string" if c.type.startswith("struct") else c.type for c in relation.columns}, match_depth=False
        )
    try:
        catalog = "path" if depth > 2 else None
        return qualify(tree.copy(), dialect="spark", schema=schema, catalog=catalog, validate_qualify_columns=True)
    except SqlglotError as error:
        raise _unresolved(error, relations) from error


def _unresolved(error: SqlglotError, relations: dict[str, Relation]) -> DefinitionError:
    if unknown := re.fullmatch(r"Unknown column: (\w+).*", str(error), re.S):
        return _no_column(unknown[1], relations, None)
    found = re.search(r"Column '([^']+)' could not be resolved(?: for table: '([^']+)')?.*?(?:Line: (\d+), Col: (\d+))?$", str(error), re.S)
    if found is None:
        return DefinitionError("the query cannot be resolved", code="NAMES", detail=str(error)[:300], hint="Qualify the columns with their tables.")
    name, qualifier = found[1].split(".")[-1].strip('"`'), found[2]
    where = (int(found[3]), max(1, int(found[4]) - len(name) + 1)) if found[3] else None
    if not qualifier and any(c.name.lower() == name.lower() for r in relations.values() for c in r.columns):
        return DefinitionError(
            f'column "{name}" is ambiguous or out of reach',
            code="AMBIGUOUS",
            detail=_columns_of(relations),
            hint="Qualify the column with its table.",
            position=where,
        )
    return _no_column(f"{f'{qualifier}.' if qualifier else ''}{name}", relations, where)


def _no_column(name: str, relations: dict[str, Relation], where: tuple[int, int] | None) -> DefinitionError:
    return DefinitionError(
        f'column "{name}" does not exist',
        code="COLUMN_NOT_FOUND",
        detail=_columns_of(relations),
        hint="Use one of the columns above.",
        position=where,
    )


def _columns_of(relations: dict[str, Relation]) -> str:
    return " ".join(f"Columns of {split_key(k)[-1]} are {', '.join(c.name for c in r.columns)}." for k, r in sorted(relations.items()))


@dataclass(frozen=True)
class _Outputs:
    """A bound query: its node, and for each output the name users write and the unique name in the tree."""

    node: Node
    columns: tuple[tuple[str, str], ...]


_Scope = dict[str, dict[str, str]]
"""alias -> column as written -> unique column."""


class _Binder:
    def __init__(self, lookup: Lookup, relations: dict[str, Relation]) -> None:
        self.lookup = lookup
        self.relations = {k.lower(): r for k, r in relations.items()}
        self.taken: set[str] = set()

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

    def query(self, tree: exp.Expr, ctes: dict[str, _Outputs]) -> _Outputs:
        with_ = tree.args.get("with_")
        if with_ is not None:
            if with_.recursive:
                raise refuse.unsupported("WITH RECURSIVE", with_)
            ctes = dict(ctes)
            for cte in with_.expressions:
                ctes[cte.alias.lower()] = self._renamed_by_alias(self.query(cte.this, ctes), cte)
        for name, title in (
            ("order", "ORDER BY"),
            ("limit", "LIMIT"),
            ("offset", "OFFSET"),
            ("sort", "SORT BY"),
            ("cluster", "CLUSTER BY"),
            ("distribute", "DISTRIBUTE BY"),
        ):
            if tree.args.get(name):
                raise refuse.unsupported(title, tree.args[name])
        match tree:
            case exp.Subquery():
                return self.query(tree.this, ctes)
            case exp.Union():
                return self._union(tree, ctes)
            case exp.SetOperation():
                raise refuse.unsupported(type(tree).__name__.upper(), tree)
            case exp.Select():
                return self._select(tree, ctes)
            case _:
                raise refuse.unsupported(type(tree).__name__.upper(), tree)

    def _union(self, tree: exp.Union, ctes: dict[str, _Outputs]) -> _Outputs:
        if tree.args.get("by_name"):
            raise refuse.unsupported("UNION BY NAME", tree)
        sides = [self.query(tree.left, ctes), self.query(tree.right, ctes)]
        counts = [len(s.columns) for s in sides]
        if counts[0] != counts[1]:
            raise DefinitionError(
                f"UNION of {counts[0]} and {counts[1]} columns",
                code="UNION",
                hint="Give both sides the same number of columns.",
                position=position(tree.right),
            )
        types = self._common_types(sides)
        outputs = tuple(Column(self.fresh(n), t) for (n, _), t in zip(sides[0].columns, types, strict=True))
        node: Node = UnionAll(tuple(self._branch(s, outputs) for s in sides))
        if tree.args.get("distinct"):
            node = Distinct(node)
        return _Outputs(node, tuple((n, c.name) for (n, _), c in zip(sides[0].columns, outputs, strict=True)))

    def _branch(self, side: _Outputs, outputs: tuple[Column, ...]) -> Node:
        types = {c.name: c.type for c in side.node.columns}
        casts = (col(u) if types[u] == c.type else exp.cast(col(u), c.type, dialect="spark") for (_, u), c in zip(side.columns, outputs, strict=True))
        return Project(side.node, outputs, tuple(casts))

    def _common_types(self, sides: list[_Outputs]) -> list[str]:
        types = [{c.name: c.type for c in s.node.columns} for s in sides]
        rows = [[t[u] for _, u in s.columns] for s, t in zip(sides, types, strict=True)]
        if rows[0] == rows[1]:
            return rows[0]
        selects = (", ".join(f"CAST(NULL AS {t}) AS c{i}" for i, t in enumerate(row)) for row in rows)
        return [c.type for c in self.lookup.describe(" UNION ALL ".join(f"SELECT {s}" for s in selects))]

    def _renamed_by_alias(self, outputs: _Outputs, aliased: exp.Expr) -> _Outputs:
        names = [c.name for c in aliased.args["alias"].args.get("columns") or ()] if aliased.args.get("alias") else []
        if not names:
            return outputs
        return _Outputs(outputs.node, tuple((n.lower(), u) for n, (_, u) in zip(names, outputs.columns, strict=True)))

    # -- SELECT ----------------------------------------------------------------------------------------------------

    def _select(self, tree: exp.Select, ctes: dict[str, _Outputs]) -> _Outputs:
        if tree.args.get("from_") is None:
            raise refuse.unsupported("a query without FROM", tree)
        for name in ("laterals", "windows", "qualify", "match", "pivots", "sample"):
            if tree.args.get(name):
                value = tree.args[name]
                raise refuse.unsupported(name.upper(), value[0] if isinstance(value, list) else value)
        _refuse_subqueries(*tree.expressions, *(tree.args.get(name) for name in ("where", "group", "having")))
        node, scope = self._from(tree, ctes)
        if tree.args.get("where"):
            node = Filter(node, self._resolve(tree.args["where"].this, scope))
        aggregates = [a for e in (*tree.expressions, tree.args.get("having")) if e is not None for a in e.find_all(exp.AggFunc)]
        selected = [(e.alias_or_name, e.unalias()) for e in tree.expressions]
        if aggregates or tree.args.get("group") or tree.args.get("having"):
            node, selected, having = self._aggregate(tree, node, scope, selected, aggregates)
            if having is not None:
                node = Filter(node, having)
        else:
            selected = [(n, self._resolve(e, scope)) for n, e in selected]
        node = self.project(node, selected)
        columns = tuple((n, u) for (n, _), u in zip(selected, node.names, strict=True))
        if (distinct := tree.args.get("distinct")) is not None:
            if distinct.args.get("on"):
                raise refuse.unsupported("DISTINCT ON", distinct)
            node = Distinct(node)
        return _Outputs(node, columns)

    def project(self, node: Node, selected: list[tuple[str, exp.Expr]]) -> Node:
        """A projection with fresh output names, typed by the engine."""
        types = self._types(node, [e for _, e in selected])
        outputs = tuple(Column(self.fresh(n), t) for (n, _), t in zip(selected, types, strict=True))
        return Project(node, outputs, tuple(e for _, e in selected))

    def _types(self, node: Node, expressions: list[exp.Expr]) -> list[str]:
        known = {c.name: c.type for c in node.columns}
        if all(isinstance(e, exp.Column) for e in expressions):
            return [known[e.name] for e in expressions]
        used = sorted(set().union(*(references(e) for e in expressions)))
        inputs = ", ".join(f"CAST(NULL AS {known[u]}) AS {col(u).sql('spark')}" for u in used)
        outputs = ", ".join(named(e.copy(), f"c{i}").sql("spark") for i, e in enumerate(expressions))
        # The plain column beside them makes an aggregate function that we do not know an error instead of a wrong plan.
        sql = f"SELECT {outputs}, __runnel_probe FROM (SELECT {inputs + ', ' if inputs else ''}1 AS __runnel_probe) AS t"
        return [c.type for c in self.lookup.describe(sql)[:-1]]

    def _resolve(self, expression: exp.Expr, scope: _Scope) -> exp.Expr:
        """Replace qualified columns by the unique names of the tree."""

        def column(e: exp.Expr) -> exp.Expr:
            if isinstance(e, exp.Column):
                return self._column(e, scope)
            return e

        return expression.copy().transform(column)

    def _column(self, e: exp.Column, scope: _Scope) -> exp.Expr:
        parts = [p.name for p in e.parts]
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
        raise DefinitionError(
            f'column "{".".join(parts)}" does not exist here',
            code="COLUMN_NOT_FOUND",
            detail=" ".join(f"Columns of {a} are {', '.join(c)}." for a, c in scope.items()),
            hint="Use one of the columns above.",
            position=position(e),
        )

    # -- FROM ------------------------------------------------------------------------------------------------------

    def _from(self, tree: exp.Select, ctes: dict[str, _Outputs]) -> tuple[Node, _Scope]:
        alias, node, columns = self._relation(tree.args["from_"].this, ctes)
        scope: _Scope = {alias: columns}
        for join in tree.args.get("joins") or ():
            _refuse_join(join)
            alias, right, columns = self._relation(join.this, ctes)
            scope[alias] = columns
            condition = join.args.get("on")
            _refuse_subqueries(condition)
            cross = condition is None or (isinstance(condition, exp.Boolean) and condition.this)
            node = Join(node, right, None if cross else self._resolve(condition, scope))
        return node, scope

    def _relation(self, tree: exp.Expr, ctes: dict[str, _Outputs]) -> tuple[str, Node, dict[str, str]]:
        for name in ("pivots", "laterals", "sample", "joins"):
            if tree.args.get(name):
                raise refuse.unsupported(name.upper(), tree)
        alias = tree.alias_or_name.lower()
        if isinstance(tree, exp.Table) and isinstance(tree.this, exp.Identifier):
            if not tree.db and tree.name.lower() in ctes:
                return alias, *self._reference(self._renamed_by_alias(ctes[tree.name.lower()], tree))
            return alias, *self._scan(tree)
        if isinstance(tree, exp.Subquery):
            outputs = self._renamed_by_alias(self.query(tree.this, ctes), tree)
            return alias, outputs.node, dict(outputs.columns)
        raise refuse.unsupported("a table function" if isinstance(tree, exp.Table) else type(tree).__name__.upper(), tree)

    def _reference(self, outputs: _Outputs) -> tuple[Node, dict[str, str]]:
        """One use of a CTE: the shared node under names of its own."""
        types = {c.name: c.type for c in outputs.node.columns}
        columns = {n: self.fresh(n) for n, _ in outputs.columns}
        renamed = tuple(Column(columns[n], types[u]) for n, u in outputs.columns)
        if len(columns) != len(outputs.columns):
            raise DefinitionError("a column name appears twice in a WITH query", code="AMBIGUOUS", hint="Give each of its columns its own alias.")
        return Project(outputs.node, renamed, tuple(col(u) for _, u in outputs.columns)), columns

    def _scan(self, tree: exp.Table) -> tuple[Node, dict[str, str]]:
        parts = [p.name for p in tree.parts]
        relation = self.relations.get(join_key(parts).lower()) or self.relations.get(join_key(parts[1:]).lower())
        if relation is None:
            raise Internal(f"table {'.'.join(parts)} was not expanded")
        columns = {c.name.lower(): self.fresh(c.name) for c in relation.columns}
        outputs = tuple(Column(columns[c.name.lower()], c.type) for c in relation.columns)
        return Scan(relation.key, outputs, tuple(c.name for c in relation.columns)), columns

    # -- GROUP BY --------------------------------------------------------------------------------------------------

    def _aggregate(
        self, tree: exp.Select, node: Node, scope: _Scope, selected: list[tuple[str, exp.Expr]], aggregates: list[exp.AggFunc]
    ) -> tuple[Node, list[tuple[str, exp.Expr]], exp.Expr | None]:
        keys = _keys(tree.args.get("group"), selected)
        calls = list(dict.fromkeys(aggregates))
        arguments = [_argument(c) for c in calls]
        wanted = dict.fromkeys([*keys, *(a for a in arguments if a is not None)])
        below = self.project(node, [(_hint(e), self._resolve(e, scope)) for e in wanted])
        column = dict(zip(wanted, below.names, strict=True))
        types = self._call_types(below, calls, arguments, column)
        bound = tuple(
            Call(Column(self.fresh(_hint(c)), t), refuse.function_name(c), column[a] if a is not None else None)
            for c, a, t in zip(calls, arguments, types, strict=True)
        )
        node = Aggregate(below, tuple(dict.fromkeys(column[k] for k in keys)), bound)
        results = {c: b.output.name for c, b in zip(calls, bound, strict=True)} | {k: column[k] for k in keys}

        having = tree.args.get("having")
        return node, [(n, _replace(e, results)) for n, e in selected], _replace(having.this, results) if having else None

    def _call_types(self, node: Node, calls: list[exp.AggFunc], arguments: list[exp.Expr | None], column: dict[exp.Expr, str]) -> list[str]:
        if not calls:
            return []
        known = {c.name: c.type for c in node.columns}
        inputs = ", ".join(f"CAST(NULL AS {t}) AS {col(n).sql('spark')}" for n, t in known.items()) or "1 AS one"
        outputs = ", ".join(
            f"{refuse.function_name(c)}({'*' if a is None else col(column[a]).sql('spark')}) AS c{i}"
            for i, (c, a) in enumerate(zip(calls, arguments, strict=True))
        )
        return [c.type for c in self.lookup.describe(f"SELECT {outputs} FROM (SELECT {inputs}) AS t")]


def _refuse_join(join: exp.Join) -> None:
    side, kind, method = (str(join.args.get(k) or "").upper() for k in ("side", "kind", "method"))
    words = " ".join(w for w in (method, side, kind) if w and w not in ("INNER", "CROSS"))
    if words:
        raise refuse.unsupported(f"{words} JOIN", join)
    if join.args.get("using"):
        raise refuse.unsupported("JOIN USING", join)


def _refuse_subqueries(*expressions: exp.Expr | None) -> None:
    for query in (q for e in expressions if e is not None for q in e.find_all(exp.Query, exp.Subquery)):
        raise refuse.unsupported("a subquery outside FROM", query)


def _keys(group: exp.Group | None, selected: list[tuple[str, exp.Expr]]) -> list[exp.Expr]:
    if group is None:
        return []
    for kind, title in ((exp.GroupingSets, "GROUPING SETS"), (exp.Cube, "CUBE"), (exp.Rollup, "ROLLUP")):
        if (found := group.find(kind)) is not None:
            raise refuse.unsupported(title, found)
    if group.args.get("all"):
        return list(dict.fromkeys(e for _, e in selected if not e.find(exp.AggFunc)))
    return list(dict.fromkeys(e for e in group.expressions))


def _argument(call: exp.AggFunc) -> exp.Expr | None:
    """The one argument of a call, or None for COUNT(*); anything else is refused."""
    if refuse.function_name(call) not in FUNCTIONS:
        written = call.sql("spark").partition("(")[0]
        raise refuse.unsupported(f"{written}()", call, f"maintained aggregates are {', '.join(sorted(FUNCTIONS))}")
    if isinstance(call.parent, exp.Filter):
        raise refuse.unsupported("FILTER (WHERE ...)", call)
    if isinstance(call.this, exp.Distinct):
        raise refuse.unsupported(f"{refuse.function_name(call).upper()}(DISTINCT ...)", call)
    if call.expressions:
        raise refuse.unsupported(f"{refuse.function_name(call).upper()} of several arguments", call)
    if isinstance(call.this, exp.Star) or (isinstance(call, exp.Count) and isinstance(call.this, exp.Literal)):
        return None
    assert isinstance(call.this, exp.Expr)
    return call.this


def _replace(e: exp.Expr, results: dict[exp.Expr, str]) -> exp.Expr:
    """An expression above a GROUP BY: calls and keys become columns of the aggregate."""
    if e in results:
        return col(results[e])
    if isinstance(e, exp.Column):
        raise DefinitionError(
            f'column "{e.name}" is neither grouped nor aggregated',
            code="MISSING_GROUP_BY",
            hint=f"Add {e.name} to GROUP BY, or wrap it in MIN() or MAX().",
            position=position(e),
        )
    copy = e.copy()
    for key, value in e.args.items():
        if isinstance(value, exp.Expr):
            copy.set(key, _replace(value, results))
        elif isinstance(value, list):
            copy.set(key, [_replace(v, results) if isinstance(v, exp.Expr) else v for v in value])
    return copy


def _hint(e: exp.Expr) -> str:
    """A readable base for a generated column name."""
    if isinstance(e, exp.Column):
        return e.name
    inner: Iterable[exp.Column] = e.find_all(exp.Column)
    names = "_".join(dict.fromkeys(c.name for c in inner))
    return f"{refuse.function_name(e)}_{names}"[:40] if isinstance(e, exp.Func) else (names[:40] or "value")
