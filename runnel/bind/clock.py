"""The clock as a source: a table of one row whose value is fixed for a whole refresh and moves between refreshes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqlglot import exp

from runnel.bind.refuse import function_name

TODAY, NOW, LOCAL = "clock.today", "clock.now", "clock.local"
COLUMN = "moment"
NOTED = "clock"
"""Under which the note of a commit has the moment that was read."""
TYPES = {TODAY: "date", NOW: "timestamp", LOCAL: "timestamp_ntz"}
_FUNCTIONS = {
    "current_date": TODAY,
    "curdate": TODAY,
    "current_timestamp": NOW,
    "now": NOW,
    "localtimestamp": LOCAL,
    "unix_timestamp": NOW,
}


def reading(node: exp.Expr) -> str | None:
    """Which clock a function reads, or None when it reads none."""
    if not isinstance(node, exp.Func):
        return None
    name = function_name(node)
    if name == "unix_timestamp" and (node.args.get("this") is not None or node.expressions):
        return None
    return _FUNCTIONS.get(name)


def value(node: exp.Expr, moment: exp.Expr) -> exp.Expr:
    """What the function gives at a moment."""
    return exp.Anonymous(this="unix_timestamp", expressions=[moment]) if function_name(node) == "unix_timestamp" else moment


def moment(at: datetime) -> str:
    """A time as clocks and notes have it: in UTC, and so that later moments are larger texts.

    >>> moment(datetime.fromisoformat("2026-03-01T10:00:00+02:00"))
    '2026-03-01 08:00:00.000000+00:00'
    """
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00:00")


def latest(at: str, read: Iterable[str | None], now: str) -> str:
    """A moment, but none before those that were read already, unless these are to come: then the clock was put back.

    >>> latest("2026-03-01 10", ["2026-03-01 09", None], "2026-03-01 12"), latest("2026-03-01 10", ["2026-03-01 11"], "2026-03-01 12")
    ('2026-03-01 10', '2026-03-01 11')
    >>> latest("2026-03-01 10", ["2027-03-01 09"], "2026-03-01 12")
    '2026-03-01 10'
    """
    return max([at, *(r for r in read if r is not None and r <= now)])


def readings(tree: exp.Expr) -> tuple[str, ...]:
    """Every clock that a query reads."""
    return tuple(kinds(tree.find_all(exp.Func)))


def kinds(nodes: Iterable[exp.Expr]) -> list[str]:
    """The clocks that some functions read."""
    return sorted({kind for n in nodes if (kind := reading(n)) is not None})


def at(kind: str, moment: str) -> exp.Expr:
    """The reading of a clock at a moment, which is a timestamp in UTC."""
    stamp = exp.cast(exp.Literal.string(moment), "timestamp")
    return stamp if kind == NOW else exp.cast(stamp, TYPES[kind])


def fixed(tree: exp.Query, moment: str) -> exp.Query:
    """A query with every reading of the clock replaced by the one at a moment."""

    def fix(node: exp.Expr) -> exp.Expr:
        kind = reading(node)
        return node if kind is None else value(node, at(kind, moment))

    result = tree.transform(fix)
    assert isinstance(result, exp.Query)
    return result


def moved(clocks: tuple[str, ...], before: str | None, after: str, time_zone: str) -> tuple[str, ...]:
    """The clocks whose reading differs between two moments: a date moves once a day, in the session's time zone.

    >>> moved((TODAY, NOW), "2026-03-01 10:00:00.000000+00:00", "2026-03-01 23:30:00.000000+00:00", "UTC")
    ('clock.now',)
    >>> moved((TODAY, NOW), "2026-03-01 10:00:00.000000+00:00", "2026-03-01 23:30:00.000000+00:00", "Europe/Berlin")
    ('clock.today', 'clock.now')
    """
    if before is None or before == after:
        return () if before == after else clocks
    return tuple(k for k in clocks if k != TODAY or _day(before, time_zone) != _day(after, time_zone))


def _day(moment: str, time_zone: str) -> object:
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError):  # an offset such as +02:00, or an abbreviation: say that the day moved
        return moment
    return datetime.fromisoformat(moment).astimezone(zone).date()
