"""What only Spark can show of the algebra: the clock, the schema of results, limits on the size of a query."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.functions import arrow_udf, udf

from runnel.errors import DefinitionError, Unsupported

pytestmark = pytest.mark.spark

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def shop(rn):
    rn.sql("CREATE SCHEMA algebra_spark")
    rn.sql("USE algebra_spark")
    rn.sql("CREATE TABLE t (id INT NOT NULL, k STRING, x INT, d DOUBLE, a ARRAY<INT>, ts TIMESTAMP)")
    rn.sql(
        """INSERT INTO t VALUES (1, 'a', 1, 0.5, array(1, 2), TIMESTAMP'2026-02-23 12:00:00Z'),
           (2, 'a', 1, 1.5, NULL, TIMESTAMP'2026-02-28 12:00:00Z'), (3, NULL, NULL, NULL, array(), TIMESTAMP'2026-03-01 11:00:00Z')"""
    )
    rn.sql("CREATE TABLE e (src INT, dst INT NOT NULL)")
    rn.sql("INSERT INTO e VALUES (1, 2), (2, 3)")
    return rn


@pytest.fixture
def clock(rn, monkeypatch):
    """A clock that the test turns."""
    hands = {"now": START}
    monkeypatch.setattr(rn._engine, "now", lambda: hands["now"])
    return hands


def test_rows_leave_a_moving_window_without_any_source_change(shop, clock) -> None:
    shop.create("last_week", "SELECT id, ts FROM t WHERE ts > now() - INTERVAL 7 DAYS", mode="DIFFERENTIAL")
    assert sorted(r.id for r in shop.table("last_week").collect()) == [1, 2, 3]
    clock["now"] = START + timedelta(days=1)
    record = shop.refresh("last_week")
    assert record.action == "DIFFERENTIAL" and "clock.now moved" in record.reason
    assert sorted(r.id for r in shop.table("last_week").collect()) == [2, 3]
    assert shop.verify("last_week").ok
    shop.drop("last_week")


def test_a_date_moves_once_a_day(shop, clock) -> None:
    shop.create("age", "SELECT id, datediff(current_date(), CAST(ts AS DATE)) AS days FROM t", mode="DIFFERENTIAL")
    clock["now"] = START + timedelta(hours=1)
    assert shop.refresh("age").action == "NO_DATA"
    clock["now"] = START + timedelta(days=2)
    assert shop.refresh("age").action == "DIFFERENTIAL"
    assert {r.id: r.days for r in shop.table("age").collect()} == {1: 8, 2: 3, 3: 2}
    assert shop.verify("age").ok
    shop.drop("age")


SCHEMAS = {
    "rows": "SELECT id, k, x + 1 AS y FROM t",
    "groups": "SELECT k, COUNT(*) AS n, SUM(x) AS s, COALESCE(MAX(x), 0) AS m FROM t GROUP BY k",
    "padded": "SELECT t.id, e.dst FROM t LEFT JOIN e ON t.x = e.src",
    "ranked": "SELECT id, k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id) AS place FROM t",
    "exploded": "SELECT id, one FROM t LATERAL VIEW OUTER explode(a) v AS one",
    "nested": "SELECT id, named_struct('k', k, 'a', a) AS s, map('x', x) AS m FROM t",
    "scalar": "SELECT id, (SELECT COUNT(*) FROM e WHERE e.src = t.x) AS n FROM t",
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_names_types_and_nullability_are_those_of_the_query(shop, name: str) -> None:
    shop.create(f"schema_{name}", SCHEMAS[name], mode="DIFFERENTIAL")
    found = [(f.name, f.dataType.simpleString(), f.nullable) for f in shop.table(f"schema_{name}").schema.fields]
    expected = [(f.name, f.dataType.simpleString(), f.nullable) for f in shop.spark.sql(SCHEMAS[name]).schema.fields]
    assert found == expected
    shop.drop(f"schema_{name}")


def test_an_update_of_columns_that_nobody_reads_changes_nothing(shop) -> None:
    shop.create("narrow", "SELECT t.k, e.dst FROM t JOIN e ON t.x = e.src", mode="DIFFERENTIAL")
    shop.sql("UPDATE t SET d = d + 1 WHERE id = 1")
    record = shop.refresh("narrow")
    assert (record.action, record.rows_out) == ("DIFFERENTIAL", 0)
    assert shop.verify("narrow").ok
    shop.drop("narrow")


def test_a_scalar_subquery_of_several_rows_fails_as_in_spark(shop) -> None:
    shop.create("single", "SELECT id, (SELECT dst FROM e WHERE e.src = t.x) AS one FROM t", mode="DIFFERENTIAL")
    shop.sql("INSERT INTO e VALUES (1, 9)")
    with pytest.raises(DefinitionError, match="more than one row") as caught:
        shop.refresh("single")
    assert caught.value.code == "SCALAR_SUBQUERY_TOO_MANY_ROWS"
    shop.sql("DELETE FROM e WHERE dst = 9")
    assert shop.refresh("single").action == "DIFFERENTIAL"
    assert shop.verify("single").ok
    shop.drop("single")


def test_a_recursion_without_end_stops_at_its_bound(shop) -> None:
    query = "WITH RECURSIVE r(n) AS (SELECT src FROM e WHERE src = 1 UNION ALL SELECT e.dst FROM r JOIN e ON r.n = e.src) SELECT n FROM r"
    shop.create("endless", query, mode="DIFFERENTIAL")
    shop.sql("INSERT INTO e VALUES (3, 1)")
    shop.spark.conf.set("spark.sql.cteRecursionLevelLimit", "20")
    with pytest.raises(DefinitionError) as caught:
        shop.refresh("endless")
    shop.spark.conf.unset("spark.sql.cteRecursionLevelLimit")
    assert caught.value.code == "RECURSION_LIMIT"
    shop.sql("DELETE FROM e WHERE src = 3")
    assert shop.refresh("endless").action == "DIFFERENTIAL"
    assert shop.verify("endless").ok
    shop.drop("endless")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT " + "(" * 10_000 + "x" + ")" * 10_000 + " AS y FROM t", "TOO_LARGE"),
        ("WITH " + ", ".join(f"c{i} AS (SELECT x FROM t)" for i in range(1_001)) + " SELECT x FROM c1", "TOO_LARGE"),
        ("SELECT " + ", ".join(f"x AS x{i}" for i in range(2_001)) + " FROM t", "TOO_LARGE"),
        ("SELECT " + " + ".join(["x"] * 20_000) + " AS y FROM t", "TOO_LARGE"),
    ],
    ids=["parentheses", "ctes", "columns", "chain"],
)
def test_a_query_beyond_bounds_gets_a_clear_error(shop, query: str, code: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        shop.create("large", query)
    assert caught.value.code == code, caught.value


def test_user_functions_of_the_session_are_maintained(shop) -> None:
    @arrow_udf("double")
    def spread(values: pa.Array) -> float:
        return float(pc.max(values).as_py() - pc.min(values).as_py())

    shop.spark.udf.register("plus_one", udf(lambda x: None if x is None else x + 1, "int"))
    shop.spark.udf.register("spread", spread)
    shop.create("mapped", "SELECT id, plus_one(x) AS y FROM t", mode="DIFFERENTIAL")
    shop.create("spreads", "SELECT k, spread(x) AS width FROM t WHERE x IS NOT NULL GROUP BY k", mode="DIFFERENTIAL")
    shop.sql("INSERT INTO t VALUES (7, 'a', 5, 0.0, NULL, NULL)")
    for name in ("mapped", "spreads"):
        assert shop.refresh(name).action == "DIFFERENTIAL"
        assert shop.verify(name).ok
    assert {r.k: r.width for r in shop.table("spreads").collect()} == {"a": 4.0}
    shop.drop("mapped")
    shop.drop("spreads")


def test_a_statistic_of_doubles_inside_a_larger_query_takes_back_what_it_gave(shop) -> None:
    query = "SELECT t.id, s.sd, s.r FROM t JOIN (SELECT k, STDDEV(d) AS sd, CORR(d, x) AS r FROM t GROUP BY k) s ON t.k = s.k"
    shop.create("spread", query, mode="DIFFERENTIAL")
    shop.sql("INSERT INTO t VALUES (21, 'a', 5, 0.1, NULL, NULL), (22, 'a', 6, 0.7, NULL, NULL), (23, 'a', 7, 1e-12, NULL, NULL)")
    assert shop.refresh("spread").action == "DIFFERENTIAL"
    assert shop.verify("spread").ok
    shop.drop("spread")


def test_a_sketch_at_the_root_is_kept_and_left_out_of_checks(shop) -> None:
    calls = "HLL_SKETCH_AGG(x) AS h, HISTOGRAM_NUMERIC(d, 2) AS bins, APPROX_TOP_K(x) AS top, KLL_SKETCH_AGG_BIGINT(x) AS q"
    shop.create("sketches", f"SELECT k, COUNT(*) AS n, {calls} FROM t GROUP BY k", mode="DIFFERENTIAL")
    shop.create("estimates", "SELECT k, HLL_SKETCH_ESTIMATE(HLL_SKETCH_AGG(x)) AS about FROM t GROUP BY k", mode="DIFFERENTIAL")
    shop.sql("INSERT INTO t VALUES (31, 'z', 5, 0.0, NULL, NULL), (32, 'z', 6, 0.5, NULL, NULL), (33, 'z', 6, 0.5, NULL, NULL)")
    for name in ("sketches", "estimates"):
        assert shop.refresh(name).action == "DIFFERENTIAL"
        assert shop.verify(name).ok
    assert {r.k: r.about for r in shop.table("estimates").collect()}["z"] == 2
    assert "verify does not compare" in str(shop.explain("sketches"))
    shop.drop("sketches")
    shop.drop("estimates")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT t.id, s.h FROM t JOIN (SELECT k, HLL_SKETCH_AGG(x) AS h FROM t GROUP BY k) s ON t.k = s.k",
        "SELECT k FROM t GROUP BY k HAVING HLL_SKETCH_ESTIMATE(HLL_SKETCH_AGG(x)) > 1",
    ],
)
def test_a_sketch_inside_a_larger_query_is_recomputed_and_said_so(shop, query: str) -> None:
    with pytest.raises(Unsupported, match="hll_sketch_agg"):
        shop.create("inner_sketch", query, mode="DIFFERENTIAL")
    assert shop.create("inner_sketch", query).action == "FULL"
    shop.drop("inner_sketch")
