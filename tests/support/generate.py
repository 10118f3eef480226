"""Seeded queries, compositions of one to five operators, with seeded commits; and the way to make a failing one small.

Doubles are multiples of a quarter, so that sums are exact and may be compared and grouped by.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from random import Random

from tests.support.fixture import Change, Commit, Fixture, Row, Table

TABLES = {
    "t": [("k", "string"), ("x", "int"), ("d", "double")],
    "u": [("k", "string"), ("y", "int"), ("n", "decimal(8,2)")],
    "v": [("j", "string"), ("z", "bigint")],
}
KEYS = ("a", "a", "a", "a", "b", "b", "c", "NULL")
NUMBERS = ("0", "1", "1", "2", "3", "5", "-4", "NULL")
QUARTERS = ("0", "0.25", "0.5", "-1.75", "3", "NULL", "NaN")


@dataclass(frozen=True)
class Query:
    """SQL with its output columns as (name, kind); kinds are s, i, d and n: string, integer, double and decimal."""

    sql: str
    columns: tuple[tuple[str, str], ...]
    inputs: tuple[Query, ...] = ()

    def of(self, kinds: str) -> list[str]:
        return [name for name, kind in self.columns if kind in kinds]

    def parts(self) -> Iterator[Query]:
        for child in self.inputs:
            yield child
            yield from child.parts()


@dataclass
class Case:
    """A query as a tree, so that it can be cut, and the fixture that runs it."""

    query: Query
    fixture: Fixture

    def with_query(self, query: Query) -> Case:
        return Case(query, replace(self.fixture, queries=[query.sql]))


def generate(seed: int) -> Case:
    random = Random(seed)
    query = _Writer(random).query(random.choice((1, 2, 3, 4, 4, 5, 5)))
    tables = [Table(name, columns, [_row(random, columns) for _ in range(random.choice((0, 2, 5, 8)))]) for name, columns in TABLES.items()]
    fixture = Fixture(f"seed {seed}", "", tables, [], [query.sql])
    _commits(random, fixture, 3)
    return Case(query, fixture)


# -- queries -------------------------------------------------------------------------------------------------------------


class _Writer:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0

    def query(self, size: int) -> Query:
        if size <= 1:
            return self.scan()
        makers: list[Callable[[int], Query]] = [self.filter, self.project, self.aggregate, self.aggregate, self.distinct]
        if size >= 3:
            makers += [self.join, self.join, self.twice, self.union]
        return self.random.choice(makers)(size - 1)

    def scan(self) -> Query:
        table, columns = self.random.choice(list(TABLES.items()))
        names = {c: self.name() for c, _ in columns}
        kinds = {"string": "s", "int": "i", "bigint": "i", "double": "d", "decimal(8,2)": "n"}
        outputs = ", ".join(f"{c} AS {n}" for c, n in names.items())
        return Query(f"SELECT {outputs} FROM {table}", tuple((names[c], kinds[t]) for c, t in columns))

    def filter(self, size: int) -> Query:
        child = self.query(size)
        return Query(f"SELECT * FROM ({child.sql}) AS {self.name()} WHERE {self.predicate(child)}", child.columns, (child,))

    def project(self, size: int) -> Query:
        child = self.query(size)
        chosen = [self.expression(child) for _ in range(self.random.randint(1, 3))]
        columns = tuple((self.name(), kind) for _, kind in chosen)
        outputs = ", ".join(f"{e} AS {n}" for (e, _), (n, _) in zip(chosen, columns, strict=True))
        return Query(f"SELECT {outputs} FROM ({child.sql}) AS {self.name()}", columns, (child,))

    def aggregate(self, size: int) -> Query:
        child = self.query(size)
        keys = self.random.sample(child.columns, min(len(child.columns), self.random.choice((0, 1, 1, 2))))
        calls = [self.call(child) for _ in range(self.random.randint(1, 3))]
        columns = tuple((self.name(), kind) for _, kind in (*keys, *calls))
        outputs = ", ".join(f"{e} AS {n}" for (e, _), (n, _) in zip((*keys, *calls), columns, strict=True))
        by = f" GROUP BY {', '.join(k for k, _ in keys)}" if keys else ""
        having = f" HAVING COUNT(*) {self.random.choice(('> 1', '< 3', '= 2'))}" if self.random.random() < 0.25 else ""
        return Query(f"SELECT {outputs} FROM ({child.sql}) AS {self.name()}{by}{having}", columns, (child,))

    def distinct(self, size: int) -> Query:
        child = self.query(size)
        kept = self.random.sample(child.columns, self.random.randint(1, len(child.columns)))
        columns = tuple((self.name(), kind) for _, kind in kept)
        outputs = ", ".join(f"{c} AS {n}" for (c, _), (n, _) in zip(kept, columns, strict=True))
        return Query(f"SELECT DISTINCT {outputs} FROM ({child.sql}) AS {self.name()}", columns, (child,))

    def join(self, size: int) -> Query:
        left_size = self.random.randint(1, size - 1)
        left, right = self.query(left_size), self.query(size - left_size)
        return self.joined(f"({left.sql})", f"({right.sql})", left, right)

    def twice(self, size: int) -> Query:
        """A WITH query joined to itself."""
        shared = self.query(size)
        cte, renamed = self.name(), tuple((self.name(), kind) for _, kind in shared.columns)
        right = Query("", renamed)
        outputs = ", ".join(f"{a} AS {b}" for (a, _), (b, _) in zip(shared.columns, renamed, strict=True))
        found = self.joined(cte, f"(SELECT {outputs} FROM {cte})", shared, right)
        return Query(f"WITH {cte} AS ({shared.sql}) {found.sql}", found.columns, (shared,))

    def joined(self, left_sql: str, right_sql: str, left: Query, right: Query) -> Query:
        pairs = [(a, b) for kinds in ("s", "i") for a in left.of(kinds) for b in right.of(kinds)]
        condition = " ON 1 = 1"
        if pairs:
            a, b = self.random.choice(pairs)
            condition = f" ON {a} {self.random.choice(('=', '=', '=', '<=>', '<'))} {b}"
        sql = f"SELECT * FROM {left_sql} AS {self.name()} JOIN {right_sql} AS {self.name()}{condition}"
        return Query(sql, left.columns + right.columns, tuple(q for q in (left, right) if q.sql))

    def union(self, size: int) -> Query:
        left_size = self.random.randint(1, size - 1)
        sides = [self.query(left_size), self.query(size - left_size)]
        columns = ((self.name(), "s"), (self.name(), "d" if any(s.of("d") for s in sides) else "i"))
        texts = []
        for side in sides:
            string, number = (side.of("s") or ["'none'"])[0], (side.of(columns[1][1]) or side.of("i") or ["7"])[0]
            texts.append(f"SELECT {string} AS {columns[0][0]}, {number} AS {columns[1][0]} FROM ({side.sql}) AS {self.name()}")
        return Query(self.random.choice((" UNION ALL ", " UNION ALL ", " UNION ")).join(texts), columns, tuple(sides))

    def expression(self, child: Query) -> tuple[str, str]:
        name, kind = self.random.choice(child.columns)
        if kind == "s":
            return self.random.choice(((name, "s"), (f"COALESCE({name}, 'none')", "s"), (f"CASE WHEN {name} = 'a' THEN 1 ELSE 0 END", "i")))
        if kind == "n":
            return name, "n"
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
            return self.random.choice((f"{name} = 'a'", f"{name} <> 'a'", f"{name} IS NULL OR {name} = 'b'", f"{name} IN ('b', 'c')"))
        return self.random.choice((f"{name} > 1", f"{name} <= 1", f"{name} IS NOT NULL", f"NOT {name} = 1", f"{name} BETWEEN 0 AND 3"))

    def call(self, child: Query) -> tuple[str, str]:
        name, kind = self.random.choice(child.columns)
        choices = [("COUNT(*)", "i"), (f"COUNT({name})", "i"), (f"MIN({name})", kind), (f"MAX({name})", kind)]
        if kind in "idn":
            choices += [(f"SUM({name})", kind)] * 3
        if kind in "id":
            choices += [(f"AVG({name})", "x")] * 2  # kind x: an average is compared at the end, within its tolerance, and not used again
        return self.random.choice(choices)

    def name(self) -> str:
        self.count += 1
        return f"c{self.count}"


# -- commits -------------------------------------------------------------------------------------------------------------


def _row(random: Random, columns: list[tuple[str, str]]) -> Row:
    return tuple(random.choice(KEYS if t == "string" else QUARTERS if t == "double" else NUMBERS) for _, t in columns)


def _commits(random: Random, fixture: Fixture, count: int) -> None:
    for index in range(count):
        now = fixture.states()[-1]
        tables = random.sample(fixture.tables, random.choice((1, 1, 2, 3)))
        changes = [Change(t.name, _changes(random, t, now[t.name])) for t in tables]
        fixture.commits.append(Commit(str(index), [c for c in changes if c.rows]))


def _changes(random: Random, table: Table, now: Counter[Row]) -> list[tuple[int, Row]]:
    rows = list(now.elements())
    if random.random() < 0.08:
        return [(-1, r) for r in rows]
    changes: list[tuple[int, Row]] = []
    for _ in range(random.randint(1, 3)):
        match random.choice(("insert", "insert", "delete", "update", "key", "passing")):
            case "insert":
                changes.append((random.choice((1, 1, 2)), _row(random, table.columns)))
            case "passing":
                row = _row(random, table.columns)
                changes += [(1, row), (-1, row)]
            case what if rows:
                old = rows.pop(random.randrange(len(rows)))
                changes.append((-1, old))
                new = _row(random, table.columns)
                if what != "delete":
                    changes.append((1, (old[0], *new[1:]) if what == "update" else (new[0], *old[1:])))
    return changes


# -- shrinking -----------------------------------------------------------------------------------------------------------


def shrink(case: Case, fails: Callable[[Fixture], bool], attempts: int = 150) -> Case:
    """A smaller case that still fails: fewer operators, then fewer commits, changes and rows."""
    shrunk = True
    while shrunk:
        shrunk = False
        for smaller in _smaller(case):
            attempts -= 1
            if attempts < 0:
                return case
            if fails(smaller.fixture):
                case, shrunk = smaller, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    yield from (case.with_query(part) for part in case.query.parts())
    for index in range(len(case.fixture.commits)):
        yield _edited(case, lambda f, i=index: f.commits.pop(i))
    for commit in range(len(case.fixture.commits)):
        for change in range(len(case.fixture.commits[commit].changes)):
            yield _edited(case, lambda f, i=commit, j=change: f.commits[i].changes.pop(j))
    for table in range(len(case.fixture.tables)):
        for row in range(len(case.fixture.tables[table].rows)):
            yield _edited(case, lambda f, i=table, j=row: f.tables[i].rows.pop(j))
    for commit in range(len(case.fixture.commits)):
        for change in range(len(case.fixture.commits[commit].changes)):
            for row in range(len(case.fixture.commits[commit].changes[change].rows)):
                yield _edited(case, lambda f, i=commit, j=change, r=row: f.commits[i].changes[j].rows.pop(r))


def _edited(case: Case, edit: Callable[[Fixture], object]) -> Case:
    fixture = deepcopy(case.fixture)
    edit(fixture)
    return Case(case.query, fixture)


# -- keeping -------------------------------------------------------------------------------------------------------------


def to_json(fixture: Fixture) -> str:
    kept = ("title", "tables", "queries", "commits")
    return json.dumps({k: v for k, v in asdict(fixture).items() if k in kept}, indent=1)


def from_json(text: str) -> Fixture:
    data = json.loads(text)
    tables = [Table(t["name"], [tuple(c) for c in t["columns"]], [tuple(r) for r in t["rows"]]) for t in data["tables"]]
    commits = [
        Commit(c["title"], [Change(h["table"], [(w, tuple(r)) for w, r in h["rows"]], h["how"]) for h in c["changes"]]) for c in data["commits"]
    ]
    return Fixture(data["title"], "", tables, [], data["queries"], commits=commits)
