"""What the stages of one refresh hand on to each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql.types import StructType

from runnel.definition import Definition
from runnel.differentiate import ChangePlan
from runnel.differentiate.layout import Layout
from runnel.execute.decide import Decision, facts_of
from runnel.execute.engine import Engine
from runnel.execute.gather import Gathering
from runnel.execute.jobs import Jobs
from runnel.execute.weigh import Weighing
from runnel.observe.record import Action
from runnel.sources.facts import Kind, SourceFacts
from runnel.sources.held import Held
from runnel.sources.source import Source
from runnel.tables.backing import BackingTable, CommitNote, Written


@dataclass(frozen=True)
class Swap:
    """A change of definition: the one in force so far, and the schema in which the new one is stored."""

    old: Definition
    schema: StructType


@dataclass
class Work:
    """What the stages of one refresh hand on. Each field is set by the stage named beside it and only read after."""

    engine: Engine
    backing: BackingTable
    full: bool
    jobs: Jobs
    upto: Mapping[str, int] = field(default_factory=dict)  # the caller: versions beyond which sources are not read
    given: Mapping[str, Source] = field(default_factory=dict)  # the caller: sources that are read in place of the stored ones
    why: str = ""  # the caller: why it is computed anew, when not because somebody asked
    swap: Swap | None = None  # the caller: that the definition changes with this refresh
    moment: str | None = None  # the caller: what clocks show
    version: int = -1  # probe
    note: CommitNote = field(default_factory=lambda: CommitNote("create", 0, {}))  # probe
    sources: dict[str, Source] = field(default_factory=dict)  # probe
    facts: list[SourceFacts] = field(default_factory=list)  # probe
    clock: str | None = None  # probe
    clocks: tuple[str, ...] = ()  # probe: those whose reading moved
    held: dict[str, Held] = field(default_factory=dict)  # changes: those at hand
    gatherings: tuple[Gathering, ...] = ()  # decision: of the differential plan
    weighing: Weighing | None = None  # decision, None when nothing is computed or a source is broken
    decision: Decision = field(default_factory=lambda: Decision(Action.SKIP, "not decided"))  # decision
    replaces: bool = False  # decision: what is stored gives way to what is computed anew, and nobody waits for the difference
    plan: ChangePlan | None = None  # decision: the differential one, which is part of the choice; plan: the one that runs
    bytes_here: int = 0  # write: of the files that this process read instead of Spark
    written: Written = field(default_factory=lambda: Written((), 0, (0, 0)))  # write
    committed: int | None = None  # commit
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))  # the same for every attempt

    @property
    def first(self) -> bool:
        """Nothing that is stored counts: there is nothing yet, or it is stored in another way."""
        return self.note.epoch == 0 or self.relaid

    @property
    def anew(self) -> bool:
        """What is computed becomes the base; nothing is subtracted."""
        return self.first or self.replaces

    @property
    def idle(self) -> bool:
        """The probe found nothing to do, and nobody asked for anything: what follows has no Spark job."""
        return not (self.first or self.full or self.clocks or any(f.kind is not Kind.UNCHANGED for f in self.facts))

    @property
    def relaid(self) -> bool:
        return self.swap is not None and self.swap.old.layout != self.layout

    @property
    def direct(self) -> bool:
        return self.engine.commits_directly(self.backing)

    @property
    def empty(self) -> bool:
        """Nothing is to be appended: no source changed, or what changed nets to nothing."""
        action = self.decision.action
        return action is Action.NO_DATA or (action is Action.DIFFERENTIAL and not facts_of(self.facts, self.clocks).changed)

    @property
    def layout(self) -> Layout:
        return self.backing.definition.layout
