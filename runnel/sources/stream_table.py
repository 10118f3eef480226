"""Another stream table as a source: its backing table is a log of weighted rows, so its change needs no feed.

rows:   change = the rows appended between the two versions, finished with their weights
groups: change = the finished rows of the touched groups, after minus before; the sums before come from the log, and with those
        that were appended they are the sums after, so the log is read once
where finishing does not work row by row (LIMIT): change = the finished content, after minus before

Compaction commits do not alter the sum and are passed over. A commit that replaced all that was there changed the table by its finished
content after minus before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from runnel.algebra import WEIGHT
from runnel.differentiate.layout import CONTENT, Layout
from runnel.sources import here
from runnel.sources.bounds import Bound
from runnel.sources.delta_log import Commit, DeltaLog
from runnel.sources.facts import Kind, SourceFacts
from runnel.sources.held import ROWS, Held, Part, hold, holdable
from runnel.sources.here import Rows
from runnel.sources.reader import Given, Reader


class StreamTableSource:
    """See `Source`. `finish(layout, relation, note)` is the SQL of the content, by the note in force; given by the caller, since it belongs to `tables`."""

    def __init__(self, key: str, log: DeltaLog, layout: Layout, finish: Callable[[Layout, str, dict[str, Any]], str], past: bool = False) -> None:
        self.key = key
        self.log = log
        self.layout = layout
        self.finish = finish
        self.past = past
        """It was stored otherwise then: its definition changed since."""

    def as_of(self, version: int) -> StreamTableSource:
        """The same table as it was laid out at a version."""
        layout = layout_at(self.log, version, self.layout)
        return self if layout is self.layout else StreamTableSource(self.key, self.log, layout, self.finish, past=True)

    def probe(self, before: int | None, table_id: str | None, columns: dict[str, str], upto: int | None = None) -> SourceFacts:
        latest, identity = self.log.version(), self.log.table_id()
        after = latest if upto is None else min(upto, latest)
        if before is None:
            return SourceFacts(self.key, Kind.MIXED, None, after, identity, rows=None, reason="first load")
        if identity != table_id or latest < before:
            return SourceFacts(self.key, Kind.REPLACED, before, after, identity, reason="it was created anew")
        if after <= before:
            return SourceFacts(self.key, Kind.UNCHANGED, before, before, identity)
        try:
            appended = self._appended(before, after)
        except FileNotFoundError:
            return SourceFacts(self.key, Kind.LOST, before, after, identity, reason=f"commits after version {before} were cleaned from its log")
        if any(c.runnel and c.runnel.get("kind") in ANEW for c in self.log.commits(before, after)):
            return self._anew(before, after, identity)
        if not appended:
            return SourceFacts(self.key, Kind.NEUTRAL, before, after, identity)
        for commit in appended:
            for add in commit.adds:
                if not self.log.has_file(add["path"]):
                    return SourceFacts(self.key, Kind.LOST, before, after, identity, reason=f"file {add['path']} was vacuumed")
        notes = [c.runnel or {} for c in appended]
        layout = self.as_of(after).layout
        grows = layout.kind == "rows" and bool(layout.finish_change) and not any(n.get("negatives", True) for n in notes)
        counts = [n.get("rows_out") for n in notes]
        rows = None if any(c is None for c in counts) else sum(c for c in counts if c is not None)
        return SourceFacts(self.key, Kind.INSERT_ONLY if grows else Kind.MIXED, before, after, identity, rows=rows, via="log")

    def _anew(self, before: int, after: int, identity: str) -> SourceFacts:
        """It was computed anew, or its query changed: where its columns stayed, the change is the difference of the contents."""
        was, now = ([(c.name.lower(), c.type) for c in self.as_of(v).layout.output] for v in (before, after))
        if was == now:
            gone = self.gone(before)
            if gone is not None:
                return SourceFacts(self.key, Kind.LOST, before, after, identity, reason=f"file {gone} was vacuumed")
            return SourceFacts(self.key, Kind.MIXED, before, after, identity, rows=None, via=CONTENTS)
        moved = sorted({name for name, _ in {*was} ^ {*now}}) or [name for name, _ in now]
        return SourceFacts(self.key, Kind.SCHEMA, before, after, identity, reason=f"its new query changed its columns: {', '.join(moved)}")

    def reflects(self, version: int) -> Mapping[str, int]:
        return reflected(self._note_at(version))

    def size(self) -> int:
        return self.log.size()

    def rows(self, version: int | None = None) -> int | None:
        """The rows of its log, base and tail: a little more than its content."""
        return self.log.rows(version)

    def at(self, reader: Reader, version: int, bounds: Sequence[Bound] = ()) -> DataFrame:
        now = self.as_of(version)
        types = {c.name.lower(): c.type for c in now.layout.output}
        rows = now._over(reader, reader.table(self.log.path, version), self._note_at(version))
        return reduce(DataFrame.where, (b.predicate() for b in bounds if b.fits(types.get(b.column.lower(), ""))), rows)

    def here(self, reader: Reader, version: int, bounds: Sequence[Bound], columns: Collection[str], folder: str, few: bool = False) -> Given | None:
        if self.as_of(version) is not self:
            return None
        types = {c.name.lower(): c.type for c in self.layout.stored}
        copies = self.layout.copies if self.layout.finish_change else {}
        known = [replace(b, column=copies[b.column.lower()]) for b in bounds if b.column.lower() in copies]
        names = self._stored_names(columns)
        chosen = names.values() if self.layout.renames else types
        rows = here.of_content(self.log, version, self.layout, frozenset(chosen), [b for b in known if b.fits(types[b.column.lower()])], few)
        if rows is None or rows.count > ROWS:
            return None
        if self.layout.renames:
            return reader.giving(rows.under(names), folder)
        with reader.lock:
            given = reader.giving(rows, folder)
            view = reader.register(given.frame)
            finished = reader.session.sql(f"WITH {CONTENT} AS (SELECT * FROM {view}) SELECT * FROM ({self.layout.finish}) AS finished")
        return replace(given, frame=finished)

    def _stored_names(self, columns: Collection[str]) -> dict[str, str]:
        """Of columns that users see and that are stored as they are, the stored ones."""
        wanted = {c.lower() for c in columns}
        return {o.name: self.layout.copies[o.name.lower()] for o in self.layout.output if o.name.lower() in wanted & self.layout.copies.keys()}

    def near(self, version: int, bounds: Sequence[Bound]) -> float:
        return 1.0

    def share(self, version: int, bound: Bound, look: bool = False) -> float | None:
        return None

    def gone(self, version: int) -> str | None:
        return self.log.gone(version)

    def held(self, facts: SourceFacts, columns: Collection[str]) -> Held | None:
        """The appended rows, where finishing only gives them other names."""
        if facts.via == CONTENTS or self.as_of(facts.after) is not self:
            return None
        layout = self.layout
        if layout.kind != "rows" or not layout.renames or facts.before is None or self.log.local is None or (facts.rows or ROWS + 1) > ROWS:
            return None
        names = self._stored_names(columns)
        stored = {f.name.lower(): f for f in self._schema().fields}
        schema = StructType([stored[n] for n in dict.fromkeys(names.values())])
        if not holdable(schema):
            return None
        found = hold((Part(p, None) for p in self._appended_paths(facts.before, facts.after)), schema)
        return found and found.under(names)

    def few(self, facts: SourceFacts) -> bool:
        if facts.via == CONTENTS:
            return False
        compared = facts.rows if self.layout.finish_change else self.log.rows()
        return facts.before is not None and compared is not None and compared <= ROWS

    def change(self, reader: Reader, facts: SourceFacts) -> DataFrame:
        assert facts.before is not None
        now = self.as_of(facts.after)
        if facts.via == CONTENTS or not now.layout.finish_change:
            after, before = self.at(reader, facts.after), self.at(reader, facts.before)
            return _signed(after, 1).unionByName(_signed(before, -1))
        found = now._change_here(facts) if reader.here and self.few(facts) else None
        if found is not None:
            return now._finished(reader, reader.rows(found.table, found.schema))
        rows = now.log_rows(reader, facts.before, facts.after)
        return now._finished(reader, rows if now.layout.kind == "rows" else now._groups(reader, facts, rows))

    def _change_here(self, facts: SourceFacts) -> Rows | None:
        """The weighted rows of a small change before they are finished, read by this process."""
        assert facts.before is not None
        if self.past or self.log.local is None or (facts.rows or here.IN_PLAN + 1) > here.IN_PLAN:
            return None
        return here.of_change(self.log, facts.before, self._appended_paths(facts.before, facts.after), self.layout)

    def log_rows(self, reader: Reader, before: int, after: int) -> DataFrame:
        """The stored rows appended by refreshes after one version, up to another."""
        schema = self._schema(after if self.past else None)
        paths = self._appended_paths(before, after)
        if not paths:
            return reader.rows([], schema)
        return reader.session.read.schema(schema).parquet(*paths)

    def _schema(self, version: int | None = None) -> StructType:
        table = self.log.table() if version is None else DeltaTable(self.log.path, version=version)
        return StructType.fromJson(json.loads(table.schema().to_json()))

    def _appended_paths(self, before: int, after: int) -> list[str]:
        return [self.log.full_path(a["path"]) for c in self._appended(before, after) for a in c.adds]

    def _appended(self, before: int, after: int) -> list[Commit]:
        return [c for c in self.log.commits(before, after) if c.adds and (c.runnel or {}).get("kind") == REFRESH]

    def _groups(self, reader: Reader, facts: SourceFacts, appended: DataFrame) -> DataFrame:
        """The touched groups as they are now with weight 1, and as they were with weight -1, each where it has rows."""
        assert facts.before is not None
        keys, numbers = list(self.layout.keys), [*self.layout.partials, WEIGHT]
        stored = reader.table(self.log.path, facts.before).select(*map(_column, (*keys, *numbers)))
        if keys:
            touched = appended.select(*map(_column, keys)).distinct().alias("t")
            same = reduce(and_, (F.col(f"s.`{k}`").eqNullSafe(F.col(f"t.`{k}`")) for k in keys))
            stored = stored.alias("s").join(F.broadcast(touched) if self.few(facts) else touched, same, "left_semi")
        both = stored.withColumn(STORED, F.lit(True)).unionByName(appended.select(*map(_column, (*keys, *numbers))).withColumn(STORED, F.lit(False)))
        types = {c.name: c.type for c in self.layout.stored} | {WEIGHT: "bigint"}
        was = [_sum(F.when(F.col(STORED), _column(n)), types[n]).alias(n) for n in numbers]
        now = [_sum(_column(n), types[n]).alias(n) for n in numbers]
        grouped = both.groupBy(*map(_column, keys)).agg(F.struct(*was).alias("was"), F.struct(*now).alias("now"))
        faces = F.array(F.struct(F.lit(-1).alias("sign"), F.col("was").alias("face")), F.struct(F.lit(1).alias("sign"), F.col("now").alias("face")))
        rows = grouped.select(*map(_column, keys), F.inline(faces))
        if keys:
            rows = rows.where(F.col(f"face.`{WEIGHT}`") > 0)
        partials = [F.col(f"face.`{n}`").alias(n) for n in self.layout.partials]
        return rows.select(*map(_column, keys), *partials, F.col("sign").cast("bigint").alias(WEIGHT))

    def _finished(self, reader: Reader, weighted: DataFrame) -> DataFrame:
        """Weighted rows of the content as users see them, weights kept."""
        with reader.lock:
            view = reader.register(weighted)
            return reader.session.sql(f"WITH {CONTENT} AS (SELECT * FROM {view}) SELECT * FROM ({self.layout.finish_change}) AS finished")

    def _over(self, reader: Reader, log: DataFrame, note: dict[str, Any]) -> DataFrame:
        """The finished content of a log, given what is known of it."""
        with reader.lock:
            return reader.session.sql(self.finish(self.layout, reader.register(log), note))

    def _note_at(self, version: int) -> dict[str, Any]:
        """The note in force at a version, nothing where the log was cleaned."""
        for at in range(version, -1, -1):
            try:
                note = self.log.commit(at).runnel
            except FileNotFoundError:
                break
            if note:
                return note
        return {}


def layout_at(log: DeltaLog, version: int, now: Layout) -> Layout:
    """How a stream table was stored at a version: as before the first change of its definition that came after it, or as now."""
    for later in range(version + 1, log.version() + 1):
        try:
            note = log.commit(later).runnel
        except FileNotFoundError:
            continue
        if note and note.get("swap") and note["kind"] == SWAP:
            return Layout.from_dict(note["swap"]["layout"])
    return now


def reflected(note: Mapping[str, Any]) -> dict[str, int]:
    """The plain sources that a note says its content reflects; nothing in notes of versions of Runnel that did not say."""
    return {key: int(version) for key, version in (note.get("extra") or {}).get(REFLECTS, {}).items()}


REFLECTS = "reflects"
REFRESH = "refresh"
"""A commit that appends a change."""
SWAP = "swap"
"""One that puts the content of a new query, stored in a new way, in place of all that was there."""
REPLACE = "replace"
"""One that puts the content of the same query, stored the same way, in place of all that was there."""
ANEW = (SWAP, REPLACE)
"""Commits whose change is the difference of the contents."""
REFRESHES = (REFRESH, *ANEW)
"""What moves a stream table: every commit of ours but compaction."""
CONTENTS = "contents"
"""How such a change is read."""
STORED = "__runnel_stored"


def _column(name: str) -> Column:
    return F.col(f"`{name}`")


def _sum(values: Column, type_: str) -> Column:
    return F.coalesce(F.sum(values), F.lit(0)).cast(type_)


def _signed(rows: DataFrame, weight: int) -> DataFrame:
    return rows.withColumn(WEIGHT, F.lit(weight).cast("bigint"))
