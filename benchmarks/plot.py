"""Charts as SVG text, drawn by hand: grouped columns, rows of bars, lines; several of them make one figure with one legend.

A chart draws itself into a box of its own, from (0, 0) to (width, height). Colours belong to names, so that a way looks the same in
every figure. The background is white, on dark pages too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

Series = dict[str, list[float | None]]
"""For each name one value per group; None where nothing was measured."""

COLOURS = {
    "differential": "#0072b2",
    "auto": "#56b4e9",
    "full": "#e69f00",
    "merge": "#cc79a7",
    "overwrite": "#d55e00",
    "create": "#8c5a2b",
    "floor": "#009e73",
    "nothing": "#999999",
}
OTHERS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c5a2b", "#999999", "#5b4b9a", "#3f7f3f")
INK, SOFT, GRID = "#1f2328", "#57606a", "#e4e7eb"
LEFT, RIGHT, TOP, BOTTOM = 64, 18, 30, 60
"""Room around the plotted area of a chart, in pixels."""


class Chart(Protocol):
    """Something that draws itself; `names` are what the legend explains."""

    @property
    def names(self) -> list[str]: ...
    @property
    def height(self) -> int: ...
    def draw(self, width: int, colours: dict[str, str]) -> list[str]: ...


def figure(title: str, note: str, charts: Sequence[Chart], columns: int = 1, width: int = 560) -> str:
    """A page of charts in rows of `columns`, each `width` wide, under one title and one legend."""
    names = list(dict.fromkeys(name for chart in charts for name in chart.names))
    colours = _colours(names)
    legend, below = _legend(names, colours, columns * width)
    body, top = [], 58 + below
    for start in range(0, len(charts), columns):
        line = charts[start : start + columns]
        for index, chart in enumerate(line):
            body += [f'<g transform="translate({index * width}, {top})">', *chart.draw(width, colours), "</g>"]
        top += max(chart.height for chart in line) + 12
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {columns * width} {top}" width="{columns * width}" height="{top}" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="100%" height="100%" fill="#ffffff"/><title>{escape(title)}</title>',
        _text(16, 26, title, size=17, weight=600),
        _text(16, 45, note, fill=SOFT),
    ]
    return "\n".join([*head, *legend, *body, "</svg>"]) + "\n"


@dataclass(frozen=True)
class Columns:
    """Groups of upright bars over a logarithmic axis: the ways of each query, side by side."""

    title: str
    unit: str
    groups: list[str]
    series: Series

    height = 300

    @property
    def names(self) -> list[str]:
        return list(self.series)

    def draw(self, width: int, colours: dict[str, str]) -> list[str]:
        axis = _Log.over(v for values in self.series.values() for v in values if v)
        bottom, room = self.height - BOTTOM, (width - LEFT - RIGHT) / max(1, len(self.groups))
        bar = min(32.0, room * 0.86 / max(1, len(self.series)))
        slanted = any(6.6 * len(group) > room for group in self.groups)
        drawn = [_text(LEFT, 16, self.title, weight=600), *axis.upright(width, self.height, self.unit)]
        for index, group in enumerate(self.groups):
            middle = LEFT + room * (index + 0.5)
            drawn.append(_below(middle, bottom, group, slanted))
            at = middle - bar * len(self.series) / 2
            for place, (name, values) in enumerate(self.series.items()):
                value = values[index]
                if not value:
                    continue
                top = bottom - axis.part(value) * (bottom - TOP)
                told = f"{group}, {name}: {_number(value)} {self.unit}"
                drawn.append(_bar(at + place * bar, top, bar - 1, bottom - top, colours[name], told))
                if bar >= 28:
                    drawn.append(_text(at + (place + 0.5) * bar, top - 3, _short(value), size=9, anchor="middle", fill=SOFT))
        return drawn


@dataclass(frozen=True)
class Rows:
    """Bars from left to right, one line per group; several series are stacked. `mark` is a line to compare with."""

    title: str
    unit: str
    groups: list[str]
    series: Series
    mark: float | None = None
    label: int = 150
    """Pixels for the groups' names."""

    @property
    def names(self) -> list[str]:
        return list(self.series) if len(self.series) > 1 else []

    @property
    def height(self) -> int:
        return TOP + 18 * len(self.groups) + 46

    def draw(self, width: int, colours: dict[str, str]) -> list[str]:
        totals = [sum(values[i] or 0 for values in self.series.values()) for i in range(len(self.groups))]
        axis = _Linear.upto(max([*totals, self.mark or 0], default=1))
        span, bottom = width - self.label - RIGHT - 44, TOP + 18 * len(self.groups)
        drawn = [_text(16, 16, self.title, weight=600), *axis.lying(self.label, span, bottom, self.unit)]
        for index, group in enumerate(self.groups):
            at, y = float(self.label), TOP + 18 * index
            drawn.append(_text(self.label - 8, y + 12, group, size=11, anchor="end"))
            for name, values in self.series.items():
                long = axis.part(values[index] or 0) * span
                told = f"{group}, {name}: {_number(values[index] or 0)} {self.unit}"
                drawn.append(_bar(at, y + 2, long, 13, colours.get(name, self._shade(totals[index])), told))
                at += long
            drawn.append(_text(at + 5, y + 12, _number(totals[index]), size=10, fill=SOFT))
        if self.mark is not None:
            x = self.label + axis.part(self.mark) * span
            drawn.append(f'<path d="M{x:.1f} {TOP - 4}V{bottom}" stroke="{INK}" stroke-dasharray="4 3"/>')
        return drawn

    def _shade(self, value: float) -> str:
        """A single series needs no legend; what lies beyond the mark stands out."""
        return COLOURS["overwrite"] if self.mark is not None and value > self.mark else COLOURS["differential"]


@dataclass(frozen=True)
class Lines:
    """Points joined by lines, both axes logarithmic: how something grows."""

    title: str
    across: str
    unit: str
    series: dict[str, list[tuple[float, float]]]

    height = 320

    @property
    def names(self) -> list[str]:
        return list(self.series)

    def draw(self, width: int, colours: dict[str, str]) -> list[str]:
        points = [p for line in self.series.values() for p in line]
        sideways, upwards = _Log.over((x for x, _ in points), whole=False), _Log.over(y for _, y in points)
        bottom, span = self.height - BOTTOM, width - LEFT - RIGHT - 10
        drawn = [_text(LEFT, 16, self.title, weight=600), *upwards.upright(width, self.height, self.unit)]
        for x in sorted({x for x, _ in points}):
            drawn.append(_text(LEFT + 10 + sideways.part(x) * (span - 10), bottom + 17, _short(x), size=11, anchor="middle", fill=SOFT))
        drawn.append(_text(LEFT + span / 2, bottom + 38, self.across, anchor="middle", fill=SOFT))
        for name, line in self.series.items():
            places = [(LEFT + 10 + sideways.part(x) * (span - 10), bottom - upwards.part(y) * (bottom - TOP), x, y) for x, y in line]
            path = " L".join(f"{px:.1f} {py:.1f}" for px, py, *_ in places)
            drawn.append(f'<path d="M{path}" fill="none" stroke="{colours[name]}" stroke-width="2"/>')
            for px, py, x, y in places:
                told = escape(f"{name}, {_number(x)}: {_number(y)} {self.unit}")
                drawn.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{colours[name]}"><title>{told}</title></circle>')
        return drawn


@dataclass(frozen=True)
class _Log:
    """A logarithmic axis from `low` to `high`, in powers of ten."""

    low: float
    high: float

    @classmethod
    def over(cls, values: object, whole: bool = True) -> _Log:
        found = [math.log10(v) for v in values if v > 0]  # type: ignore[attr-defined]
        low, high = (min(found), max(found)) if found else (0.0, 1.0)
        if whole:
            low, high = math.floor(low * 0.9999), math.ceil(high)
        return cls(low, high if high > low else low + 1)

    def part(self, value: float) -> float:
        return (math.log10(value) - self.low) / (self.high - self.low) if value > 0 else 0.0

    def upright(self, width: int, height: int, unit: str) -> list[str]:
        """The axis at the left, its grid lines and its unit; 2 and 5 are marked when there are few powers of ten."""
        bottom = height - BOTTOM
        steps = (1, 2, 5) if self.high - self.low <= 3 else (1,)
        ticks = [s * 10**p for p in range(math.floor(self.low), math.ceil(self.high) + 1) for s in steps]
        drawn = []
        for tick in (t for t in ticks if -1e-9 <= self.part(t) <= 1 + 1e-9):
            y = bottom - self.part(tick) * (bottom - TOP)
            drawn += [_line(LEFT, y, width - RIGHT, y), _text(LEFT - 6, y + 4, _short(tick), size=11, anchor="end", fill=SOFT)]
        middle = (TOP + bottom) / 2
        return [*drawn, f'<text transform="translate(14, {middle:.0f}) rotate(-90)" text-anchor="middle" fill="{SOFT}">{escape(unit)}</text>']


@dataclass(frozen=True)
class _Linear:
    """An axis from 0 to `high`, a round number of steps."""

    high: float
    step: float

    @classmethod
    def upto(cls, value: float) -> _Linear:
        raw = max(value, 1e-9) / 4
        power = 10 ** math.floor(math.log10(raw))
        step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw)
        return cls(step * math.ceil(max(value, 1e-9) / step), step)

    def part(self, value: float) -> float:
        return value / self.high

    def lying(self, left: float, span: float, bottom: float, unit: str) -> list[str]:
        """The axis below, its grid lines and its unit."""
        drawn = []
        for index in range(round(self.high / self.step) + 1):
            x = left + self.part(index * self.step) * span
            drawn += [_line(x, TOP - 4, x, bottom), _text(x, bottom + 15, _short(index * self.step), size=11, anchor="middle", fill=SOFT)]
        return [*drawn, _text(left + span / 2, bottom + 33, unit, anchor="middle", fill=SOFT)]


def _colours(names: list[str]) -> dict[str, str]:
    spare = iter(c for c in OTHERS * 3 if c not in {COLOURS[n] for n in names if n in COLOURS})
    return {name: COLOURS.get(name) or next(spare) for name in names}


def _legend(names: list[str], colours: dict[str, str], width: int) -> tuple[list[str], int]:
    """Squares with names, in as many lines as they need; and the height they take."""
    drawn, x, y = [], 16.0, 60
    for name in names:
        long = 26 + 7.0 * len(name)
        if x + long > width - 16:
            x, y = 16.0, y + 20
        drawn += [f'<rect x="{x:.0f}" y="{y}" width="11" height="11" fill="{colours[name]}"/>', _text(x + 16, y + 10, name)]
        x += long
    return drawn, (y - 60 + 24) if names else 0


def _bar(x: float, y: float, width: float, height: float, fill: str, told: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.5, width):.1f}" height="{max(0.5, height):.1f}" fill="{fill}"><title>{escape(told)}</title></rect>'


def _below(x: float, bottom: float, text: str, slanted: bool) -> str:
    """A group's name under its bars; all are slanted when one would touch the next."""
    if not slanted:
        return _text(x, bottom + 17, text, size=11, anchor="middle")
    return (
        f'<text transform="translate({x + 4:.1f}, {bottom + 13:.0f}) rotate(-32)" text-anchor="end" font-size="11" fill="{INK}">{escape(text)}</text>'
    )


def _text(x: float, y: float, text: str, *, size: int = 12, weight: int = 400, anchor: str = "start", fill: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{GRID}"/>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _short(value: float) -> str:
    """A number for an axis.

    >>> [_short(v) for v in (0.5, 100, 20_000, 1_500_000)]
    ['0.5', '100', '20 k', '1.5 M']
    """
    for size, name in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if value >= size:
            return f"{value / (1e3 if name == ' k' else size):g}{name}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
