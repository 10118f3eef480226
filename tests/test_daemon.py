"""The daemon on Spark and Delta: ticks, wake-ups without jobs, suspension, fuses, gates, drain, and a leader that is killed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runnel.errors import DefinitionError, RunnelError, Transient
from runnel.execute.daemon import Daemon
from tests.support.shop import LARGE, TOTALS, Shop

pytestmark = pytest.mark.spark


@pytest.fixture
def small(rn, tmp_path):
    """A warehouse of its own on the shared session, since a daemon looks after all stream tables of one."""
    import runnel

    made = runnel.connect(spark=rn.spark, warehouse=str(tmp_path), settings={"probe_idle_seconds": 0.5, "leader_lease_seconds": 3.0})
    yield made
    made.close()


def spark_jobs(rn) -> int:
    return int(rn.spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def test_one_tick_over_a_graph_and_nothing_to_do_after_it(small) -> None:
    rn = small
    shop = Shop(rn)
    rn.sql(f"CREATE STREAM TABLE base AS {LARGE}")
    rn.sql("CREATE STREAM TABLE totals AS SELECT customer, SUM(amount) AS total FROM base GROUP BY customer")
    created = rn.sql("CREATE STREAM TABLE top SCHEDULE EVERY 1h AS SELECT customer, total FROM totals WHERE total > 10").first()
    assert len(created["next_runs"].split(", ")) == 3
    rn.sql(f"CREATE STREAM TABLE alone AS {TOTALS}")
    rn.sql("INSERT INTO orders VALUES (9, 9, 90)")
    report = rn.run_once()
    assert report.ok and [r.stream_table for r in report.records] == [shop.name(n) for n in ("base", "totals", "top")]
    assert {str(r.action) for r in report.records} == {"DIFFERENTIAL"}
    cuts = {r.frontier[shop.name("orders")] for r in report.records if shop.name("orders") in r.frontier}
    assert len(cuts) == 1
    again = rn.run_once()
    assert again.records == [] and again.ok
    rn.sql("INSERT INTO orders VALUES (10, 9, 90)")
    assert rn.run_once().records == [], "an hour has not passed"
    everything = rn.run_once(everything=True)
    assert {r.stream_table for r in everything.records} == {shop.name(n) for n in ("base", "totals", "top", "alone")}
    for name in ("base", "totals", "top", "alone"):
        shop.check(name)


def test_a_query_that_is_stored_otherwise_is_read_at_the_next_tick(small) -> None:
    rn = small
    shop = Shop(rn)
    rn.sql(f"CREATE STREAM TABLE base AS {LARGE}")
    rn.sql("CREATE STREAM TABLE above TRIGGER ON UPDATE AS SELECT customer, COUNT(*) AS n FROM base GROUP BY customer")
    assert rn.run_once().ok
    rn.sql("ALTER STREAM TABLE base AS SELECT id, customer, CAST(SUM(amount) AS DECIMAL(10,2)) AS amount FROM orders GROUP BY id, customer")
    assert [r.stream_table for r in rn.run_once().records] == [shop.name("above")]
    shop.check("above")


def test_a_commit_wakes_the_daemon_and_quiet_costs_no_job(small) -> None:
    rn = small
    shop = Shop(rn)
    rn.sql(f"CREATE STREAM TABLE large TRIGGER ON UPDATE AS {LARGE}")
    rn.sql(f"CREATE STREAM TABLE totals TRIGGER ON UPDATE AS {TOTALS}")
    told: list[str] = []
    with rn.start(workers=2, tell=lambda event: told.append(event.kind)) as daemon:
        assert daemon.settle()
        for n in range(3):
            rn.sql(f"INSERT INTO orders VALUES ({100 + n}, {n}, 50)")
            assert daemon.settle() and rn.status("totals")["fresh"] and rn.status("large")["fresh"]
        before = spark_jobs(rn)
        records = len(rn.history())
        for _ in range(5):
            assert daemon.settle()
        assert spark_jobs(rn) == before and len(rn.history()) == records
        # Another process commits, which nobody tells the daemon.
        rn.spark.sql(f"DELETE FROM {shop.schema}.orders WHERE id = 1")
        _eventually(lambda: rn.status("totals")["fresh"] and rn.status("large")["fresh"])
        shop.check("totals")
        shop.check("large")
    assert told.count("refreshed") == 8 and not daemon.leads


def test_failures_suspend_with_an_alert_and_resume_tries_again(small, caplog) -> None:
    rn = small
    shop = Shop(rn)
    rn.sql("CREATE STREAM TABLE share TRIGGER ON UPDATE AS SELECT id, 100 / amount AS share FROM orders")
    rn.sql("CREATE STREAM TABLE above AS SELECT id FROM share WHERE share > 1")
    rn.alter("above", schedule="on update")
    with caplog.at_level(logging.WARNING, "runnel"), rn.start(workers=1) as daemon:
        daemon.settle()
        rn.sql("INSERT INTO orders VALUES (7, 7, 0)")
        _eventually(lambda: rn.status("share")["suspended"] != "", 60)
        assert "share is suspended after failure 3" in caplog.text and "runnel resume" in caplog.text
        _eventually(lambda: not (rn.daemon() or {}).get("running"))  # what runs is told a moment after what came of it
        found = next(line for line in rn.overview() if line["name"] == shop.name("share"))
        assert found["status"] == "SUSPENDED" and found["failures"] == 3 and not found["fresh"]
        assert "DIVIDE_BY_ZERO" in found["trouble"]["message"] and found["waiting"].startswith("is suspended")
        assert [r.status for r in rn.history("share", 4)] == ["SUSPENDED", "FAILED", "FAILED", "FAILED"]
        rn.sql("UPDATE orders SET amount = 4 WHERE id = 7")
        daemon.settle()
        assert not rn.status("share")["fresh"]
        rn.sql("ALTER STREAM TABLE share RESUME")
        daemon.settle()
        _eventually(lambda: rn.status("share")["fresh"] and rn.status("above")["fresh"])
    shop.check("share")
    shop.check("above")


def test_a_schema_change_that_no_retry_heals_suspends_at_once(small) -> None:
    rn = small
    shop = Shop(rn)
    rn.sql(f"CREATE STREAM TABLE totals TRIGGER ON UPDATE AS {TOTALS}")
    rn.spark.sql(f"CREATE OR REPLACE TABLE {shop.schema}.orders (id BIGINT, customer STRING) USING delta")
    report = rn.run_once()
    assert not report.ok and report.suspended == [shop.name("totals")]
    assert rn.status("totals")["failures"] == 1 and rn.run_once().waiting[shop.name("totals")].startswith("is suspended")


def test_operators_words(small) -> None:
    rn = small
    shop = Shop(rn).with_customers()
    orders, customers = shop.name("orders"), shop.name("customers")
    rn.sql("CREATE STREAM TABLE named TRIGGER ON UPDATE AS SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id")
    rn.gate_source("orders", "loading")
    rn.sql("INSERT INTO orders VALUES (8, 2, 8)")
    assert rn.run_once().records == [] and rn.overview()[0]["waiting"] == f"{orders} is gated"
    assert rn.gates()[0] | {"since": ""} == {"source": orders, "since": "", "note": "loading", "readers": [shop.name("named")]}
    rn.sql("INSERT INTO customers VALUES (3, 'cy')")
    (record,) = rn.run_once().records
    assert record.frontier[customers] == rn._engine.log(shop.path("customers")).version() and rn.table("named").count() == 3
    shop.check("named")
    assert rn.ungate_source("orders") and not rn.ungate_source("orders")
    rn.create_watermark_group("load", ["orders", "customers"], "1m")
    assert rn.advance_watermark("orders", "2026-01-01T12:05:00") and rn.advance_watermark("customers", "2026-01-01T12:00:00")
    assert "is apart" in rn.run_once().waiting[shop.name("named")] and not rn.watermarks()["groups"][0]["aligned"]
    with pytest.raises(DefinitionError, match="cannot go back"):
        rn.advance_watermark("orders", "2026-01-01T11:00:00")
    rn.advance_watermark("customers", "2026-01-01T12:05:00")
    rn.pause()
    assert rn.run_once().records == [] and rn.overview()[0]["waiting"] == "paused"
    rn.drain(1.0)
    assert rn.resume() and len(rn.run_once().records) == 1
    shop.check("named")
    with pytest.raises(RunnelError, match="no stream table reads"):
        rn.gate_source("nothing")
    rn.suspend("named", "not now")
    rn.sql("INSERT INTO orders VALUES (9, 2, 8)")
    assert rn.run_once().waiting == {shop.name("named"): "is suspended: not now"}
    assert rn.refresh("named").action == "DIFFERENTIAL", "asking for it still works"


def test_a_fuse_stops_an_unusual_change(small) -> None:
    rn = small
    shop = Shop(rn)
    rn.sql(f"CREATE STREAM TABLE large TBLPROPERTIES ('runnel.fuse' = '3') TRIGGER ON UPDATE AS {LARGE}")
    rn.sql("INSERT INTO orders SELECT id + 100, 1, 50 FROM range(10)")
    report = rn.run_once()
    assert report.blown == {shop.name("large"): "10 changed rows wait, more than 3"} and not report.ok
    shop.check("large")
    assert rn.run_once().waiting[shop.name("large")].startswith("has a blown fuse")
    rn.reset_fuse("large", "skip")
    assert rn.run_once().records == []
    rn.sql("DELETE FROM orders WHERE id = 1")
    assert list(rn.run_once().blown) == [shop.name("large")], "what waits is weighed again"
    rn.reset_fuse("large", "apply")
    (record,) = rn.run_once().records
    assert record.action == "DIFFERENTIAL" and rn.fuses() == []
    shop.check("large")
    rn.sql("INSERT INTO orders SELECT id + 200, 1, 50 FROM range(10)")
    rn.run_once()
    rn.reset_fuse("large", "reinitialise")
    (record,) = rn.run_once().records
    assert record.action == "FULL"
    shop.check("large")
    with pytest.raises(DefinitionError, match="has not blown"):
        rn.reset_fuse("large", "apply")


def test_rest_is_used_to_fold_tails_and_wakes_no_reader(small, monkeypatch) -> None:
    rn = small
    shop = Shop(rn)
    rn.sql(f"CREATE STREAM TABLE large TRIGGER ON UPDATE AS {LARGE}")
    rn.sql("CREATE STREAM TABLE above TRIGGER ON UPDATE AS SELECT id FROM large")
    monkeypatch.setattr("runnel.schedule.daemon.REST", 0.2)
    with rn.start(workers=2) as daemon:
        rn.sql("DELETE FROM orders WHERE id = 1")
        assert daemon.settle()
        _eventually(lambda: rn.status("large")["tail_files"] == 0 and rn.status("above")["tail_files"] == 0)
        records = len(rn.history())
        assert daemon.settle() and len(rn.history()) == records
    shop.check("above")
    assert rn.run_once().records == [], "a fold is nothing to read"


def test_one_leads_at_a_time(small) -> None:
    rn = small
    shop = Shop(rn)
    rn.sql(f"CREATE STREAM TABLE large TRIGGER ON UPDATE AS {LARGE}")
    told: list[str] = []
    with rn.start() as first:
        assert first.settle()
        with pytest.raises(Transient, match="another daemon leads"):
            Daemon(rn._engine).once()
        second = rn.start(tell=lambda event: told.append(event.kind))
        _eventually(lambda: "standby" in told)
    rn.sql("INSERT INTO orders VALUES (9, 9, 90)")
    _eventually(lambda: second.leads and rn.status("large")["fresh"])
    second.stop()
    shop.check("large")


LEADER = """
import sys, time
import runnel
from tests.conftest import TINY
rn = runnel.connect(warehouse=sys.argv[1], config=TINY, settings={"leader_lease_seconds": 2.0})
rn.start(workers=2, tell=lambda event: print(event.kind, event.stream_table, flush=True))
time.sleep(600)
"""


@pytest.mark.slow
def test_a_killed_leader_is_followed_by_the_one_that_stands_by(small) -> None:
    rn = small
    shop = Shop(rn)
    rn.sql(f"CREATE STREAM TABLE large TRIGGER ON UPDATE AS {LARGE}")
    rn.sql(f"CREATE STREAM TABLE totals TRIGGER ON UPDATE AS {TOTALS}")
    root = str(Path(__file__).parent.parent)
    other = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(LEADER), rn.folder],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    try:
        assert other.stdout is not None and other.stdout.readline().split() == ["leading"]
        told: list[str] = []
        with rn.start(workers=2, tell=lambda event: told.append(event.kind)) as daemon:
            _eventually(lambda: "standby" in told)
            rn.sql("INSERT INTO orders VALUES (9, 9, 90)")
            _eventually(lambda: rn.status("large")["fresh"] and rn.status("totals")["fresh"], 60)
            assert "refreshed" not in told and not daemon.leads
            rn.sql("INSERT INTO orders SELECT id + 100, id, 50 FROM range(1000)")
            other.send_signal(signal.SIGKILL)
            other.wait()
            _eventually(lambda: daemon.leads, 20)
            assert daemon.settle(60)
            shop.check("large")
            shop.check("totals")
    finally:
        other.kill()


def _eventually(true: Callable[[], bool], seconds: float = 30.0) -> None:
    give_up_at = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up_at, "it did not happen"
        time.sleep(0.05)
