"""Another stream table as a source: its backing table is a log of weighted rows, so its change needs no feed.

rows:   change = the rows appended between the two versions
groups: change = the finished rows of the touched groups, after minus before

Compaction commits do not alter the sum and are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from runnel.algebra import WEIGHT
from runnel.sources.delta_log import Commit, DeltaLog
from runnel.sources.facts import Kind, SourceFacts
from runnel.sources.reader import Reader


class StreamTableSource:
    """See `Source`. `finish(relation, tail, negatives)` is the SQL of the content; given by the caller, since it belongs to `tables`."""

    def __init__(self, key: str, log: DeltaLog, layout: Any, finish: Callable[[str, bool, bool], str]) -> None:
        self.key = key
        self.log = log
        self.layout = layout
        self.finish = finish

    def probe(self, before: int | None, table_id: str | None, columns: dict[str, str]) -> SourceFacts:
        after, identity = self.log.version(), self.log.table_id()
        if before is None:
            return SourceFacts(self.key, Kind.MIXED, None, after, identity, rows=None, reason="first load")
        if identity != table_id or after < before:
            return SourceFacts(self.key, Kind.REPLACED, before, after, identity, reason="it was created anew")
        if after == before:
            return SourceFacts(self.key, Kind.UNCHANGED, before, after, identity)
        try:
            appended = self._appended(before, after)
        except FileNotFoundError:
            return SourceFacts(self.key, Kind.LOST, before, after, identity, reason=f"commits after version {before} were cleaned from its log")
        if not appended:
            return SourceFacts(self.key, Kind.NEUTRAL, before, after, identity)
        for commit in appended:
            for add in commit.adds:
                if not self.log.has_file(add["path"]):
                    return SourceFacts(self.key, Kind.LOST, before, after, identity, reason=f"file {add['path']} was vacuumed")
        notes = [c.runnel or {} for c in appended]
        grows = self.layout.kind == "rows" and not any(n.get("negatives", True) for n in notes)
        counts = [n.get("rows_out") for n in notes]
        rows = None if any(c is None for c in counts) else sum(c for c in counts if c is not None)
        return SourceFacts(self.key, Kind.INSERT_ONLY if grows else Kind.MIXED, before, after, identity, rows=rows, via="log")

    def size(self) -> int:
        return self.log.size()

    def rows(self) -> int | None:
        """The rows of its log, base and tail: a little more than its content."""
        return self.log.rows()

    def at(self, reader: Reader, version: int) -> DataFrame:
        tail, negatives = self._tail_at(version)
        return self._over(reader, reader.table(self.log.path, version), tail, negatives)

    def change(self, reader: Reader, facts: SourceFacts) -> DataFrame:
        assert facts.before is not None
        rows = self.log_rows(reader, facts.before, facts.after)
        if self.layout.kind == "rows":
            return self._over_stored(reader, rows)
        keys = [F.col(f"`{k}`") for k in self.layout.keys]
        touched = rows.select(*keys).distinct() if keys else None
        now = self._restricted(reader, facts.after, touched).withColumn(WEIGHT, F.lit(1).cast("bigint"))
        was = self._restricted(reader, facts.before, touched).withColumn(WEIGHT, F.lit(-1).cast("bigint"))
        return now.unionByName(was)

    def log_rows(self, reader: Reader, before: int, after: int) -> DataFrame:
        """The stored rows appended by refreshes after one version, up to another."""
        schema = StructType.fromJson(json.loads(self.log.table().schema().to_json()))
        paths = [self.log.full_path(a["path"]) for c in self._appended(before, after) for a in c.adds]
        if not paths:
            return reader.session.createDataFrame([], schema)
        return reader.session.read.schema(schema).parquet(*paths)

    def _appended(self, before: int, after: int) -> list[Commit]:
        return [c for c in self.log.commits(before, after) if c.adds and (c.runnel or {}).get("kind") == "refresh"]

    def _restricted(self, reader: Reader, version: int, touched: DataFrame | None) -> DataFrame:
        log = reader.table(self.log.path, version)
        if touched is not None:
            left, right = log.alias("l"), touched.alias("t")
            same = [F.col(f"l.`{k}`").eqNullSafe(F.col(f"t.`{k}`")) for k in self.layout.keys]
            condition = same[0]
            for more in same[1:]:
                condition = condition & more
            return self._over(reader, self._summed(left.join(right, condition, "left_semi")), tail=False, negatives=False)
        return self._over(reader, log, tail=True, negatives=True)

    def _summed(self, log: DataFrame) -> DataFrame:
        """A few groups of a log as compacted rows: grouping them costs one small shuffle, where the form that spares the base costs five joins."""
        types = {c.name: c.type for c in self.layout.stored} | {WEIGHT: "bigint"}
        sums = [F.sum(F.col(f"`{n}`")).cast(types[n]).alias(n) for n in (*self.layout.partials, WEIGHT)]
        grouped = log.groupBy(*(F.col(f"l.`{k}`") for k in self.layout.keys)).agg(*sums)
        return grouped.where(F.col(WEIGHT) > 0).withColumn("__runnel_level", F.lit("base"))

    def _over(self, reader: Reader, log: DataFrame, tail: bool, negatives: bool) -> DataFrame:
        """The finished content of a log, given what is known of its tail."""
        with reader.lock:
            return reader.session.sql(self.finish(reader.register(log), tail, negatives))

    def _tail_at(self, version: int) -> tuple[bool, bool]:
        """Whether the log has a tail at a version, and negatives in it, as the note in force says."""
        for at in range(version, -1, -1):
            try:
                note = self.log.commit(at).runnel
            except FileNotFoundError:
                break
            if note:
                return bool(note.get("tail_files", 1)), bool(note.get("tail_negatives", True))
        return True, True

    def _over_stored(self, reader: Reader, rows: DataFrame) -> DataFrame:
        """Stored rows under the names that users see, with their weights: finishing a row table only renames and casts."""
        outputs = [F.col(f"`{s.name}`").cast(o.type).alias(o.name) for s, o in zip(self.layout.stored, self.layout.output, strict=True)]
        return rows.select(*outputs, F.col(WEIGHT))
