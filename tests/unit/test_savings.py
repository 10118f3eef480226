"""The ledger: what counts, and what old records without costs do to it."""

from __future__ import annotations

from runnel.observe.record import Action, RefreshRecord, Stage
from runnel.observe.savings import savings_of


def record(epoch: int, action: Action, ms: float = 100.0, **more) -> RefreshRecord:
    return RefreshRecord("t", epoch, action, "", stages=(Stage("write", ms),), **more)


def test_the_ledger_adds_up_executed_refreshes() -> None:
    (found,) = savings_of(
        [
            record(1, Action.FULL, 9000.0, recompute_ms=1.0),
            record(2, Action.DIFFERENTIAL, 300.0, recompute_ms=2000.0, bytes_read=10, recompute_bytes=500, rows_in=4, rows_out=2, executor_ms=50.0),
            record(3, Action.FULL, 1500.0, recompute_ms=1000.0, bytes_read=500, recompute_bytes=500),
            record(4, Action.NO_DATA, 5.0),
            record(5, Action.DIFFERENTIAL, 700.0, recompute_ms=9999.0, status="FAILED"),
        ]
    )
    assert (found.refreshes, found.differential, found.full, found.no_data) == (3, 1, 1, 1)
    assert (found.ms, found.recompute_ms, found.saved_ms) == (1800.0, 3500.0, 1700.0)
    assert (found.bytes_read, found.saved_bytes, found.rows_in, found.rows_out, found.executor_ms) == (510, 490, 4, 2, 50.0)
    assert "1.8 s instead of 3.5 s" in str(found) and found.as_dict()["saved_ms"] == 1700.0


def test_records_of_before_are_read_and_save_nothing() -> None:
    old = {"stream_table": "t", "epoch": 2, "action": "DIFFERENTIAL", "reason": "", "ms": 250.0, "stages": []}
    (found,) = savings_of(
        [RefreshRecord.from_dict(old), RefreshRecord.from_dict(record(3, Action.DIFFERENTIAL).as_dict() | {"of_a_later_version": 1})]
    )
    assert found.saved_ms == 0.0 and found.refreshes == 2
