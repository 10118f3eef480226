"""Lengths of time as people write them: `30s`, `5m`, `1h 30m`, `INTERVAL 5 MINUTES`; in seconds inside."""

from __future__ import annotations

import re

UNITS = {"w": 604_800.0, "d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}

_WORDS = {
    **dict.fromkeys(("w", "week", "weeks"), "w"),
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), "ms"),
}
_PART = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(sorted(_WORDS, key=len, reverse=True))})(?![A-Za-z0-9_])", re.I)


def read_duration(text: str, at: int = 0) -> tuple[float, int] | None:
    """The duration that begins at a place of a text, and the place behind it; None when none does.

    >>> read_duration("1h 30m AS SELECT 1")
    (5400.0, 6)
    >>> read_duration("soon") is None
    True
    """
    total, end = 0.0, at
    while True:
        found = _PART.match(text, end if end == at else _spaces(text, end))
        if found is None:
            return (total, end) if end > at else None
        total += float(found[1]) * UNITS[_WORDS[found[2].lower()]]
        end = found.end()


def parse_duration(text: str) -> float | None:
    """The seconds of a text that is a duration and nothing else.

    >>> parse_duration("90 seconds"), parse_duration("5m later")
    (90.0, None)
    """
    found = read_duration(text.strip())
    return found[0] if found is not None and found[1] == len(text.strip()) else None


def show_duration(seconds: float) -> str:
    """Seconds as people write them; what is shown reads back as the same.

    >>> show_duration(5400), show_duration(0.5), show_duration(0)
    ('1h 30m', '500ms', '0s')
    """
    left, parts = round(seconds * 1000), []
    for unit, size in UNITS.items():
        count, left = divmod(left, round(size * 1000))
        parts += [f"{count}{unit}"] if count else []
    return " ".join(parts) or "0s"


def _spaces(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at
