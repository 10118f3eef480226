"""One query per class of operator: refresh against recompute, and for linear and additive queries against MERGE and the floor too.

Facts of N rows in N / 10 groups, N / 20 of which have a name, and a forest of N / 10 nodes. Each round updates a share of the
facts, deletes some and inserts some, renames and removes a few groups and moves a few nodes. All queries share every round.
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
    "linear": "SELECT id, k, x * 2 AS doubled FROM facts WHERE x % 10 >= 2",
    "additive": "SELECT k, SUM(x) AS total, COUNT(*) AS n FROM facts GROUP BY k",
    "join": "SELECT f.id, f.k, f.x, g.name FROM facts f JOIN groups g ON f.k = g.k",
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
MERGES = {
    "linear": """MERGE INTO {target} t USING (
        SELECT id, k, x * 2 AS doubled, _change_type <> 'delete' AND x % 10 >= 2 AS kept FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY _commit_version DESC) AS nth
            FROM table_changes('{{schema}}.facts', {first}, {last}) WHERE _change_type <> 'update_preimage')
        WHERE nth = 1) c ON t.id = c.id
        WHEN MATCHED AND c.kept THEN UPDATE SET k = c.k, doubled = c.doubled
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED AND c.kept THEN INSERT (id, k, doubled) VALUES (c.id, c.k, c.doubled)""",
    "additive": """MERGE INTO {target} t USING (
        SELECT k, SUM(IF(_change_type IN ('insert', 'update_postimage'), x, -x)) AS total,
               SUM(IF(_change_type IN ('insert', 'update_postimage'), 1, -1)) AS n
        FROM table_changes('{{schema}}.facts', {first}, {last}) GROUP BY k) c ON t.k = c.k
        WHEN MATCHED AND t.n + c.n = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET total = t.total + c.total, n = t.n + c.n
        WHEN NOT MATCHED THEN INSERT (k, total, n) VALUES (c.k, c.total, c.n)""",
}
FEW = ("differential", "auto", "full", "overwrite", "floor")


def measure(bench: Bench, options: Options) -> Iterator[Measured]:
    for size in map(int, options.sizes):
        with bench.schema(f"operators_{size}") as schema:
            load(bench, size)
            contests = {q: _contest(bench, schema, q, options) for q in options.queries}
            bench.say(f"{size:,} rows: created {len(contests)} queries")
            for turn, rate in enumerate(options.rates):
                spent = in_turn(options.rounds, changes(bench, size, rate, 20 * turn), {q: c.turn for q, c in contests.items()})
                for query, ways in spent.items():
                    yield from measured({"query": query, "rows": size, "rate": rate}, ways)
                bench.say(f"{size:,} rows: measured {rate:.1%}")
            if size <= options.verify_up_to:
                for contest in contests.values():
                    contest.check()


def load(bench: Bench, size: int) -> None:
    groups = max(1, size // 10)
    for name, rows in {
        "facts": f"SELECT id, (id * 7919) % {groups} AS k, CAST(id % 1000003 AS INT) AS x FROM range({size})",
        "groups": f"SELECT id * 2 AS k, concat('group ', id) AS name FROM range({groups // 2})",
        "nodes": f"SELECT id, CASE WHEN id >= 100 THEN CAST(floor(id / 10) AS BIGINT) END AS parent FROM range({groups})",
    }.items():
        bench.rn.sql(f"CREATE TABLE {name} {FEED} AS {rows}")


def changes(bench: Bench, size: int, rate: float, start: int) -> Callable[[int], None]:
    """`rate` of the facts: half updated, a quarter deleted, a quarter new; and as large a part of groups and nodes, at most 1,000."""
    step, groups = round(1 / rate), max(1, size // 10)
    sparse = max(step, groups // 1000)

    def change(round_: int) -> None:
        turn = start + round_ + 1
        fresh = size + turn * size
        late = turn * 1000
        for text in (
            f"UPDATE facts SET x = (x * 31 + {turn}) % 1000003 WHERE id % {2 * step} = {turn}",
            f"DELETE FROM facts WHERE id % {4 * step} = {100 + turn}",
            f"INSERT INTO facts SELECT id, (id * 7919) % {groups}, CAST(id % 1000003 AS INT) FROM range({fresh}, {fresh + size // (4 * step)})",
            f"DELETE FROM groups WHERE k % {2 * sparse} = {2 * turn}",
            f"INSERT INTO groups SELECT id * 2 + 1, concat('late ', id) FROM range({late}, {late + max(1, groups // (4 * sparse))})",
            f"UPDATE nodes SET parent = CAST(floor(id / 10) AS BIGINT) + 1 WHERE id % {sparse} = {turn} AND id >= {groups // 10}",
        ):
            bench.rn.sql(text)

    return change


def figures(found: list[Measured], note: str) -> dict[str, str]:
    """One chart per size and rate."""
    charts = []
    for size in values(found, "rows"):
        for rate in values(found, "rate"):
            queries = values(found, "query")
            series = {w: [one(found, query=q, rows=size, rate=rate, way=w) for q in queries] for w in values(found, "way")}
            charts.append(Columns(f"{rate:.1%} of {size:,} rows changed", "ms, log scale", queries, series))
    return {"": figure("One query per class of operator: time to bring the result up to date", note, charts, min(2, len(charts)), 720)}


def _contest(bench: Bench, schema: str, query: str, options: Options) -> Contest:
    merge = MERGES[query].replace("{{schema}}", schema) if query in MERGES else None
    return Contest(bench, query.replace(" ", "_"), QUERIES[query], options.of(WAYS if merge else FEW), merge, "facts")


PART = Part(
    name="operators",
    title="one query per class of operator",
    quick=Options(sizes=(1_000_000,), rates=(0.001,), queries=tuple(QUERIES), rounds=1),
    full=Options(sizes=(1_000_000, 10_000_000), rates=(0.001, 0.01), queries=tuple(QUERIES), rounds=3),
    measure=measure,
    figures=figures,
)
