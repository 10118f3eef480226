"""Ask the logs how large everything is, and weigh the two ways to refresh against each other. No Spark job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from runnel.algebra import Face
from runnel.bind import clock
from runnel.differentiate import ChangePlan
from runnel.execute import cost
from runnel.execute.cost import Pruned, Size, Weighed
from runnel.execute.decide import Ceiling, Choice, ceiling_for, choose
from runnel.execute.due import longest_tail
from runnel.execute.engine import Engine
from runnel.execute.history import WINDOW, Past, past_of, predict_full
from runnel.observe.record import RefreshRecord
from runnel.sources.facts import SourceFacts
from runnel.sources.source import Source
from runnel.tables.backing import BackingTable, CommitNote


@dataclass(frozen=True)
class Weighing:
    """Both estimates, the past, and what AUTO makes of them; `choice` is None when there is only one way."""

    weighed: Weighed
    past: Past
    records: tuple[RefreshRecord, ...]
    choice: Choice | None = None
    ceiling: Ceiling | None = None

    @property
    def recompute_ms(self) -> float:
        """What a recompute would take now."""
        full = self.weighed.full
        return predict_full(self.past, full.ms, full.of(cost.DIFFERENCE)).ms


def weigh(
    engine: Engine,
    backing: BackingTable,
    note: CommitNote,
    facts: list[SourceFacts],
    sources: dict[str, Source],
    plan: ChangePlan | None,
    pruned: Pruned | None = None,
) -> Weighing:
    """Weigh one refresh. `plan` is the differential plan, None when the query or its sources allow none."""
    definition = backing.definition
    weighed = _weighed(engine, backing, note, facts, sources, plan, pruned)
    records = tuple(engine.catalog.history(definition.name, WINDOW))
    past = past_of(records, definition.created_at, datetime.now(UTC))
    if plan is None:
        return Weighing(weighed, past, records)
    ceiling = ceiling_for(definition, engine.settings.differential_ceiling, past, weighed)
    return Weighing(weighed, past, records, choose(weighed, past, ceiling), ceiling)


def _weighed(
    engine: Engine,
    backing: BackingTable,
    note: CommitNote,
    facts: list[SourceFacts],
    sources: dict[str, Source],
    plan: ChangePlan | None,
    pruned: Pruned | None,
) -> Weighed:
    definition, first = backing.definition, note.epoch == 0
    tables = {key: Size(source.size(), source.rows()) for key, source in sources.items()}
    stored = Size(0 if first else backing.log.size(), note.base_rows + note.tail_rows)
    anew = engine.recompute(definition) if definition.incremental else None
    uses = Counter({key: sum(i.uses for i in anew.inputs if i.source == key) for key in tables}) if anew is not None else None
    full = cost.full(anew.sql if anew is not None else definition.sql, tables, stored, first or engine.may_replace(definition), uses)
    changed = {f.key: f.rows for f in facts if f.changed}
    if plan is None:
        return Weighed(full, changed_rows=_total(changed.values()))
    return Weighed(
        full,
        cost.differential(plan, tables, changed, stored, pruned, longest_tail(backing, note, engine.settings)),
        changed_rows=_total(changed.values()),
        source_rows=_total(tables[key].rows for key in changed),
        change_only=all(i.face is Face.CHANGE for i in plan.inputs if i.source not in clock.TYPES),
    )


def _total(counts: Iterable[int | None]) -> int | None:
    found = list(counts)
    return None if any(c is None for c in found) else sum(c or 0 for c in found)
