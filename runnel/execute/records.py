"""Records that nobody finished: a refresh whose process died is told from one that is still at work, and from one that had committed.

A RUNNING record belongs to whoever holds the lease of its stream table. When that lease is gone, the log of the backing
table says what became of the refresh: its commit is there, or it never happened.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from runnel.errors import RunnelError
from runnel.execute.engine import Engine
from runnel.observe.record import RefreshRecord
from runnel.sources.stream_table import REFRESHES
from runnel.tables.backing import CommitNote

log = logging.getLogger("runnel")


def finish_orphans(engine: Engine, held: str | None = None) -> list[RefreshRecord]:
    """Finish orphaned RUNNING records: of the stream table whose lease the caller holds, or of all that nobody holds."""
    settled = []
    for orphan in engine.catalog.orphans(held):
        finished = _finished(orphan, *_committed(engine, orphan))
        if engine.catalog.finish(finished):
            log.warning("the refresh of %s that began %s was interrupted: %s", orphan.stream_table, orphan.started_at, finished.status)
            settled.append(finished)
    return settled


def _committed(engine: Engine, orphan: RefreshRecord) -> tuple[int | None, CommitNote | None]:
    """The version and note of the commit that the orphan made, if it made one. Newer refreshes are looked past."""
    try:
        log = engine.backing(orphan.stream_table).log
        for version in range(log.version(), -1, -1):
            written = log.commit(version).runnel
            if not written or written.get("kind") not in REFRESHES:
                continue
            note = CommitNote.from_dict(written)
            if note.started_at == orphan.started_at:
                return version, note
            if note.started_at < orphan.started_at:
                break
    except (RunnelError, OSError):  # the table is gone, or so much of its log that nothing can be said for it
        pass
    return None, None


def _finished(orphan: RefreshRecord, version: int | None, note: CommitNote | None) -> RefreshRecord:
    if note is not None:
        known = {"frontier": note.versions(), "version": version, "rows_in": note.rows_in, "rows_out": note.rows_out}
        return replace(orphan, status="COMPLETED", epoch=note.epoch, reason=f"{orphan.reason}; its process ended after the commit", **known)  # type: ignore[arg-type]
    error = {
        "branch": "Transient",
        "code": "ORPHANED",
        "message": "the process ended before the refresh did",
        "detail": "Its lease is gone and it committed nothing, so the content is as it was before.",
        "hint": "Refresh again.",
        "position": None,
    }
    return replace(orphan, status="FAILED", epoch=orphan.epoch - 1, error=error)
