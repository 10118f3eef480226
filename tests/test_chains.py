"""A stream table over another one: whatever the lower one finishes at read, the upper one sees as a change."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark

LOWER = {
    "rows": "SELECT x + 1 AS y, k FROM t WHERE x > 0",
    "groups": "SELECT k, SUM(x) AS total FROM t GROUP BY k HAVING SUM(x) > 2",
    "without_keys": "SELECT COUNT(*) AS n, AVG(x) AS mean FROM t",
    "distinct": "SELECT DISTINCT k FROM t",
    "touched_groups": "SELECT k, MIN(x) AS least FROM t GROUP BY k HAVING MIN(x) > 1",
    "window": "SELECT place * 10 AS tens, x, k FROM (SELECT k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS place FROM t)",
    "first_of_each": "SELECT x, k FROM (SELECT k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS place FROM t) WHERE place = 1",
    "top_rows": "SELECT k, x FROM t ORDER BY x LIMIT 2",
    "top_groups": "SELECT k, SUM(x) AS total FROM t GROUP BY k ORDER BY total DESC LIMIT 2",
}
ROUNDS = (
    ("INSERT INTO t VALUES ('d', 3), ('a', -2), ('b', 7)",),
    ("DELETE FROM t WHERE x < 1", "UPDATE t SET x = x + 10 WHERE k = 'b'"),
)


def test_verify_runs_what_spark_cannot_plan_over_a_tail(rn) -> None:
    rn.sql("CREATE SCHEMA chain_values")
    rn.sql("USE chain_values")
    rn.sql("CREATE TABLE people (id INT, name STRING) USING delta")
    rn.sql("CREATE TABLE known (name STRING) USING delta")
    rn.sql("INSERT INTO people VALUES (1, 'n1')")
    rn.create("trimmed", "SELECT id, trim(name) AS name FROM people")
    rn.create("marked", "SELECT p.id, EXISTS (SELECT 1 FROM known k WHERE k.name = p.name) AS is_known FROM trimmed p", mode="DIFFERENTIAL")
    rn.sql("INSERT INTO people VALUES (9, 'n1')")
    for table in ("trimmed", "marked"):
        rn.refresh(table)
    assert rn.verify("marked").ok


def test_readers_of_stream_tables(rn) -> None:
    rn.sql("CREATE SCHEMA chains")
    rn.sql("USE chains")
    rn.sql("CREATE TABLE t (k STRING, x INT) USING delta")
    rn.sql("INSERT INTO t VALUES ('a', 1), ('a', 5), ('b', 7), ('c', 0), (NULL, 4)")
    for name, query in LOWER.items():
        rn.create(f"lower_{name}", query, mode="DIFFERENTIAL")
        rn.create(f"upper_{name}", f"SELECT * FROM lower_{name}", mode="DIFFERENTIAL")
    for commits in ROUNDS:
        for commit in commits:
            rn.sql(commit)
        for name in LOWER:
            for table in (f"lower_{name}", f"upper_{name}"):
                record = rn.refresh(table)
                assert record.action in ("DIFFERENTIAL", "NO_DATA"), record
        assert not apart(rn), commits
    for name in LOWER:
        assert (found := rn.verify(f"lower_{name}")).ok, found


def apart(rn) -> list:
    """The rows that a lower table and its reader do not both have, of all pairs by one query."""
    sides = [
        f"SELECT '{name}' AS pair, to_json(struct(*)) AS content, {sign} AS n FROM {side}_{name}"
        for name in LOWER
        for side, sign in (("lower", 1), ("upper", -1))
    ]
    return rn.sql(f"SELECT pair, content, SUM(n) FROM ({' UNION ALL '.join(sides)}) GROUP BY pair, content HAVING SUM(n) <> 0").collect()
