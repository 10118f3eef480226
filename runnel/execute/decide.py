"""Facts -> decision: which action, and why, in words."""

from __future__ import annotations

from dataclasses import dataclass

from runnel.algebra import Facts
from runnel.definition import Definition
from runnel.observe.record import Action, Mode
from runnel.sources.facts import Kind, SourceFacts

SMALL = 200_000
"""Changed rows up to which the change is the side of a join that is broadcast."""


@dataclass(frozen=True)
class Decision:
    """What this refresh will do. `moves` is False when not even the frontier has to be written."""

    action: Action
    reason: str
    moves: bool = True

    def __str__(self) -> str:
        return f"{self.action}: {self.reason}"


def decide(definition: Definition, sources: list[SourceFacts], first: bool, full: bool, clocks: tuple[str, ...] = ()) -> Decision:
    """The action for one refresh; `clocks` are those whose reading moved.

    Broken sources come before everything else, since neither face nor change of theirs can be read; a request or a mode
    comes before the facts, since the user said so.
    """
    if first:
        return Decision(Action.FULL, "first load")
    broken = [s for s in sources if s.broken]
    if broken:
        return Decision(Action.REINITIALIZE, "; ".join(f"{s.key}: {s.kind}, {s.reason}" for s in broken))
    if full:
        return Decision(Action.FULL, "asked for")
    changed = [s for s in sources if s.changed]
    if not changed and not clocks:
        moved = any(s.kind is Kind.NEUTRAL for s in sources)
        return Decision(Action.NO_DATA, "source commits without a change of data" if moved else "no source changed", moves=moved)
    if definition.mode is Mode.FULL:
        return Decision(Action.FULL, "refresh mode is FULL")
    if not definition.incremental:
        return Decision(Action.FULL, definition.refused)
    reasons = [f"{_short(s.key)} {s.kind}{_rows(s)}" for s in changed] + [f"{c} moved" for c in clocks]
    return Decision(Action.DIFFERENTIAL, "; ".join(reasons))


def facts_of(sources: list[SourceFacts], clocks: tuple[str, ...] = ()) -> Facts:
    """The facts that plans are specialised by."""
    sources = [s for s in sources if s.net != 0]
    rows = [s.rows if s.net is None else s.net for s in sources if s.changed]
    return Facts(
        small=all(r is not None for r in rows) and sum(r or 0 for r in rows) <= SMALL,
        changed=frozenset(s.key for s in sources if s.changed) | frozenset(clocks),
        insert_only=frozenset(s.key for s in sources if s.kind is Kind.INSERT_ONLY),
        held=frozenset(s.key for s in sources if s.changed and s.net is not None),
    )


def _rows(source: SourceFacts) -> str:
    return "" if source.rows is None else f", {source.rows} changed rows"


def _short(key: str) -> str:
    return key.removeprefix("spark_catalog.").removeprefix("default.")
