"""Seeded cases: a query of one to six operators with seeded tables and commits; and the way to make a failing one small.

Doubles are multiples of a quarter, so that sums are exact and may be compared and grouped by.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from random import Random

from tests.support.fixture import Change, Commit, Fixture, Row, Table
from tests.support.writer import TABLES, Query, Writer

KEYS = ("a", "a", "a", "a", "b", "b", "c", "NULL")
NUMBERS = ("0", "1", "1", "2", "3", "5", "-4", "NULL")
QUARTERS = ("0", "0.25", "0.5", "-1.75", "3", "NULL", "NaN")


@dataclass
class Case:
    """A query as a tree, so that it can be cut, and the fixture that runs it."""

    query: Query
    fixture: Fixture

    def with_query(self, query: Query) -> Case:
        return Case(query, replace(self.fixture, queries=[query.sql]))


def generate(seed: int) -> Case:
    random = Random(seed)
    query = Writer(random).query(random.choice((2, 3, 3, 4, 4, 5, 5, 6, 7)))
    tables = [Table(name, columns, [row(random, columns) for _ in range(random.choice((0, 2, 5, 8)))]) for name, columns in TABLES.items()]
    fixture = Fixture(f"seed {seed}", "", tables, [], [query.sql])
    _commits(random, fixture, random.choice((2, 2, 2, 3)))
    return Case(query, fixture)


# -- commits -------------------------------------------------------------------------------------------------------------


def row(random: Random, columns: list[tuple[str, str]]) -> Row:
    return tuple(random.choice(KEYS if t == "string" else QUARTERS if t == "double" else NUMBERS) for _, t in columns)


def _commits(random: Random, fixture: Fixture, count: int) -> None:
    for index in range(count):
        now = fixture.states()[-1]
        read = [t for t in fixture.tables if re.search(rf"(FROM|JOIN) {t.name}\b", fixture.query)]
        among = read if random.random() < 0.95 else fixture.tables
        tables = random.sample(among, min(len(among), random.choice((1, 1, 2, 3))))
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
                changes.append((random.choice((1, 1, 2)), row(random, table.columns)))
            case "passing":
                passing = row(random, table.columns)
                changes += [(1, passing), (-1, passing)]
            case what if rows:
                old = rows.pop(random.randrange(len(rows)))
                changes.append((-1, old))
                new = row(random, table.columns)
                if what != "delete":
                    changes.append((1, (old[0], *new[1:]) if what == "update" else (new[0], *old[1:])))
    return changes


# -- shrinking -----------------------------------------------------------------------------------------------------------


def shrink(case: Case, fails: Callable[[Fixture], bool], attempts: int = 300) -> Case:
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
    parts = list(case.query.parts())
    yield from (case.with_query(part) for part in parts)
    scans = ((part, part.as_scan()) for part in parts)
    yield from (case.with_query(case.query.with_part(part, scan)) for part, scan in scans if scan is not None)
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
