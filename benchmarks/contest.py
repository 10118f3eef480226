"""One query kept by every way at once, each in a table of its own, to be compared on the same changes.

differential  a stream table that is always maintained by its change
auto          a stream table that decides itself
full          a stream table that recomputes, and appends the difference
merge         a Delta table with deletion vectors, and a MERGE from the change feed as an expert writes it by hand
overwrite     a Delta table, and INSERT OVERWRITE as a user writes it
create        CREATE OR REPLACE TABLE AS
floor         the rows that *differential* appended, appended once more (`benchmarks.floor`)
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.bench import Bench
from benchmarks.floor import floor
from benchmarks.measure import Spent, Work, median, turn
from benchmarks.results import Measured
from runnel.observe.record import RefreshRecord

MODES = {"differential": "DIFFERENTIAL", "auto": "AUTO", "full": "FULL"}
WAYS = (*MODES, "merge", "overwrite", "create", "floor")


class Contest:
    """The tables of one query and the work that brings each up to date. `merge` has the places {target}, {first} and {last}."""

    def __init__(self, bench: Bench, name: str, sql: str, ways: Sequence[str] = WAYS, merge: str | None = None, source: str = "") -> None:
        self.bench, self.name, self.sql, self.merge, self.source = bench, name, sql, merge, source
        self.ways = [w for w in ways if w != "merge" or merge]
        for way in self.ways:
            self._create(way)
        self.merged = bench.version(source) if merge else 0

    def table(self, way: str) -> str:
        return f"{self.name}_{way}"

    def turn(self, round_: int) -> dict[str, Spent]:
        """Every way once on the change that has just been made; the floor last, since it needs the rows of *differential*."""
        took = turn(self.bench.meter, {w: self._work(w) for w in self.ways if w != "floor"}, round_)
        return took | self._floor(took)

    def check(self) -> None:
        """What is maintained, by Runnel or by hand, equals the query."""
        for way in self.ways:
            if way in MODES:
                self.bench.check(self.table(way))
            elif way == "merge":
                self.bench.same(self.table(way), self.sql)

    def drop(self) -> None:
        for way in self.ways:
            if way in MODES:
                self.bench.rn.drop(self.table(way))
            elif way != "floor":
                self.bench.rn.sql(f"DROP TABLE {self.table(way)}")

    def _create(self, way: str) -> None:
        if way in MODES:
            self.bench.rn.create(self.table(way), self.sql, mode=MODES[way])
        elif way != "floor":
            properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')" if way == "merge" else ""
            self.bench.rn.sql(f"CREATE TABLE {self.table(way)} USING delta {properties} AS {self.sql}")

    def _work(self, way: str) -> Work:
        rn, table = self.bench.rn, self.table(way)
        if way in MODES:
            return lambda: rn.refresh(table)
        if way == "merge":
            return self._merge
        text = f"INSERT OVERWRITE {table} {self.sql}" if way == "overwrite" else f"CREATE OR REPLACE TABLE {table} USING delta AS {self.sql}"
        return lambda: rn.spark.sql(text)

    def _merge(self) -> None:
        assert self.merge is not None
        last = self.bench.version(self.source)
        self.bench.rn.spark.sql(self.merge.format(target=self.table("merge"), first=self.merged + 1, last=last))
        self.merged = last

    def _floor(self, took: dict[str, Spent]) -> dict[str, Spent]:
        work = floor(self.bench.rn, took["differential"].result) if "floor" in self.ways and "differential" in took else None
        if work is None:
            return {}
        spent = self.bench.meter.run(work)
        shutil.rmtree(f"{self.bench.rn.folder}/_floor", ignore_errors=True)
        return {"floor": spent}


def measured(labels: dict[str, Any], spent: dict[str, list[Spent]]) -> Iterator[Measured]:
    """One result per way."""
    for way, runs in spent.items():
        yield Measured.of({**labels, "way": way}, median(runs), [s.ms for s in runs], facts_of([s.result for s in runs]))


def facts_of(results: list[Any]) -> dict[str, Any]:
    """What the records of refreshes say about them; nothing about other work."""
    records = [r for r in results if isinstance(r, RefreshRecord)]
    if not records:
        return {}
    last = records[-1]
    return {
        "action": str(last.action),
        "reason": last.reason,
        "changed": last.rows_in,
        "appended": last.rows_out,
        "compactions": sum(any(s.name == "compaction" and s.ms > COMPACTED for s in r.stages) for r in records),
        "stages": {stage.name: [round(s.ms, 1) for r in records for s in r.stages if s.name == stage.name] for stage in last.stages},
    }


COMPACTED = 50.0
"""Milliseconds: asking whether a compaction is due takes a few, compacting at least some hundred."""
