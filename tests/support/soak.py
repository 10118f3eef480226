"""A daemon over a graph of stream tables while their sources change at random; `make soak` runs it and verifies everything at the end.

python -m tests.support.soak [SECONDS]

Writers commit in the same process and behind its back; definitions are suspended, resumed and gated on the way. At the end every
stream table equals its query, and every executed refresh is counted by action.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from random import Random
from typing import Any

import runnel
from runnel.schedule.daemon import Event
from tests.conftest import TINY

SOURCES, TABLES = 5, 30
SCHEDULES = ("on update", "2s", "on update at most every 3s", "target_lag 5s", "")


def build(rn: runnel.Runnel, random: Random) -> list[str]:
    """Sources `s0..`, and stream tables `t00..` over them and over each other: filters, sums, joins and unions."""
    for number in range(SOURCES):
        rn.sql(f"CREATE TABLE s{number} (k BIGINT, v BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
        rn.sql(f"INSERT INTO s{number} SELECT id % 20, id FROM range(100)")
    names: list[str] = []
    for number in range(TABLES):
        below = [f"s{n}" for n in range(SOURCES)] + names[-8:]
        one, other = random.choice(below), random.choice(below)
        query = random.choice(
            (
                f"SELECT k, v FROM {one} WHERE v % 3 <> 0",
                f"SELECT k, SUM(v) AS v FROM {one} GROUP BY k",
                f"SELECT a.k, a.v + b.v AS v FROM {one} a JOIN (SELECT k, MAX(v) AS v FROM {other} GROUP BY k) b ON a.k = b.k",
                f"SELECT k, v FROM {one} WHERE k < 10 UNION ALL SELECT k, v FROM {other} WHERE k >= 10",
                f"SELECT DISTINCT k, v % 7 AS v FROM {one}",
            )
        )
        schedule = random.choice(SCHEDULES) if number < TABLES - 5 else "on update"
        rn.create(f"t{number:02d}", query, schedule=schedule)
        names.append(f"t{number:02d}")
    return names


def change(rn: runnel.Runnel, random: Random) -> None:
    """One commit, through Runnel or past it."""
    source, key = f"s{random.randrange(SOURCES)}", random.randrange(20)
    statement = random.choice(
        (
            f"INSERT INTO {source} VALUES ({key}, {random.randrange(1000)}), ({key}, {random.randrange(1000)})",
            f"UPDATE {source} SET v = v + 1 WHERE k = {key}",
            f"DELETE FROM {source} WHERE k = {key} AND v % 5 = 0",
        )
    )
    (rn.sql if random.random() < 0.5 else rn.spark.sql)(statement)


def disturb(rn: runnel.Runnel, random: Random, names: list[str]) -> None:
    """A word of an operator, taken back at once or with the next disturbance."""
    name, source = random.choice(names), f"s{random.randrange(SOURCES)}"
    match random.randrange(4):
        case 0:
            rn.suspend(name)
        case 1:
            rn.gate_source(source) if any(source in s for s in rn.graph().plain) else None
        case 2:
            rn.pause()
        case 3:
            calm(rn, names)


def calm(rn: runnel.Runnel, names: list[str]) -> None:
    for name in names:
        rn.resume(name)
    for gate in rn.gates():
        rn.ungate_source(gate["source"])
    rn.resume()


def soak(seconds: float, seed: int) -> int:
    random = Random(seed)
    print(f"daemon over {TABLES} stream tables, seed {seed}", flush=True)
    settings: dict[str, Any] = {"probe_idle_seconds": 1.0, "suspend_after_failures": 10}
    rn = runnel.connect(warehouse=tempfile.mkdtemp(prefix="runnel-soak-"), config=TINY, settings=settings)
    names = build(rn, random)
    seen: Counter[str] = Counter()

    def tell(event: Event) -> None:
        seen[str(event.record.action) if event.record is not None else event.kind] += 1
        if event.trouble is not None:
            print(f"\n{event.kind} {event.stream_table}: {event.trouble}", flush=True)

    begun = time.monotonic()
    commits = 0
    with rn.start(tell=tell) as daemon:
        while time.monotonic() - begun < seconds:
            change(rn, random)
            commits += 1
            if commits % 20 == 0:
                disturb(rn, random, names)
            if commits % 50 == 0:
                calm(rn, names)
            time.sleep(random.random() * 0.5)
            print(f"\r{commits} commits, {dict(seen)}, {time.monotonic() - begun:.0f} s", end="", flush=True)
        calm(rn, names)
        settled = daemon.settle(600)
    report = rn.run_once(everything=True)
    print(f"\n{commits} commits; {dict(seen)}; settled: {settled}; last tick refreshed {len(report.records)}", flush=True)
    wrong = [str(v) for v in (rn.verify(name) for name in names) if not v.ok]
    print("\n".join(wrong) or f"all {len(names)} stream tables equal their queries", flush=True)
    return 1 if wrong or not settled or not report.ok or seen["suspended"] or seen["failed"] else 0


if __name__ == "__main__":
    sys.exit(soak(float(sys.argv[1]) if len(sys.argv) > 1 else 600, int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())))
