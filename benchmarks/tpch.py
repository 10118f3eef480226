"""`make tpch`: the 22 queries of TPC-H as stream tables, through rounds of change, each checked against the query from scratch.

    python -m benchmarks.tpch [--scale 0.1] [--rounds 5] [--queries q01,q06] [--mode DIFFERENTIAL] [--json FILE]

This asks whether they are right; `python -m benchmarks tpch` asks how fast they are. The exit code is 1 when a query
fails: its text is refused, a refresh took another action, or its content differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

import runnel
from benchmarks.machine import describe
from tests.support.follow import Outcome
from tests.support.tpch.run import QUERIES, run


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--scale", type=float, default=0.1)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--queries", default=",".join(QUERIES))
    options.add_argument("--mode", default="DIFFERENTIAL")
    options.add_argument("--json", default="")
    chosen = options.parse_args()
    os.environ.setdefault("RUNNEL_DRIVER_MEMORY", "8g" if chosen.scale >= 1 else "4g")
    console = Console(stderr=True, highlight=False)
    folder = tempfile.mkdtemp(prefix="runnel-tpch-")
    try:
        rn = runnel.connect(warehouse=folder, progress=console.print)
        outcomes = run(rn, chosen.scale, chosen.rounds, chosen.queries.split(","), console.print, chosen.mode)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    Console(width=160).print(report(outcomes, chosen.scale))
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump(as_json(outcomes, chosen), file, indent=2)
        console.print(f"numbers in {chosen.json}")
    failed = [o for o in outcomes if o.failure]
    for outcome in failed:
        console.print(f"\n{outcome.query} failed at {outcome.failure}", markup=False)
    sys.exit(1 if failed else 0)


def report(outcomes: list[Outcome], scale: float) -> Table:
    table = Table(title=f"TPC-H at scale {scale:g}; changed rows and jobs are medians, x is own FULL by the median refresh after the first")
    for heading in ("query", "rows", "changed in", "changed out", "refresh ms, by round", "jobs", "own FULL ms", "x", ""):
        table.add_column(heading, justify="left" if heading in ("query", "") else "right")
    for outcome in outcomes:
        table.add_row(*cells(outcome))
    return table


def cells(outcome: Outcome) -> tuple[str, ...]:
    if not outcome.rounds:
        return (outcome.query, "", "", "", "", "", "", "", "failed")
    rounds = outcome.rounds
    return (
        outcome.query,
        f"{outcome.rows:,}",
        f"{statistics.median(r.rows_in for r in rounds):,.0f}",
        f"{statistics.median(r.rows_out for r in rounds):,.0f}",
        " ".join(f"{r.ms:,.0f}" for r in rounds),
        f"{statistics.median(r.jobs for r in rounds):.0f}",
        f"{outcome.full_ms:,.0f}",
        f"{ratio(outcome):.1f}",
        "failed" if outcome.failure else "" if outcome.moved else "never moved",
    )


def ratio(outcome: Outcome) -> float:
    """How many times longer a recomputation takes than a refresh; the first refresh also warms Spark up."""
    counted = [r.ms for r in outcome.rounds[1:] or outcome.rounds]
    return outcome.full_ms / statistics.median(counted) if counted else 0.0


def as_json(outcomes: list[Outcome], chosen: argparse.Namespace) -> dict[str, Any]:
    asked = {"scale": chosen.scale, "rounds": chosen.rounds, "mode": chosen.mode}
    return {"machine": describe(), **asked, "queries": [{**asdict(o), "ratio": round(ratio(o), 2)} for o in outcomes]}


if __name__ == "__main__":
    main()
