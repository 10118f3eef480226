"""Schedules: every spelling, what is refused and where, and the times that follow."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from runnel.bind.statement import parse_statement
from runnel.errors import DefinitionError
from runnel.schedule.schedules import Calculated, Cron, Every, Manual, OnUpdate, TargetLag, next_runs, parse_schedule

QUERY = "SELECT 1 AS one FROM t"


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("SCHEDULE EVERY 30s", Every(30)),
        ("schedule every 1h 30m", Every(5400)),
        ("SCHEDULE EVERY 5 MINUTES", Every(300)),
        ("SCHEDULE REFRESH EVERY 1 DAY", Every(86400)),
        ("SCHEDULE EVERY INTERVAL 10 MINUTES", Every(600)),
        ("SCHEDULE EVERY INTERVAL '10' MINUTE", Every(600)),
        ("SCHEDULE EVERY '2 hours'", Every(7200)),
        ("SCHEDULE CRON '0 3 * * *'", Cron("0 3 * * *")),
        ("SCHEDULE CRON '15 0 3 * * *' AT TIME ZONE 'Europe/Rome'", Cron("15 0 3 * * *", "Europe/Rome")),
        ("SCHEDULE REFRESH CRON '0 0 3 ? * MON'", Cron("0 0 3 ? * MON")),
        ("SCHEDULE CRON '@hourly'", Cron("@hourly")),
        ("TRIGGER ON UPDATE", OnUpdate()),
        ("TRIGGER ON UPDATE AT MOST EVERY INTERVAL 1 MINUTE", OnUpdate(60)),
        ("TRIGGER ON UPDATE AT MOST EVERY 10s", OnUpdate(10)),
        ("TARGET_LAG = '1 minute'", TargetLag(60)),
        ("TARGET_LAG='1 hours'", TargetLag(3600)),
        ("TARGET_LAG = DOWNSTREAM", Calculated()),
        ("target_lag=downstream", Calculated()),
        ("SCHEDULE CALCULATED", Calculated()),
        ("SCHEDULE MANUAL", Manual()),
    ],
)
def test_spellings_of_create_and_alter(clause: str, expected: object) -> None:
    created = parse_statement(f"CREATE STREAM TABLE t {clause} REFRESH MODE FULL AS {QUERY}")
    assert created is not None and created.schedule is not None and created.query == QUERY and created.mode == "FULL"
    assert parse_schedule(created.schedule) == expected == parse_schedule(clause)
    for change in ("SET", "ADD"):
        altered = parse_statement(f"ALTER STREAM TABLE t {change} {clause};")
        assert altered is not None and altered.verb == "alter" and altered.schedule == created.schedule and altered.add == (change == "ADD")
    assert str(parse_schedule(str(expected))) == str(expected), "what is printed reads back"


def test_dropping_suspending_and_resuming() -> None:
    dropped = parse_statement("ALTER MATERIALIZED VIEW a.b DROP SCHEDULE")
    assert dropped is not None and dropped.schedule == "" and dropped.name == ("a", "b")
    for verb in ("SUSPEND", "RESUME"):
        found = parse_statement(f"ALTER DYNAMIC TABLE t {verb}")
        assert found is not None and found.verb == verb.lower()
    kept = parse_statement("ALTER STREAM TABLE t REFRESH MODE FULL")
    assert kept is not None and kept.schedule is None


@pytest.mark.parametrize(
    ("clause", "message", "column"),
    [
        ("SCHEDULE EVERY soon", 'expected a duration, found "soon"', 37),
        ("SCHEDULE EVERY 5x", 'expected a duration, found "5x"', 37),
        ("SCHEDULE EVERY 1ms", "1ms is no period for a schedule", 37),
        ("SCHEDULE EVERY 500 days", "71w 3d is no period", 37),
        ("SCHEDULE SOMETIMES", 'expected a schedule, found "SCHEDULE"', 22),
        ("SCHEDULE CRON 0 3", 'expected a string, found "0"', 36),
        ("SCHEDULE CRON '61 * * * *'", 'cron expression "61 * * * *" is not understood', 36),
        ("SCHEDULE CRON '* * *'", "is not understood", 36),
        ("SCHEDULE CRON '* * */20 * 1L'", "never comes", 36),
        ("SCHEDULE CRON '0 0 3 ? * 2'", "could mean two days", 36),
        ("SCHEDULE CRON '@daily' AT TIME ZONE 'Europe/Nowhere'", 'time zone "Europe/Nowhere" does not exist', 36),
        ("TRIGGER ON COMMIT", 'expected a schedule, found "TRIGGER"', 22),
        ("TRIGGER ON UPDATE AT MOST EVERY now", 'expected a duration, found "now"', 54),
        ("TARGET_LAG = 'a while'", "expected a duration, found \"'a while'\"", 35),
    ],
)
def test_bad_ones_are_refused_with_their_place(clause: str, message: str, column: int) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_statement(f"CREATE STREAM TABLE\nt {clause} AS {QUERY}")
    assert message in caught.value.message and caught.value.hint
    assert caught.value.position == (2, column - 19)
    with pytest.raises(DefinitionError) as short:
        parse_schedule(clause)
    assert short.value.position is not None and short.value.position[0] == 1


def test_short_forms() -> None:
    assert parse_schedule("  90s ") == Every(90) and parse_schedule("") == Calculated()
    assert parse_schedule("*/5 * * * *") == Cron("*/5 * * * *") and parse_schedule("0 3 * * *") == Cron("0 3 * * *")
    assert parse_schedule("every 5m") == Every(300) and parse_schedule("on update") == OnUpdate() and parse_schedule("downstream") == Calculated()
    with pytest.raises(DefinitionError) as caught:
        parse_schedule("5m later")
    assert caught.value.position == (1, 1)


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("cron", "start", "expected"),
    [
        (Cron("30 2 * * *", "Europe/Berlin"), "2026-03-28T12:00+01:00", ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]),
        (Cron("30 2 * * *", "Europe/Berlin"), "2026-10-24T12:00+02:00", ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]),
        (Cron("*/20 * * * * *"), "2026-01-01T00:00:59+00:00", ["2026-01-01T00:01:00+00:00", "2026-01-01T00:01:20+00:00"]),
        (Cron("@monthly"), "2026-01-31T00:00+00:00", ["2026-02-01T00:00:00+00:00", "2026-03-01T00:00:00+00:00"]),
    ],
    ids=["an hour that is left out", "an hour that comes twice", "seconds", "shorthand"],
)
def test_times_of_cron(cron: Cron, start: str, expected: list[str]) -> None:
    assert [t.isoformat() for t in next_runs(cron, at(start), 2)] == expected


def test_next_runs_of_others() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    assert [t.isoformat() for t in next_runs(Every(60), now)] == [f"2026-01-01T00:0{n}:00+00:00" for n in (1, 2, 3)]
    assert next_runs(OnUpdate(), now) == next_runs(Calculated(), now) == next_runs(TargetLag(60), now) == []
