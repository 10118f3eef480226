"""How long a Delta table keeps what a slow reader has not read yet: `VACUUM` takes files and log cleaning takes commits."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from runnel.sources.delta_log import DeltaLog

FILES = ("delta.deletedFileRetentionDuration", "interval 1 week")
COMMITS = ("delta.logRetentionDuration", "interval 30 days")
"""Delta's properties and their defaults."""
UNITS = {"millisecond": 1e-3, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0, "month": 2592000.0, "year": 31536000.0}


def kept_until(log: DeltaLog, frontier: int) -> tuple[datetime, timedelta] | None:
    """When the first change after a version may be cleaned away, and how long it is kept in all.

    None when there is nothing to lose, or the log does not say when it was written.
    """
    if frontier >= log.version():
        return None
    try:
        written = log.commit(frontier + 1).info.get("timestamp")
    except FileNotFoundError:
        return None
    properties = log.properties()
    found = [seconds(properties.get(name, default)) for name, default in (FILES, COMMITS)]
    kept = [s for s in found if s is not None]
    if written is None or not kept:
        return None
    whole = timedelta(seconds=min(kept))
    return datetime.fromtimestamp(written / 1000, UTC) + whole, whole


def seconds(interval: str) -> float | None:
    """The length of an interval as table properties have it.

    >>> seconds("interval 1 week"), seconds("INTERVAL 36 hours"), seconds("interval 1 day 12 hours"), seconds("soon")
    (604800.0, 129600.0, 129600.0, None)
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)\s+([a-z]+?)s?\b", interval.lower().removeprefix("interval"))
    if not parts or any(unit not in UNITS for _, unit in parts):
        return None
    return sum(float(number) * UNITS[unit] for number, unit in parts)
