"""The clock as a source: a table of one row whose value is fixed for a whole refresh and moves between refreshes."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sqlglot import exp

from runnel.bind.refuse import function_name

TODAY, NOW, LOCAL = "clock.today", "clock.now", "clock.local"
COLUMN = "moment"
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


def readings(tree: exp.Expr) -> tuple[str, ...]:
    """Every clock that a query reads."""
    return tuple(sorted({kind for n in tree.find_all(exp.Func) if (kind := reading(n)) is not None}))


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


def moved(kinds: tuple[str, ...], before: str | None, after: str, time_zone: str) -> tuple[str, ...]:
    """The clocks whose reading differs between two moments: a date moves once a day, in the session's time zone.

    >>> moved((TODAY, NOW), "2026-03-01 10:00:00.000000+00:00", "2026-03-01 23:30:00.000000+00:00", "UTC")
    ('clock.now',)
    >>> moved((TODAY, NOW), "2026-03-01 10:00:00.000000+00:00", "2026-03-01 23:30:00.000000+00:00", "Europe/Berlin")
    ('clock.today', 'clock.now')
    """
    if before is None or before == after:
        return () if before == after else kinds
    return tuple(k for k in kinds if k != TODAY or _day(before, time_zone) != _day(after, time_zone))


def _day(moment: str, time_zone: str) -> object:
    try:
        zone = ZoneInfo(time_zone)
    except (ZoneInfoNotFoundError, ValueError):  # an offset such as +02:00, or an abbreviation: say that the day moved
        return moment
    return datetime.fromisoformat(moment).astimezone(zone).date()
