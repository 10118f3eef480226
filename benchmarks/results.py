"""What a part found: written as JSON after every result, so that a long run that stops has what it measured, and as a table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.measure import Spent


@dataclass(frozen=True)
class Measured:
    """One number of the report: `labels` say of what, `runs` are the single times behind the median `ms`."""

    labels: dict[str, Any]
    ms: float
    jobs: int
    read: int
    written: int
    runs: list[float] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, labels: dict[str, Any], spent: Spent, runs: list[float], facts: dict[str, Any] | None = None) -> Measured:
        return cls(labels, spent.ms, spent.jobs, spent.read, spent.written, runs, facts or {})

    def as_dict(self) -> dict[str, Any]:
        """Flat, as a line of a data frame."""
        return {**self.labels, "ms": self.ms, "jobs": self.jobs, "read": self.read, "written": self.written, "runs": self.runs, **self.facts}


def pick(found: Iterable[Measured], **labels: Any) -> list[Measured]:
    """The results that have these labels."""
    return [m for m in found if all(m.labels.get(k) == v for k, v in labels.items())]


def one(found: Iterable[Measured], **labels: Any) -> float | None:
    """The time of the only result with these labels, if there is one."""
    matches = pick(found, **labels)
    return matches[0].ms if matches else None


def values(found: Iterable[Measured], label: str) -> list[Any]:
    """The distinct values of a label, in order of appearance."""
    return list(dict.fromkeys(m.labels[label] for m in found if label in m.labels))


def write_json(path: Path, machine: dict[str, Any], options: dict[str, Any], found: list[Measured]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join("    " + json.dumps(m.as_dict(), default=str) for m in found)
    head = json.dumps({"machine": machine, "options": options}, indent=2, default=str)
    path.write_text(f'{head[:-2]},\n  "results": [\n{lines}\n  ]\n}}\n', encoding="utf-8")


def table(title: str, found: list[Measured], against: str = "overwrite") -> Table:
    """One line per result; `x` is how many times faster it was than the way `against`, if any, on the same change."""
    labels = list(dict.fromkeys(k for m in found for k in m.labels))
    drawn = Table(title=title, title_justify="left")
    for heading in labels:
        drawn.add_column(heading, justify="left" if all(isinstance(m.labels.get(heading, ""), str) for m in found) else "right")
    for heading in ("ms", f"x {against}" if against else "", "jobs", "read", "written", "changed", "action"):
        drawn.add_column(heading, justify="right")
    previous: list[Any] = []
    for m in found:
        group = [m.labels.get(k) for k in labels if k != "way"]
        if previous and group != previous and "way" in labels:
            drawn.add_section()
        previous = group
        drawn.add_row(*(_label(k, m.labels.get(k, "")) for k in labels), *_cells(m, found, against))
    return drawn


def _cells(m: Measured, found: list[Measured], against: str) -> list[str]:
    base = one(found, **{**m.labels, "way": against}) if "way" in m.labels else None
    ratio = f"{base / m.ms:.1f}" if base and m.ms and m.labels["way"] != against else ""
    changed = m.facts.get("changed")
    return [
        f"{m.ms:,.0f}" if m.ms >= 10 else f"{m.ms:.1f}",
        ratio,
        str(m.jobs),
        size(m.read),
        size(m.written),
        "" if changed is None else f"{changed:,}",
        m.facts.get("action", ""),
    ]


def _label(name: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.1%}" if name == "rate" else f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def size(count: float) -> str:
    """Bytes for people.

    >>> size(0), size(2_500), size(3_400_000)
    ('0', '2.5 kB', '3.4 MB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f}" + (" B" if count else "")
