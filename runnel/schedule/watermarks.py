"""Watermarks: how far each source is loaded, in the time of its data, as those who load it say. Groups keep sources together.

While the sources of a group are further apart than its tolerance, stream tables that read two or more of them wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from runnel.schedule.duration import show_duration
from runnel.schedule.graph import Graph


@dataclass(frozen=True)
class WatermarkGroup:
    """Sources that should be loaded up to about the same moment. `tolerance` is in seconds."""

    name: str
    sources: tuple[str, ...]
    tolerance: float = 0.0

    def apart(self, marks: Mapping[str, datetime]) -> str:
        """Why its readers wait, or nothing.

        >>> one, other = datetime(2026, 1, 1, 12), datetime(2026, 1, 1, 11)
        >>> WatermarkGroup("load", ("a", "b"), 60.0).apart({"a": one, "b": other})
        'watermark group load is apart: b is 1h behind a'
        >>> WatermarkGroup("load", ("a", "b"), 3600.0).apart({"a": one, "b": other})
        ''
        """
        unknown = [s for s in self.sources if s not in marks]
        if unknown:
            return f"watermark group {self.name} has no watermark of {', '.join(unknown)}" if len(unknown) < len(self.sources) else ""
        last, first = max(self.sources, key=marks.__getitem__), min(self.sources, key=marks.__getitem__)
        gap = (marks[last] - marks[first]).total_seconds()
        return f"watermark group {self.name} is apart: {first} is {show_duration(gap)} behind {last}" if gap > self.tolerance else ""


def held_back(graph: Graph, groups: Iterable[WatermarkGroup], marks: Mapping[str, datetime]) -> dict[str, str]:
    """The stream tables that wait for a group, each with the reason."""
    found: dict[str, str] = {}
    for group in groups:
        if why := group.apart(marks):
            below = [graph.downstream(source) for source in group.sources]
            for index, one in enumerate(below):
                for other in below[:index]:
                    found.update(dict.fromkeys(one & other, why))
    return found
