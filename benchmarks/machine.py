"""Where and when a run was made: without it, times mean nothing."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from runnel.versions import DELTA, SPARK


def describe() -> dict[str, Any]:
    """Cores, memory, versions and the date."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "driver_memory": os.environ.get("RUNNEL_DRIVER_MEMORY", ""),
        "python": platform.python_version(),
        "spark": SPARK,
        "delta": DELTA,
        "runnel": version("runnel"),
    }


def sentence(machine: dict[str, Any]) -> str:
    """The same for the foot of a table or the head of a figure."""
    return (
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, Spark {machine['spark']}, Delta Lake {machine['delta']}, "
        f"Runnel {machine['runnel']}, {machine['date'][:10]}"
    )
