"""What a refresh would cost, from what the logs tell: bytes and rows to read, jobs to start. No Spark, no data.

The model is coarse on purpose. It has to tell a scan from a look-up and one job from five; the table's own history
(`history.py`) corrects it for the machine and the query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from runnel.algebra import STORED, Face
from runnel.differentiate import ChangePlan, InputFace
from runnel.observe.record import Action

# Coarse figures of the right order for two cores, not fitted to measurements; the history corrects them.
START_MS = 200.0
"""Probe, analysis, commit: what the smallest refresh takes beside its jobs."""
JOB_MS = 100.0
"""Starting one more job, such as a step that several others read."""
STEP_MS = 15.0
"""Planning and starting one join, grouping or window."""
MB_MS = 5.0
"""Reading and decoding a megabyte of Parquet."""
CHANGED_ROW_MS = 0.002
"""Carrying one changed row through the plan."""
SHUFFLED_ROW_MS = 0.0005
"""Sending one row of a table through a window, or through a join that is not a broadcast."""
GROUPED_ROW_MS = 0.001
"""Grouping one row by all its columns, as the difference to what is stored does."""
WRITTEN_ROW_MS = 0.0005

FEW_ROWS = 100_000
"""Tables are taken for at least this large when a change is compared with them. Below it starting a job costs more than
all its rows, so that a ratio says nothing about the cost."""

DIFFERENCE = "difference to what is stored"
FOLD = "fold the rows that it appends, in their turn"
_STEPS = re.compile(r"\b(JOIN|GROUP BY|DISTINCT|OVER \()")
_MB = 1 << 20


@dataclass(frozen=True)
class Size:
    """Bytes of a table's files, and its rows where the file statistics count them."""

    bytes: int
    rows: int | None = None

    def part(self, share: float) -> Size:
        return Size(int(self.bytes * share), None if self.rows is None else int(self.rows * share))


@dataclass(frozen=True)
class Term:
    """One addend of an estimate."""

    what: str
    ms: float
    bytes: int = 0
    rows: int | None = None


@dataclass(frozen=True)
class Estimate:
    """The modelled cost of one way to refresh, as the sum of its terms."""

    action: Action
    terms: tuple[Term, ...]

    @property
    def ms(self) -> float:
        return sum(t.ms for t in self.terms)

    def of(self, what: str) -> float:
        """The part of one term."""
        return sum(t.ms for t in self.terms if t.what == what)

    @property
    def bytes(self) -> int:
        return sum(t.bytes for t in self.terms)

    @property
    def rows(self) -> int | None:
        """Rows to read; None as soon as one table does not count its rows."""
        counts = [t.rows for t in self.terms if t.bytes]
        return None if any(c is None for c in counts) else sum(c or 0 for c in counts)

    def __str__(self) -> str:
        return f"{self.action} about {self.ms:.0f} ms"


@dataclass(frozen=True)
class Weighed:
    """Both ways for one refresh, and how much of the changed sources changed. `differential` is None when there is no such way."""

    full: Estimate
    differential: Estimate | None = None
    changed_rows: int | None = None
    source_rows: int | None = None
    change_only: bool = False
    """The differential plan reads changes and nothing else, so its cost follows the change whatever its share of the table."""

    @property
    def ratio(self) -> float | None:
        """Changed rows by rows of the changed sources; an update is two changed rows."""
        if self.changed_rows is None or self.source_rows is None:
            return None
        return self.changed_rows / max(self.source_rows, FEW_ROWS)

    def of(self, action: Action) -> Estimate | None:
        """The estimate for an action, as far as it computes anything."""
        if action is Action.DIFFERENTIAL:
            return self.differential
        return self.full if action in (Action.FULL, Action.REINITIALIZE) else None


@dataclass(frozen=True)
class Pruned:
    """What a refresh knows about its plan beyond the sizes of tables: of inputs by name the share of a table's bytes in files that can hold
    rows that matter, the sets of inputs that one pass serves together, and of inputs by name the share of rows with values of a change."""

    shares: Mapping[str, float] = field(default_factory=dict)
    together: tuple[frozenset[str], ...] = ()
    touched: Mapping[str, float] = field(default_factory=dict)

    def passes(self, plan: ChangePlan) -> Iterator[tuple[InputFace, float, int]]:
        """The inputs that are read, with the share of the table that a pass reads and the number of passes."""
        first = {name: min(group) for group in self.together for name in group}
        for face in plan.inputs:
            if first.get(face.name, face.name) == face.name:
                yield face, self.shares.get(face.name, 1.0), 1 if face.name in first else max(1, face.uses)


def differential(
    plan: ChangePlan,
    tables: Mapping[str, Size],
    changed: Mapping[str, int | None],
    stored: Size,
    pruned: Pruned | None = None,
    fold_at: int | None = None,
) -> Estimate:
    """The cost of applying the sources' changes: faces at the size of their tables as often as they are read, changes at their own, and the rows
    of the result that they move. `fold_at` are the rows of a tail that is folded into the base, which each appended row brings nearer."""
    text = "\n".join(p.sql for p in plan.parts) or plan.sql
    sizes = {**tables, STORED: stored}
    shuffled = not plan.facts.small and "JOIN" in text
    pruned = pruned or Pruned()
    terms = [Term("start and commit", START_MS), _work((len(plan.parts) or 1) + len(pruned.together), text)]
    for face, share, times in pruned.passes(plan):
        if face.source not in sizes:
            continue  # a clock: one row
        if face.face is Face.CHANGE:
            terms.append(_change(face.source, sizes[face.source], changed.get(face.source)))
        else:
            terms.append(_scan(face.source, str(face.face), sizes[face.source].part(share), shuffled, times))
    moved = _moved(plan, tables, stored, pruned.touched)
    if moved:
        terms.append(Term(f"move {moved} rows of the result", moved * CHANGED_ROW_MS))
    appended = moved + min(sum(r or 0 for r in changed.values()), 2 * (stored.rows or 0))
    if fold_at is not None and appended:
        terms.append(_fold(appended, fold_at, stored))
    return Estimate(Action.DIFFERENTIAL, tuple(terms))


def _moved(plan: ChangePlan, tables: Mapping[str, Size], stored: Size, touched: Mapping[str, float]) -> int:
    """Rows of the result that go or come because a change touches their keys: about as many as it touches of a table, or as the same share of
    what is stored if that is less. Each that moves goes and comes; of those touched about half move."""
    shares = [(touched[i.name], tables[i.source].rows or 0) for i in plan.inputs if i.name in touched and i.source in tables]
    return int(max((share * min(rows, stored.rows or 0) for share, rows in shares), default=0))


def _fold(appended: int, fold_at: int, stored: Size) -> Term:
    """What compaction will cost for the sake of these rows: the whole when they fill the tail by themselves."""
    whole = stored.bytes / _MB * MB_MS + ((stored.rows or 0) + appended) * WRITTEN_ROW_MS
    return Term(FOLD, whole * min(1.0, appended / max(1, fold_at)))


def full(sql: str, tables: Mapping[str, Size], stored: Size, first: bool = False, uses: Mapping[str, int] | None = None) -> Estimate:
    """The cost of running the query from scratch and, but for the first load, subtracting what is stored. `uses` says how often it reads a
    table, where that is known."""
    terms = [Term("start and commit", START_MS), _work(1, sql)]
    shuffled = "JOIN" in sql or "OVER (" in sql
    terms += [_scan(key, "after", size, shuffled, (uses or {}).get(key, 1)) for key, size in tables.items()]
    rows = stored.rows or 0
    if not first:
        terms.append(_scan("stored", "content", stored, False, 1))
        terms.append(Term(DIFFERENCE, 2 * rows * GROUPED_ROW_MS))
    terms.append(Term("rows written", rows * WRITTEN_ROW_MS if first else 0.0))
    return Estimate(Action.FULL, tuple(t for t in terms if t.ms))


def _work(parts: int, sql: str) -> Term:
    steps = len(_STEPS.findall(sql))
    return Term(f"{parts} job{'s' if parts > 1 else ''} with {steps} joins, groupings and windows", parts * JOB_MS + steps * STEP_MS)


def _scan(key: str, face: str, size: Size, shuffled: bool, times: int) -> Term:
    ms = size.bytes / _MB * MB_MS + (size.rows or 0) * (SHUFFLED_ROW_MS if shuffled else 0)
    often = f", {times} times" if times > 1 else ""
    return Term(f"read {_short(key)} ({face}{often})", ms * times, size.bytes * times, None if size.rows is None else size.rows * times)


def _change(key: str, size: Size, rows: int | None) -> Term:
    """A change at its share of the table's bytes; one of unknown size is taken for the whole table."""
    if rows is None:
        return Term(f"read {_short(key)} (change of unknown size)", size.bytes / _MB * MB_MS + (size.rows or 0) * CHANGED_ROW_MS, size.bytes)
    per_row = size.bytes / size.rows if size.rows else 100.0
    read = int(rows * per_row)
    return Term(f"read {_short(key)} (change)", read / _MB * MB_MS + rows * CHANGED_ROW_MS, read, rows)


def _short(key: str) -> str:
    return key.removeprefix("spark_catalog.").removeprefix("default.")
