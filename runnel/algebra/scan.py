"""change(scan) = the rows of the change feed between the two versions.

NULLs are ordinary values. Duplicates are ordinary rows: a feed may name the same row several times, weights add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from runnel.algebra.node import WAS, WEIGHT, Column, Face, Node, col, named, select, table, weighing
from runnel.algebra.steps import Steps, slug
from runnel.algebra.want import PRUNABLE, Origin, Want, Within


@dataclass(frozen=True)
class Scan(Node):
    """A table that somebody else writes, or another stream table. `origin` are its own names for `outputs`."""

    source: str
    outputs: tuple[Column, ...]
    origin: tuple[str, ...]

    title = "Scan"
    law_text = "rows of the change feed between the two versions"
    supports = "Delta tables by name or path; other stream tables; views (inlined)"
    cost = "the changed rows"
    linear = True

    def __post_init__(self) -> None:
        assert len(self.outputs) == len(self.origin), "every output has one origin"

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.outputs

    @property
    def sources(self) -> frozenset[str]:
        return frozenset({self.source})

    @property
    def slug(self) -> str:
        return slug(self.source)

    def select(self, *inputs: str) -> exp.Select:
        outputs = (named(col(o), c.name) for o, c in zip(self.origin, self.outputs, strict=True))
        return select(outputs, table(inputs[0]))

    def relation(self, steps: Steps, face: Face) -> str:
        return steps.define(f"{self.slug}_{face}", self.select(steps.input(self.source, face)))

    def law(self, steps: Steps) -> str:
        held = self.source in steps.facts.held
        want = Want(self.source, Face.CHANGE, columns=tuple(sorted(set(self.origin))) if held else ())
        name = steps.define(f"{self.slug}_change", self.select(steps.provided(want)).select(col(WEIGHT), copy=False))
        exact = not any(c.type in ("float", "double") for c in self.outputs)  # -0.0 equals 0.0, and yet both may be there
        if held:
            steps.at_hand(name, want, dict(zip(self.names, self.origin, strict=True)))
        return steps.comes_net(name) if held and exact else name

    def origins(self, column: str, changed: frozenset[str]) -> frozenset[Origin] | None:
        return frozenset({(self.source, self.origin[self.names.index(column)])})

    def near(self, steps: Steps, face: Face, bounds: Sequence[Within]) -> str:
        types = {c.name: c.type for c in self.outputs}
        names = dict(zip(self.names, self.origin, strict=True))
        within = tuple(replace(b, column=names[b.column]) for b in sorted(bounds) if types[b.column] in PRUNABLE)
        if not within:
            return steps.face(self, face)
        return steps.define(f"{self.slug}_{face}_near", self.select(steps.provided(Want(self.source, face, within=within))))

    def restricted(self, steps: Steps, face: Face, keys: Sequence[str], touched: str) -> str:
        return steps.semi(self, steps.near(self, face, Within.each({k: steps.origins(touched, k) for k in keys})), keys, touched)

    def both(self, steps: Steps, keys: Sequence[str], touched: str) -> str:
        """The rows that are there now, and less the change those that were: one pass over the table."""
        change = steps.change(self)
        assert change is not None
        moved = steps.among_keys(change, (*self.columns, Column(WEIGHT, "bigint")), keys, touched)
        nothing, minus = named(exp.cast(exp.Literal.number(0), "bigint"), WEIGHT), named(exp.Neg(this=col(WEIGHT)), WAS)
        less = select((*(col(n) for n in self.names), nothing, minus), table(moved))
        now = weighing(self, steps.restrict(self, Face.AFTER, keys, touched), 1, 1)
        return steps.define(f"{self.slug}_both_faces", exp.union(now, less, distinct=False, copy=False))

    def at_once(self, changed: frozenset[str]) -> bool:
        return True

    def arguments(self) -> str:
        return f"{self.source} [{', '.join(self.names)}]"


def columns_read(tree: Node) -> dict[str, frozenset[str]]:
    """Of every table that a tree reads, the columns that it reads."""
    found: dict[str, frozenset[str]] = {}
    for node in tree.walk():
        if isinstance(node, Scan):
            found[node.source] = found.get(node.source, frozenset()) | frozenset(node.origin)
    return found
