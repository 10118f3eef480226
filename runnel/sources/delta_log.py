"""Read a Delta table's commit log without Spark: the latest version, and what single commits did."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from runnel.errors import SourceChanged

PATTERNS = frozenset("{}[]*?\\")
"""What Spark takes in the name of a file for a pattern, so that it does not find the file."""


@dataclass(frozen=True)
class Commit:
    """The actions of one commit, as far as a change reader needs them."""

    version: int
    adds: tuple[dict[str, Any], ...] = ()
    removes: tuple[dict[str, Any], ...] = ()
    cdcs: tuple[dict[str, Any], ...] = ()
    came: tuple[str, ...] = ()
    """Files that are in the table from then on, those included that hold rows of rewritten ones."""
    left: tuple[str, ...] = ()
    """Files that are not in the table any more, rewritten or with rows that went."""
    metadata: dict[str, Any] | None = None
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def runnel(self) -> dict[str, Any] | None:
        """What Runnel wrote into the commit, whichever writer carried it."""
        text = self.info.get("runnel") or self.info.get("userMetadata")
        try:
            found = json.loads(text) if text else None
        except ValueError:
            return None
        return found if isinstance(found, dict) and "epoch" in found else None

    @property
    def data(self) -> bool:
        return bool(self.adds or self.removes or self.cdcs)

    @property
    def rewrites(self) -> bool:
        """Rows went into other files as they were."""
        return len(self.came) > len(self.adds) or len(self.left) > len(self.removes)


class DeltaLog:
    """The log of the table at `path`. Cheap to ask again: the version is probed upwards from the last one seen.

    Several threads may ask; what has to be of one version is looked up under the lock.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.local = local_path(path)
        self._table: DeltaTable | None = None
        self._files: tuple[int, int, int | None] | None = None
        self._plain: dict[tuple[int, bool], list[dict[str, Any]] | None] = {}
        self._born: tuple[int, int] | None = None
        self._checkpoint: tuple[int, int] | None = None
        self._commits: dict[int, Commit] = {}
        self._lock = threading.RLock()

    def table(self) -> DeltaTable:
        """The table at its latest version, loaded incrementally."""
        with self._lock:
            return self._loaded()

    def _loaded(self) -> DeltaTable:
        try:
            born = self._birth()
            if self._table is None or born != self._born:
                self._table, self._born, self._checkpoint = DeltaTable(self.path), born, self._checkpointed()
                self._commits.clear()
                self._plain.clear()
                self._files = None
            elif self._exists(self._table.version() + 1):
                self._table.update_incremental()
            elif self._checkpointed() != self._checkpoint:
                # The commits that follow ours may be cleaned away behind a later checkpoint.
                self._checkpoint, self._table = self._checkpointed(), DeltaTable(self.path)
        except TableNotFoundError as error:
            self._table = None
            raise SourceChanged(
                f"table at {self.path} does not exist",
                code="SOURCE_DROPPED",
                detail="Its folder or its log is gone.",
                hint="Restore the table, or drop the stream tables that read it.",
            ) from error
        except DeltaError as error:
            self._table = None
            raise SourceChanged(
                f"the log of {self.path} cannot be read", code="SOURCE_UNREADABLE", detail=str(error)[:300], hint="Check the table with Spark."
            ) from error
        return self._table

    @contextmanager
    def at(self, version: int) -> Iterator[DeltaTable]:
        """The table at one version, to commit on top of it. Nobody else uses it meanwhile: a commit moves it on."""
        with self._lock:
            latest = self._loaded()
            yield latest if latest.version() == version else DeltaTable(self.path, version=version)

    def version(self) -> int:
        return self.table().version()

    def files(self) -> list[dict[str, Any]]:
        """The files of the latest version with their statistics."""
        with self._lock:
            return _listed(self.table())

    def size(self) -> int:
        """Bytes of the files of the latest version."""
        return self._counted()[1]

    def rows(self, version: int | None = None) -> int | None:
        """Rows in the files of the latest version, those that deletion vectors hide included; None where a file has no statistics, and of any other version."""
        latest, _, rows = self._counted()
        return rows if version in (None, latest) else None

    def _counted(self) -> tuple[int, int, int | None]:
        """Version, bytes and rows, counted once per version."""
        with self._lock:
            table = self.table()
            if self._files is None or self._files[0] != table.version():
                files = pa.table(table.get_add_actions(flatten=True))
                counts = files.column("num_records").to_pylist() if "num_records" in files.column_names else [None] * files.num_rows
                rows = None if any(c is None for c in counts) else sum(counts)
                self._files = (table.version(), sum(files.column("size_bytes").to_pylist()), rows)
            return self._files

    def plain_files(self, version: int, partitioned: bool = False) -> list[dict[str, Any]] | None:
        """The files of a version with their statistics, when they are the table: Parquet without deletion vectors or renamed columns, and
        without partitions unless the caller knows what to make of them. None also where Spark could not be told their names."""
        if not self.named:
            return None
        with self._lock:
            if (version, partitioned) not in self._plain:
                table = self._as_of(version)
                features = set(table.protocol().reader_features or ())
                mapped = table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
                plain = not mapped and (partitioned or not table.metadata().partition_columns) and features <= {"timestampNtz"}
                self._plain[version, partitioned] = _listed(table) if plain else None
                while len(self._plain) > 8:
                    del self._plain[next(iter(self._plain))]
            return self._plain[version, partitioned]

    @property
    def named(self) -> bool:
        """Whether Spark finds files by the names that they have here."""
        return PATTERNS.isdisjoint(self.local or self.path)

    def described(self, version: int) -> str:
        """The schema of a version, in Delta's JSON form."""
        with self._lock:
            return str(self._as_of(version).schema().to_json())

    def _as_of(self, version: int) -> DeltaTable:
        """The table at one version, even when another process commits meanwhile: the latest is looked at once. It moves on when the lock is let go."""
        table = self.table()
        return table if table.version() == version else DeltaTable(self.path, version=version)

    def table_id(self) -> str:
        return str(self.table().metadata().id)

    def properties(self) -> dict[str, str]:
        return dict(self.table().metadata().configuration)

    def properties_at(self, version: int) -> dict[str, str]:
        return dict(DeltaTable(self.path, version=version).metadata().configuration)

    def schema(self) -> dict[str, str]:
        """Column types of the latest version, as the log writes them."""
        return columns_of(json.loads(self.table().schema().to_json()))

    def commits(self, after: int, until: int) -> Iterator[Commit]:
        """The commits after one version, up to and with another; raises FileNotFoundError where the log was cleaned."""
        for version in range(after + 1, until + 1):
            yield self.commit(version)

    def commit(self, version: int) -> Commit:
        with self._lock:
            if version not in self._commits:
                if len(self._commits) > 1000:
                    self._commits.clear()
                self._commits[version] = _parse(version, self._read(version))
            return self._commits[version]

    def has_file(self, relative: str) -> bool:
        """Whether a data file is still there; assumed on storage that cannot be asked cheaply."""
        return self.local is None or os.path.exists(os.path.join(self.local, unquote(relative)))

    def gone(self, version: int) -> str | None:
        """A file without which a version cannot be read any more; None where all are there, or storage cannot be asked cheaply."""
        if self.local is None:
            return None
        with self._lock:
            try:
                if all(self.has_file(f) for c in self.commits(version, self.version()) for f in c.left):
                    return None
                files = [f["path"] for f in _listed(DeltaTable(self.path, version=version))]
            except (DeltaError, FileNotFoundError):
                return f"_delta_log of version {version}"
        return next((f for f in files if not self.has_file(f)), None)

    def full_path(self, relative: str) -> str:
        if urlparse(relative).scheme or relative.startswith("/"):
            return unquote(relative)
        return f"{(self.local or self.path).rstrip('/')}/{unquote(relative)}"

    def _name(self, version: int) -> str:
        return f"_delta_log/{version:020d}.json"

    def _exists(self, version: int) -> bool:
        return self.local is None or os.path.exists(os.path.join(self.local, self._name(version)))

    def _birth(self) -> tuple[int, int] | None:
        """What tells a table from another one made later in the same place: the first file of its log."""
        found = self._stamp(self._name(0))
        gone = self.local is not None and found is None and not os.path.isdir(os.path.join(self.local, "_delta_log"))
        return (0, 0) if gone else found

    def _checkpointed(self) -> tuple[int, int] | None:
        """What tells that a later checkpoint was made."""
        return self._stamp("_delta_log/_last_checkpoint")

    def _stamp(self, relative: str) -> tuple[int, int] | None:
        """Identity and time of a file; None when it is missing or on storage that cannot be asked cheaply."""
        if self.local is None:
            return None
        try:
            found = os.stat(os.path.join(self.local, relative))
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _read(self, version: int) -> str:
        if self.local is not None:
            with open(os.path.join(self.local, self._name(version)), encoding="utf-8") as file:
                return file.read()
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        handler = PyFileSystem(DeltaStorageHandler(self.path))
        with handler.open_input_stream(self._name(version)) as stream:
            return stream.read().decode("utf-8")


def _parse(version: int, text: str) -> Commit:
    found: dict[str, list[dict[str, Any]]] = {"add": [], "remove": [], "cdc": []}
    metadata: dict[str, Any] | None = None
    info: dict[str, Any] = {}
    came, left = list[str](), list[str]()
    for line in text.splitlines():
        if not line.strip():
            continue
        action = json.loads(line)
        for kind in ("add", "remove"):
            if kind in action and action[kind].get("dataChange", True):
                found[kind].append(action[kind])
        if "add" in action:
            came.append(action["add"]["path"])
        if "remove" in action:
            left.append(action["remove"]["path"])
        if "cdc" in action:
            found["cdc"].append(action["cdc"])
        metadata = action.get("metaData", metadata)
        info = action.get("commitInfo", info)
    return Commit(version, tuple(found["add"]), tuple(found["remove"]), tuple(found["cdc"]), tuple(came), tuple(left), metadata, info)


def columns_of(schema: dict[str, Any]) -> dict[str, str]:
    """Column name (lower case) to type text, from a schema in Delta's JSON form."""
    return {f["name"].lower(): f["type"] if isinstance(f["type"], str) else json.dumps(f["type"], sort_keys=True) for f in schema["fields"]}


def local_path(path: str) -> str | None:
    """The folder behind a path or file: URL; None for remote storage."""
    parsed = urlparse(path)
    if parsed.scheme == "file":
        return unquote(parsed.path)
    return None if parsed.scheme and len(parsed.scheme) > 1 else path


def _listed(table: DeltaTable) -> list[dict[str, Any]]:
    """The files of a table with their statistics, times as `numbers` has them."""
    found = pa.table(table.get_add_actions(flatten=True))
    return pa.table([numbers(found[n]) for n in found.column_names], names=found.column_names).to_pylist()


def numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates as days and times as microseconds since 1970: Python's own end with the year 9999, where intervals without an end begin.

    >>> numbers(pa.chunked_array([pa.array([2_932_896 + 366], pa.date32())])).to_pylist()
    [2933262]
    """
    if pa.types.is_date(column.type):
        return column.cast(pa.date32()).cast(pa.int32())
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64())
    return column
