"""What a refresh leaves behind: the note in its commit, and the record of what it did, does or failed to do."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from runnel.bind import clock
from runnel.errors import RunnelError
from runnel.execute.work import Work
from runnel.observe.record import COMPACTION, Action, RefreshRecord, Stage
from runnel.schedule.cut import merged
from runnel.sources.stream_table import REFLECTS, REFRESH, REPLACE, SWAP
from runnel.tables.backing import CommitNote

log = logging.getLogger("runnel")


def note_of(work: Work) -> CommitNote:
    frontier: dict[str, list[Any]] = {f.key: [f.after, f.table_id] for f in work.facts}
    direct = work.direct or work.empty
    rows = work.written.rows if direct else None
    negatives = work.written.negatives if direct else not work.anew
    files = len(work.written.adds) if direct else 1
    old = work.note.without_tail if work.anew else work.note
    came = 0 if work.anew else files
    return CommitNote(
        kind=SWAP if work.relaid else REPLACE if work.replaces else REFRESH,
        epoch=old.epoch + 1,
        frontier=frontier,
        action=work.decision.action,
        reason=work.decision.reason,
        rows_in=rows_in(work),
        rows_out=rows,
        negatives=negatives,
        tail_rows=old.tail_rows + (0 if work.anew else rows or 0),
        tail_files=old.tail_files + came,
        tail_negatives=old.tail_negatives or (negatives and not work.anew),
        tail_grows=(old.tail_grows and old.tail_files > 0) or (came > 0 and (work.written.grows or not direct)),
        tail_net=old.tail_files == 0 or (old.tail_net and came == 0),
        tail_nulls=_nulls(work, old.tail_nulls),
        base_rows=(rows or 0) if work.anew else old.base_rows,
        base_distinct=work.backing.distinct(work.written) if work.anew and direct else old.base_distinct,
        started_at=work.started,
        definition_id=work.backing.definition.id,
        swap={"definition": work.backing.definition.as_dict(), "layout": work.swap.old.layout.as_dict()} if work.swap else None,
        extra={REFLECTS: merged(work.sources[f.key].reflects(f.after) for f in work.facts)} | ({clock.NOTED: work.clock} if work.clock else {}),
    )


def _nulls(work: Work, before: list[str] | None) -> list[str] | None:
    """The columns that are NULL somewhere in the tail."""
    if work.anew or work.empty:
        return before
    return sorted(work.written.nulls.union(before)) if work.direct and before is not None else None


def rows_in(work: Work) -> int | None:
    if work.decision.action is Action.NO_DATA:
        return 0
    counts = [f.rows for f in work.facts if f.changed]
    return None if any(c is None for c in counts) else sum(c for c in counts if c is not None)


def count(add: dict[str, Any]) -> int:
    return int(json.loads(add["stats"]).get("numRecords", 0)) if add.get("stats") else 0


def record_of(work: Work, stages: list[Stage], started: float) -> RefreshRecord:
    frontier = {f.key: f.after for f in work.facts} if work.committed is not None else work.note.versions()
    if work.decision.forced:
        log.warning("%s was computed anew instead of applying changes: %s", work.backing.definition.name, work.decision.reason)
    took = round((time.perf_counter() - started) * 1000, 1)
    return RefreshRecord(
        stream_table=work.backing.definition.name,
        epoch=work.note.epoch + (1 if work.committed is not None else 0),
        action=work.decision.action,
        reason=work.decision.reason,
        frontier=frontier,
        version=work.committed if work.committed is not None else work.version,
        rows_in=rows_in(work),
        rows_out=work.written.rows,
        jobs=work.jobs.count,
        stages=tuple(stages),
        started_at=work.started,
        ms=took,
        fold_ms=_folding(work, stages),
        **_costs(work),
    )


def _folding(work: Work, stages: list[Stage]) -> float:
    """What a compaction took for the sake of the rows of this refresh."""
    own, before = work.written.rows, work.note.tail_rows
    return 0.0 if work.anew or not own else round(sum(s.ms for s in stages if s.name == COMPACTION) * own / (own + before), 1)


def running(work: Work) -> RefreshRecord:
    """What is known once it is decided: the record that stands until the refresh ends, or until somebody finds that it never will."""
    return RefreshRecord(
        stream_table=work.backing.definition.name,
        epoch=work.note.epoch + 1,
        action=work.decision.action,
        reason=work.decision.reason,
        status="RUNNING",
        frontier=work.note.versions(),
        version=work.version,
        rows_in=rows_in(work),
        started_at=work.started,
    )


def _costs(work: Work) -> dict[str, Any]:
    """What was spent, and what a recompute was expected to cost at this moment."""
    if work.weighing is None or work.decision.action is Action.NO_DATA:
        return {}
    weighed, spent = work.weighing.weighed, work.jobs.spent()
    estimate = weighed.of(work.decision.action)
    at_hand = sum(h.table.num_rows for h in work.held.values()) if work.decision.action is Action.DIFFERENTIAL else 0
    return {
        "bytes_read": estimate.bytes if estimate else None,
        "bytes_here": work.bytes_here,
        "rows_read": spent.rows_read + at_hand if spent else None,
        "bytes_written": sum(a.size for a in work.written.adds) or (spent.bytes_written if spent else None),
        "executor_ms": spent.executor_ms if spent else None,
        "estimated_ms": round(estimate.ms, 1) if estimate else None,
        "recompute_ms": round(work.weighing.recompute_ms, 1),
        "recompute_bytes": weighed.full.bytes,
        "ratio": weighed.ratio,
    }


def failed(work: Work, stages: list[Stage], started: float, error: Exception) -> RefreshRecord:
    described = (
        error.as_dict() if isinstance(error, RunnelError) else {"branch": "Internal", "code": type(error).__name__, "message": str(error)[:500]}
    )
    return RefreshRecord(
        stream_table=work.backing.definition.name,
        epoch=work.note.epoch,
        action=work.decision.action,
        reason=work.decision.reason,
        status="FAILED",
        frontier=work.note.versions(),
        version=work.version,
        stages=tuple(stages),
        started_at=work.started,
        ms=round((time.perf_counter() - started) * 1000, 1),
        error=described,
    )
