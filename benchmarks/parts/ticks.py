"""What a tick of the scheduler takes when there is nothing to do, and a change of the graph. No Spark job runs.

*size* is the number of stream tables, over a tenth as many sources. A tick asks the catalog whether anything was said, probes the log of
every source and decides; the graph is that of one more stream table.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql.types import LongType, StringType, StructField, StructType

from benchmarks.bench import Bench
from benchmarks.part import Options, Part
from benchmarks.plot import Rows, figure
from benchmarks.results import Measured
from runnel.algebra import WEIGHT, Column
from runnel.definition import Definition, SourceRef
from runnel.differentiate import rows_layout
from runnel.execute.daemon import SparkEffects
from runnel.execute.engine import Engine
from runnel.execute.refresh import entry_of
from runnel.execute.workers import Workers
from runnel.observe.record import Action, Mode
from runnel.schedule.daemon import Limits, Scheduler
from runnel.state import Catalog
from runnel.tables.backing import BackingTable, CommitNote, Written
from runnel.tables.content import HASH, LEVEL

WARM = 3
MANY = 1_000
"""Ticks between two looks at the memory of this process."""
SCHEDULES = ("SCHEDULE EVERY 1h", "TRIGGER ON UPDATE", "SCHEDULE CRON '0 3 * * *'", "TARGET_LAG = '1h'", "")


def measure(bench: Bench, options: Options) -> Iterator[Measured]:
    for size in map(int, options.sizes):
        with tempfile.TemporaryDirectory(prefix="runnel-ticks-") as folder:
            yield from _one(bench, options, size, Path(folder))


def _one(bench: Bench, options: Options, size: int, folder: Path) -> Iterator[Measured]:
    catalog = Catalog.open(f"sqlite:///{folder}/catalog.db")
    engine = Engine(bench.rn.spark, bench.rn.settings, catalog, bench.rn._engine.reader)
    _fill(catalog, folder, size)
    workers = Workers(engine, 1)
    scheduler = Scheduler(SparkEffects(engine, workers, lambda: None, lambda event: None, lambda: None), Limits())
    scheduler.step()
    assert not scheduler.last_tick.runs, scheduler.last_tick

    def tick() -> None:
        scheduler.hurry()
        scheduler._dirty = True
        scheduler.step()

    graph = engine.graph()
    reads = {**graph.reads, "one_more": tuple(graph.order[-2:])}
    assert graph.units

    def rebuild() -> None:
        changed = graph.changed_to(reads, graph.groups)
        assert changed.units and changed.unit_of and changed.readers

    ways: dict[str, Callable[[], object]] = {"nothing to do": tick, "one more stream table": rebuild}
    for way, make in ways.items():
        runs = [_ms(make) for _ in range(WARM + options.rounds)][WARM:]
        yield Measured({"size": size, "way": way}, round(statistics.median(runs), 2), 0, 0, 0, runs)
    held = [_resident()]
    for _ in range(3):
        for _ in range(MANY):
            tick()
        held.append(_resident())
    yield Measured({"size": size, "way": f"{3 * MANY} ticks"}, 0, 0, 0, 0, [], {"resident_mib": held})
    workers.close()
    catalog.close()


def _resident() -> float:
    """MiB of this process, as Linux counts them."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20), 1)


def _fill(catalog: Catalog, folder: Path, size: int) -> None:
    """Stream tables that have read everything, in chains of some length over sources of one row."""
    random = Random(size)
    sources = [f"spark_catalog.default.s{i}" for i in range(max(1, size // 10))]
    for source in sources:
        write_deltalake(str(folder / source), pa.table({"k": [1]}))
    column = (Column("k", "bigint"),)
    schema = StructType([StructField("k", LongType()), *(StructField(n, LongType()) for n in (HASH, WEIGHT)), StructField(LEVEL, StringType())])
    made: list[tuple[str, str, int]] = []
    for number in range(size):
        name = f"spark_catalog.default.t{number:04d}"
        below = random.choice(made) if made and random.random() < 0.5 else None
        source = random.choice(sources)
        ref = SourceRef(below[0], "stream", below[1]) if below else SourceRef(source, "delta", str(folder / source), {"k": '"long"'})
        path = str(folder / f"table-{number}")
        layout = rows_layout(column, column)
        definition = Definition(f"{number:032x}", name, "q", "q", Mode.AUTO, (ref,), layout, schedule=random.choice(SCHEDULES), created_at=_now())
        backing = BackingTable.create(path, definition, schema)
        identity = BackingTable(ref.path, definition).log.table_id()
        note = CommitNote("refresh", 1, {ref.key: [below[2] if below else 0, identity]}, Action.FULL)
        made.append((name, path, backing.commit(0, Written((), 0, False), note)))
        catalog.put(entry_of(backing))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


def _ms(make: Callable[[], object]) -> float:
    before = time.perf_counter()
    make()
    return round((time.perf_counter() - before) * 1000, 2)


def figures(found: list[Measured], note: str) -> dict[str, str]:
    found = [m for m in found if m.runs]  # memory has no time
    lines = [f"{m.labels['size']} stream tables, {m.labels['way']}" for m in found]
    return {"": figure("A tick of the scheduler", note, [Rows("without Spark", "ms", lines, {"ms": [m.ms for m in found]}, label=260)], 1, 900)}


PART = Part(
    name="ticks",
    title="a tick of the scheduler",
    quick=Options(sizes=(1000,), rounds=20),
    full=Options(sizes=(100, 1000, 3000), rounds=50),
    measure=measure,
    figures=figures,
    against="",
)
