"""The second half of `make bench`: one query per class of operator, refresh against recompute, on the same changes.

Facts of N rows in N / 10 groups, N / 20 of which have a name, and a forest of N / 10 nodes. Each round updates a share of the
facts, deletes some and inserts some, renames and removes a few groups and moves a few nodes; then every stream table is
refreshed, and the same query is run as a user would run it, INSERT OVERWRITE with the default connector.

    python -m benchmarks.operators [--sizes 1000000,10000000] [--rates 0.001,0.01] [--rounds 2] [--queries a,b] [--json FILE]
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

from rich.console import Console
from rich.table import Table

import runnel
from runnel.versions import DELTA, SPARK

QUERIES = {
    "outer join": "SELECT f.id, f.k, f.x, g.name FROM facts f LEFT JOIN groups g ON f.k = g.k",
    "semi join": "SELECT id, k, x FROM facts WHERE EXISTS (SELECT 1 FROM groups g WHERE g.k = facts.k)",
    "min and max": "SELECT k, MIN(x) AS least, MAX(x) AS most FROM facts GROUP BY k",
    "count distinct": "SELECT k, COUNT(DISTINCT x) AS values FROM facts GROUP BY k",
    "window": "SELECT id, k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, id) AS place FROM facts",
    "top k": "SELECT id, k, x FROM facts ORDER BY x DESC, id LIMIT 100",
    "recursive": """WITH RECURSIVE tree(id, depth) AS (
        SELECT id, 0 FROM nodes WHERE parent IS NULL
        UNION ALL SELECT n.id, t.depth + 1 FROM tree t JOIN nodes n ON n.parent = t.id) SELECT id, depth FROM tree""",
}
CONFIG = {"spark.sql.cteRecursionRowLimit": "-1"}


@dataclass(frozen=True)
class Row:
    """Medians of one query at one size and rate; times in milliseconds."""

    query: str
    rows: int
    rate: float
    changed: int
    refresh_ms: float
    jobs: int
    action: str
    recompute_ms: float

    @property
    def ratio(self) -> float:
        return self.recompute_ms / self.refresh_ms


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", default="1000000,10000000")
    options.add_argument("--rates", default="0.001,0.01")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--queries", default=",".join(QUERIES))
    options.add_argument("--json", default="bench-operators.json", help="where the numbers go")
    options.add_argument("--verify-up-to", type=int, default=1_000_000, help="the largest size at which content is verified at the end")
    chosen = options.parse_args()
    os.environ.setdefault("RUNNEL_DRIVER_MEMORY", "8g")
    console = Console()
    rows: list[Row] = []
    for size in (int(s) for s in chosen.sizes.split(",")):
        folder = tempfile.mkdtemp(prefix="runnel-bench-")
        try:
            rn = runnel.connect(warehouse=folder, progress=console.print, config=CONFIG)
            rows += measure(
                rn, console, size, [float(r) for r in chosen.rates.split(",")], chosen.rounds, chosen.queries.split(","), size <= chosen.verify_up_to
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        report(console, rows, chosen.json)


def measure(rn: runnel.Runnel, console: Console, size: int, rates: list[float], rounds: int, queries: list[str], verify: bool) -> list[Row]:
    """All queries over one set of tables; the first round of each rate warms up and does not count."""
    schema = f"bench_{size}"
    rn.sql(f"CREATE SCHEMA {schema}")
    rn.sql(f"USE {schema}")
    load(rn, size)
    names = {q: q.replace(" ", "_") for q in queries}
    for query, name in names.items():
        took = timed(lambda q=query, n=name: rn.create(n, QUERIES[q], mode="DIFFERENTIAL"))
        console.print(f"{size:,} rows: created {query} in {took / 1000:.1f} s")
        rn.spark.sql(f"CREATE TABLE plain_{name} USING delta AS {QUERIES[query]}")
    found = []
    turn = 0
    for rate in rates:
        times: dict[str, list[tuple[float, float, Any]]] = {q: [] for q in queries}
        for round_ in range(rounds + 1):
            turn += 1
            change(rn, size, rate, turn)
            for query, name in names.items():
                records: list[Any] = []
                refresh = timed(lambda n=name, r=records: r.append(rn.refresh(n)))
                recompute = timed(lambda q=query, n=name: rn.spark.sql(f"INSERT OVERWRITE plain_{n} {QUERIES[q]}"))
                if round_ > 0:
                    times[query].append((refresh, recompute, records[0]))
        for query, measured in times.items():
            refresh, recompute = (round(statistics.median(m[i] for m in measured), 1) for i in (0, 1))
            last = measured[-1][2]
            row = Row(query, size, rate, last.rows_in or 0, refresh, max(m[2].jobs or 0 for m in measured), str(last.action), recompute)
            found.append(row)
            console.print(f"{size:,} rows, {rate:.1%}: {query} {refresh:,.0f} ms, {row.jobs} jobs, recompute {recompute:,.0f} ms, {row.ratio:.1f} x")
    if verify:
        for name in names.values():
            assert rn.verify(name).ok, f"{name} differs from its query"
        console.print(f"{size:,} rows: every content equals its query")
    return found


def load(rn: runnel.Runnel, size: int) -> None:
    properties = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    groups = max(1, size // 10)
    rn.spark.sql(f"CREATE TABLE facts {properties} AS SELECT id, (id * 7919) % {groups} AS k, CAST(id % 1000003 AS INT) AS x FROM range({size})")
    rn.spark.sql(f"CREATE TABLE groups {properties} AS SELECT id * 2 AS k, concat('group ', id) AS name FROM range({groups // 2})")
    rn.spark.sql(
        f"CREATE TABLE nodes {properties} AS SELECT id, CASE WHEN id >= 100 THEN CAST(floor(id / 10) AS BIGINT) END AS parent FROM range({groups})"
    )


def change(rn: runnel.Runnel, size: int, rate: float, turn: int) -> None:
    """`rate` of the facts: half updated, a quarter deleted, a quarter new; and as large a part of groups and nodes, at most 1,000."""
    step = round(1 / rate)
    groups = max(1, size // 10)
    sparse = max(step, groups // 1000)
    rn.sql(f"UPDATE facts SET x = (x * 31 + {turn}) % 1000003 WHERE id % {2 * step} = {turn}")
    rn.sql(f"DELETE FROM facts WHERE id % {4 * step} = {100 + turn}")
    fresh = size + turn * size
    rn.sql(f"INSERT INTO facts SELECT id, (id * 7919) % {groups}, CAST(id % 1000003 AS INT) FROM range({fresh}, {fresh + size // (4 * step)})")
    rn.sql(f"DELETE FROM groups WHERE k % {2 * sparse} = {2 * turn}")
    rn.sql(f"INSERT INTO groups SELECT id * 2 + 1, concat('late ', id) FROM range({turn * 1000}, {turn * 1000 + max(1, groups // (4 * sparse))})")
    rn.sql(f"UPDATE nodes SET parent = CAST(floor(id / 10) AS BIGINT) + 1 WHERE id % {sparse} = {turn} AND id >= {groups // 10}")


def timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def report(console: Console, rows: list[Row], path: str) -> None:
    table = Table(title="one query per class of operator; medians in ms, refresh and recompute on the same changes")
    for heading in ("query", "rows", "rate", "changed rows", "refresh", "jobs", "action", "recompute", "x faster"):
        table.add_column(heading, justify="left" if heading == "query" else "right")
    for r in rows:
        table.add_row(
            r.query,
            f"{r.rows:,}",
            f"{r.rate:.1%}",
            f"{r.changed:,}",
            f"{r.refresh_ms:,.0f}",
            str(r.jobs),
            r.action,
            f"{r.recompute_ms:,.0f}",
            f"{r.ratio:.1f}",
        )
    Console(width=140).print(table)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "spark": SPARK, "delta": DELTA}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"machine": machine, "rows": [{**asdict(r), "recompute / refresh": round(r.ratio, 2)} for r in rows]}, file, indent=2)
    console.print(f"numbers in {path}")


if __name__ == "__main__":
    main()
