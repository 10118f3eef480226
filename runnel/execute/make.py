"""The rows that a refresh appends: what its plan reads is provided, and its parts are computed one after the other, each by what it reads.

A part that reads few rows runs as one task, whatever the parts before it had to pass over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from runnel.algebra import STORED as LOG
from runnel.algebra import WEIGHT, Face, Steps
from runnel.algebra.scan import columns_read
from runnel.algebra.steps import slug
from runnel.algebra.want import Want
from runnel.differentiate import ChangePlan, Part
from runnel.differentiate.plan import subtract
from runnel.execute.gather import gather
from runnel.execute.provide import Provided, Provider
from runnel.execute.query import pinned_query
from runnel.execute.sized import alone, touches_many
from runnel.execute.work import Work
from runnel.observe.record import Action

STORED = "stored__content"
"""What a recompute calls the content kept so far."""


@dataclass(frozen=True)
class Change:
    """Rows to append, with stored columns and weight, as a plan that has not run, and the settings to run it with."""

    rows: DataFrame
    settings: dict[str, str] = field(default_factory=dict)


def change_of(work: Work) -> Change:
    """The last part of the plan, over parts that are computed now."""
    reader = work.engine.reader
    with reader.lock:
        reader.adopt(work.backing.definition.functions)
        if work.plan is None:
            versions = {f.key: f.after for f in work.facts}
            return Change(_difference(work, pinned_query(reader, work.backing.definition, work.sources, versions, work.clock)))
        found = _inputs(work, work.plan)
        work.bytes_here = sum(p.bytes for p in found.values())
        views = _Views(work, found)
        *shared, last = work.plan.parts if work.engine.settings.uses("shared_steps") else _whole(work.plan, found)
        for part in shared:
            settings = views.show(part)
            few = work.plan.facts.small and part.name not in work.plan.wide
            with reader.configured(**settings):
                folder = f"{work.backing.path}/_steps/{work.note.epoch + 1}-{part.name}"
                found[part.name] = Provided(*reader.stored(reader.session.sql(part.sql), folder, few))
        settings = views.show(last)
        with reader.configured(**settings):
            return Change(reader.session.sql(last.sql), settings)


@dataclass(frozen=True)
class _Views:
    """Relations as views for the part that runs: in one partition each when one task shall compute it."""

    work: Work
    found: dict[str, Provided]
    shown: dict[str, bool] = field(default_factory=dict)

    def show(self, part: Part) -> dict[str, str]:
        """Make what a part reads known, and say with which settings it shall run."""
        reads = [(n, times) for n, times in part.reads if n in self.found]
        settings = alone(self.work, [(self.found[n].rows, times) for n, times in reads])
        for name, _ in reads:
            if self.shown.get(name) is not bool(settings):
                frame = self.found[name].frame
                self.work.engine.reader.register(frame.coalesce(1) if settings else frame, name)
                self.shown[name] = bool(settings)
        return settings


def _whole(plan: ChangePlan, found: Iterable[str]) -> tuple[Part]:
    """A plan that is computed at once."""
    uses = {i.name: max(1, i.uses) for i in plan.inputs}
    return (Part("", plan.sql, tuple((name, uses.get(name, 1)) for name in found)),)


def _inputs(work: Work, plan: ChangePlan) -> dict[str, Provided]:
    """What the plan reads, by name."""
    gathered, provider = _gathered(work), _provider(work)
    found = {i.name: gathered.get(i.name) or provider.provide(i.want) for i in plan.inputs}
    if work.decision.action is not Action.DIFFERENTIAL and not work.anew:
        found[STORED] = provider.provide(Want(LOG, Face.BEFORE))
    return found


def _provider(work: Work) -> Provider:
    facts, columns = {f.key: f for f in work.facts}, columns_read(work.engine.root(work.backing.definition).maintained)
    log_facts = work.engine.log_facts(work.note)
    reader, prunes, few = work.engine.reader, work.engine.settings.uses("near_files"), touches_many(work)
    return Provider(
        reader, work.backing, work.version, work.note, log_facts, work.sources, facts, work.held, work.clock, columns, prunes, reader.here, few
    )


def _gathered(work: Work) -> dict[str, Provided]:
    """The inputs of the plan that one pass over a table serves together, read."""
    if work.decision.action is not Action.DIFFERENTIAL:
        return {}
    facts, columns = {f.key: f for f in work.facts}, columns_read(work.engine.root(work.backing.definition).maintained)
    found: dict[str, Provided] = {}
    for wanted in work.gatherings:
        folder = f"{work.backing.path}/_steps/{work.note.epoch + 1}-{slug(wanted.source)}-{wanted.face}"
        source, change = work.sources[wanted.source], work.held.get(wanted.source)
        found.update(gather(work.engine.reader, source, facts[wanted.source], wanted, change, columns[wanted.source], folder))
    return found


def _difference(work: Work, result: DataFrame) -> DataFrame:
    """query(after) - stored content, for a query that has no tree."""
    reader, stored = work.engine.reader, work.layout.stored
    renamed = result.toDF(*(c.name for c in stored)).selectExpr(*(f"`{c.name}`" for c in stored), f"CAST(1 AS BIGINT) AS {WEIGHT}")
    if work.anew:
        return renamed
    now = reader.register(renamed)
    was = reader.register(reader.table(work.backing.path, work.version))
    steps = Steps()
    return reader.session.sql(steps.build(subtract(steps, work.layout, now, was)).sql("spark"))
