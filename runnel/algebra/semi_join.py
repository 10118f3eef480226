"""change(L semi R) = change(L) semi R.after + the rows of L.before whose partner came - those whose last partner went

An anti join has the same change with the roles of coming and going swapped. A condition that is NULL joins nothing: NOT
IN, where NULL must count as a match, says so in its condition. Duplicates of L keep their weights; of R only the
existence matters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sqlglot import exp

from runnel.algebra.condition import Equality, conjuncts, equalities, pairs_of, partner
from runnel.algebra.counts import flipped
from runnel.algebra.node import OWN, WAS, WEIGHT, Column, Face, Node, Sieve, col, joined, named, references, select, table
from runnel.algebra.reach import links
from runnel.algebra.steps import Steps
from runnel.algebra.union_all import _all
from runnel.algebra.want import Origin, Within

KEY = f"{OWN}key0"
NONE: Mapping[str, Sieve] = MappingProxyType({})


@dataclass(frozen=True)
class SemiJoin(Node):
    """The rows of `left` that have a partner in `right`, or with `anti` those that have none."""

    left: Node
    right: Node
    condition: exp.Expr | None
    anti: bool = False

    title = "SemiJoin"
    law_text = "change(L) with its state, plus the rows of L.before whose existence in R flipped"
    supports = "LEFT SEMI and LEFT ANTI joins; EXISTS, NOT EXISTS, IN, NOT IN, ANY and ALL in WHERE and HAVING, correlated or not"
    cost = "the changed rows, the touched keys of R, and the rows of L with a flipped key"

    def __post_init__(self) -> None:
        common = set(self.left.names) & set(self.right.names)
        assert not common, f"both sides have columns {sorted(common)}"
        if self.condition is not None:
            self.require(references(self.condition), (*self.left.names, *self.right.names), "condition")

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.left.columns

    @property
    def grows_with_inserts(self) -> bool:
        return not self.anti and self.left.grows_with_inserts and self.right.grows_with_inserts

    def select(self, *inputs: str) -> exp.Select:
        return self._join(inputs[0], inputs[1])

    def law(self, steps: Steps) -> str:
        return steps.define("semijoin_change", _all(self.terms(steps)))

    def sifted(self, steps: Steps, sieves: Mapping[str, Sieve]) -> str | None:
        if meeting(steps, self.right, self.left, self.condition, sieves) == meeting(steps, self.right, self.left, self.condition):
            return None
        return steps.define("semijoin_change", _all(self.terms(steps, sieves=sieves)))

    def terms(self, steps: Steps, before: str | None = None, sieves: Mapping[str, Sieve] = NONE) -> list[exp.Select]:
        """The terms of the change, of which only rows matter whose columns have values that the sieves have. `before` may name the rows of
        L.before that can match the change of R, if somebody has them, and so needs that change."""
        touched = self._touched(steps, sieves) if before is None else None
        left, right = steps.net(self.left), None if touched else meeting(steps, self.right, self.left, self.condition, sieves)
        terms = []
        if left is not None:
            after = narrowed(steps, self.right, Face.AFTER, self._equalities[0], left, links(steps, self.right, self.left, self._equalities[1]))
            terms.append(steps.weighted(self._join(left, after)))
        if touched:
            terms.append(self._of_flipped(steps, self._equalities[0], self._told(steps, touched), before))
        if right is not None:
            terms += self._flipped(steps, right, before)
        return terms

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        return kept_origins(self.left, self.right, self.condition, column, changed)

    def sieves(self, column: str) -> Iterator[Sieve]:
        yield from self.left.sieves(column)
        other = None if self.anti else partner(pairs_of(conjuncts(self.condition)), column, self.right.names)
        if other is not None:
            yield from self.right.sieves(other)

    def identified(self, by: Collection[str]) -> bool:
        return self.left.identified(by)

    def both(self, steps: Steps, keys: Sequence[str], touched: str) -> str:
        if self.right.sources & steps.facts.changed:
            return super().both(steps, keys, touched)
        left = steps.both(self.left, keys, touched)
        return steps.define(
            "semijoin_both_faces",
            self._join(left, narrowed(steps, self.right, Face.AFTER, self._equalities[0], left)).select(col(WEIGHT), col(WAS)),
        )

    def at_once(self, changed: frozenset[str]) -> bool:
        return not self.right.sources & changed and self.left.at_once(changed)

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        left = steps.restrict(self.left, face, keys, touched)
        return steps.define("semijoin_touched", self._join(left, narrowed(steps, self.right, face, self._equalities[0], left)))

    @property
    def _equalities(self) -> tuple[list[Equality], list[exp.Expr]]:
        return equalities(self.condition, self.left.names, self.right.names)

    def _flipped(self, steps: Steps, right: str, before: str | None) -> list[exp.Select]:
        pairs, rest = self._equalities
        if pairs and not rest:
            return [self._flipped_keys(steps, pairs, right, before)]
        if before is None:
            join = pairs and len(self.left.linear_over) > 1
            before = narrowed(steps, self.left, Face.BEFORE, pairs, right) if join else self._near(steps)
        moved = steps.define("semijoin_moved", steps.broadcast(_semi(self.left, before, right, self.condition, anti=False), "r"), small=True)
        steps.among(moved, right, {p.left.name: p.right.name for p in pairs if isinstance(p.left, exp.Column) and isinstance(p.right, exp.Column)})
        faces = {1: narrowed(steps, self.right, Face.AFTER, pairs, moved), -1: narrowed(steps, self.right, Face.BEFORE, pairs, moved)}
        return [steps.weighted(self._join(moved, face), exp.Literal.number(weight)) for weight, face in faces.items()]

    def _near(self, steps: Steps) -> str:
        """The rows of L.before, but for files without any that the change of R can match."""
        return steps.near(self.left, Face.BEFORE, links(steps, self.left, self.right, conjuncts(self.condition)))

    def _flipped_keys(self, steps: Steps, pairs: list[Equality], right: str, before: str | None) -> exp.Select:
        """With equalities alone a key's partners can be counted: now, and by the change, how many there were. Where a key has one partner at
        most, the change alone tells whether it came or went."""
        keys = [f"{OWN}key{i}" for i in range(len(pairs))]
        values = [named(p.right.copy(), k) for p, k in zip(pairs, keys, strict=True)]
        by = [exp.Literal.number(i + 1) for i in range(len(keys))]
        moved = steps.define(
            "keys_moved", exp.select(*values, named(exp.Sum(this=col(WEIGHT)), "moved")).from_(table(right)).group_by(*by), small=True
        )
        steps.takes(moved, right, {k: p.right.name for p, k in zip(pairs, keys, strict=True) if isinstance(p.right, exp.Column)})
        alone = steps.uses("one_partner") and self.right.identified([p.right.name for p in pairs if isinstance(p.right, exp.Column)])
        counted = steps.define("keys_counted", self._came(moved, keys) if alone else self._counted(steps, pairs, keys, values, moved))
        return self._of_flipped(steps, pairs, self._kept(steps, steps.takes(counted, moved, {k: k for k in keys}), keys), before)

    def _of_flipped(self, steps: Steps, pairs: list[Equality], flipped_keys: str, before: str | None) -> exp.Select:
        """The rows of L.before whose keys came to have partners or lost the last one."""
        keys = [f"{OWN}key{i}" for i in range(len(pairs))]
        on = exp.and_(*(p.on(p.left.copy(), col(k, "f")) for p, k in zip(pairs, keys, strict=True)))
        if before is None and len(self.left.linear_over) > 1:
            before = narrowed(
                steps, self.left, Face.BEFORE, [Equality(p.left, col(k), p.null_safe) for p, k in zip(pairs, keys, strict=True)], flipped_keys
            )
        rows = select((*(col(n) for n in self.names), col(WEIGHT)), table(before or self._near(steps), "l"))
        return steps.broadcast(joined(rows, table(flipped_keys, "f"), "inner", on), "f")

    def _touched(self, steps: Steps, sieves: Mapping[str, Sieve]) -> str | None:
        """Keys at hand that have all partners which may have moved, where one pass over R counts them on both faces; its change need not be known
        then."""
        pairs, rest = self._equalities
        keys = [p.right.name for p in pairs if isinstance(p.right, exp.Column)]
        told = steps.uses("both_faces") and not rest and len(keys) == len(pairs) == 1 and self.right.at_once(steps.facts.changed)
        if not told or self.right.identified(keys) or not steps.touched_at_hand(self.right, keys):
            return None
        partners = {k: p.left.name for k, p in zip(keys, pairs, strict=True) if isinstance(p.left, exp.Column)}
        found = steps.sieves(self.right, self.left, partners, sieves)
        touched = steps.touched(self.right, keys)
        return steps.sift([c for c in self.right.columns if c.name in keys], touched, found) if found else touched

    def _told(self, steps: Steps, touched: str) -> str:
        """Of touched keys those that have partners on one face alone."""
        key = self._equalities[0][0].right.name
        rows = steps.both(self.right, [key], touched)
        moved = exp.Sum(this=exp.Sub(this=col(WEIGHT), expression=col(WAS)))
        weight = flipped(exp.Sum(this=col(WEIGHT)), moved)
        weight = exp.Neg(this=exp.paren(weight)) if self.anti else weight
        query = select([named(col(key), KEY), named(exp.cast(weight, "bigint"), WEIGHT)], table(rows)).group_by(col(key), copy=False)
        counted = steps.takes(steps.define("keys_counted", query), rows, {KEY: key})
        return self._kept(steps, counted, [KEY])

    def _kept(self, steps: Steps, counted: str, keys: Sequence[str]) -> str:
        """Counted keys that flipped."""
        kept = exp.select("*").from_(table(counted)).where(exp.NEQ(this=col(WEIGHT), expression=exp.Literal.number(0)))
        return steps.takes(steps.define("keys_flipped", kept, small=True), counted, {k: k for k in keys})

    def _came(self, moved: str, keys: list[str]) -> exp.Select:
        """Keys with one partner at most: it came, it went, or another one is in its place."""
        weight = exp.Neg(this=col("moved")) if self.anti else col("moved")
        return exp.select(*(col(k) for k in keys), named(exp.cast(weight, "bigint"), WEIGHT)).from_(table(moved))

    def _counted(self, steps: Steps, pairs: list[Equality], keys: list[str], values: list[exp.Expr], moved: str) -> exp.Select:
        """Keys with the partners they have now, and whether that is a flip."""
        near = narrowed(steps, self.right, Face.AFTER, [Equality(p.right, col(k), p.null_safe) for p, k in zip(pairs, keys, strict=True)], moved)
        by = [exp.Literal.number(i + 1) for i in range(len(keys))]
        partners = exp.select(*values, named(exp.Count(this=exp.Star()), "partners")).from_(table(near)).group_by(*by)
        same = exp.and_(*(exp.NullSafeEQ(this=col(k, "m"), expression=col(k, "n")) for k in keys))
        now = exp.func("coalesce", col("partners", "n"), exp.Literal.number(0))
        weight = flipped(now, col("moved", "m"))
        weight = exp.Neg(this=exp.paren(weight)) if self.anti else weight
        return (
            exp.select(*(col(k, "m") for k in keys), named(exp.cast(weight, "bigint"), WEIGHT))
            .from_(table(moved, "m"))
            .join(table(steps.define("keys_now", partners), "n"), on=same, join_type="left")
        )

    def _join(self, left: str, right: str) -> exp.Select:
        return _semi(self.left, left, right, self.condition, self.anti)

    def arguments(self) -> str:
        return f"{'anti ' if self.anti else ''}on {self.condition.sql('spark') if self.condition is not None else 'anything'}"


def narrowed(steps: Steps, node: Node, face: Face, pairs: list[Equality], others: str, bounds: Sequence[Within] = ()) -> str:
    """The rows of a face that can match `others` by the equalities: small sides stay small, whatever joins them next.

    Where the node's side of each is a plain column, the values travel down to its scans. Without equalities the bounds, which
    the conditions must imply, tell what to read. There may be more rows than match.
    """
    if not pairs:
        return steps.near(node, face, bounds)
    own = set(node.names)
    turned = [p if references(p.left) <= own else Equality(p.right, p.left, p.null_safe) for p in pairs]
    keys = [p.left.name for p in turned if isinstance(p.left, exp.Column)]
    if len(set(keys)) == len(turned):
        if all(isinstance(p.right, exp.Column) for p in turned):
            touched = steps.distinct("keys_near", others, {k: p.right.name for k, p in zip(keys, turned, strict=True)})
        else:
            values = [named(p.right.copy(), k) for k, p in zip(keys, turned, strict=True)]
            touched = steps.define("keys_near", exp.select(*values).distinct().from_(table(others)), small=True)
        return steps.restrict(node, face, keys, touched)
    on = exp.and_(*(p.on(p.left.copy(), p.right.copy()) for p in turned))
    query = select(col(n) for n in node.names).from_(table(steps.face(node, face), "r")).join(table(others, "l"), on=on, join_type="left semi")
    return steps.define(f"{node.slug}_near", steps.broadcast(query, "l"), small=True)


def meeting(steps: Steps, node: Node, other: Node, condition: exp.Expr | None, sieves: Mapping[str, Sieve] = NONE) -> str | None:
    """The net change of a side of which only rows matter that meet the other side; of that, only rows that the sieves let through."""
    pairs = pairs_of(conjuncts(condition))
    partners = {name: partner(pairs, name, other.names) for name in node.names}
    return steps.net_meeting(node, other, {own: theirs for own, theirs in partners.items() if theirs is not None}, sieves)


def kept_origins(left: Node, right: Node, condition: exp.Expr | None, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
    """Where a column of the left side has its changed values from: its own change, and keys whose partners changed."""
    found: frozenset[Origin] = frozenset()
    if left.sources & changed:
        own = left.origins(column, changed)
        if own is None:
            return None
        found |= own
    if right.sources & changed:
        other = partner(pairs_of(conjuncts(condition)), column, right.names)
        theirs = right.origins(other, changed) if other is not None else None
        if theirs is None:
            return None
        found |= theirs
    return found


def _semi(node: Node, left: str, right: str, condition: exp.Expr | None, anti: bool) -> exp.Select:
    on = condition.copy() if condition is not None else exp.true()
    return select(col(n) for n in node.names).from_(table(left, "l")).join(table(right, "r"), on=on, join_type="left anti" if anti else "left semi")
