"""Facts, estimates and history -> decision: which action, and why, in words and numbers."""

from __future__ import annotations

from dataclasses import dataclass

from runnel.algebra import Facts
from runnel.definition import Definition
from runnel.errors import SourceChanged
from runnel.execute.cost import DIFFERENCE, Weighed
from runnel.execute.history import Past, Prediction, lost, predict_differential, predict_full, tuned_ceiling, untried
from runnel.observe.record import Action, Mode
from runnel.sources.facts import Kind, SourceFacts

SMALL = 1_000_000
"""Changed rows up to which the change is the side of a join that is broadcast."""
CLEARLY, GAP_MS = 0.8, 100.0
"""A way gives way to one that is measured to be cheaper by a fifth: so two equal ways do not take turns."""
BY_MODEL, BY_MODEL_FULL, MODEL_GAP_MS = 0.5, 0.7, 1000.0
"""A coarse estimate overrules what is presumed only clearly. It asks less for FULL, which never costs more than a recompute,
but there more than what starting jobs takes, where it is coarsest."""
BAND = 0.1
"""Around the ceiling, the way taken last is kept."""


@dataclass(frozen=True)
class Ceiling:
    """The changed share of a source above which recompute is presumed faster, and where the number comes from."""

    value: float
    origin: str

    def __str__(self) -> str:
        return f"{self.value:.0%} ({self.origin})"


@dataclass(frozen=True)
class Choice:
    """What AUTO makes of the two ways. `why` is one sentence with the numbers that decided."""

    action: Action
    why: str
    differential: Prediction
    full: Prediction
    ceiling: Ceiling


@dataclass(frozen=True)
class Decision:
    """What this refresh will do. `moves` is False when not even the frontier has to be written."""

    action: Action
    reason: str
    moves: bool = True
    forced: bool = False
    """Changes should have been applied and cannot be."""

    def __str__(self) -> str:
        return f"{self.action}: {self.reason}"


def decide(
    definition: Definition, sources: list[SourceFacts], first: bool, full: bool, clocks: tuple[str, ...] = (), choice: Choice | None = None
) -> Decision:
    """The action for one refresh; `clocks` are those whose reading moved, `choice` what the costs say.

    Broken sources come before everything else, since neither face nor change of theirs can be read; a request or a mode
    comes before the facts, since the user said so.
    """
    if first:
        return Decision(Action.FULL, "first load")
    broken = [s for s in sources if s.broken]
    if broken:
        reason = "; ".join(f"{s.key}: {s.kind}, {s.reason}" for s in broken)
        return Decision(Action.REINITIALIZE, reason, forced=not full and definition.mode is not Mode.FULL)
    if full:
        return Decision(Action.FULL, "asked for")
    changed = [s for s in sources if s.changed]
    if not changed and not clocks:
        moved = any(s.kind is Kind.NEUTRAL for s in sources)
        return Decision(Action.NO_DATA, "source commits without a change of data" if moved else "no source changed", moves=moved)
    if definition.mode is Mode.FULL:
        return Decision(Action.FULL, "refresh mode is FULL")
    if not definition.incremental:
        return Decision(Action.FULL, definition.refused, forced=definition.mode.applies_changes)
    reasons = "; ".join([f"{_short(s.key)} {s.kind}{_rows(s)}" for s in changed] + [f"{c} moved" for c in clocks])
    if definition.mode is not Mode.AUTO or choice is None:
        return Decision(Action.DIFFERENTIAL, reasons)
    return Decision(choice.action, f"{reasons}; {choice.why}")


def choose(weighed: Weighed, past: Past, ceiling: Ceiling) -> Choice:
    """DIFFERENTIAL or FULL, for a query and sources that allow both.

    What this table measured comes first: a way that lost is not taken again. Then the ceiling presumes a way, or once
    there are measurements the way taken last, and the other is taken when it is clearly cheaper.
    """
    assert weighed.differential is not None
    by_change = predict_differential(past, weighed.differential.ms)
    by_full = predict_full(past, weighed.full.ms, weighed.full.of(DIFFERENCE))
    loss = lost(past, weighed.changed_rows, weighed.full.ms, weighed.differential.ms)
    if loss is not None:
        size = "a change like this" if loss.rows is None else f"{loss.rows} changed rows"
        why = f"DIFFERENTIAL took {loss.ms:.0f} ms for {size}, FULL takes {loss.full_ms:.0f} ms; tried again after {loss.retry_in} refreshes"
        return Choice(Action.FULL, why, by_change, by_full, ceiling)
    question = None if weighed.change_only else untried(past, weighed.changed_rows, weighed.full.ms, weighed.full.of(DIFFERENCE))
    if question is not None:
        why = f"DIFFERENTIAL took {question.ms:.0f} ms, FULL may take {question.full_ms:.0f} ms and was never measured: tried once"
        return Choice(Action.FULL, why, by_change, by_full, ceiling)
    presumed, because = _presumed(weighed, past, ceiling)
    if by_change.measured and by_full.measured and past.last is not None:
        presumed, because = past.last, ""
    action = _cheaper(presumed, by_change, by_full)
    numbers = f"DIFFERENTIAL {by_change}, FULL {by_full}"
    if action is presumed:
        return Choice(action, f"{because}, {numbers}" if because else numbers, by_change, by_full, ceiling)
    overruled = f"although {because}, " if because else ""
    return Choice(action, f"{overruled}{action} is cheaper: {numbers}", by_change, by_full, ceiling)


def ceiling_for(definition: Definition, default: float, past: Past, weighed: Weighed) -> Ceiling:
    """The ceiling in force: the table's own, which stays as the user set it, else the setting, tuned by what was measured."""
    if definition.differential_ceiling is not None:
        return Ceiling(definition.differential_ceiling, "set for this table")
    tuned = tuned_ceiling(past, default, predict_full(past, weighed.full.ms, weighed.full.of(DIFFERENCE)))
    if tuned == default:
        return Ceiling(default, "setting differential_ceiling")
    return Ceiling(tuned, f"{'raised' if tuned > default else 'lowered'} from {default:.0%} by measured refreshes")


def enforce(definition: Definition, decision: Decision) -> None:
    """STRICT never computes anew by itself: a decision that it forbids is an error, and the content stays."""
    if definition.mode is not Mode.STRICT or not decision.forced:
        return
    raise SourceChanged(
        f'"{definition.name}" cannot apply the change, and its mode is STRICT',
        code="STRICT",
        detail=f"It would need {decision.action}: {decision.reason}.",
        hint=f"Compute it anew once with REFRESH STREAM TABLE {definition.name} FULL, or allow it with ALTER STREAM TABLE ... REFRESH MODE DIFFERENTIAL.",
    )


def facts_of(
    sources: list[SourceFacts], clocks: tuple[str, ...] = (), light: frozenset[str] = frozenset(), heavy: frozenset[str] = frozenset()
) -> Facts:
    """The facts that plans are specialised by."""
    sources = [s for s in sources if s.net != 0]
    rows = [s.rows if s.net is None else s.net for s in sources if s.changed]
    return Facts(
        small=all(r is not None for r in rows) and sum(r or 0 for r in rows) <= SMALL,
        changed=frozenset(s.key for s in sources if s.changed) | frozenset(clocks),
        insert_only=frozenset(s.key for s in sources if s.kind is Kind.INSERT_ONLY),
        held=frozenset(s.key for s in sources if s.changed and s.net is not None),
        light=light,
        heavy=heavy,
    )


def _presumed(weighed: Weighed, past: Past, ceiling: Ceiling) -> tuple[Action, str]:
    """The way that the changed share suggests. A plan that reads changes only costs what they cost, so no share is too large;
    nor is any under a ceiling of 100 %, as where every row is updated and counts twice."""
    ratio = weighed.ratio
    if ratio is None or weighed.change_only or ceiling.value >= 1.0:
        return Action.DIFFERENTIAL, ""
    edge = ceiling.value * {Action.DIFFERENTIAL: 1 + BAND, Action.FULL: 1 - BAND}.get(past.last or Action.SKIP, 1.0)
    share = f"{ratio:.1%} of {weighed.source_rows} rows changed"
    if ratio > edge:
        return Action.FULL, f"{share}, above the ceiling of {ceiling}"
    return Action.DIFFERENTIAL, f"{share}, below the ceiling of {ceiling}" if ratio > ceiling.value / 2 else ""


def _cheaper(presumed: Action, by_change: Prediction, by_full: Prediction) -> Action:
    """The presumed way, unless the other is clearly cheaper."""
    ways = {Action.DIFFERENTIAL: by_change.ms, Action.FULL: by_full.ms}
    other = Action.FULL if presumed is Action.DIFFERENTIAL else Action.DIFFERENTIAL
    part, gap = BY_MODEL, GAP_MS
    if by_change.measured:
        part = CLEARLY
    elif other is Action.FULL:
        part, gap = BY_MODEL_FULL, MODEL_GAP_MS
    clearly = ways[other] < part * ways[presumed] and ways[presumed] - ways[other] > gap
    return other if clearly else presumed


def _rows(source: SourceFacts) -> str:
    return "" if source.rows is None else f", {source.rows} changed rows"


def _short(key: str) -> str:
    return key.removeprefix("spark_catalog.").removeprefix("default.")
