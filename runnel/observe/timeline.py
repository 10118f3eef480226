"""Refreshes along the clock: one bar for each, as rows to plot and as text for the shell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from runnel.errors import DefinitionError
from runnel.observe.record import Action, RefreshRecord

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
MARKS = (
    ("x", "failed"),
    (">", "running"),
    ("#", "full"),
    ("=", "differential"),
    (".", "no data"),
)
"""How a bar is drawn, in the order of importance: where several fall into one column, the first is seen."""


@dataclass(frozen=True)
class Bar:
    """One refresh: when it worked on which stream table. One that is still running ends now."""

    stream_table: str
    start: datetime
    end: datetime
    action: Action
    status: str

    @property
    def mark(self) -> str:
        if self.status != "COMPLETED":
            return "x" if self.status == "FAILED" else ">"
        return {Action.DIFFERENTIAL: "=", Action.NO_DATA: ".", Action.SKIP: "."}.get(self.action, "#")

    def as_dict(self) -> dict[str, Any]:
        times = {"start": self.start.isoformat(timespec="milliseconds"), "end": self.end.isoformat(timespec="milliseconds")}
        return {"table": self.stream_table, **times, "action": str(self.action), "status": self.status}


def since_when(text: str, now: datetime) -> datetime:
    """A moment from an ISO time (UTC unless it says otherwise) or from a length of time before now.

    >>> since_when("1h 30m", datetime(2026, 1, 1, 12, tzinfo=UTC)).isoformat()
    '2026-01-01T10:30:00+00:00'
    """
    if re.fullmatch(r"(\s*\d+\s*[smhd])+\s*", text.lower()):
        parts = re.findall(r"(\d+)\s*([smhd])", text.lower())
        return now - sum((timedelta(**{UNITS[unit]: int(number)}) for number, unit in parts), timedelta())
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise DefinitionError(
            f'"{text}" is not a time', code="TIME", hint="Write a length of time such as 2h or 1h 30m, or a time such as 2026-01-31T12:00."
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def bars_of(records: Iterable[RefreshRecord], now: datetime) -> list[Bar]:
    """The bars of records, from old to new. What a refresh waited for another one is no part of its bar."""
    bars = []
    for record in records:
        start = datetime.fromisoformat(record.started_at)
        took = timedelta(milliseconds=sum(s.ms for s in record.stages) or record.ms)
        bars.append(Bar(record.stream_table, start, now if record.status == "RUNNING" else start + took, record.action, record.status))
    return sorted(bars, key=lambda bar: (bar.start, bar.stream_table))


def draw(bars: Sequence[Bar], since: datetime, now: datetime, width: int = 100) -> str:
    """One line for each stream table, from `since` on the left to `now` on the right.

    >>> at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> minute = timedelta(minutes=1)
    >>> bars = [Bar("a", at, at + minute, Action.FULL, "COMPLETED"), Bar("b", at + 2 * minute, at + 3 * minute, Action.DIFFERENTIAL, "COMPLETED")]
    >>> print(draw(bars, at, at + 4 * minute, width=9))
    a |##      |
    b |    ==  |
      2026-01-01 12:00:00 to 2026-01-01 12:04:00 UTC; # full, = differential
    """
    names = sorted({bar.stream_table for bar in bars})
    if not names:
        return "no refresh in this time"
    margin = max(map(len, names))
    columns = max(8, width - margin - 3)
    span = max((now - since).total_seconds(), 0.001)
    order = [mark for mark, _ in MARKS]
    lines = []
    for name in names:
        cells = [" "] * columns
        for bar in (b for b in bars if b.stream_table == name):
            first = _column(bar.start, since, span, columns)
            # An end that falls on the border of a column does not reach into it.
            last = max(first, _column(bar.end - timedelta(microseconds=1), since, span, columns))
            for at in range(first, last + 1):
                seen = [m for m in (cells[at], bar.mark) if m in order]
                cells[at] = min(seen, key=order.index)
        lines.append(f"{name.ljust(margin)} |{''.join(cells)}|")
    used = {bar.mark for bar in bars}
    legend = ", ".join(f"{mark} {word}" for mark, word in MARKS if mark in used)
    lines.append(f"{' ' * margin} {since:%Y-%m-%d %H:%M:%S} to {now:%Y-%m-%d %H:%M:%S} UTC; {legend}")
    return "\n".join(lines)


def _column(moment: datetime, since: datetime, span: float, columns: int) -> int:
    return min(columns - 1, max(0, int((moment - since).total_seconds() / span * columns)))
