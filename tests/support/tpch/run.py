"""All of it: load the data, create the queries, apply the rounds, refresh and verify."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import runnel
from tests.support.follow import Outcome, Say, follow, read_queries
from tests.support.tpch.changes import rounds as rounds_of_change
from tests.support.tpch.data import load

QUERIES = read_queries(Path(__file__).parent / "queries")


def run(
    rn: runnel.Runnel,
    scale: float,
    rounds: int,
    queries: Iterable[str] = tuple(QUERIES),
    progress: Say = print,
    mode: str = "DIFFERENTIAL",
    quick: bool = False,
) -> list[Outcome]:
    """Follow the named queries in a schema of their own; one outcome each."""
    schema = f"tpch_{str(scale).replace('.', '_')}_{rounds}"
    rn.sql(f"CREATE SCHEMA {schema}")
    rn.sql(f"USE {schema}")
    load(rn, scale)
    progress(f"loaded TPC-H at scale {scale:g}")
    return follow(rn, {name: QUERIES[name] for name in queries}, rounds_of_change(scale, rounds), mode, progress, quick)
