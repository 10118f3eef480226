"""A warehouse to measure in: Runnel on a session whose jobs can be counted, and the checks that what was measured is right."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from deltalake import DeltaTable

import runnel
from benchmarks.measure import COUNTABLE, Meter

CONFIG = {**COUNTABLE, "spark.sql.cteRecursionRowLimit": "-1"}
FEED = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
"""How source tables are made: with the change feed on from the start, so that the first refresh does not turn it on."""


@dataclass(frozen=True)
class Bench:
    """What every part works with."""

    rn: runnel.Runnel
    meter: Meter
    say: Callable[[str], None]

    @contextmanager
    def schema(self, name: str) -> Iterator[str]:
        """A schema of its own, gone with all its tables afterwards."""
        self.rn.sql(f"CREATE SCHEMA {name}")
        self.rn.sql(f"USE {name}")
        try:
            yield name
        finally:
            for table in reversed(self.rn.list()):
                if f".{name}." in f".{table['name']}":
                    self.rn.drop(table["name"], cascade=True, if_exists=True)
            self.rn.sql("USE default")
            self.rn.sql(f"DROP SCHEMA {name} CASCADE")
            shutil.rmtree(f"{self.rn.folder}/{name}.db", ignore_errors=True)

    def path(self, table: str) -> str:
        """The folder of a table of the current schema."""
        schema = self.rn.spark.catalog.currentDatabase()
        return f"{self.rn.folder}/{schema}.db/{table}" if schema != "default" else f"{self.rn.folder}/{table}"

    def version(self, table: str) -> int:
        """The latest version of a plain table of the current schema."""
        return DeltaTable(self.path(table)).version()

    def backing(self, name: str) -> DeltaTable:
        """The backing table of a stream table, for its files."""
        return DeltaTable(self.rn._engine.backing(self.rn._name(name)).path)

    def check(self, name: str) -> None:
        """A stream table equals its query from scratch."""
        found = self.rn.verify(name)
        assert found.ok, f"{name} differs from its query: {found}"

    def same(self, table: str, query: str) -> None:
        """A plain table equals a query, rows counted with their copies."""
        for one, other in ((f"TABLE {table}", query), (query, f"TABLE {table}")):
            rows = self.rn.spark.sql(f"SELECT * FROM ({one}) EXCEPT ALL SELECT * FROM ({other}) LIMIT 1").collect()
            assert not rows, f"{table} differs from its query: {rows}"


@contextmanager
def opened(say: Callable[[str], None], memory: str = "8g") -> Iterator[Bench]:
    """A bench in a folder that is removed in the end."""
    os.environ.setdefault("RUNNEL_DRIVER_MEMORY", memory)
    folder = tempfile.mkdtemp(prefix="runnel-bench-")
    try:
        rn = runnel.connect(warehouse=folder, progress=say, config=CONFIG)
        yield Bench(rn, Meter(rn.spark), say)
        rn.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
