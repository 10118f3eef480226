"""Old files of a backing table: which of them nobody can need any more, and their removal. No Spark job.

A file is needed while it belongs to the latest version, to any version that a stream table above still reads from, or to
any version younger than the retention, since somebody may be reading that one right now.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from urllib.parse import unquote

from runnel.errors import RunnelError
from runnel.execute.engine import Engine
from runnel.tables.backing import BackingTable

log = logging.getLogger("runnel")


@dataclass(frozen=True)
class Vacuumed:
    """What was removed, and the version before which nobody reads."""

    stream_table: str
    files: int
    bytes: int
    horizon: int

    def __str__(self) -> str:
        return f"{self.stream_table}: removed {self.files} files, {self.bytes} bytes, that no version from {self.horizon} on has"


def vacuum(engine: Engine, backing: BackingTable, hours: float) -> Vacuumed:
    """Remove what nobody needs; the caller holds the stream table's lease."""
    root, horizon = backing.log.local, slowest_reader(engine, backing)
    if root is None:
        return Vacuumed(backing.definition.name, 0, 0, horizon)
    kept, before = _needed(backing, horizon, hours), time.time() - hours * 3600
    files = removed = 0
    for folder, _, names in os.walk(root):
        if "_delta_log" in folder:
            continue
        for name in names:
            path = os.path.join(folder, name)
            owner = name[1:-4] if name.startswith(".") and name.endswith(".crc") else name
            relative = os.path.relpath(os.path.join(folder, owner), root)
            if relative not in kept and os.path.getmtime(path) < before:
                removed += os.path.getsize(path)
                files += name.endswith(".parquet") and not name.startswith(".")
                os.remove(path)
        if folder != root and not os.listdir(folder):
            os.rmdir(folder)
    return Vacuumed(backing.definition.name, files, removed, horizon)


def slowest_reader(engine: Engine, backing: BackingTable) -> int:
    """The oldest version that a stream table above reflects, or that is published; the latest one when there is neither."""
    name, versions = backing.definition.name, [backing.log.version()]
    versions += [p.version for p in engine.catalog.published([name]).values()]
    for definition in engine.definitions().values():
        if name in definition.source_keys:
            try:
                reached = engine.backing(definition.name).note()[1].versions().get(name)
            except RunnelError as error:
                log.warning("%s keeps the files of %s: %s", definition.name, name, error.message)
                reached = 0
            versions.append(0 if reached is None else reached)
    return min(versions)


def _needed(backing: BackingTable, horizon: int, hours: float) -> set[str]:
    """Files of the latest version, and those removed by commits after the horizon or within the retention."""
    young = (time.time() - hours * 3600) * 1000
    root = backing.log.local or ""
    kept = {os.path.relpath(backing.log.full_path(f["path"]), root) for f in backing.log.files()}
    for version in range(backing.log.version(), -1, -1):
        try:
            commit = backing.log.commit(version)
        except FileNotFoundError:
            break
        if version <= horizon and int(commit.info.get("timestamp", 0)) < young:
            break
        kept |= {unquote(a["path"]) for a in (*commit.removes, *commit.adds)}
    return kept
