"""Tier 4 on Spark and Delta Lake: many generated queries over the same tables, which share two rounds of commits."""

from __future__ import annotations

import re
from collections import Counter
from itertools import cycle
from random import Random

import pytest

from tests.support.delta import insertion
from tests.support.fixture import Table
from tests.support.generate import row
from tests.support.writer import TABLES, Query, Writer

pytestmark = pytest.mark.spark

QUICK = 10
"""Queries of one part; each takes about ten seconds with its two refreshes and checks."""

COMMITS = (
    (
        "INSERT INTO t VALUES ('a', 2, 0.5), ('d', 1, 3.0), (NULL, 5, NULL)",
        "INSERT INTO u VALUES ('a', 1, 1.50)",  # so that the next statement changes something, whatever the rows are
        "UPDATE u SET k = 'c', y = COALESCE(y, 0) + 1 WHERE k = 'a' AND y > 0",
        "INSERT INTO v VALUES ('d', 7)",
        "DELETE FROM v WHERE z = 1 OR j IS NULL",
        "INSERT INTO w VALUES (1, 2), (2, 3), (2, 3), (3, NULL)",
    ),
    (
        "MERGE INTO t USING (SELECT 'a' AS k, 1 AS x UNION ALL SELECT 'b', 2 UNION ALL SELECT 'e', 3) AS s ON t.k = s.k AND t.x = s.x "
        "WHEN MATCHED AND t.d > 0 THEN DELETE WHEN MATCHED THEN UPDATE SET d = 0.25 WHEN NOT MATCHED THEN INSERT (k, x, d) VALUES (s.k, s.x, 1.5)",
        "INSERT INTO u VALUES ('a', 3, 2.50), ('a', 3, 2.50), (NULL, NULL, NULL)",
        "INSERT INTO v VALUES ('a', 1), ('b', 5), (NULL, 2)",
        "DELETE FROM w WHERE a = 2 OR b IS NULL",
    ),
)


def test_generated_on_spark(rn, there) -> None:
    follow_all(rn, there, "generated", range(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 20))
def test_more_generated_on_spark(rn, there, part: int) -> None:
    follow_all(rn, there, f"generated_{part}", range(part * QUICK, (part + 1) * QUICK))


def follow_all(rn, there, schema: str, seeds: range) -> None:
    """Every query is created, then refreshed and verified after each round; all failures are told at the end. Every other one is refreshed
    without rows that this process reads."""
    rn.sql(f"CREATE SCHEMA {schema}")
    rn.sql(f"USE {schema}")
    random = Random(seeds.start)
    for name, columns in TABLES.items():
        table = Table(name, columns)
        rn.sql(f"CREATE TABLE {name} ({', '.join(f'{n} {t}' for n, t in columns)}) USING delta")
        rn.sql(insertion(table, Counter(row(random, columns) for _ in range(9))))
    queries = {f"s_{seed}": Writer(Random(seed)).query(2 + seed % 5) for seed in seeds}
    failures = {name: why for name, query in queries.items() if (why := attempt(lambda n=name, q=query: rn.create(n, q.sql, mode="DIFFERENTIAL")))}
    for round_, statements in enumerate(COMMITS):
        for statement in statements:
            rn.sql(statement)
        for (name, query), connection in zip(queries.items(), cycle((rn, there)), strict=False):
            if name not in failures and (why := attempt(lambda c=connection, n=name, q=query: refresh(c, n, q))):
                failures[name] = f"round {round_}: {why}"
    assert not failures, "\n\n".join(f"{name}: {queries[name].sql}\n  {why}" for name, why in failures.items())


def refresh(rn, name: str, query: Query) -> None:
    reads = any(re.search(rf"(FROM|JOIN) {table}\b", query.sql) for table in TABLES)
    record = rn.refresh(name)
    assert record.action == ("DIFFERENTIAL" if reads else "NO_DATA"), record
    found = rn.verify(name)
    assert found.ok, found


def attempt(work) -> str | None:
    try:
        work()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:2000]}"
    return None
