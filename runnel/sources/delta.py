"""A Delta table as a source.

The change between two versions is read in the cheapest way that its features allow:
*files*: the change files and data files that the commits name, as plain Parquet;
*feed*: Delta's change feed reader;
*touched files*: without a feed, the rows of the files that were rewritten, after minus before.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from runnel.algebra import WEIGHT
from runnel.sources import here
from runnel.sources.bounds import Bound
from runnel.sources.delta_log import Commit, DeltaLog, columns_of
from runnel.sources.facts import Kind, SourceFacts
from runnel.sources.held import ADDED, ROWS, Held, Part, hold, holdable
from runnel.sources.reader import Given, Reader
from runnel.sources.sample import sampled

FEED = "delta.enableChangeDataFeed"
TOUCHED = "touched files"
LISTED = 32
"""Files up to which a face is read as plain Parquet. Spark lists more of them by a job of its own, and Delta Lake skips files by their statistics."""


class DeltaSource:
    """See `Source`. `direct` allows reading the commits' files as Parquet."""

    def __init__(self, key: str, log: DeltaLog, direct: bool = True) -> None:
        self.key = key
        self.log = log
        self.direct = direct

    def probe(self, before: int | None, table_id: str | None, columns: dict[str, str], upto: int | None = None) -> SourceFacts:
        latest, identity = self.log.version(), self.log.table_id()
        after = latest if upto is None else min(upto, latest)
        if before is None:
            return SourceFacts(self.key, Kind.MIXED, None, after, identity, rows=None, reason="first load")
        if table_id is not None and identity != table_id:
            return SourceFacts(self.key, Kind.REPLACED, before, after, identity, reason="another table stands in its place")
        if latest < before:
            return SourceFacts(self.key, Kind.REPLACED, before, after, identity, reason=f"its version went back from {before} to {latest}")
        if after <= before:
            return SourceFacts(self.key, Kind.UNCHANGED, before, before, identity)
        try:
            commits = list(self.log.commits(before, after))
        except FileNotFoundError:
            return SourceFacts(self.key, Kind.LOST, before, after, identity, reason=f"commits after version {before} were cleaned from its log")
        return self._classify(commits, before, after, identity, columns)

    def _classify(self, commits: list[Commit], before: int, after: int, identity: str, columns: dict[str, str]) -> SourceFacts:
        now = self.log.schema()
        moved = sorted(c for c, t in columns.items() if now.get(c.lower()) != t)
        if moved:
            gone = [c for c in moved if c.lower() not in now]
            reason = f"column {gone[0]} is gone" if gone else f"column {moved[0]} changed from {columns[moved[0]]} to {now[moved[0].lower()]}"
            return SourceFacts(self.key, Kind.SCHEMA, before, after, identity, reason=reason)
        data = [c for c in commits if c.data]
        if not data:
            return SourceFacts(self.key, Kind.NEUTRAL, before, after, identity)
        via = self._way(commits, before)
        missing = self._missing(commits, after, via)
        if missing:
            return SourceFacts(self.key, Kind.LOST, before, after, identity, reason=f"file {missing} was vacuumed")
        rewritten = via == TOUCHED and any(c.rewrites for c in commits)  # such rows are read as gone and come
        kind = Kind.INSERT_ONLY if not rewritten and all(c.adds and not c.removes and not c.cdcs for c in data) else Kind.MIXED
        return SourceFacts(self.key, kind, before, after, identity, rows=None if rewritten else _rows(data), via=via)

    def reflects(self, version: int) -> Mapping[str, int]:
        return {self.key: version}

    def _missing(self, commits: list[Commit], after: int, via: str) -> str | None:
        """A file that the change or one of the faces needs: those removed since, the change files, what came, unless a change file tells of it or
        only the faces are read, and short of the latest version what came in any case. What was rewritten only some plans need: `gone`."""
        past = after < self.log.version()
        for commit in commits:
            came = commit.adds if past or not (commit.cdcs or via == TOUCHED) else ()
            rewritten = commit.left if via == TOUCHED else ()
            for path in (*(action["path"] for action in (*commit.removes, *commit.cdcs, *came)), *rewritten):
                if not self.log.has_file(path):
                    return str(path)
        return None

    def _way(self, commits: list[Commit], before: int) -> str:
        if self.direct and self._plain_files(commits):
            return "files"
        return "feed" if self._fed_throughout(commits, before) else TOUCHED

    def _plain_files(self, commits: list[Commit]) -> bool:
        table = self.log.table()
        properties = self.log.properties()
        return (
            self.log.named
            and not table.metadata().partition_columns
            and properties.get("delta.columnMapping.mode", "none") == "none"
            and properties.get("delta.enableTypeWidening", "false") != "true"
            and not any(a.get("deletionVector") for c in commits for a in (*c.adds, *c.removes))
            and not any(c.metadata for c in commits if c.data)
        )

    def _fed_throughout(self, commits: list[Commit], before: int) -> bool:
        """The feed was on at the first version and no commit since switched it off."""
        states = [c.metadata.get("configuration", {}) for c in commits if c.metadata is not None]
        if states or self.log.properties().get(FEED) != "true":
            states.append(self.log.properties_at(before))
        return all(s.get(FEED) == "true" for s in states)

    def size(self) -> int:
        return self.log.size()

    def rows(self, version: int | None = None) -> int | None:
        return self.log.rows(version)

    def at(self, reader: Reader, version: int, bounds: Sequence[Bound] = ()) -> DataFrame:
        bounds, files = self._fitting(bounds), self._files(version)
        near = [f for f in files if all(b.meets_file(f) for b in bounds)] if files is not None else []
        if files is None or len(near) > LISTED:
            rows = reader.table(self.log.path, version)
        elif near:
            rows = reader.session.read.schema(self._schema()).parquet(*(self.log.full_path(f["path"]) for f in near))
        else:
            rows = reader.rows([], self._schema())
        return reduce(DataFrame.where, (b.predicate() for b in bounds), rows)

    def here(self, reader: Reader, version: int, bounds: Sequence[Bound], columns: Collection[str], folder: str, few: bool = False) -> Given | None:
        bounds, files, wanted = self._fitting(bounds), self._files(version), {c.lower() for c in columns}
        near = here.worth_reading(self.log, files, bounds, columns, few) if files is not None else None
        if near is None:
            return None
        schema = StructType([f for f in self._schema().fields if f.name.lower() in wanted])
        rows = here.of_files(self.log, near, schema, bounds)
        return reader.giving(rows, folder) if rows is not None else None

    def near(self, version: int, bounds: Sequence[Bound]) -> float:
        bounds, files = self._fitting(bounds), self._files(version)
        if not files:
            return 1.0
        return sum(f["size_bytes"] for f in files if all(b.meets_file(f) for b in bounds)) / max(1, sum(f["size_bytes"] for f in files))

    def _fitting(self, bounds: Sequence[Bound]) -> list[Bound]:
        types = self.log.schema()
        return [b for b in bounds if b.fits(types.get(b.column.lower(), ""))]

    def _files(self, version: int) -> list[dict[str, Any]] | None:
        """The files of a version that this process can tell apart by their statistics."""
        return self.log.plain_files(version) if self.direct and self.log.local is not None else None

    def share(self, version: int, bound: Bound, look: bool = False) -> float | None:
        files = self._files(version)
        if not files or not self._fitting([bound]):
            return None
        untold = [f for f in files if bound.likely_in(f) is None]
        seen = sampled([self.log.full_path(f["path"]) for f in untold], bound) if look and untold else None
        within = rows = 0.0
        for file in files:
            count, likely = file.get("num_records"), bound.likely_in(file)
            likely = seen if likely is None else likely
            if count is None or likely is None:
                return None
            within, rows = within + count * likely, rows + count
        return within / max(1.0, rows)

    def gone(self, version: int) -> str | None:
        return self.log.gone(version)

    def held(self, facts: SourceFacts, columns: Collection[str]) -> Held | None:
        if facts.via != "files" or facts.before is None or self.log.local is None or facts.rows is None or facts.rows > ROWS:
            return None
        wanted = {c.lower() for c in columns}
        schema = StructType([f for f in self._schema().fields if f.name.lower() in wanted])
        if not holdable(schema):
            return None
        weights = {"add": 1, "remove": -1, "cdc": None}
        return hold((Part(p, weights[kind]) for kind, paths in self._paths(facts.before, facts.after).items() for p in paths), schema)

    def few(self, facts: SourceFacts) -> bool:
        return facts.before is not None and facts.rows is not None and facts.rows <= ROWS

    def change(self, reader: Reader, facts: SourceFacts) -> DataFrame:
        assert facts.before is not None
        match facts.via:
            case "files":
                return self._from_files(reader, facts.before, facts.after)
            case "feed":
                feed = reader.feed(self.log.path, facts.before + 1, facts.after)
                return _weighted(feed)
            case _:
                return self._from_touched_files(reader, facts.before, facts.after)

    def _schema(self) -> StructType:
        return StructType.fromJson(json.loads(self.log.table().schema().to_json()))

    def _from_files(self, reader: Reader, before: int, after: int) -> DataFrame:
        schema, paths = self._schema(), self._paths(before, after)
        frames = []
        if paths["add"]:
            frames.append(reader.session.read.schema(schema).parquet(*paths["add"]).withColumn(WEIGHT, F.lit(1).cast("bigint")))
        if paths["remove"]:
            frames.append(reader.session.read.schema(schema).parquet(*paths["remove"]).withColumn(WEIGHT, F.lit(-1).cast("bigint")))
        if paths["cdc"]:
            fed = StructType([*schema.fields, StructField("_change_type", StringType())])
            frames.append(_weighted(reader.session.read.schema(fed).parquet(*paths["cdc"])))
        return _union(frames)

    def _paths(self, before: int, after: int) -> dict[str, list[str]]:
        """The files that hold the change: those of the feed where a commit wrote them, else what it added and removed."""
        paths: dict[str, list[str]] = {"add": [], "remove": [], "cdc": []}
        for commit in self.log.commits(before, after):
            if commit.cdcs:
                paths["cdc"] += [self.log.full_path(a["path"]) for a in commit.cdcs]
            else:
                paths["add"] += [self.log.full_path(a["path"]) for a in commit.adds]
                paths["remove"] += [self.log.full_path(a["path"]) for a in commit.removes]
        return paths

    def _from_touched_files(self, reader: Reader, before: int, after: int) -> DataFrame:
        names = sorted({path.rsplit("/", 1)[-1] for c in self.log.commits(before, after) for path in (*c.came, *c.left)})
        touched = F.col("_metadata.file_name").isin(names)
        now = reader.through_log(self.log.path, after).where(touched).withColumn(WEIGHT, F.lit(1).cast("bigint"))
        was = reader.through_log(self.log.path, before).where(touched).withColumn(WEIGHT, F.lit(-1).cast("bigint"))
        return now.unionByName(was, allowMissingColumns=True)


def _weighted(feed: DataFrame) -> DataFrame:
    weight = F.when(F.col("_change_type").isin(*ADDED), 1).otherwise(-1).cast("bigint")
    return feed.withColumn(WEIGHT, weight).drop("_change_type", "_commit_version", "_commit_timestamp")


def _union(frames: list[DataFrame]) -> DataFrame:
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionByName(frame)
    return result


def _rows(commits: list[Commit]) -> int | None:
    """Changed rows as the commits count them; an update is two."""
    total = 0
    for commit in commits:
        counts = [_metrics(commit.info)] if commit.cdcs else [_records(a) for a in (*commit.adds, *commit.removes)]
        if any(c is None for c in counts):
            return None
        total += sum(c for c in counts if c is not None)
    return total


def _records(action: dict[str, Any]) -> int | None:
    stats = json.loads(action["stats"]) if action.get("stats") else {}
    return int(stats["numRecords"]) if "numRecords" in stats else None


def _metrics(info: dict[str, Any]) -> int | None:
    metrics = info.get("operationMetrics") or {}
    single = ("numTargetRowsInserted", "numTargetRowsDeleted", "numDeletedRows")
    double = ("numTargetRowsUpdated", "numUpdatedRows")
    if not any(m in metrics for m in (*single, *double)):
        return None
    return sum(int(metrics.get(m, 0)) for m in single) + 2 * sum(int(metrics.get(m, 0)) for m in double)


__all__ = ["DeltaSource", "columns_of"]
