"""Refreshes as bars: when they worked, how they ended, and what is drawn where several meet."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from runnel.errors import DefinitionError
from runnel.observe.record import Action, RefreshRecord, Stage
from runnel.observe.timeline import bars_of, draw, since_when

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RECORD = RefreshRecord("a", 2, Action.DIFFERENTIAL, "", started_at="2026-01-01T12:00:00.000+00:00", ms=90_000, stages=(Stage("write", 60_000),))


def after(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def test_a_bar_is_the_work_without_the_waiting() -> None:
    assert bars_of([RECORD], NOON)[0].as_dict() == {
        "table": "a",
        "start": "2026-01-01T12:00:00.000+00:00",
        "end": "2026-01-01T12:01:00.000+00:00",
        "action": "DIFFERENTIAL",
        "status": "COMPLETED",
    }


def test_a_running_one_ends_now_and_bars_are_in_order() -> None:
    later = replace(RECORD, stream_table="b", started_at="2026-01-01T12:05:00.000+00:00", status="RUNNING")
    bars = bars_of([later, RECORD], after(7))
    assert [(b.stream_table, b.end) for b in bars] == [("a", after(1)), ("b", after(7))]


def test_the_more_important_is_seen() -> None:
    records = [replace(RECORD, action=action, status=status) for action, status in ((Action.FULL, "COMPLETED"), (Action.NO_DATA, "COMPLETED"))]
    assert draw(bars_of(records, NOON), NOON, after(8), width=12).startswith("a |#       |")
    failed = replace(RECORD, status="FAILED")
    assert draw(bars_of([*records, failed], NOON), NOON, after(8), width=12).startswith("a |x       |")
    assert draw(bars_of([replace(RECORD, status="RUNNING")], after(8)), NOON, after(8), width=12).startswith("a |>>>>>>>>|")


def test_what_lies_outside_is_drawn_at_the_edge() -> None:
    assert draw(bars_of([RECORD], NOON), after(-8), NOON, width=12).startswith("a |       =|")
    assert draw([], NOON, after(1)) == "no refresh in this time"


@pytest.mark.parametrize(
    ("text", "minutes"), [("30m", -30), ("1h 30m", -90), ("2 D", -2880), ("2026-01-01T11:00", -60), ("2026-01-01T13:00:00+02:00", -60)]
)
def test_since(text: str, minutes: int) -> None:
    assert since_when(text, NOON) == after(minutes)


def test_since_something_else() -> None:
    with pytest.raises(DefinitionError, match="yesterday"):
        since_when("yesterday", NOON)
