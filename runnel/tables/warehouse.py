"""The warehouse folder as the catalog: with no metastore, what lies in the folder is what exists.

`<warehouse>/<table>` and `<warehouse>/<schema>.db/<table>` are tables, as Spark lays managed tables out;
`<warehouse>/_runnel` holds the backing tables and the SQLite catalog.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from runnel.tables.content import quote

NAME = re.compile(r"(?!_)\w+(\.db)?", re.ASCII)
"""Folders that Spark accepts as names of tables and schemas; others are not ours to touch."""


class Warehouse:
    """Keeps the in-memory catalog of an embedded session equal to the folder."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self.spark = spark
        self.folder = folder
        self.registered: set[tuple[str, str]] = set()
        self._schemas = {"default"}

    def sync(self, schemas: Collection[str] = ()) -> None:
        """Register tables that another process made, forget those that are gone. A listing of folders when nothing moved.

        `schemas` exist whatever lies in them: one may have stream tables only.
        """
        found = self.tables()
        wanted = {"default", *schemas, *(s for s, _ in found)}
        for schema in wanted - self._schemas:
            self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
        self._schemas = wanted
        fresh = [t for t in found if t not in self.registered]
        if len(fresh) > 1:
            with ThreadPoolExecutor(4) as pool:
                list(pool.map(self._register, fresh))
        else:
            for table in fresh:
                self._register(table)
        for schema, name in self.registered - found:
            self.spark.sql(f"DROP TABLE IF EXISTS {quote(schema)}.{quote(name)}")
        self.registered = found

    def tables(self) -> set[tuple[str, str]]:
        return tables_in(self.folder)

    def remove(self, schema: str, name: str) -> None:
        """Delete the folder of a table that was dropped: a table registered from the folder is external to Spark."""
        folder = self._path(schema, name)
        if self._is_table(os.path.relpath(folder, self.folder)):
            shutil.rmtree(folder)
        self.registered.discard((schema, name))

    def _register(self, table: tuple[str, str]) -> None:
        schema, name = table
        try:
            self.spark.sql(f"CREATE TABLE IF NOT EXISTS {quote(schema)}.{quote(name)} USING delta LOCATION '{self._path(schema, name)}'")
        except PySparkException:
            if os.path.isdir(f"{self._path(schema, name)}/_delta_log"):
                raise

    def _path(self, schema: str, name: str) -> str:
        return f"{self.folder}/{name}" if schema == "default" else f"{self.folder}/{schema}.db/{name}"

    def _is_table(self, relative: str) -> bool:
        return _is_table(f"{self.folder}/{relative}")


def tables_in(folder: str) -> set[tuple[str, str]]:
    """(schema, table) of every Delta table in a warehouse folder; nothing where there is no folder."""
    found = set()
    for entry in _folders(folder):
        if entry.endswith(".db"):
            found |= {(entry[:-3], t) for t in _folders(f"{folder}/{entry}") if _is_table(f"{folder}/{entry}/{t}")}
        elif _is_table(f"{folder}/{entry}"):
            found.add(("default", entry))
    return found


def _is_table(folder: str) -> bool:
    log = f"{folder}/_delta_log"
    return os.path.isdir(log) and any(e.name.endswith((".json", ".parquet")) for e in os.scandir(log))


def _folders(folder: str) -> list[str]:
    if not os.path.isdir(folder):
        return []
    return [e.name for e in os.scandir(folder) if e.is_dir() and NAME.fullmatch(e.name)]
