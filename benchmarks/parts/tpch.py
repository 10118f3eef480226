"""The 22 queries of TPC-H at a scale, 1 % of the rows changed a round: maintained, decided, recomputed, overwritten.

Two kinds of rounds: *tpch* is what pg_trickle measures (`refresh_functions`), at true scale: orders, lines and customers change, what suppliers
offer does not, so three queries have nothing to do. *tpch_every* changes every table but regions and nations (`rounds`), as does
`python -m benchmarks.tpch`, which asks whether results are right. All queries share every round, since a round of change takes longer than
most refreshes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from benchmarks.bench import Bench
from benchmarks.contest import Contest, measured
from benchmarks.measure import in_turn
from benchmarks.part import Options, Part
from benchmarks.plot import Columns, figure
from benchmarks.results import Measured, one, values
from tests.support.follow import Statement
from tests.support.tpch.changes import refresh_functions, rounds
from tests.support.tpch.data import load
from tests.support.tpch.run import QUERIES

WAYS = ("differential", "auto", "full", "overwrite")
Rounds = Callable[[float, int], list[list[Statement]]]
"""The statements of some rounds of change at a scale."""


def measure(changes: Rounds, bench: Bench, options: Options) -> Iterator[Measured]:
    for scale in options.sizes:
        with bench.schema(f"tpch_{str(scale).replace('.', '_')}"):
            load(bench.rn, scale)
            ways = options.of(WAYS)
            contests = {q: Contest(bench, q, QUERIES[q], ways) for q in options.queries}
            bench.say(f"loaded TPC-H at scale {scale:g}, {len(contests)} queries by {len(ways)} ways")
            statements = changes(scale, options.rounds + 1)

            def change(round_: int, statements: list[list[Statement]] = statements) -> None:
                bench.say(f"round {round_} of {len(statements) - 1}")
                for _, sql in statements[round_]:
                    bench.rn.sql(sql)

            spent = in_turn(options.rounds, change, {q: c.turn for q, c in contests.items()})
            for query, runs in spent.items():
                yield from measured({"query": query, "scale": scale}, runs)
            if scale <= options.verify_up_to:
                for contest in contests.values():
                    contest.check()


def figures(found: list[Measured], note: str) -> dict[str, str]:
    """One chart per scale: the 22 queries, every way a bar."""
    charts = []
    for scale in values(found, "scale"):
        queries = values(found, "query")
        series = {w: [one(found, query=q, scale=scale, way=w) for q in queries] for w in values(found, "way")}
        charts.append(Columns(f"scale {scale:g}", "ms, log scale", queries, series))
    return {"": figure("TPC-H, 1 % of the rows changed: time to bring each result up to date", note, charts, 1, 1200)}


PART = Part(
    name="tpch",
    title="TPC-H, 1 % of the orders coming and going",
    quick=Options(sizes=(0.01,), queries=("q01", "q03", "q05", "q06", "q13", "q18"), rounds=1, verify_up_to=0.01),
    full=Options(sizes=(0.1, 1), queries=tuple(QUERIES), rounds=3, verify_up_to=0.1),
    measure=partial(measure, refresh_functions),
    figures=figures,
    against="overwrite",
)
EVERY = replace(PART, name="tpch_every", title="TPC-H, 1 % of every table changed", measure=partial(measure, rounds))
