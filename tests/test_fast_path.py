"""The fast path stays fast: jobs, commits and bytes of a refresh may not rise, and a refresh beats a recompute with room for noise.

Jobs and commits are exact and the same on every machine, bytes nearly so. When one of them falls, lower its limit here. Tables of this
size are read by Runnel's own process; a second connection leaves them to Spark, as larger ones are.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from deltalake import DeltaTable

import runnel
from benchmarks.measure import Meter
from runnel.observe.record import Action

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("fast_path")]

ROWS = 50_000
FEED = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"


@dataclass(frozen=True)
class Limit:
    """A query, the most Spark jobs of its refresh, and the most it may read as a share of the bytes of `facts`.

    One job writes; each side that is broadcast is one more.
    """

    sql: str
    jobs: int
    read: float


QUERIES = {
    "linear": Limit("SELECT id, k, x * 2 AS doubled, note FROM facts WHERE x >= 0", 1, 0.001),
    "additive": Limit("SELECT k, SUM(x) AS total, COUNT(*) AS n FROM facts GROUP BY k", 1, 0.001),
    "top_k": Limit("SELECT id, k, x FROM facts ORDER BY x DESC, id LIMIT 10", 1, 0.001),
    "inner_join": Limit("SELECT f.id, f.x, g.name FROM facts f JOIN groups g ON f.k = g.k", 2, 0.003),
    "outer_join": Limit("SELECT f.id, f.x, g.name FROM facts f LEFT JOIN groups g ON f.k = g.k", 4, 0.006),
    "semi_join": Limit("SELECT id, x FROM facts WHERE EXISTS (SELECT 1 FROM groups g WHERE g.k = facts.k)", 3, 0.003),
    "least": Limit("SELECT k, MIN(x) AS least FROM facts GROUP BY k", 2, 0.06),
    "row_number": Limit(
        "SELECT id, k, x, note, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, id) AS place FROM facts", 3, 1.3
    ),  # 2 jobs and 2.1 before keys came from the driver: Spark does not reuse their broadcast
}


HERE = {"least": 0.14}
"""The same where Runnel's own process reads: of files it counts all columns, here one of eight. Each refresh is one job then."""


@pytest.fixture(scope="module")
def shop(rn: runnel.Runnel, there: runnel.Runnel) -> Iterator[runnel.Runnel]:
    """Facts in eight files of neighbouring keys, a name for each key, a stream table for each query; then 20 facts change."""
    rn.sql("CREATE SCHEMA fast_path")
    rn.sql("USE fast_path")
    spread = f"SELECT /*+ REPARTITION_BY_RANGE(8, id) */ id, id DIV 50 AS k, id % 1000 AS x, sha2(CAST(id AS STRING), 256) AS note FROM range({ROWS})"
    rn.sql(f"CREATE TABLE facts {FEED} AS {spread}")
    rn.sql(f"CREATE TABLE groups {FEED} AS SELECT id AS k, concat('group ', id) AS name FROM range({ROWS // 50})")
    for name, limit in QUERIES.items():
        rn.create(name, limit.sql, mode="DIFFERENTIAL")
        there.create(f"{name}_there", limit.sql, mode="DIFFERENTIAL")
    rn.sql("UPDATE facts SET x = x + 1 WHERE id BETWEEN 100 AND 119")
    yield rn
    rn.sql("USE default")


@pytest.mark.parametrize("query", QUERIES)
def test_jobs_commits_and_bytes(shop: runnel.Runnel, there: runnel.Runnel, query: str) -> None:
    limit = QUERIES[query]
    for connection, name, jobs, read in ((shop, query, 1, HERE.get(query, limit.read)), (there, f"{query}_there", limit.jobs, limit.read)):
        before = shop.status(name)["version"]
        source = DeltaTable(f"{shop.folder}/fast_path.db/facts").get_add_actions(flatten=True)
        sizes = [s.as_py() for s in source.column("size_bytes")]
        spent = Meter(shop.spark).run(lambda connection=connection, name=name: connection.refresh(name))
        assert spent.result.action is Action.DIFFERENTIAL
        assert spent.jobs <= jobs, name
        assert shop.status(name)["version"] == before + 1
        assert spent.read <= read * sum(sizes), name


def test_nothing_changed_costs_nothing(shop: runnel.Runnel) -> None:
    shop.refresh("additive")
    before = shop.status("additive")["version"]
    spent = Meter(shop.spark).run(lambda: shop.refresh("additive"))
    assert spent.result.action is Action.NO_DATA
    assert spent.jobs == 0
    assert shop.status("additive")["version"] == before


@pytest.mark.parametrize("query", ("linear", "additive"))
def test_a_compacted_table_is_read_as_it_lies(shop: runnel.Runnel, query: str) -> None:
    shop.refresh(query)
    assert Meter(shop.spark).run(lambda: shop.compact(query)).jobs == 0, "a table of this size is folded by Runnel's own process"
    plan = shop.table(query)._jdf.queryExecution().optimizedPlan().toString()  # type: ignore[operator]
    assert "Join" not in plan
    assert "Aggregate" not in plan


def test_a_refresh_beats_a_recompute(shop: runnel.Runnel) -> None:
    """By several times on a quiet machine; here it has to win at all."""
    meter, sql = Meter(shop.spark), QUERIES["additive"].sql
    shop.sql(f"CREATE TABLE plain USING delta AS {sql}")
    times: dict[str, list[float]] = {"refresh": [], "recompute": []}
    for round_ in range(3):
        shop.sql(f"UPDATE facts SET x = x + 1 WHERE id BETWEEN {200 + round_} AND 220")
        times["refresh"].append(meter.run(lambda: shop.refresh("additive")).ms)
        times["recompute"].append(meter.run(lambda: shop.spark.sql(f"INSERT OVERWRITE plain {sql}")).ms)
    assert statistics.median(times["refresh"]) < statistics.median(times["recompute"])
