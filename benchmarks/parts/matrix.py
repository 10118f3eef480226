"""The matrix of pg_trickle's own benchmark on Spark: nine queries, sizes and rates of change, every way side by side.

`src` has N rows of five regions and four categories, `dim` names the regions. A round changes N x rate rows: 70 % get another
amount, 15 % go, 15 % come, in three commits, picked by a hash of id and round. Each query starts from fresh tables; its rates
follow one another on them, the smallest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.bench import FEED, Bench
from benchmarks.contest import WAYS, Contest, measured
from benchmarks.measure import in_turn
from benchmarks.part import Options, Part
from benchmarks.plot import Columns, figure
from benchmarks.results import Measured, one, values

QUERIES = {
    "scan": "SELECT id, region, category, amount, score FROM src",
    "filter": "SELECT id, region, amount FROM src WHERE amount > 5000",
    "aggregate": "SELECT region, SUM(amount) AS total, COUNT(*) AS n FROM src GROUP BY region",
    "join": "SELECT s.id, s.region, s.amount, d.region_name FROM src s JOIN dim d ON s.region = d.region",
    "join_agg": "SELECT d.region_name, SUM(s.amount) AS total, COUNT(*) AS n FROM src s JOIN dim d ON s.region = d.region GROUP BY d.region_name",
    "window": "SELECT id, region, amount, ROW_NUMBER() OVER (PARTITION BY region ORDER BY amount DESC, id) AS place FROM src",
    "lateral": """SELECT s.id, s.region, s.amount, l.top_score
        FROM src s, LATERAL (SELECT MAX(score) AS top_score FROM src s2 WHERE s2.region = s.region) l""",
    "cte": """WITH regional AS (SELECT region, SUM(amount) AS total FROM src GROUP BY region)
        SELECT s.id, s.region, s.amount, r.total FROM src s JOIN regional r ON s.region = r.region""",
    "union_all": """SELECT id, amount, 'high' AS tier FROM src WHERE amount > 5000
        UNION ALL SELECT id, amount, 'low' AS tier FROM src WHERE amount <= 5000""",
}
FEED_ROWS = "table_changes('{{schema}}.src', {first}, {last})"
LATEST = f"""SELECT * FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY _commit_version DESC) AS nth FROM {FEED_ROWS} WHERE _change_type <> 'update_preimage')
    WHERE nth = 1"""
SIGN = "IF(_change_type IN ('insert', 'update_postimage'), 1, -1)"


def by_id(columns: dict[str, str], kept: str = "TRUE", join: str = "") -> str:
    """A MERGE of rows that follow one row of `src` each: the latest state of every changed id."""
    chosen = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    return f"""MERGE INTO {{target}} t
        USING (SELECT {chosen}, _change_type <> 'delete' AND {kept} AS kept FROM ({LATEST}) s {join}) c ON t.id = c.id
        WHEN MATCHED AND c.kept THEN UPDATE SET {", ".join(f"{c} = c.{c}" for c in columns)}
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED AND c.kept THEN INSERT ({", ".join(columns)}) VALUES ({", ".join(f"c.{c}" for c in columns)})"""


def by_group(key: str, join: str = "") -> str:
    """A MERGE of signed sums."""
    return f"""MERGE INTO {{target}} t
        USING (SELECT {key}, SUM({SIGN} * amount) AS total, SUM({SIGN}) AS n FROM {FEED_ROWS} s {join} GROUP BY {key}) c ON t.{key} = c.{key}
        WHEN MATCHED AND t.n + c.n = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET total = t.total + c.total, n = t.n + c.n
        WHEN NOT MATCHED THEN INSERT ({key}, total, n) VALUES (c.{key}, c.total, c.n)"""


def by_sync(query: str, column: str) -> str:
    """Where each change can move any row, by hand means: compute the query and write what differs."""
    return f"""MERGE INTO {{target}} t USING ({query}) c ON t.id = c.id
        WHEN MATCHED AND (t.region <> c.region OR t.amount <> c.amount OR t.{column} <> c.{column}) THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE THEN DELETE"""


DIM = "JOIN dim d ON s.region = d.region"
MERGES = {
    "scan": by_id({c: c for c in ("id", "region", "category", "amount", "score")}),
    "filter": by_id({c: c for c in ("id", "region", "amount")}, kept="amount > 5000"),
    "aggregate": by_group("region"),
    "join": by_id({"id": "s.id", "region": "s.region", "amount": "amount", "region_name": "region_name"}, join=DIM),
    "join_agg": by_group("region_name", join=DIM),
    "window": by_sync(QUERIES["window"], "place"),
    "lateral": by_sync(QUERIES["lateral"], "top_score"),
    "cte": by_sync(QUERIES["cte"], "total"),
    "union_all": by_id({"id": "id", "amount": "amount", "tier": "IF(amount > 5000, 'high', 'low')"}),
}


def measure(bench: Bench, options: Options) -> Iterator[Measured]:
    for size in map(int, options.sizes):
        for query in options.queries:
            with bench.schema(f"matrix_{size}_{query}") as schema:
                load(bench, size)
                merge = MERGES[query].replace("{{schema}}", schema)
                contest = Contest(bench, query, QUERIES[query], options.of(WAYS), merge, "src")
                for turn, rate in enumerate(sorted(options.rates)):
                    spent = in_turn(options.rounds, changes(bench, size, rate, 1000 * turn), {query: contest.turn})[query]
                    bench.say(f"{query} at {size:,} rows, {rate:.1%}: " + ", ".join(f"{w} {s[-1].ms:,.0f} ms" for w, s in spent.items()))
                    yield from measured({"query": query, "rows": size, "rate": rate}, spent)
                if size <= options.verify_up_to:
                    contest.check()


def load(bench: Bench, size: int) -> None:
    rows = f"""SELECT id, {region("id")} AS region, element_at(array('A', 'B', 'C', 'D'), 1 + CAST(id % 4 AS INT)) AS category,
        CAST((id * 17 + 13) % 10000 AS INT) AS amount, CAST((id * 31 + 7) % 100 AS INT) AS score FROM range({size})"""
    bench.rn.sql(f"CREATE TABLE src {FEED} AS {rows}")
    bench.rn.sql(
        f"CREATE TABLE dim {FEED} AS SELECT id, {region('id')} AS region, concat('Region ', {region('id')}) AS region_name, 1 + id * 0.1 AS multiplier FROM range(5)"
    )


def changes(bench: Bench, size: int, rate: float, start: int) -> Callable[[int], None]:
    """The change of a round: its rows depend on `start` and the round alone."""

    def change(round_: int) -> None:
        turn = start + round_ + 1
        pick = f"pmod(xxhash64(id, {turn}, '{{}}'), 1000000) < {{:.0f}}".format
        come = max(1, round(size * rate * 0.15))
        first = size * (turn + 1)
        bench.rn.sql(f"UPDATE src SET amount = amount + 1 WHERE {pick('update', 700_000 * rate)}")
        bench.rn.sql(f"DELETE FROM src WHERE {pick('delete', 150_000 * rate)}")
        bench.rn.sql(
            f"""INSERT INTO src SELECT id, {region("id")}, element_at(array('A', 'B', 'C', 'D'), 1 + CAST(id % 4 AS INT)),
            CAST(pmod(xxhash64(id), 10000) AS INT), CAST(pmod(xxhash64(id, 1), 100) AS INT) FROM range({first}, {first + come})"""
        )

    return change


def region(column: str) -> str:
    return f"element_at(array('north', 'south', 'east', 'west', 'central'), 1 + CAST({column} % 5 AS INT))"


def figures(found: list[Measured], note: str) -> dict[str, str]:
    """One figure per size, one chart per rate."""
    drawn = {}
    for size in values(found, "rows"):
        charts = []
        for rate in values(found, "rate"):
            queries = values(found, "query")
            series = {w: [one(found, query=q, rows=size, rate=rate, way=w) for q in queries] for w in values(found, "way")}
            charts.append(Columns(f"{rate:.1%} of {size:,} rows changed", "ms, log scale", queries, series))
        drawn[f"-{size}"] = figure(f"Nine queries over {size:,} rows: time to bring the result up to date", note, charts, min(2, len(charts)), 720)
    return drawn


PART = Part(
    name="matrix",
    title="nine queries by size and rate of change",
    quick=Options(sizes=(100_000,), rates=(0.01,), queries=("scan", "aggregate", "join", "window"), rounds=2),
    full=Options(sizes=(100_000, 1_000_000, 10_000_000), rates=(0.001, 0.01, 0.1, 0.5), queries=tuple(QUERIES), rounds=3),
    measure=measure,
    figures=figures,
)
