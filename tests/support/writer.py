"""Seeded queries: compositions of operators that Spark and DuckDB understand in the same way.

Every column of a query has a name of its own, so that subqueries can be correlated and parts replaced as text. What
could differ between engines is left out: averages and deviations are compared at the end and never used again, orders
are total or blind to ties, and the grand total over no rows, which only DuckDB gives, is filtered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

TABLES = {
    "t": [("k", "string"), ("x", "int"), ("d", "double")],
    "u": [("k", "string"), ("y", "int"), ("n", "decimal(8,2)")],
    "v": [("j", "string"), ("z", "bigint")],
    "w": [("a", "int"), ("b", "int")],
}
KINDS = {"string": "s", "int": "i", "bigint": "i", "double": "d", "decimal(8,2)": "n"}
EXACT = "sidnb"
"""Kinds that may be used again: string, integer, double (a multiple of a quarter), decimal and boolean. Others, x for
averages and l for lists, only stand at the root."""


@dataclass(frozen=True)
class Query:
    """SQL with its output columns as (name, kind), and the queries whose text it contains."""

    sql: str
    columns: tuple[tuple[str, str], ...]
    inputs: tuple[Query, ...] = ()

    def of(self, kinds: str) -> list[str]:
        return [name for name, kind in self.columns if kind in kinds]

    def parts(self) -> Iterator[Query]:
        for child in self.inputs:
            yield child
            yield from child.parts()

    def with_part(self, part: Query, new: Query) -> Query:
        """The same query with one of its parts replaced."""
        if self is part:
            return new
        return replace(self, sql=self.sql.replace(part.sql, new.sql), inputs=tuple(i.with_part(part, new) for i in self.inputs))

    def as_scan(self) -> Query | None:
        """A plain table with the same columns, or None when no table has such columns."""
        kinds = {kind for _, kind in self.columns}
        table, sources = ("u", {"s": "k", "i": "y", "n": "n", "b": "y > 1"}) if "n" in kinds else ("t", {"s": "k", "i": "x", "d": "d", "b": "x > 1"})
        if not self.inputs or not kinds <= set(sources):
            return None
        return Query(f"SELECT {', '.join(f'{sources[kind]} AS {name}' for name, kind in self.columns)} FROM {table}", self.columns)


class Writer:
    """Writes a query of a given number of operators."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0

    def query(self, size: int) -> Query:
        if size <= 1:
            return self.leaf()
        makers: list[Callable[[int], Query]] = [
            *(self.filter, self.project, self.aggregate, self.aggregate, self.distinct, self.grouping_sets),
            *(self.window, self.window, self.limit, self.explode, self.values),
        ]
        if size >= 3:
            makers += [self.join, self.join, self.outer_join, self.outer_join, self.twice, self.union, self.set_operation]
            makers += [self.semi_join, self.subquery_filter, self.subquery_filter, self.scalar, self.having_subquery, self.lateral]
        return self.random.choice(makers)(size - 1)

    def exact(self, size: int) -> Query:
        """A query all of whose columns may be used again."""
        child = self.query(size)
        kept = tuple(c for c in child.columns if c[1] in EXACT)
        if kept == child.columns:
            return child
        if not kept:
            return self.scan()
        return Query(f"SELECT {self._names(kept)} FROM ({child.sql}) AS {self.name()}", kept, (child,))

    def pair(self, size: int) -> tuple[Query, Query]:
        left = self.random.randint(1, size - 1)
        return self.exact(left), self.exact(size - left)

    # -- leaves ----------------------------------------------------------------------------------------------------------

    def leaf(self) -> Query:
        return self.recursive() if self.random.random() < 0.04 else self.scan()

    def scan(self) -> Query:
        table, columns = self.random.choice(list(TABLES.items()))
        names = {c: self.name() for c, _ in columns}
        outputs = ", ".join(f"{c} AS {n}" for c, n in names.items())
        return Query(f"SELECT {outputs} FROM {table}", tuple((names[c], KINDS[t]) for c, t in columns))

    def recursive(self) -> Query:
        r, a, b, n = (self.name() for _ in range(4))
        step = f"SELECT {a}, w.b, {n} + 1 FROM {r} JOIN w ON {b} = w.a WHERE {n} < {self.random.choice((2, 3))}"
        sql = f"WITH RECURSIVE {r}({a}, {b}, {n}) AS (SELECT a, b, 1 FROM w UNION ALL {step}) SELECT {a}, {b}, {n} FROM {r}"
        return Query(sql, ((a, "i"), (b, "i"), (n, "i")))

    # -- one input -------------------------------------------------------------------------------------------------------

    def filter(self, size: int) -> Query:
        child = self.exact(size)
        return Query(f"SELECT * FROM ({child.sql}) AS {self.name()} WHERE {self.predicate(child)}", child.columns, (child,))

    def project(self, size: int) -> Query:
        child = self.exact(size)
        return self._select([self.expression(child) for _ in range(self.random.randint(1, 3))], child)

    def distinct(self, size: int) -> Query:
        child = self.exact(size)
        return self._select(self.random.sample(child.columns, self.random.randint(1, len(child.columns))), child, "SELECT DISTINCT")

    def aggregate(self, size: int) -> Query:
        child = self.exact(size)
        keys = self.random.sample(child.columns, min(len(child.columns), self.random.choice((0, 1, 1, 2))))
        by = f" GROUP BY {', '.join(k for k, _ in keys)}" if keys else ""
        having = f" HAVING COUNT(*) {self.random.choice(('> 1', '< 3', '= 2'))}" if self.random.random() < 0.25 else ""
        return self._select([*keys, *self.calls(child)], child, after=by + having)

    def grouping_sets(self, size: int) -> Query:
        child = self.exact(size)
        keys = self.random.sample(child.columns, min(len(child.columns), 2))
        names = ", ".join(k for k, _ in keys)
        first = keys[0][0]
        sets = [f"ROLLUP ({names})", f"CUBE ({names})", f"GROUPING SETS (({first}), ({names}))", f"GROUPING SETS (({names}), ({first}), ())"]
        extra = [(f"GROUPING({first})", "i")] if self.random.random() < 0.4 else []
        return self._select([*keys, *extra, *self.calls(child)], child, after=f" GROUP BY {self.random.choice(sets)} HAVING COUNT(*) > 0")

    def window(self, size: int) -> Query:
        child = self.exact(size)
        calls = [self.window_call(child) for _ in range(self.random.choice((1, 1, 2)))]
        return self._select([*child.columns, *calls], child)

    def window_call(self, child: Query) -> tuple[str, str]:
        names = [n for n, _ in child.columns]
        partition = self.random.sample(names, min(len(names), self.random.choice((0, 1, 1, 2))))
        by = f"PARTITION BY {', '.join(partition)} " if partition else ""
        # Rows that are equal in all columns may change places without anybody noticing.
        total = f"ORDER BY {', '.join(n + self.random.choice(('', ' DESC')) for n in self.random.sample(names, len(names)))}"
        some = f"ORDER BY {self.random.choice(names)}{self.random.choice(('', ' DESC', ' NULLS LAST'))}"
        name, kind = self.random.choice(child.columns)
        rows = self.random.choice(("", "1 PRECEDING AND CURRENT ROW", "1 PRECEDING AND 1 FOLLOWING", "CURRENT ROW AND UNBOUNDED FOLLOWING"))
        frame = f" ROWS BETWEEN {rows}" if rows else ""
        choices = [
            (f"ROW_NUMBER() OVER ({by}{total})", "i"),
            (f"RANK() OVER ({by}{some})", "i"),
            (f"DENSE_RANK() OVER ({by}{some})", "i"),
            (f"NTILE(2) OVER ({by}{total})", "i"),
            (f"LAG({name}) OVER ({by}{total})", kind),
            (f"LEAD({name}, 2) OVER ({by}{total})", kind),
            (f"FIRST_VALUE({name}) OVER ({by}{total}{frame})", kind),
            (f"LAST_VALUE({name}) OVER ({by}{total}{frame})", kind),
            (f"COUNT(*) OVER ({by}{some})", "i"),
            (f"COUNT({name}) OVER ({by}{total}{frame})", "i"),
            (f"MAX({name}) OVER ({by.rstrip()})", kind),
            (f"CUME_DIST() OVER ({by}{some})", "x"),
        ]
        for number in child.of("i")[:1]:
            choices += [(f"SUM({number}) OVER ({by}{total}{frame})", "i"), (f"SUM({number}) OVER ({by}{some})", "i")]
            choices += [(f"SUM({number}) OVER ({by}ORDER BY {number} RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)", "i")]
        return self.random.choice(choices)

    def limit(self, size: int) -> Query:
        child = self.exact(size)
        order = ", ".join(n + self.random.choice(("", " DESC")) for n, _ in self.random.sample(child.columns, len(child.columns)))
        cut = f"LIMIT {self.random.randint(1, 4)}{self.random.choice(('', '', ' OFFSET 1'))}"
        return Query(f"SELECT * FROM ({child.sql}) AS {self.name()} ORDER BY {order} {cut}", child.columns, (child,))

    def explode(self, size: int) -> Query:
        child = self.exact(size)
        numbers = child.of("i") or ["7"]
        array = f"array({', '.join((*numbers[:2], '1'))})"
        if self.random.random() < 0.5:
            array = f"CASE WHEN {numbers[0]} > 1 THEN {array} END"
        outer, view, element = self.random.choice(("", " OUTER")), self.name(), self.name()
        sql = f"SELECT {self._names(child.columns)}, {element} FROM ({child.sql}) AS {self.name()} LATERAL VIEW{outer} explode({array}) {view} AS {element}"
        return Query(sql, (*child.columns, (element, "i")), (child,))

    def values(self, size: int) -> Query:
        child = self.exact(size)
        a, b = self.name(), self.name()
        rows = "('a', 1), ('b', NULL), (NULL, 3), ('a', 1)"
        constant = Query(f"SELECT {a}, {b} FROM (VALUES {rows}) AS {self.name()}({a}, {b})", ((a, "s"), (b, "i")))
        return self.joined(child, constant, self.random.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN")))

    # -- two inputs ------------------------------------------------------------------------------------------------------

    def join(self, size: int) -> Query:
        return self.joined(*self.pair(size), "JOIN")

    def outer_join(self, size: int) -> Query:
        return self.joined(*self.pair(size), self.random.choice(("LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")))

    def semi_join(self, size: int) -> Query:
        left, right = self.pair(size)
        words = self.random.choice(("LEFT SEMI JOIN", "LEFT ANTI JOIN"))
        sql = f"SELECT * FROM ({left.sql}) AS {self.name()} {words} ({right.sql}) AS {self.name()} ON {self.condition(left, right)}"
        return Query(sql, left.columns, (left, right))

    def joined(self, left: Query, right: Query, words: str) -> Query:
        sql = f"SELECT * FROM ({left.sql}) AS {self.name()} {words} ({right.sql}) AS {self.name()} ON {self.condition(left, right)}"
        return Query(sql, left.columns + right.columns, (left, right))

    def condition(self, left: Query, right: Query) -> str:
        """An equality, a range, both, or with a property of one side; a constant where nothing can be compared."""
        pairs = [(a, b) for kinds in ("s", "i") for a in left.of(kinds) for b in right.of(kinds)]
        if not pairs:
            return self.random.choice(("1 = 1", "1 = 1", "1 = 0"))
        a, b = self.random.choice(pairs)
        first = f"{a} {self.random.choice(('=', '=', '=', '<=>', '<'))} {b}"
        match self.random.randrange(6):
            case 0:
                c, d = self.random.choice(pairs)
                return f"{first} AND {c} {self.random.choice(('<', '<>', '='))} {d}"
            case 1:
                return f"{first} AND {self.predicate(self.random.choice((left, right)))}"
            case 2:
                return f"{first} OR {self.predicate(left)}"
            case _:
                return first

    def twice(self, size: int) -> Query:
        """A WITH query joined to itself, or asked for in a subquery."""
        shared = self.exact(size)
        cte = self.name()
        renamed = tuple((self.name(), kind) for _, kind in shared.columns)
        outputs = ", ".join(f"{a} AS {b}" for (a, _), (b, _) in zip(shared.columns, renamed, strict=True))
        left, right = Query(f"SELECT * FROM {cte}", shared.columns), Query(f"SELECT {outputs} FROM {cte}", renamed)
        if self.random.random() < 0.3:
            found = Query(f"SELECT * FROM {cte} WHERE {self.asked(left, right)}", shared.columns)
        else:
            found = self.joined(left, right, self.random.choice(("JOIN", "JOIN", "LEFT JOIN", "FULL JOIN")))
        return Query(f"WITH {cte} AS ({shared.sql}) {found.sql}", found.columns, (shared,))

    def union(self, size: int) -> Query:
        return self.combined(size, self.random.choice(("UNION ALL", "UNION ALL", "UNION")))

    def set_operation(self, size: int) -> Query:
        return self.combined(size, self.random.choice(("INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")))

    def combined(self, size: int, words: str) -> Query:
        sides = self.pair(size)
        columns = ((self.name(), "s"), (self.name(), "d" if any(s.of("d") for s in sides) else "i"))
        texts = []
        for side in sides:
            string, number = (side.of("s") or ["'none'"])[0], (side.of(columns[1][1]) or side.of("i") or ["7"])[0]
            texts.append(f"SELECT {string} AS {columns[0][0]}, {number} AS {columns[1][0]} FROM ({side.sql}) AS {self.name()}")
        return Query(f" {words} ".join(texts), columns, sides)

    def lateral(self, size: int) -> Query:
        left, right = self.pair(size)
        pairs = [(a, b) for kinds in ("s", "i") for a in left.of(kinds) for b in right.of(kinds)]
        where = f" WHERE {' = '.join(self.random.choice(pairs))}" if pairs else ""
        if self.random.random() < 0.4:
            call, kind = self.random.choice([("COUNT(*)", "i"), *((f"MAX({n})", k) for n, k in right.columns)])
            column = self.name()
            inner = Query(f"SELECT {call} AS {column} FROM ({right.sql}) AS {self.name()}{where}", ((column, kind),))
        else:
            inner = Query(f"SELECT {self._names(right.columns)} FROM ({right.sql}) AS {self.name()}{where}", right.columns)
        words, on = self.random.choice(((",", ""), (" LEFT JOIN", " ON 1 = 1")))
        sql = f"SELECT * FROM ({left.sql}) AS {self.name()}{words} LATERAL ({inner.sql}) AS {self.name()}{on}"
        return Query(sql, left.columns + inner.columns, (left, right))

    # -- subqueries ------------------------------------------------------------------------------------------------------

    def subquery_filter(self, size: int) -> Query:
        child, inner = self.pair(size)
        sql = f"SELECT * FROM ({child.sql}) AS {self.name()} WHERE {self.asked(child, inner)}"
        return Query(sql, child.columns, (child, inner))

    def asked(self, child: Query, inner: Query) -> str:
        """EXISTS or IN, alone or under NOT, AND, OR and CASE."""
        asked = self.question(child, inner)
        plain = self.predicate(child)
        return self.random.choice(
            (
                *(asked, asked, asked, f"NOT ({asked})", f"{plain} AND {asked}", f"{plain} OR {asked}", f"NOT ({plain} AND {asked})"),
                f"CASE WHEN {asked} THEN {plain} ELSE NOT ({plain}) END",
            )
        )

    def question(self, child: Query, inner: Query) -> str:
        pairs = [(a, b) for kinds in ("s", "i") for a in child.of(kinds) for b in inner.of(kinds)]
        no = self.random.choice(("", "", "NOT "))
        if not pairs:
            return f"{no}EXISTS (SELECT 1 FROM ({inner.sql}) AS {self.name()} WHERE {self.predicate(inner)})"
        (a, b), (c, d) = self.random.choice(pairs), self.random.choice(pairs)
        source = f"FROM ({inner.sql}) AS {self.name()}"
        correlated = f" WHERE {c} {self.random.choice(('=', '=', '<=>', '<'))} {d}"
        return self.random.choice(
            (
                *([f"{no}EXISTS (SELECT 1 {source}{correlated})"] * 3),
                *([f"{a} {no}IN (SELECT {b} {source})"] * 2),
                f"{a} {no}IN (SELECT {b} {source} WHERE {c} = {d})",
                f"({a}, {c}) {no}IN (SELECT {b}, {d} {source})",
            )
        )

    def scalar(self, size: int) -> Query:
        """A scalar subquery in SELECT or WHERE."""
        child, inner = self.pair(size)
        value, kind = self.scalar_value(child, inner)
        if self.random.random() < 0.5:
            column = (self.name(), kind)
            return Query(f"SELECT *, {value} AS {column[0]} FROM ({child.sql}) AS {self.name()}", (*child.columns, column), (child, inner))
        name = self.random.choice(child.of("i" if kind == "i" else kind) or ["1"])
        if name == "1" and kind != "i":
            name = value
        return Query(f"SELECT * FROM ({child.sql}) AS {self.name()} WHERE {name} <= {value}", child.columns, (child, inner))

    def scalar_value(self, child: Query | None, inner: Query) -> tuple[str, str]:
        name, kind = self.random.choice(inner.columns)
        choices = [("COUNT(*)", "i"), (f"COUNT({name})", "i"), (f"MAX({name})", kind)]
        choices += [(f"SUM({n})", "i") for n in inner.of("i")[:1]]
        call, kind = self.random.choice(choices)
        pairs = [(a, b) for kinds in ("s", "i") for a in child.of(kinds) for b in inner.of(kinds)] if child is not None else []
        where = ""
        if pairs and self.random.random() < 0.7:
            a, b = self.random.choice(pairs)
            where = f" WHERE {b} {self.random.choice(('=', '=', '=', '<'))} {a}"
        return f"(SELECT {call} FROM ({inner.sql}) AS {self.name()}{where})", kind

    def having_subquery(self, size: int) -> Query:
        child, inner = self.pair(size)
        keys = self.random.sample(child.columns, 1)
        value, kind = self.scalar_value(None, inner)
        having = f"COUNT(*) <= {value}" if kind == "i" else f"COUNT(*) > 1 OR {value} IS NULL"
        found = self._select([*keys, *self.calls(child)], child, after=f" GROUP BY {keys[0][0]} HAVING {having}")
        return replace(found, inputs=(child, inner))

    # -- expressions -----------------------------------------------------------------------------------------------------

    def expression(self, child: Query) -> tuple[str, str]:
        name, kind = self.random.choice(child.columns)
        if kind == "s":
            return self.random.choice(((name, "s"), (f"COALESCE({name}, 'none')", "s"), (f"CASE WHEN {name} = 'a' THEN 1 ELSE 0 END", "i")))
        if kind in "nb":
            return name, kind
        zero = "CAST(0 AS DOUBLE)" if kind == "d" else "0"
        return self.random.choice(
            (
                (name, kind),
                (f"{name} + 1", kind),
                (f"COALESCE({name}, {zero})", kind),
                (f"CASE WHEN {name} > 1 THEN 'big' WHEN {name} IS NULL THEN 'none' ELSE 'small' END", "s"),
            )
        )

    def predicate(self, child: Query) -> str:
        name, kind = self.random.choice(child.columns)
        if kind == "s":
            return self.random.choice((f"{name} = 'a'", f"{name} <> 'a'", f"({name} IS NULL OR {name} = 'b')", f"{name} IN ('b', 'c')"))
        if kind == "b":
            return self.random.choice((name, f"NOT {name}", f"{name} IS NULL"))
        return self.random.choice((f"{name} > 1", f"{name} <= 1", f"{name} IS NOT NULL", f"NOT {name} = 1", f"{name} BETWEEN 0 AND 3"))

    def calls(self, child: Query) -> list[tuple[str, str]]:
        return [self.call(child) for _ in range(self.random.randint(1, 3))]

    def call(self, child: Query) -> tuple[str, str]:
        name, kind = self.random.choice(child.columns)
        choices = [("COUNT(*)", "i"), (f"COUNT({name})", "i"), (f"MIN({name})", kind), (f"MAX({name})", kind)]
        choices += [(f"COUNT(DISTINCT {name})", "i"), (f"COUNT_IF({self.predicate(child)})", "i"), (f"BOOL_AND({self.predicate(child)})", "b")]
        choices += [(f"FIRST({name})", kind), (f"LAST({name})", kind), (f"MAX_BY({name}, {name})", kind)]
        if kind in "idn":
            choices += [(f"SUM({name})", kind)] * 3
        if kind in "id":
            choices += [(f"AVG({name})", "x")] * 2
        if kind == "i":
            choices += [(f"STDDEV({name})", "x"), (f"VAR_POP({name})", "x"), (f"SUM(DISTINCT {name})", "i"), (f"BIT_XOR({name})", "i")]
            choices += [(f"MEDIAN({name})", "x")]
        if kind in "is":
            choices += [(f"COLLECT_LIST({name})", "l"), (f"COLLECT_SET({name})", "l")]
        call, kind = self.random.choice(choices)
        return (f"{call} FILTER (WHERE {self.predicate(child)})" if self.random.random() < 0.15 else call), kind

    def name(self) -> str:
        self.count += 1
        return f"c{self.count}"

    def _select(self, chosen: list[tuple[str, str]], child: Query, words: str = "SELECT", after: str = "") -> Query:
        """Expressions of the child under fresh names."""
        columns = tuple((self.name(), kind) for _, kind in chosen)
        outputs = ", ".join(f"{e} AS {n}" for (e, _), (n, _) in zip(chosen, columns, strict=True))
        return Query(f"{words} {outputs} FROM ({child.sql}) AS {self.name()}{after}", columns, (child,))

    @staticmethod
    def _names(columns: tuple[tuple[str, str], ...]) -> str:
        return ", ".join(n for n, _ in columns)
