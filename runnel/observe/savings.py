"""What refreshes cost against what recomputing would have cost: the ledger of one stream table.

The first load is left out, since anybody pays it, and so are refreshes that found nothing to do. A refresh that ran as
FULL saved nothing. Numbers that a record does not have count as nothing on both sides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from runnel.observe.record import Action, RefreshRecord


@dataclass(frozen=True)
class Savings:
    """Totals over the executed refreshes of one stream table."""

    stream_table: str
    refreshes: int = 0
    differential: int = 0
    full: int = 0
    no_data: int = 0
    rows_in: int = 0
    rows_out: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    executor_ms: float = 0.0
    ms: float = 0.0
    recompute_ms: float = 0.0
    recompute_bytes: int = 0

    @property
    def saved_ms(self) -> float:
        """Negative when refreshing cost more than recomputing would have."""
        return self.recompute_ms - self.ms

    @property
    def saved_bytes(self) -> int:
        return self.recompute_bytes - self.bytes_read

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "saved_ms": self.saved_ms, "saved_bytes": self.saved_bytes}

    def __str__(self) -> str:
        return (
            f"{self.stream_table}: {self.ms / 1000:.1f} s instead of {self.recompute_ms / 1000:.1f} s "
            f"in {self.refreshes} refreshes ({self.differential} DIFFERENTIAL, {self.full} FULL, {self.no_data} NO_DATA)"
        )


def savings_of(records: Iterable[RefreshRecord]) -> list[Savings]:
    """One ledger per stream table, by name."""
    found: dict[str, Savings] = {}
    for record in records:
        if record.status == "COMPLETED" and record.epoch > 1:
            found[record.stream_table] = _with(found.get(record.stream_table) or Savings(record.stream_table), record)
    return [found[name] for name in sorted(found)]


def _with(total: Savings, record: RefreshRecord) -> Savings:
    if record.action is Action.NO_DATA:
        return replace(total, refreshes=total.refreshes + 1, no_data=total.no_data + 1)
    applied = record.action is Action.DIFFERENTIAL
    expected = record.recompute_ms if applied and record.recompute_ms is not None else record.work_ms
    return Savings(
        total.stream_table,
        refreshes=total.refreshes + 1,
        differential=total.differential + applied,
        full=total.full + (not applied),
        no_data=total.no_data,
        rows_in=total.rows_in + (record.rows_in or 0),
        rows_out=total.rows_out + (record.rows_out or 0),
        rows_read=total.rows_read + (record.rows_read or 0),
        bytes_read=total.bytes_read + (record.bytes_read or 0),
        bytes_written=total.bytes_written + (record.bytes_written or 0),
        executor_ms=total.executor_ms + (record.executor_ms or 0.0),
        ms=total.ms + record.work_ms,
        recompute_ms=total.recompute_ms + expected,
        recompute_bytes=total.recompute_bytes + (record.recompute_bytes or 0),
    )
