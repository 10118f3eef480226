"""change(aggregate(Q)) = partial sums of change(Q), at the root and when every function is additive;
                         else after - before of the touched groups

NULL keys form one group, as GROUP BY has it. A group's weight is its number of rows: at zero the group is gone. An
aggregate without keys has one row, always, also over an empty input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from sqlglot import exp

from runnel.algebra.functions import Rule, rule
from runnel.algebra.node import OWN, WAS, WEIGHT, Column, Face, Node, Sieve, col, each, named, references, select, table
from runnel.algebra.steps import Steps
from runnel.algebra.want import Origin

SIGN, OLD = f"{OWN}sign", f"{OWN}is_old"


@dataclass(frozen=True)
class Call:
    """One aggregate call over columns of the child, with its FILTER, DISTINCT and order, and the column it makes."""

    output: Column
    expression: exp.Expr

    def __str__(self) -> str:
        return named(self.expression, self.output.name).sql("spark")


@dataclass(frozen=True)
class Aggregate(Node):
    """GROUP BY `keys`, which are columns of the child, with `calls`."""

    child: Node
    keys: tuple[str, ...]
    calls: tuple[Call, ...]

    title = "Aggregate"
    law_text = "root and additive: partial sums of the child's change; root and mergeable, rows only came: the stored result merged with them; inside and additive: the sums before and those with the change's; else after - before of the touched groups"
    supports = "GROUP BY with the functions below, FILTER and DISTINCT; GROUPING SETS, CUBE, ROLLUP; HAVING; aggregates without GROUP BY; PIVOT; user aggregates"
    cost = "root and additive: the changed rows; root: the touched groups, now and as stored; inside: the touched groups on one face when additive, else on both"
    grows_with_inserts = False

    def __post_init__(self) -> None:
        self.require(frozenset(self.keys).union(*(references(c.expression) for c in self.calls)), self.child.names, "keys and arguments")

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.key_columns, *(c.output for c in self.calls))

    @cached_property
    def key_columns(self) -> tuple[Column, ...]:
        types = {c.name: c for c in self.child.columns}
        return tuple(types[k] for k in self.keys)

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        types = {c.name: c.type for c in self.child.columns}
        return tuple(rule(c.expression, types, c.output.type) for c in self.calls)

    @cached_property
    def additive(self) -> bool:
        """Every call can be finished from partial sums."""
        return all(r.finish is not None for r in self.rules)

    @cached_property
    def exact(self) -> bool:
        """The sums before are those after less what came, to the last bit: not of doubles too small or too large for their exact part."""
        return self.additive and all(p.type != "double" for r in self.rules for p in r.partials)

    @cached_property
    def state(self) -> tuple[Column, ...]:
        """The partial columns a backing table keeps for an additive aggregate. Equal sums are kept once."""
        return tuple({p.name: Column(p.name, p.type) for r in self.rules for p in r.partials}.values())

    def select(self, *inputs: str) -> exp.Select:
        return self.grouped(inputs[0])

    def relation(self, steps: Steps, face: Face) -> str:
        if self.exact and self.keys and steps.derives(self, face):
            rows = select((*(col(k) for k in self.keys), *self.finished()), table(self._sums(steps, face)))
            return steps.define(f"{self.slug}_{face}", rows.where(exp.GT(this=col(WEIGHT), expression=exp.Literal.number(0)), copy=False))
        return steps.define(f"{self.slug}_{face}", self.grouped(steps.face(self.child, face), steady=not steps.stores(self)))

    def grouped(self, relation: str, steady: bool = True) -> exp.Select:
        """The groups of plain rows. `steady` asks for the same bits from the same rows in every refresh: what is stored is
        taken back as it is and needs none, which spares folding the sorted values of a group."""
        outputs = [named(self._value(i, steady), c.output.name) for i, c in enumerate(self.calls)]
        # Without keys and calls nothing else would make it an aggregate: its one row is still there.
        query = exp.select(*(col(k) for k in self.keys), *outputs or ([] if self.keys else [exp.Count(this=exp.Star())])).from_(table(relation))
        return query.group_by(*(col(k) for k in self.keys)) if self.keys else query

    def _value(self, index: int, steady: bool) -> exp.Expr:
        """The call over plain rows: of what rounds by exact partial sums, or else by a fold of sorted values."""
        call, kept = self.calls[index].expression.copy(), self.rules[index]
        if kept.stable or (kept.finish is None and not steady):
            return kept.fold.own(partial(instead, call)) if kept.fold is not None and kept.fold.own is not None else call
        if kept.finish is not None:
            return kept.finish(*(exp.Sum(this=p.summand(exp.Literal.number(1))) for p in kept.partials))
        return kept.fold.value(instead(call, kept.fold.collected)) if kept.fold is not None else call

    def sums(self, relation: str, weight: exp.Expr) -> exp.Select:
        """Partial sums and the weight per group, from rows that weigh `weight`."""
        partials = {p.name: p for r in self.rules for p in r.partials}
        outputs = {n: named(exp.cast(exp.Sum(this=p.summand(weight.copy())), p.type), n) for n, p in partials.items()}
        total = named(exp.cast(exp.Sum(this=weight.copy()), "bigint"), WEIGHT)
        query = exp.select(*(col(k) for k in self.keys), *outputs.values(), total).from_(table(relation))
        return query.group_by(*(col(k) for k in self.keys)) if self.keys else query

    def finished(self) -> tuple[exp.Expr, ...]:
        """The calls as expressions over the state columns."""
        assert self.additive
        values = []
        for call, kept in zip(self.calls, self.rules, strict=True):
            assert kept.finish is not None
            value = kept.finish(*(col(p.name) for p in kept.partials))
            values.append(named(value, call.output.name))
        return tuple(values)

    def _sums(self, steps: Steps, face: Face) -> str:
        """The sums of all groups: those before once, and with the change's those after."""
        before = steps.once(self, "sums", lambda: self.sums(steps.face(self.child, Face.BEFORE), exp.Literal.number(1)))
        if face is Face.BEFORE:
            return before
        change = steps.net(self.child)
        assert change is not None
        types = {c.name: c.type for c in self.state} | {WEIGHT: "bigint"}
        moved = self.sums(change, col(WEIGHT))
        both = steps.define("sums_both", exp.union(select((col(n) for n in (*self.keys, *types)), table(before)), moved, distinct=False, copy=False))
        total = select((*(col(k) for k in self.keys), *(named(exp.cast(exp.Sum(this=col(n)), t), n) for n, t in types.items())), table(both))
        return steps.define("sums_after", total.group_by(*(col(k) for k in self.keys), copy=False))

    def law(self, steps: Steps) -> str:
        if steps.uses("merged_results") and self.merges and steps.stores(self) and steps.grows(self.child):
            return self._merged(steps)
        return self._groups(steps, steps.touched(self.child, self.keys) if self.keys else None)

    def sifted(self, steps: Steps, sieves: Mapping[str, Sieve]) -> str | None:
        known = {k: s for k, s in sieves.items() if k in self.keys}
        if not known or steps.stores(self):
            return None
        return self._groups(steps, steps.sift(self.key_columns, steps.touched(self.child, self.keys), known), some=True)

    def _groups(self, steps: Steps, touched: str | None, some: bool = False) -> str:
        """The change of touched groups; of the one group there is without keys; with `some` the child's change may touch others."""
        kept = self.exact and touched is not None and steps.derives(self, Face.CHANGE)
        if kept or (self.exact and not steps.stores(self) and not (self.keys and steps.touched_at_hand(self.child, self.keys))):
            change = steps.net(self.child)
            assert change is not None
            if some and touched is not None:
                change = steps.among_keys(change, (*self.child.columns, Column(WEIGHT, "bigint")), self.keys, touched)
            return self._summed(steps, touched, change)
        if touched is not None and not steps.stores(self) and steps.uses("both_faces") and self.exact and self.child.at_once(steps.facts.changed):
            return self._told(steps, self._weighed(steps, self.keys, touched))
        now = steps.face(self.child, Face.AFTER) if touched is None else steps.restrict(self.child, Face.AFTER, self.keys, touched)
        found = steps.define("aggregate_now", self.grouped(now, steady=not steps.stores(self)))
        if steps.stores(self):
            return steps.replaced(self, found, self.keys, touched)
        rows = steps.face(self.child, Face.BEFORE) if touched is None else steps.restrict(self.child, Face.BEFORE, self.keys, touched)
        return steps.difference(self, found, steps.define("aggregate_was", self.select(rows)))

    def _summed(self, steps: Steps, touched: str | None, change: str) -> str:
        """The sums before, and with those of the change the sums after: one face is read, and not two."""
        types = {c.name: c.type for c in self.state} | {WEIGHT: "bigint"}
        keys, numbers = [*self.keys], [*types]
        was = self._were(steps, touched)
        moved = steps.define("aggregate_moved", self.sums(change, col(WEIGHT)))
        marked = [select((*(col(n) for n in (*keys, *numbers)), named(exp.Literal.number(i), OLD)), table(t)) for i, t in enumerate((moved, was))]
        both = steps.define("aggregate_both", exp.union(*marked, distinct=False, copy=False))
        old = exp.EQ(this=col(OLD), expression=exp.Literal.number(1))
        sums = [named(_total(col(n), types[n]), f"{n}__now") for n in numbers]
        sums += [named(_total(exp.Case().when(old.copy(), col(n)), types[n]), f"{n}__was") for n in numbers]
        query = select((*(col(k) for k in keys), *sums), table(both))
        return self._told(steps, steps.define("aggregate_pairs", query.group_by(*(col(k) for k in keys), copy=False) if keys else query, small=True))

    def _weighed(self, steps: Steps, by: Sequence[str], touched: str) -> str:
        """The sums of touched groups after and before, from rows that say what they weigh on each face."""
        rows = steps.both(self.child, by, touched)
        partials = {p.name: p for r in self.rules for p in r.partials}
        sums: list[exp.Expr] = []
        for face, weight in (("now", WEIGHT), ("was", WAS)):
            sums += [named(exp.cast(exp.Sum(this=p.summand(col(weight))), p.type), f"{n}__{face}") for n, p in partials.items()]
            sums.append(named(exp.cast(exp.Sum(this=col(weight)), "bigint"), f"{WEIGHT}__{face}"))
        keys = [col(k) for k in self.keys]
        return steps.define("aggregate_pairs", select((*keys, *sums), table(rows)).group_by(*(k.copy() for k in keys), copy=False), small=True)

    def _told(self, steps: Steps, pairs: str) -> str:
        """The change of groups whose sums after and before stand side by side."""
        return steps.consolidate("aggregate_change", self._finished(steps, pairs), self.columns)

    def _finished(self, steps: Steps, pairs: str) -> str:
        """Each group as it is and, with the weight -1, as it was, where it is and was."""
        keys, numbers = self.keys, [*(c.name for c in self.state), WEIGHT]
        came = exp.GT(this=col(SIGN), expression=exp.Literal.number(0))
        face = [named(exp.Case().when(came.copy(), col(f"{n}__now")).else_(col(f"{n}__was")), n) for n in numbers]
        signs = each([exp.Literal.number(1), exp.Neg(this=exp.Literal.number(1))], SIGN)
        signed = steps.define("aggregate_signed", select((exp.Star(), signs), table(pairs)))
        some = steps.define("aggregate_faces", select((*(col(k) for k in keys), *face, col(SIGN)), table(signed)))
        weight = named(exp.cast(col(SIGN), "bigint"), WEIGHT)
        found = select((*(col(k) for k in keys), *self.finished(), weight), table(some))
        if keys:
            found = found.where(exp.GT(this=col(WEIGHT, some), expression=exp.Literal.number(0)), copy=False)
        return steps.define("aggregate_finished", found)

    def _were(self, steps: Steps, touched: str | None) -> str:
        """The sums of touched groups before; of all of them where they are at hand."""
        if self.exact and touched is not None and steps.derives(self, Face.CHANGE):
            names = (*self.key_columns, *self.state, Column(WEIGHT, "bigint"))
            return steps.among_keys(self._sums(steps, Face.BEFORE), names, self.keys, touched)
        rows = steps.face(self.child, Face.BEFORE) if touched is None else steps.restrict(self.child, Face.BEFORE, self.keys, touched)
        return steps.define("aggregate_was", self.sums(rows, exp.Literal.number(1)))

    @cached_property
    def merges(self) -> bool:
        """Every result over old and new rows follows from the results over each."""
        return all(r.merge is not None for r in self.rules)

    def _merged(self, steps: Steps) -> str:
        """Over rows that only came: their groups beside the stored ones of the same keys, and no source is read."""
        change = steps.change(self.child)
        assert change is not None
        keys = [col(k) for k in self.keys]
        came = steps.define("aggregate_came", _grouped([*keys, *map(self._result_of_change, range(len(self.calls)))], change, keys))
        stored = steps.stored_rows(self, self.keys, steps.touched(self.child, self.keys) if keys else None)
        sides = (select((col(n) for n in self.names), table(t)) for t in (came, stored))
        rows = steps.define("aggregate_rows", exp.union(*sides, distinct=False, copy=False))
        merged = [named(r.merge(c.output.name), c.output.name) for c, r in zip(self.calls, self.rules, strict=True) if r.merge is not None]
        return steps.difference(self, steps.define("aggregate_now", _grouped([*keys, *merged], rows, keys)), stored)

    def _result_of_change(self, index: int) -> exp.Expr:
        """A call over the rows of a change; where a row that came twice counts twice, by sums of weights."""
        call, kept = self.calls[index], self.rules[index]
        if kept.finish is None:
            return named(call.expression.copy(), call.output.name)
        return named(kept.finish(*(exp.Sum(this=p.summand(col(WEIGHT))) for p in kept.partials)), call.output.name)

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        return self.child.origins(column, changed) if column in self.keys else None

    def sieves(self, column: str) -> Iterator[Sieve]:
        if column in self.keys:
            yield from self.child.sieves(column)

    def identified(self, by: Collection[str]) -> bool:
        return set(self.keys) <= set(by)

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        if not set(keys) <= set(self.keys):
            return super().restricted(steps, face, keys, touched)
        return steps.define("aggregate_touched", self.select(steps.restrict(self.child, face, keys, touched)))

    def both(self, steps: Steps, keys: Sequence[str], touched: str) -> str:
        if not (self.exact and set(keys) <= set(self.keys)):
            return super().both(steps, keys, touched)
        sign, nothing = col(WEIGHT), exp.Literal.number(0)
        weights = [named(exp.func("greatest", e, nothing.copy()), name) for name, e in ((WEIGHT, sign), (WAS, exp.Neg(this=sign.copy())))]
        found = self._finished(steps, self._weighed(steps, keys, touched))
        return steps.define("aggregate_both_faces", select((*(col(n) for n in self.names), *weights), table(found)))

    def at_once(self, changed: frozenset[str]) -> bool:
        return not self.sources & changed or (self.exact and bool(self.keys) and self.child.at_once(changed))

    def arguments(self) -> str:
        kinds = [r.kind for r in self.rules]
        calls = ", ".join(f"{c} ({k})" for c, k in zip(self.calls, kinds, strict=True))
        return f"by [{', '.join(self.keys)}] {calls}".rstrip()


def _grouped(outputs: Sequence[exp.Expr], relation: str, keys: Sequence[exp.Expr]) -> exp.Select:
    query = select((o.copy() for o in outputs), table(relation))
    return query.group_by(*(k.copy() for k in keys), copy=False) if keys else query


def _total(value: exp.Expr, type_: str) -> exp.Expr:
    """A sum that is zero over nothing."""
    return exp.cast(exp.func("coalesce", exp.Sum(this=value), exp.Literal.number(0)), type_)


def instead(call: exp.Expr, function: exp.Expr) -> exp.Expr:
    """Another function in the place of a call's own, under the same FILTER."""
    return exp.Filter(this=function.copy(), expression=call.expression.copy()) if isinstance(call, exp.Filter) else function.copy()
