"""One stream table kept up to date in DuckDB, in every mode, with the same oracle after each step.

content == the query run from scratch, as a multiset, floats within 1e-9; and no stored weight below zero.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property

from runnel.algebra import STORED, WEIGHT, Column, Face, Facts
from runnel.algebra.want import Want
from runnel.bind import Bound, bind, parse_query
from runnel.canonicalize import RULES, canonicalize
from runnel.differentiate import ChangePlan, Root, differentiate, recompute, root_of
from runnel.settings import OF_PLANS
from tests.support.duck import Duck, DuckLookup, to_duck, to_duck_type
from tests.support.fixture import Commit, Fixture, Row

MODES = ("recompute", "default_change", "laws", "laws_held", "laws_without_rules")


@dataclass
class Step:
    """What one commit did: the action, and the result as users read it."""

    action: str
    columns: tuple[str, ...]
    rows: list[tuple]


def maintain(fixture: Fixture, modes: tuple[str, ...] = MODES) -> Iterator[Step]:
    """The first load, then each commit; raises AssertionError as soon as a mode disagrees with the oracle."""
    duck = Duck.over(fixture)
    states = fixture.states()
    duck.load(states[0], states[0], [])
    bound = bind(fixture.query, DuckLookup(duck))
    trees = {off: Tree(bound, off) for off in {_rules_off(mode) for mode in modes}}
    copies = [Copy(duck, fixture.query, trees[_rules_off(mode)], mode) for mode in modes]
    for index, commit in enumerate([None, *fixture.commits]):
        if commit is not None:
            duck.load(states[index - 1], states[index], commit.changes)
        facts = facts_of(commit, copies[0].root.sources)
        oracle = copies[0].oracle()
        for copy in copies:
            copy.refresh(facts, first=commit is None)
            copy.check(oracle, "the start" if commit is None else f"commit {commit.title!r}")
        action = "FULL" if commit is None else "DIFFERENTIAL" if facts.changed else "NO_DATA"
        yield Step(action, tuple(c.name for c in copies[0].output), oracle)


def facts_of(commit: Commit | None, sources: frozenset[str]) -> Facts:
    weights: dict[str, list[int]] = {}
    for change in commit.changes if commit else []:
        weights.setdefault(change.table, []).extend(w for w, _ in change.rows)
    changed = {t for t, w in weights.items() if w} & sources
    return Facts(frozenset(changed), frozenset(t for t in changed if min(weights[t]) > 0))


def _rules_off(mode: str) -> frozenset[str]:
    """The rules that a mode leaves out: all of them, or one by its name as in laws_without_decorrelate."""
    names = frozenset(r.__name__ for r in RULES)
    left_out = mode.removeprefix("laws_without_")
    return names if left_out == "rules" else names & {left_out}


def ways_off(mode: str) -> frozenset[str]:
    """The ways to a smaller plan that a mode does not take: all of them, or one by its name as in laws_held_without_sieves."""
    left_out = mode.removeprefix("laws_held_without_")
    return frozenset(OF_PLANS) if left_out == "ways" else frozenset(OF_PLANS) & {left_out}


class Tree:
    """A bound query in its canonical form, shared by the modes that have the same rules."""

    def __init__(self, bound: Bound, rules_off: frozenset[str]) -> None:
        self.node = canonicalize(bound.node, disabled=rules_off)
        names = parse_query(bound.sql).named_selects
        self.output = tuple(Column(n, c.type) for n, c in zip(names, self.node.columns, strict=True))
        self.root: Root = root_of(self.node, self.output)

    @cached_property
    def first_load(self) -> ChangePlan:
        return recompute(self.root, None)


class Copy:
    """A backing table in one mode."""

    def __init__(self, duck: Duck, query: str, tree: Tree, mode: str) -> None:
        self.duck, self.query, self.mode = duck, query, mode
        self.tree, self.output, self.root = tree, tree.output, tree.root
        self.held = mode.startswith("laws_held")
        self.by_parts = self.held or mode == "laws"
        self.plan: ChangePlan | None = None
        self.plans: dict[Facts, ChangePlan] = {}
        columns = ", ".join(f'"{c.name}" {to_duck_type(c.type)}' for c in self.root.layout.stored)
        duck.run(f"CREATE OR REPLACE TABLE log.{mode} ({columns}{', ' if columns else ''}{WEIGHT} BIGINT)")

    def oracle(self) -> list[tuple]:
        return self._typed(to_duck(self.query))

    def refresh(self, facts: Facts, first: bool) -> None:
        if first:
            self._append(self.tree.first_load)
        elif facts.changed and self.mode == "recompute":
            self._view("stored", self._stored())
            self._append(recompute(self.root, "stored"))
        elif facts.changed:
            if self.held:
                facts = replace(facts, held=facts.changed, light=frozenset(sorted(self.root.sources)[::2]))
            if facts not in self.plans:
                self.plans[facts] = differentiate(self.root, facts, self.mode != "default_change", ways_off(self.mode))
            self._append(self.plans[facts])

    def check(self, oracle: list[tuple], when: str) -> None:
        negative = self.duck.run(f"FROM ({self._stored()}) WHERE {WEIGHT} < 0")
        assert not negative, f"weights below zero in mode {self.mode} after {when}: {negative}\n{self.explain()}"
        self._view("content", self._content())
        content = self._typed(to_duck(self.root.layout.finish))
        assert same(content, oracle), (
            f"mode {self.mode} differs after {when}\ncontent: {as_text(content)}\noracle:  {as_text(oracle)}\n{self.explain()}"
        )

    def explain(self) -> str:
        return f"\n{self.query}\n\n{self.tree.node}\n\n{self.root.layout}\n\n{self.plan}"

    def _append(self, plan: ChangePlan) -> None:
        self.plan = plan
        for relation in plan.inputs:
            self._view(relation.name, self._kept(relation.face) if relation.source == STORED else provided(relation.want))
        names = ", ".join(f'"{c.name}"' for c in self.root.layout.stored)
        sql = plan.sql
        try:
            if self.by_parts:  # as Spark runs it: shared steps first, each once
                *shared, last = plan.parts
                sql = last.sql
                for part in shared:
                    self.duck.run(f'CREATE OR REPLACE TEMP TABLE "{part.name}" AS {to_duck(part.sql)}')
            self.duck.run(f"INSERT INTO log.{self.mode} ({names}{', ' if names else ''}{WEIGHT}) {to_duck(sql)}")
            for part in plan.parts[:-1] if self.by_parts else ():
                self.duck.run(f'DROP TABLE temp."{part.name}"')
        except AssertionError as error:
            raise AssertionError(f"mode {self.mode}: {error}\n{self.explain()}") from error

    def _kept(self, face: Face) -> str:
        """What the log holds before the refresh, with weights or row by row."""
        return f"FROM log.{self.mode}" if face is Face.BEFORE else self._content()

    def _stored(self) -> str:
        """The log summed up: one row per distinct row or group."""
        layout = self.root.layout
        keys = [f'"{c.name}"' for c in layout.key_columns]
        types = {c.name: to_duck_type(c.type) for c in layout.stored} | {WEIGHT: "BIGINT"}
        sums = [f'CAST(SUM("{n}") AS {types[n]}) AS "{n}"' for n in (*layout.partials, WEIGHT)]
        by = f"GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join([*keys, *sums])} FROM log.{self.mode} {by} HAVING COUNT(*) > 0"

    def _content(self) -> str:
        layout = self.root.layout
        names = [f'"{c.name}"' for c in layout.stored]
        if layout.kind == "rows":
            return f"SELECT {', '.join(names)} FROM (SELECT *, UNNEST(range({WEIGHT})) FROM ({self._stored()}))"
        if layout.always_one_row:
            zeros = ", ".join(f'COALESCE(SUM("{n}"), 0) AS "{n}"' for n in layout.partials)
            return f"SELECT {zeros or 'COUNT(*) AS one'} FROM log.{self.mode}"
        return f"SELECT {', '.join(names)} FROM ({self._stored()}) WHERE {WEIGHT} > 0"

    def _typed(self, sql: str) -> list[tuple]:
        """Rows in the types that Spark would give them: DuckDB averages decimals as doubles."""
        columns = ", ".join(f"CAST(c{i} AS {to_duck_type(c.type)})" for i, c in enumerate(self.output))
        names = ", ".join(f"c{i}" for i in range(len(self.output)))
        return self.duck.run(f"SELECT {columns} FROM ({sql}) AS t({names})")

    def _view(self, name: str, sql: str) -> None:
        self.duck.run(f'CREATE OR REPLACE TEMP VIEW "{name}" AS {sql}')


def provided(want: Want) -> str:
    """A face of a source as the executor would give it: net over the columns asked for, and no row beyond what matters."""
    relation = f"{want.face}.{want.source}"
    if want.columns:
        columns = ", ".join(f'"{c}"' for c in want.columns)
        net = f"SELECT {columns}, SUM({WEIGHT})::BIGINT AS {WEIGHT} FROM {relation} GROUP BY {columns} HAVING SUM({WEIGHT}) <> 0"
        return f"SELECT DISTINCT {', '.join(f'{chr(34)}{k}{chr(34)}' for k in want.keys)} FROM ({net})" if want.keys else net
    matters = []
    for within in want.within:
        values = " UNION ".join(f'SELECT "{column}" AS v FROM change.{source}' for source, column in within.among)
        compared = {"=": "IS NOT DISTINCT FROM", ">=": "<=", "<=": ">="}[within.side]
        matters.append(f'EXISTS (SELECT 1 FROM ({values}) AS o WHERE o.v {compared} t."{within.column}")')
    return f"SELECT * FROM {relation} AS t WHERE {' AND '.join(matters)}" if matters else f"FROM {relation}"


# -- comparing -----------------------------------------------------------------------------------------------------------


def same(left: list[tuple], right: list[tuple]) -> bool:
    """Equal as multisets, floats within 1e-9."""
    if len(left) != len(right):
        return False
    return all(all(map(_close, a, b)) for a, b in zip(sorted(left, key=row_text), sorted(right, key=row_text), strict=True))


def same_text(left: list[Row], right: list[Row]) -> bool:
    """The same for rows as text, where an engine may print a number in its own way."""
    return same([_numbers(r) for r in left], [_numbers(r) for r in right])


def _numbers(row: Row) -> tuple:
    return tuple(_number(c) for c in row)


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def _close(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-14) or (math.isnan(a) and math.isnan(b))
    return a == b


def cell_text(value: object) -> str:
    """A value as fixtures write it. Twelve digits of a float are beyond what a change may move."""
    match value:
        case None:
            return "NULL"
        case "":
            return "''"
        case bool():
            return str(value).lower()
        case float():
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(f"{value:.12g}", f"{value + 0.0:.12g}")
        case Decimal():
            return f"{value:f}"
        case datetime() | date():
            return str(value)
        case list():
            return f"[{', '.join(map(cell_text, value))}]"
        case dict():
            return f"{{{', '.join(f'{cell_text(k)}: {cell_text(v)}' for k, v in value.items())}}}"
        case tuple() if hasattr(value, "asDict"):  # a struct, as Spark returns it
            return cell_text(value.asDict())
        case _:
            return str(value)


def row_text(row: tuple) -> Row:
    return tuple(map(cell_text, row))


def as_text(rows: list[tuple]) -> list[Row]:
    """Rows as a fixture prints them, numbers in their order."""
    return sorted((row_text(r) for r in rows), key=lambda r: [_order(c) for c in r])


def _order(cell: str) -> tuple[int, float, str]:
    try:
        return (0, float(cell), "") if cell != "NaN" else (1, 0.0, cell)
    except ValueError:
        return (2, 0.0, cell) if cell != "NULL" else (3, 0.0, cell)


def change_between(before: list[Row], after: list[Row]) -> list[tuple[int, Row]]:
    """The weighted rows that lead from one content to the next, departures first."""
    came, went = Counter(after), Counter(before)
    minus = [(-n, r) for r, n in (went - came).items()]
    plus = [(n, r) for r, n in (came - went).items()]
    return sorted(minus + plus, key=lambda wr: ([_order(c) for c in wr[1]], wr[0]))
