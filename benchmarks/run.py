"""`make bench`: refresh against the floor, a MERGE written by hand and a recompute, on the same data in one run.

For each size N: a source of N rows, 1 % of them updated before each round. *linear* is a filter and a projection,
*additive* is SUM and COUNT by key with N / 10 groups. Every way runs on the same change, in turn, and its median counts.

    python -m benchmarks.run [--sizes 100000,1000000,10000000] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table

import runnel
from runnel.observe.record import RefreshRecord
from runnel.versions import DELTA, SPARK

QUERIES = {
    "linear": "SELECT id, k, amount * 2 AS doubled FROM {source} WHERE amount >= 20",
    "additive": "SELECT k, SUM(amount) AS total, COUNT(*) AS n FROM {source} GROUP BY k",
}
MERGES = {
    "linear": """MERGE INTO {target} t USING (
        SELECT id, k, amount * 2 AS doubled, amount >= 20 AS kept FROM table_changes('{source}', {first}, {last})
        WHERE _change_type IN ('insert', 'update_postimage')) c ON t.id = c.id
        WHEN MATCHED AND c.kept THEN UPDATE SET k = c.k, doubled = c.doubled
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED AND c.kept THEN INSERT (id, k, doubled) VALUES (c.id, c.k, c.doubled)""",
    "additive": """MERGE INTO {target} t USING (
        SELECT k, SUM(IF(_change_type IN ('insert', 'update_postimage'), amount, -amount)) AS total,
               SUM(IF(_change_type IN ('insert', 'update_postimage'), 1, -1)) AS n
        FROM table_changes('{source}', {first}, {last}) GROUP BY k) c ON t.k = c.k
        WHEN MATCHED THEN UPDATE SET total = t.total + c.total, n = t.n + c.n
        WHEN NOT MATCHED THEN INSERT (k, total, n) VALUES (c.k, c.total, c.n)""",
}


@dataclass(frozen=True)
class Row:
    """Medians in milliseconds for one query at one size."""

    query: str
    rows: int
    changed: int
    refresh_ms: float
    floor_ms: float
    merge_ms: float
    recompute_ms: float
    own_full_ms: float
    jobs: int
    commits: int
    no_change_ms: float
    stages: dict[str, float]

    def ratios(self) -> dict[str, float]:
        return {
            "refresh / floor": self.refresh_ms / self.floor_ms,
            "merge / refresh": self.merge_ms / self.refresh_ms,
            "recompute / refresh": self.recompute_ms / self.refresh_ms,
            "own full / refresh": self.own_full_ms / self.refresh_ms,
        }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", default="100000,1000000,10000000")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", default="bench.json", help="where the numbers go")
    chosen = options.parse_args()
    folder = tempfile.mkdtemp(prefix="runnel-bench-")
    os.environ.setdefault("RUNNEL_DRIVER_MEMORY", "6g")
    console = Console()
    try:
        rn = runnel.connect(warehouse=folder, progress=console.print)
        rows = []
        for size in (int(s) for s in chosen.sizes.split(",")):
            for query in QUERIES:
                console.print(f"measuring {query} at {size:,} rows")
                rows.append(measure(rn, query, size, chosen.rounds))
        report(console, rows, chosen.json)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def measure(rn: runnel.Runnel, query: str, size: int, rounds: int) -> Row:
    """All ways on one source; the first round warms up and does not count."""
    source, name, by_hand, plain = (f"{prefix}_{query}_{size}" for prefix in ("s", "st", "m", "p"))
    spark = rn.spark
    spark.sql(
        f"CREATE TABLE {source} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS SELECT id, id % {max(1, size // 10)} AS k, id % 100 AS amount FROM range({size})"
    )
    text = QUERIES[query].format(source=source)
    rn.create(name, text, mode="DIFFERENTIAL")
    properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    spark.sql(f"CREATE TABLE {by_hand} USING delta {properties} AS {text}")
    spark.sql(f"CREATE TABLE {plain} USING delta AS {text}")
    times: dict[str, list[float]] = {k: [] for k in ("refresh", "floor", "merge", "recompute", "own full", "nothing")}
    records: list[RefreshRecord] = []
    commits: list[int] = []
    merged = version(rn, source)
    for round_ in range(rounds + 1):
        spark.sql(f"UPDATE {source} SET amount = amount + 1 WHERE id % 100 = {round_ % 100}")
        latest = version(rn, source)
        before = version_of_stream(rn, name)
        spent = {"refresh": timed(lambda: records.append(rn.refresh(name)))}
        after = version_of_stream(rn, name)
        commits.append(after - before)
        spent["floor"] = floor(rn, name, before, after)
        merge = MERGES[query].format(target=by_hand, source=source, first=merged + 1, last=latest)
        spent["merge"] = timed(lambda merge=merge: spark.sql(merge))
        spent["recompute"] = timed(lambda: spark.sql(f"INSERT OVERWRITE {plain} {text}"))
        spent["nothing"] = statistics.median(timed(lambda: rn.refresh(name)) for _ in range(5))
        spent["own full"] = timed(lambda: rn.refresh(name, full=True))
        merged = latest
        if round_ > 0:
            for way, ms in spent.items():
                times[way].append(ms)
    assert rn.verify(name).ok, f"{name} differs from its query"
    counted = records[1:]
    medians = {way: round(statistics.median(ms), 1) for way, ms in times.items()}
    stages = {s.name: round(statistics.median(r.stages[i].ms for r in counted), 1) for i, s in enumerate(counted[0].stages)}
    changed = int(statistics.median(r.rows_in or 0 for r in counted))
    for table in (name,):
        rn.drop(table)
    for table in (by_hand, plain, source):
        rn.sql(f"DROP TABLE {table}")
    return Row(
        query,
        size,
        changed,
        medians["refresh"],
        medians["floor"],
        medians["merge"],
        medians["recompute"],
        medians["own full"],
        jobs=max(r.jobs or 0 for r in counted),
        commits=max(commits),
        no_change_ms=medians["nothing"],
        stages=stages,
    )


def floor(rn: runnel.Runnel, name: str, before: int, after: int) -> float:
    """The same change, already computed, appended by the fastest path there is: Spark writes Parquet, delta-rs commits.

    It is appended to a copy, so that the stream table stays right.
    """
    from dataclasses import replace

    from runnel.tables.backing import TAIL, BackingTable, CommitNote

    engine = rn._engine
    backing = engine.backing(rn._name(name))
    adds = [backing.log.full_path(a["path"]) for a in backing.log.commit(after).adds]
    frame: DataFrame = engine.reader.session.read.schema(engine.reader.table(backing.path, after).schema).parquet(*adds)
    kept = frame.localCheckpoint(eager=True)
    path = f"{rn.folder}/_floor/{name}-{after}"
    copy = BackingTable.create(
        path, replace(backing.definition, id=f"{backing.definition.id}-floor"), engine.reader.table(backing.path, after).schema
    )
    assert before == after - 1

    def append() -> None:
        written = copy.write(kept, TAIL, 1)
        copy.commit(0, written, CommitNote("refresh", 1, {}))

    with engine.reader.configured(spark__sql__adaptive__enabled="false"):
        return timed(append)


def version(rn: runnel.Runnel, table: str) -> int:
    return rn._engine.log(f"{rn.folder}/{table}").version()


def version_of_stream(rn: runnel.Runnel, name: str) -> int:
    return rn._engine.backing(rn._name(name)).log.version()


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def report(console: Console, rows: list[Row], path: str) -> None:
    table = Table(title="1 % of the rows updated; medians in ms, all ways side by side in one run")
    for heading in (
        "query",
        "rows",
        "changed",
        "refresh",
        "jobs",
        "floor",
        "/ floor",
        "MERGE by hand",
        "x",
        "recompute",
        "x",
        "own FULL",
        "nothing changed",
    ):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    for row in rows:
        ratio = row.ratios()
        table.add_row(
            row.query,
            f"{row.rows:,}",
            f"{row.changed:,}",
            f"{row.refresh_ms:,.0f}",
            str(row.jobs),
            f"{row.floor_ms:,.0f}",
            f"{ratio['refresh / floor']:.2f}",
            f"{row.merge_ms:,.0f}",
            f"{ratio['merge / refresh']:.1f}",
            f"{row.recompute_ms:,.0f}",
            f"{ratio['recompute / refresh']:.1f}",
            f"{row.own_full_ms:,.0f}",
            f"{row.no_change_ms:.1f}",
        )
    Console(width=160).print(table)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "spark": SPARK, "delta": DELTA}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"machine": machine, "rows": [{**asdict(r), "ratios": r.ratios()} for r in rows]}, file, indent=2)
    console.print(f"numbers in {path}")


if __name__ == "__main__":
    main()
