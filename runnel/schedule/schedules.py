"""When a stream table is refreshed, as types; each prints as the SQL that reads back as itself.

| written                                      | meaning                                                         |
|----------------------------------------------|-----------------------------------------------------------------|
| nothing, `SCHEDULE CALCULATED`, `DOWNSTREAM` | as often as its readers need; never by itself                    |
| `SCHEDULE EVERY 5m`                          | at most once in five minutes, when something changed             |
| `SCHEDULE CRON '0 3 * * *' AT TIME ZONE 'Europe/Rome'` | at those times, when something changed                 |
| `TRIGGER ON UPDATE AT MOST EVERY 1m`         | soon after a commit of a source, with pauses of a minute at least |
| `TARGET_LAG = '10m'`                         | late enough to gather changes, early enough that none waits longer |
| `SCHEDULE MANUAL`                            | only when somebody asks                                          |

Cron expressions have five fields, or six with seconds first; times that a change to summer time leaves out or repeats run once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from runnel.errors import DefinitionError
from runnel.schedule.duration import parse_duration, read_duration, show_duration

SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
SHORTEST, LONGEST = 0.1, 366 * 86_400.0
"""Seconds between which a period must lie: below, a refresh could not keep up; above, it is taken for a mistake."""


class Schedule(Protocol):
    """`period` is the time between two runs where there is one; times are seconds since 1970."""

    @property
    def period(self) -> float | None: ...

    def after(self, moment: float) -> float | None:
        """The first run after a moment, for schedules that know their times."""


@dataclass(frozen=True)
class Calculated:
    """As often as readers need."""

    period: None = None

    def after(self, moment: float) -> None:
        return None

    def __str__(self) -> str:
        return "SCHEDULE CALCULATED"


@dataclass(frozen=True)
class Manual:
    """Only when somebody asks."""

    period: None = None

    def after(self, moment: float) -> None:
        return None

    def __str__(self) -> str:
        return "SCHEDULE MANUAL"


@dataclass(frozen=True)
class Every:
    """
    >>> str(Every(5400.0)), Every(60.0).after(0.0)
    ('SCHEDULE EVERY 1h 30m', 60.0)
    """

    seconds: float

    def __post_init__(self) -> None:
        _check_period(self.seconds)

    @property
    def period(self) -> float:
        return self.seconds

    def after(self, moment: float) -> float:
        return moment + self.seconds

    def __str__(self) -> str:
        return f"SCHEDULE EVERY {show_duration(self.seconds)}"


@dataclass(frozen=True)
class OnUpdate:
    """Woken by commits of sources, with a pause of `at_most_every` seconds at least."""

    at_most_every: float = 0.0

    def __post_init__(self) -> None:
        if self.at_most_every:
            _check_period(self.at_most_every)

    @property
    def period(self) -> float | None:
        return self.at_most_every or None

    def after(self, moment: float) -> None:
        return None

    def __str__(self) -> str:
        return "TRIGGER ON UPDATE" + (f" AT MOST EVERY {show_duration(self.at_most_every)}" if self.at_most_every else "")


@dataclass(frozen=True)
class TargetLag:
    """No change waits longer than this."""

    seconds: float

    def __post_init__(self) -> None:
        _check_period(self.seconds)

    @property
    def period(self) -> float:
        return self.seconds

    def after(self, moment: float) -> None:
        return None

    def __str__(self) -> str:
        return f"TARGET_LAG = '{show_duration(self.seconds)}'"


@dataclass(frozen=True)
class Cron:
    """
    >>> str(Cron("@hourly")), Cron("*/5 * * * *").after(0.0)
    ("SCHEDULE CRON '@hourly'", 300.0)
    """

    text: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise DefinitionError(f'time zone "{self.zone}" does not exist', code="SCHEDULE", hint="Use a name such as Europe/Rome or UTC.") from None
        first = self.after(datetime.now(UTC).timestamp())
        if first is None:
            raise DefinitionError(f'cron expression "{self.text}" never comes', code="SCHEDULE", hint="Choose a day that its months have.")

    @property
    def period(self) -> float | None:
        """The time between its next two runs."""
        return _gap(self.text, self.zone)

    def after(self, moment: float) -> float | None:
        return _next(self.text, self.zone, moment)

    def __str__(self) -> str:
        return f"SCHEDULE CRON '{self.text}'" + (f" AT TIME ZONE '{self.zone}'" if self.zone != "UTC" else "")


def _cron(text: str, start: datetime) -> CronSim:
    fields = SHORTHANDS.get(text.lower(), text).upper().split()
    if "?" in fields:
        # Quartz counts the days of the week from 1 for Sunday, cron from 0; a number could mean either.
        if len(fields) > 5 and any(c.isdigit() for c in fields[5].partition("#")[0]):
            raise DefinitionError(
                f'cron expression "{text}" could mean two days',
                code="SCHEDULE",
                detail="With ? it is one of Quartz, where Sunday is 1; in others Sunday is 0.",
                hint="Name the days: MON, TUE, WED, THU, FRI, SAT, SUN.",
            )
        fields = ["*" if f == "?" else f for f in fields]
    try:
        return CronSim(" ".join(fields), start)
    except CronSimError as error:
        raise DefinitionError(
            f'cron expression "{text}" is not understood',
            code="SCHEDULE",
            detail=f"{error}.",
            hint=f"Write five fields, minute hour day month weekday, six with seconds first, or one of {', '.join(SHORTHANDS)}.",
        ) from None


@lru_cache(maxsize=10_000)
def _next(text: str, zone: str, moment: float) -> float | None:
    """Kept, since a scheduler asks for the same moment until it has come."""
    found = next(_cron(text, datetime.fromtimestamp(moment, ZoneInfo(zone))), None)
    return found.timestamp() if found is not None else None


@lru_cache(maxsize=1000)
def _gap(text: str, zone: str) -> float | None:
    times = _cron(text, datetime.now(ZoneInfo(zone)))
    first, second = next(times, None), next(times, None)
    return second.timestamp() - first.timestamp() if first is not None and second is not None else None


def _check_period(seconds: float) -> None:
    if not SHORTEST <= seconds <= LONGEST:
        raise DefinitionError(
            f"{show_duration(seconds)} is no period for a schedule",
            code="SCHEDULE",
            hint=f"Use one from {show_duration(SHORTEST)} to {show_duration(LONGEST)}.",
        )


# -- text ------------------------------------------------------------------------------------------------------------------

_QUOTED = re.compile(r"\s*(?:'((?:[^'\\]|'')*)'|\"([^\"\\]*)\")")
_INTERVAL = re.compile(r"\s*INTERVAL\b\s*", re.I)
_SPLIT_INTERVAL = re.compile(r"\s*'(\d+(?:\.\d+)?)'\s*([A-Za-z]+)")


def read_schedule(text: str, at: int = 0) -> tuple[Schedule, int]:
    """The schedule clause that begins at a place of a text, and the place behind it. An error carries its place as `offset`.

    >>> read_schedule("SCHEDULE REFRESH EVERY 1 HOUR AS SELECT 1")
    (Every(seconds=3600.0), 29)
    """
    for pattern, read in _CLAUSES:
        found = pattern.match(text, at)
        if found is not None:
            try:
                return read(text, found.end())
            except DefinitionError as error:
                error.values.setdefault("offset", _skip(text, found.end()))
                raise
    raise _unread(text, at, "a schedule", HINT)


HINT = "Write SCHEDULE EVERY 5m, SCHEDULE CRON '0 3 * * *' [AT TIME ZONE '..'], TRIGGER ON UPDATE [AT MOST EVERY 1m] or TARGET_LAG = '10m'."


def parse_schedule(text: str) -> Schedule:
    """A schedule from SQL, or in short: `5m`, `@hourly`, `0 3 * * *`, `on update`, `downstream`.

    >>> parse_schedule("5m"), parse_schedule("@hourly"), str(parse_schedule("on update at most every 10 s"))
    (Every(seconds=300.0), Cron(text='@hourly', zone='UTC'), 'TRIGGER ON UPDATE AT MOST EVERY 10s')
    """
    given = text.strip()
    if not given:
        return Calculated()
    if (seconds := parse_duration(given)) is not None:
        return Every(seconds)
    if given[0] in "@*" or (given[0].isdigit() and len(given.split()) in (5, 6)):
        return Cron(given)
    upper = given.upper()
    lead = "" if upper.startswith(("SCHEDULE", "TRIGGER", "TARGET_LAG")) else "TRIGGER " if upper.startswith("ON ") else "SCHEDULE "
    try:
        found, end = read_schedule(lead + given)
        if _skip(lead + given, end) < len(lead + given):
            raise _unread(lead + given, end, "the end", "Give one schedule.")
    except DefinitionError as error:
        place = max(0, error.values.get("offset", 0) - len(lead))
        error.position = (1, min(place, len(given) - 1) + 1)
        raise
    return found


@lru_cache(maxsize=10_000)
def stored_schedule(text: str) -> Schedule:
    """A schedule as a definition keeps it; nothing means that readers decide."""
    return parse_schedule(text)


def next_runs(schedule: Schedule, now: float, count: int = 3) -> list[datetime]:
    """When a schedule that knows its times runs next.

    >>> [t.isoformat() for t in next_runs(Cron("@daily", "Europe/Rome"), 0.0, 2)]
    ['1970-01-02T00:00:00+01:00', '1970-01-03T00:00:00+01:00']
    """
    zone = ZoneInfo(schedule.zone) if isinstance(schedule, Cron) else UTC
    found: list[datetime] = []
    moment: float | None = now
    while len(found) < count and moment is not None:
        moment = schedule.after(moment)
        if moment is not None:
            found.append(datetime.fromtimestamp(moment, zone))
    return found


def _every(text: str, at: int) -> tuple[Schedule, int]:
    seconds, end = _duration(text, at)
    return Every(seconds), end


def _cron_clause(text: str, at: int) -> tuple[Schedule, int]:
    expression, end = _quoted(text, at, "SCHEDULE CRON '0 3 * * *'")
    zone = re.compile(r"\s*AT\s+TIME\s+ZONE\b", re.I).match(text, end)
    if zone is None:
        return Cron(expression), end
    name, end = _quoted(text, zone.end(), "AT TIME ZONE 'Europe/Rome'")
    return Cron(expression, name), end


def _on_update(text: str, at: int) -> tuple[Schedule, int]:
    bound = re.compile(r"\s*AT\s+MOST\s+EVERY\b", re.I).match(text, at)
    if bound is None:
        return OnUpdate(), at
    seconds, end = _duration(text, bound.end())
    return OnUpdate(seconds), end


def _lag(text: str, at: int) -> tuple[Schedule, int]:
    start = re.compile(r"\s*=?").match(text, at)
    assert start is not None
    word = re.compile(r"\s*(['\"]?)DOWNSTREAM\1", re.I).match(text, start.end())
    if word is not None:
        return Calculated(), word.end()
    seconds, end = _duration(text, start.end())
    return TargetLag(seconds), end


def _fixed(found: Schedule) -> Callable[[str, int], tuple[Schedule, int]]:
    return lambda text, at: (found, at)


_CLAUSES = tuple(
    (re.compile(words.replace(" ", r"\s+") + r"(?![A-Za-z0-9_])", re.I), read)
    for words, read in (
        ("SCHEDULE (?:REFRESH )?EVERY", _every),
        ("SCHEDULE (?:REFRESH )?CRON", _cron_clause),
        ("SCHEDULE CALCULATED", _fixed(Calculated())),
        ("SCHEDULE DOWNSTREAM", _fixed(Calculated())),
        ("SCHEDULE MANUAL", _fixed(Manual())),
        ("TRIGGER ON UPDATE", _on_update),
        ("TARGET_LAG", _lag),
    )
)


def _duration(text: str, at: int) -> tuple[float, int]:
    """`5m`, `'5 minutes'`, `INTERVAL 5 MINUTES` or `INTERVAL '5' MINUTE`."""
    interval = _INTERVAL.match(text, at)
    start = interval.end() if interval else _skip(text, at)
    split = _SPLIT_INTERVAL.match(text, start)
    if split is not None and (seconds := parse_duration(f"{split[1]} {split[2]}")) is not None:
        return seconds, split.end()
    quoted = _QUOTED.match(text, start)
    if quoted is not None:
        seconds = parse_duration(quoted[1] if quoted[1] is not None else quoted[2])
        if seconds is not None:
            return seconds, quoted.end()
    found = read_duration(text, start)
    if found is None:
        raise _unread(text, start, "a duration", "Write it as 30s, 5m, 1h 30m or INTERVAL 5 MINUTES.")
    return found


def _quoted(text: str, at: int, example: str) -> tuple[str, int]:
    found = _QUOTED.match(text, at)
    if found is None:
        raise _unread(text, at, "a string", f"Write {example}.")
    return (found[1] if found[1] is not None else found[2]).replace("''", "'"), found.end()


def _unread(text: str, at: int, expected: str, hint: str) -> DefinitionError:
    start = _skip(text, at)
    word = re.match(r"'[^']*'|[^\s;]+", text[start:])
    shown = f'"{word[0]}"' if word else "the end"
    return DefinitionError(f"expected {expected}, found {shown}", code="SCHEDULE", hint=hint, offset=start)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
