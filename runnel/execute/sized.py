"""How the job of one refresh runs, by the size of what it reads. The user's own session is left alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from runnel.algebra import Face
from runnel.execute.work import Work
from runnel.observe.record import Action
from runnel.sources.reader import SOUND

MODERATE = 4 << 30
"""Bytes of tables up to which a plan is made at once; beyond it adaptive execution decides between stages."""
PARTITION = 64 << 20
"""Bytes of tables per shuffle partition: with the change broadcast, little of them is ever shuffled."""
SMALL_CHANGE = 1_000_000
"""Up to this many changed rows, adaptive execution is switched off: after 20,000 to 2,000,000 changes of two million
rows refreshes took up to a sixth less without it, or the same, in eleven of twelve measurements."""
FEW, TINY = 4_000, 8 << 20
"""Changed rows, and bytes of tables read beside them, up to which a plan is interpreted: the rows of larger tables are worth compiling for."""
HERE, ALONE, BESIDE = 64 << 10, 40_000, 32 << 20
"""Bytes of tables computed anew, changed rows alone, and bytes of tables beside few of them, up to which this process writes the file."""
INTERPRETED = {"spark__sql__codegen__wholeStage": "false", "spark__sql__codegen__factoryMode": "NO_CODEGEN"}
COMPILED = {"spark__sql__codegen__wholeStage": "true", "spark__sql__codegen__factoryMode": "FALLBACK"}
TOUCHING = 20_000
"""Changed rows of a source up to which this process reads the rows that they touch although these are not few. Of narrow tables it reads them
faster up to ten times as many, of wide ones it does not (docs/decisions/20261118-small-tables-are-read-here.md)."""
ONE_TASK = 200_000
"""Rows, all readings of them together, up to which one task computes a plan. On two cores one task still won with a million of them, by a fifth;
with more cores it would not."""
IN_ONE = {
    "spark__sql__adaptive__enabled": "false",
    "spark__sql__shuffle__partitions": "1",
    "spark__sql__optimizer__disableHints": "true",
    "spark__sql__autoBroadcastJoinThreshold": "-1",
    # It moves semi joins below where rows come into one partition, where they need a shuffle again.
    "spark__sql__optimizer__excludedRules": "org.apache.spark.sql.catalyst.optimizer.PushDownLeftSemiAntiJoin",
}


@dataclass(frozen=True)
class Sized:
    """Settings for one job, and whether this process writes its rows. Spark's own writer makes folders, moves the file, and on a local disk
    starts nine processes to set permissions: a tenth of a second, which rows have to be worth."""

    settings: dict[str, str] = field(default_factory=dict)
    here: bool = False


def sized(work: Work) -> Sized:
    """A small change over tables of moderate size is planned at once, with few partitions; a tiny one is interpreted, not compiled.

    Adaptive execution plans a query stage by stage, which costs a job for each; it pays when sizes are unknown or large.
    """
    if not work.engine.settings.uses("sized_jobs"):
        return Sized(SOUND if work.plan is None else {})
    if work.plan is None or work.decision.action is not Action.DIFFERENTIAL:
        everything = sum(s.size() for s in work.sources.values()) + (0 if work.anew else work.backing.log.size())
        return Sized(SOUND if work.plan is None else {}, everything <= HERE)
    rows = [f.rows for f in work.facts if f.changed]
    tables = [i.source for i in work.plan.inputs if i.face is not Face.CHANGE]
    read = sum(work.sources[t].size() for t in tables if t in work.sources)
    if any(r is None or r > SMALL_CHANGE for r in rows) or read > MODERATE:
        return Sized()
    changed = sum(r or 0 for r in rows)
    partitions = max(1, min(8, work.engine.parallelism, changed // 50_000 + read // PARTITION))
    settings = {"spark__sql__adaptive__enabled": "false", "spark__sql__shuffle__partitions": str(partitions)}
    read += 0 if all(t in work.sources for t in tables) else work.backing.log.size()
    here = changed <= (FEW if tables else ALONE) and read <= BESIDE
    return Sized(settings | INTERPRETED if changed <= FEW and read <= TINY else settings, here)


def touches_many(work: Work) -> bool:
    """Whether so many rows changed that this process shall read of tables only where a change touches few rows. To compute anew it reads small
    tables too: sums of tails are made on the way."""
    if work.decision.action is not Action.DIFFERENTIAL:
        return False
    changed = [f.rows if f.net is None else f.net for f in work.facts if f.changed]
    return any(rows is None or rows > TOUCHING for rows in changed)


def alone(work: Work, inputs: Iterable[tuple[int | None, int]]) -> dict[str, str]:
    """Settings for a plan over inputs that this process holds, each with its rows and how often it is read: few enough are computed by one
    task. None are given where that is not so.

    What is in one partition needs no shuffle to be joined or grouped, and no job to be broadcast.
    """
    counts = [None if rows is None else rows * times for rows, times in inputs]
    if not work.engine.settings.uses("sized_jobs") or any(c is None for c in counts):
        return {}
    rows = sum(c or 0 for c in counts)
    return {} if rows > ONE_TASK else IN_ONE | (INTERPRETED if rows <= FEW else COMPILED)
