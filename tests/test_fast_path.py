"""The fast path stays fast: jobs, commits and bytes of a refresh may not rise, and a refresh beats a recompute with room for noise.

Counts are exact and the same on every machine. When one of them falls, lower its limit here.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.measure import Meter
from runnel.observe.record import Action

pytestmark = pytest.mark.spark

ROWS = 50_000
FEED = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
QUERIES = {
    "linear": "SELECT id, k, x * 2 AS doubled FROM facts WHERE x >= 200",
    "additive": "SELECT k, SUM(x) AS total, COUNT(*) AS n FROM facts GROUP BY k",
    "distinct": "SELECT DISTINCT k FROM facts",
    "union": "SELECT id, x FROM facts WHERE x < 100 UNION ALL SELECT id, x FROM facts WHERE x > 900",
    "top_k": "SELECT id, k, x FROM facts ORDER BY x DESC, id LIMIT 10",
    "inner_join": "SELECT f.id, f.x, g.name FROM facts f JOIN groups g ON f.k = g.k",
    "outer_join": "SELECT f.id, f.x, g.name FROM facts f LEFT JOIN groups g ON f.k = g.k",
    "semi_join": "SELECT id, x FROM facts WHERE EXISTS (SELECT 1 FROM groups g WHERE g.k = facts.k)",
    "join_and_sum": "SELECT g.name, SUM(f.x) AS total FROM facts f JOIN groups g ON f.k = g.k GROUP BY g.name",
    "least": "SELECT k, MIN(x) AS least FROM facts GROUP BY k",
    "row_number": "SELECT id, k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, id) AS place FROM facts",
}
JOBS = {
    "linear": 1,
    "additive": 1,
    "distinct": 1,
    "union": 1,
    "top_k": 1,
    "inner_join": 2,
    "outer_join": 2,
    "semi_join": 2,
    "join_and_sum": 2,
    "least": 2,
    "row_number": 2,
}
"""The most Spark jobs of a refresh after an UPDATE of `facts`: one that writes, one more for each side that is broadcast."""


@pytest.fixture(scope="module")
def shop(rn) -> Iterator:
    """Facts in eight files of neighbouring keys, a name for each key, and a stream table for each query."""
    rn.sql("CREATE SCHEMA fast_path")
    rn.sql("USE fast_path")
    spread = f"SELECT /*+ REPARTITION_BY_RANGE(8, id) */ id, id DIV 50 AS k, id % 1000 AS x, sha2(CAST(id AS STRING), 256) AS note FROM range({ROWS})"
    rn.sql(f"CREATE TABLE facts {FEED} AS {spread}")
    rn.sql(f"CREATE TABLE groups {FEED} AS SELECT id AS k, concat('group ', id) AS name FROM range({ROWS // 50})")
    for name, sql in QUERIES.items():
        rn.create(name, sql, mode="DIFFERENTIAL")
    rn.sql("UPDATE facts SET x = x + 1 WHERE id % 5000 = 7")
    yield rn
    rn.sql("USE default")


@pytest.mark.parametrize("query", QUERIES)
def test_jobs_and_commits(shop, query: str) -> None:
    before = shop.status(query)["version"]
    record = shop.refresh(query)
    print("JOBS", query, record.jobs)
    assert record.action is Action.DIFFERENTIAL
    assert record.jobs <= JOBS[query]
    assert shop.status(query)["version"] == before + 1


def test_nothing_changed_costs_nothing(shop) -> None:
    shop.refresh("additive")
    before = shop.status("additive")["version"]
    spent = Meter(shop.spark).run(lambda: shop.refresh("additive"))
    assert spent.result.action is Action.NO_DATA
    assert spent.jobs == 0
    assert shop.status("additive")["version"] == before


@pytest.mark.parametrize("query", QUERIES)
def test_bytes(shop, query: str) -> None:
    """No more than the changed rows are read."""
    shop.sql("UPDATE facts SET x = x + 1 WHERE id BETWEEN 100 and 120")
    source = sum(f.stat().st_size for f in Path(shop.folder, "fast_path.db", "facts").glob("*.parquet"))
    spent = Meter(shop.spark).run(lambda: shop.refresh(query))
    print("BYTES", query, spent, source)


@pytest.mark.parametrize("query", ("linear", "additive"))
def test_a_compacted_table_is_read_as_it_lies(shop, query: str) -> None:
    shop.compact(query)
    plan = shop.table(query)._jdf.queryExecution().optimizedPlan().toString()
    assert "Join" not in plan
    assert "Aggregate" not in plan


def test_refresh_beats_recompute(shop) -> None:
    """By several times on a quiet machine; here it has to win at all."""
    meter = Meter(shop.spark)
    shop.sql(f"CREATE TABLE plain USING delta AS {QUERIES['additive']}")
    times: dict[str, list[float]] = {"refresh": [], "recompute": []}
    for round_ in range(3):
        shop.sql(f"UPDATE facts SET x = x + 1 WHERE id % 5000 = {100 + round_}")
        times["refresh"].append(meter.run(lambda: shop.refresh("additive")).ms)
        times["recompute"].append(meter.run(lambda: shop.spark.sql(f"INSERT OVERWRITE plain {QUERIES['additive']}")).ms)
    print(times)
    assert statistics.median(times["refresh"]) < statistics.median(times["recompute"])
