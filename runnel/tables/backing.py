"""The backing table: one Delta table per stream table, appended to by refreshes, rewritten by compaction, or anew where nobody reads changes of it.

Every commit of ours carries a `CommitNote`; the latest one says where the stream table is. The log is the truth.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, TableFeatures, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from runnel.algebra import WEIGHT
from runnel.definition import Definition
from runnel.differentiate.layout import Layout
from runnel.errors import Internal, Transient
from runnel.observe.record import Action
from runnel.sources.bounds import Bound
from runnel.sources.delta import LISTED
from runnel.sources.delta_log import DeltaLog
from runnel.sources.held import holdable
from runnel.sources.stream_table import REFRESHES, SWAP, layout_at
from runnel.tables.content import BASE, HASH, HASH_VERSION, LEVEL, TAIL, LogFacts, hash_sql, quote
from runnel.versions import SPARK

PROPERTY = "runnel.definition"
FEATURES = (
    ("timestamp_ntz", "timestampNtz", TableFeatures.TimestampWithoutTimezone),
    ("variant", "variantType", TableFeatures.VariantType),
)
"""Types that a Delta table must list as features."""
SHORT = 32
"""Letters of a text up to which it stands in the log as a bound: longer ones Delta Lake cuts."""
COUNTABLE = 20_000_000
"""Rows up to which this process looks whether all are different. It reads and sorts the hashes of five million in half a second."""
AS_SPARK = {"org.apache.spark.version": SPARK}
"""What Spark writes into its files: it reads dates before 1582 by it."""


@dataclass(frozen=True)
class CommitNote:
    """What a commit says about itself. `frontier` maps source keys to [version, table id]; `tail_*` describe the log
    after this commit, so that a reader needs the latest note only."""

    kind: str
    epoch: int
    frontier: dict[str, list[Any]]
    action: Action | None = None
    reason: str = ""
    rows_in: int | None = None
    rows_out: int | None = None
    negatives: bool = False
    tail_rows: int = 0
    tail_files: int = 0
    tail_negatives: bool = False
    tail_grows: bool = True
    """Some row of the tail weighs more than nothing, so that it may be of a new group; True when nobody said."""
    tail_net: bool = False
    """The tail is one change as a refresh appends it, in which nothing comes and goes and each group is once; False when nobody said."""
    tail_nulls: list[str] | None = None
    """Columns that are NULL somewhere in the tail, None when nobody said."""
    base_rows: int = 0
    base_distinct: bool = False
    """All hashes of the base differ, so that none of its rows is there twice; False when nobody looked."""
    started_at: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    definition_id: str = ""
    """Whose content it is: a definition that changed is in force from its commit on, whatever was written elsewhere."""
    swap: dict[str, Any] | None = None
    """In the commit that changes the definition: `definition`, the new one, and `layout`, how everything before was stored."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CommitNote:
        known = {k: v for k, v in data.items() if k in cls.__dataclass_fields__}
        if known.get("action"):
            known["action"] = Action(known["action"])
        return cls(**known)

    @property
    def log_facts(self) -> LogFacts:
        return LogFacts(
            tail=self.tail_files > 0,
            negatives=self.tail_negatives,
            grows=self.tail_grows,
            rows=None if self.tail_nulls is None else self.tail_rows,  # who did not look for NULLs did not count either
            net=self.tail_net,
            distinct=self.base_distinct,
            nulls=None if self.tail_nulls is None else frozenset(self.tail_nulls),
        )

    @property
    def without_tail(self) -> CommitNote:
        """The same when the log is nothing but a new base."""
        return replace(self, tail_rows=0, tail_files=0, tail_negatives=False, tail_grows=False, tail_net=True, tail_nulls=[], base_distinct=False)

    def versions(self) -> dict[str, int]:
        return {k: int(v[0]) for k, v in self.frontier.items()}


@dataclass(frozen=True)
class Written:
    """Files that Spark wrote and no commit names yet."""

    adds: tuple[AddAction, ...]
    rows: int
    weights: tuple[int, int] = (-1, 1)
    """The least and the greatest, the worst of both when nobody looked."""
    nulls: frozenset[str] = frozenset()
    """Columns that are NULL in some row."""

    @property
    def negatives(self) -> bool:
        return self.weights[0] < 0

    @property
    def grows(self) -> bool:
        return self.weights[1] > 0


class BackingTable:
    """The Delta table at `path`."""

    def __init__(self, path: str, definition: Definition, log: DeltaLog | None = None) -> None:
        self.path = path
        self.definition = definition
        self.log = log or DeltaLog(path)

    # -- create, read ----------------------------------------------------------------------------------------------

    @classmethod
    def create(cls, path: str, definition: Definition, schema: StructType) -> BackingTable:
        """An empty table whose first commit holds the definition."""
        note = CommitNote("create", 0, {})
        os.makedirs(path, exist_ok=True) if "://" not in path else None
        DeltaTable.create(
            path,
            schema=Schema.from_json(schema.json()),
            partition_by=[LEVEL],
            configuration={PROPERTY: json.dumps(definition.as_dict()), "runnel.hash": HASH_VERSION},
            raise_if_key_not_exists=False,
            commit_properties=CommitProperties(custom_metadata={"runnel": note.to_json()}),
        )
        _list_features(DeltaTable(path), schema)
        return cls(path, definition)

    @classmethod
    def open(cls, path: str) -> BackingTable | None:
        """The stream table stored at a path, or None when it is something else."""
        log = DeltaLog(path)
        text = log.properties().get(PROPERTY)
        return cls(path, Definition.from_dict(json.loads(text)), log).in_force() if text else None

    def in_force(self) -> BackingTable:
        """This table with the definition that its latest commit is of: a process may have ended between that and all else."""
        latest, note = self.note()
        if note.definition_id in ("", self.definition.id):
            return self
        for version in range(latest, -1, -1):
            found = self.log.commit(version).runnel
            if found and found.get("swap") and found["swap"]["definition"]["id"] == note.definition_id:
                return BackingTable(self.path, Definition.from_dict(found["swap"]["definition"]), self.log)
        raise Internal(f"the definition of {self.definition.name} is not in its log", hint="Create it anew with CREATE OR REPLACE STREAM TABLE.")

    def layout_at(self, version: int) -> Layout:
        """How the rows of a version are stored."""
        return layout_at(self.log, version, self.definition.layout)

    def note(self) -> tuple[int, CommitNote]:
        """The latest version and the latest note; commits of others (OPTIMIZE by hand) are looked past."""
        latest = self.log.version()
        for version in range(latest, -1, -1):
            try:
                found = self.log.commit(version).runnel
            except FileNotFoundError:
                break
            if found:
                return latest, CommitNote.from_dict(found)
        raise Internal(f"no note of Runnel in the log of {self.path}", hint="Run `runnel repair`, then refresh with FULL.")

    def note_at(self, version: int) -> CommitNote:
        """The note in force at one version."""
        for at in range(version, -1, -1):
            found = self.log.commit(at).runnel
            if found:
                return CommitNote.from_dict(found)
        raise Internal(f"no note of Runnel at version {version} of {self.path}")

    def set_definition(self, definition: Definition) -> None:
        """Store a changed definition; the note in force is carried on by looking past this commit."""
        self.log.table().alter.set_table_properties({PROPERTY: json.dumps(definition.as_dict())}, raise_if_not_exists=False)
        self.definition = definition

    @property
    def schema(self) -> StructType:
        """The columns in its files; the level stands in their folders."""
        every = StructType.fromJson(json.loads(self.log.table().schema().to_json()))
        return StructType([f for f in every.fields if f.name != LEVEL])

    def near(self, version: int, bounds: Sequence[Bound]) -> list[str] | None:
        """The files that can hold rows within bounds, where they are few and less than half of all bytes; None where the whole is to be read."""
        types = {c.name.lower(): c.type for c in self.definition.layout.stored}
        known = [b for b in bounds if b.fits(types.get(b.column.lower(), ""))]
        files = self.log.plain_files(version, partitioned=True) if known and self.log.local is not None else None
        if files is None:
            return None
        near = [f for f in files if all(b.meets_file(f) for b in known)]
        if len(near) > LISTED or 2 * sum(f["size_bytes"] for f in near) > sum(f["size_bytes"] for f in files):
            return None
        return [self.log.full_path(f["path"]) for f in near]

    # -- write -----------------------------------------------------------------------------------------------------

    def write(self, rows: DataFrame, level: str, epoch: int, here: bool = False) -> Written:
        """One Spark job: rows with stored columns and weight become Parquet files in the table's folder, written by this process if `here`."""
        folder, stored = _folder(level, epoch), self._stored(rows)
        if not (here and self._written_here(stored, folder)):
            stored.write.mode("error").parquet(f"{self.path}/{folder}")
        return self._adds(folder, level)

    def _written_here(self, rows: DataFrame, folder: str) -> bool:
        """Rows as one file like those that Spark writes; False when they are too many to come here, or of types that differ here."""
        if self.log.local is None or not holdable(rows.schema):
            return False
        try:
            found = rows.toArrow()
        except Exception as error:  # as Spark raised it, or as Py4J hands it on
            if "maxResultSize" not in str(error):
                raise
            return False
        self._file(found, folder)
        return True

    def write_rows(self, rows: pa.Table, level: str, epoch: int) -> Written:
        """The same of rows that this process holds, with all stored columns, their hash and weight: no Spark job."""
        folder = _folder(level, epoch)
        self._file(rows, folder)
        return self._adds(folder, level)

    def _file(self, rows: pa.Table, folder: str) -> None:
        """One file like those that Spark writes, or none for no rows."""
        os.makedirs(f"{self.log.local}/{folder}")
        if rows.num_rows:
            path = f"{self.log.local}/{folder}/part-{uuid.uuid4()}.snappy.parquet"
            said = rows.replace_schema_metadata(AS_SPARK)
            pq.write_table(said, path, compression="snappy", coerce_timestamps="us", store_schema=False, store_decimal_as_integer=True)

    def _stored(self, rows: DataFrame) -> DataFrame:
        """The stored columns, by texts: PySpark asks the JVM eight times for every column that is an object."""
        layout = self.definition.layout
        columns = [quote(c.name) for c in layout.stored]
        if layout.kind == "rows":
            columns.append(f"{hash_sql(layout.stored)} AS {HASH}")
        return rows.selectExpr(*columns, f"CAST({WEIGHT} AS BIGINT) AS {WEIGHT}")

    def _adds(self, folder: str, level: str) -> Written:
        adds, rows, least, most, nulls = [], 0, 0, 0, set[str]()
        root = self.log.local or self.path
        for name in sorted(os.listdir(f"{root}/{folder}")):
            if not name.endswith(".parquet") or name.startswith("."):
                continue
            full = f"{root}/{folder}/{name}"
            footer = pq.read_metadata(full)
            if footer.num_rows == 0:
                continue
            stats, (low, high), empty = _stats(footer)
            least, most = min(least, low), max(most, high)
            nulls |= empty
            rows += footer.num_rows
            adds.append(
                AddAction(
                    path=f"{folder}/{name}",
                    size=os.path.getsize(full),
                    partition_values={LEVEL: level},
                    modification_time=int(time.time() * 1000),
                    data_change=True,
                    stats=stats,
                )
            )
        if not adds and self.log.local is not None:
            shutil.rmtree(f"{root}/{folder}", ignore_errors=True)
        return Written(tuple(adds), rows, (least, most), frozenset(nulls))

    def weight(self, version: int, level: str) -> int | None:
        """What the rows of a level weigh together; None where this process cannot read them."""
        files = self.log.plain_files(version, partitioned=True) if self.log.local is not None else None
        if files is None:
            return None
        paths = [self.log.full_path(f["path"]) for f in files if f[f"partition.{LEVEL}"] == level]
        return sum(pc.sum(pq.read_table(p, columns=[WEIGHT], partitioning=None)[WEIGHT]).as_py() or 0 for p in paths)

    def distinct(self, written: Written) -> bool:
        """Whether no two rows of some files have the same hash, so that no row is there twice; False where that takes too long to know."""
        if self.definition.layout.kind != "rows" or self.log.local is None or not 0 < written.rows <= COUNTABLE:
            return False
        files = [self.log.full_path(a.path) for a in written.adds]
        hashes = np.concatenate([np.asarray(pq.read_table(f, columns=[HASH], partitioning=None)[HASH]) for f in files])
        hashes.sort()
        return not bool((hashes[1:] == hashes[:-1]).any())

    def commit(self, version: int, written: Written, note: CommitNote, overwrite: str | None = None, schema: StructType | None = None) -> int:
        """One commit on top of `version`, or a `Transient` when somebody else committed meanwhile.

        `overwrite` removes what is there: the tail, or with the base everything; then the table may get another `schema`.
        """
        with self.log.at(version) as table:
            if schema is None or not _list_features(table, schema):
                return self._commit(table, version, written, note, overwrite, schema)
        with self.log.at(version + 1) as table:
            return self._commit(table, version + 1, written, note, overwrite, schema)

    def _commit(self, table: DeltaTable, version: int, written: Written, note: CommitNote, overwrite: str | None, schema: StructType | None) -> int:
        transactions = [Transaction(self.definition.id, note.epoch)] if note.kind in REFRESHES else []
        properties = CommitProperties(custom_metadata={"runnel": note.to_json()}, app_transactions=transactions, max_commit_retries=0)
        try:
            table.create_write_transaction(
                list(written.adds),
                mode="overwrite" if overwrite else "append",
                schema=Schema.from_json(schema.json()) if schema is not None else table.schema(),
                partition_by=[LEVEL],
                partition_filters=[(LEVEL, "=", TAIL)] if overwrite == TAIL else None,
                commit_properties=properties,
            )
        except CommitFailedError as error:
            raise conflict(self.definition.name) from error
        return version + 1

    def commit_with_spark(
        self, spark: SparkSession, version: int, rows: DataFrame, level: str, note: CommitNote, overwrite: str | None = None
    ) -> int:
        """The same through Delta's own writer: one job that writes and commits, for storage that only Spark can write."""
        if self.log.version() != version:
            raise conflict(self.definition.name)
        writer = (
            self._stored(rows)
            .withColumn(LEVEL, F.lit(level))
            .write.format("delta")
            .mode("overwrite" if overwrite else "append")
            .option("userMetadata", note.to_json())
            .option("overwriteSchema", str(note.kind == SWAP).lower())
        )
        if overwrite:  # what a session asks for in other tables would keep the level that gets no rows
            writer = writer.option("partitionOverwriteMode", "static")
        if overwrite == TAIL:
            writer = writer.option("replaceWhere", f"{LEVEL} = '{TAIL}'")
        if note.kind in REFRESHES:
            writer = writer.option("txnAppId", self.definition.id).option("txnVersion", note.epoch)
        writer.save(self.path)
        found = self.log.version()
        mine = self.log.commit(version + 1).runnel if found > version else None
        if mine != json.loads(note.to_json()):
            raise conflict(self.definition.name)
        return version + 1


def _folder(level: str, epoch: int) -> str:
    return f"{level}/{epoch:06d}-{time.time_ns():x}"


def _list_features(table: DeltaTable, schema: StructType) -> bool:
    """Give a table the features that a schema needs, by a commit of their own; whether any was missing.

    A table with one of these types has to list every feature. delta-rs lists the type, when it makes the table, and forgets
    what NOT NULL needs; when the schema changes, it forgets both.
    """
    needed = {name: feature for type_, name, feature in FEATURES if f'"{type_}"' in schema.json()}
    if not needed:
        return False
    needed["invariants"] = TableFeatures.Invariants
    missing = [feature for name, feature in needed.items() if name not in (table.protocol().writer_features or ())]
    if missing:
        table.alter.add_feature(missing, allow_protocol_versions_increase=True)
    return bool(missing)


def conflict(name: str) -> Transient:
    return Transient(
        f'"{name}" was changed by another process during this refresh',
        code="CONFLICT",
        detail="Nothing was written by this one; the other's result stands.",
        hint="Refresh again.",
    )


def _stats(footer: pq.FileMetaData) -> tuple[str, tuple[int, int], set[str]]:
    """Delta statistics of one file (counts, and bounds of plain columns for data skipping), the bounds of its weights, and the columns that may have NULLs."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    complete: dict[str, bool] = {}
    uncounted: set[str] = set()
    for group in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            column = footer.row_group(group).column(index)
            name, stats = column.path_in_schema, column.statistics
            bounds = _bounds(stats)
            complete[name] = complete.get(name, True) and bounds is not None
            if stats is not None and stats.has_null_count:
                nulls[name] = nulls.get(name, 0) + stats.null_count
            else:
                uncounted.add(name)
            if bounds is not None:
                low[name] = min(low.get(name, bounds[0]), bounds[0])
                high[name] = max(high.get(name, bounds[1]), bounds[1])
    bounded = [n for n, whole in complete.items() if whole and "." not in n]
    text = json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": {n: _written(low[n]) for n in bounded},
            "maxValues": {n: _written(high[n]) for n in bounded},
            "nullCount": {n: c for n, c in nulls.items() if "." not in n and n not in uncounted},
        }
    )
    empty = {name.partition(".")[0] for name in uncounted.union(n for n, c in nulls.items() if c)}
    return text, (low[WEIGHT], high[WEIGHT]) if complete.get(WEIGHT) else (-1, 1), empty


def _bounds(stats: pq.Statistics | None) -> tuple[Any, Any] | None:
    """The least and the greatest value of a column, where both can stand in the log as they are: whole numbers, short texts and dates."""
    if stats is None or not stats.has_min_max:
        return None
    try:
        found = stats.min, stats.max
    except (OverflowError, UnicodeDecodeError):  # a date beyond the year 9999, bytes that are no text
        return None
    return found if all(type(b) in (int, date) or (isinstance(b, str) and len(b) <= SHORT) for b in found) else None


def _written(bound: int | str | date) -> int | str:
    return bound.isoformat() if isinstance(bound, date) else bound


__all__ = ["BASE", "TAIL", "BackingTable", "CommitNote", "Written"]
