"""Over Spark Connect: a server on this machine, with the same warehouse."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from runnel.errors import EnvironmentProblem
from runnel.execute import session

SERVER = """
    import sys
    from runnel.execute.session import embedded
    from tests.conftest import TINY

    plugin = {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin", "spark.connect.grpc.binding.address": "127.0.0.1"}
    embedded(sys.argv[1], config={**TINY, **plugin, "spark.connect.grpc.binding.port": sys.argv[2]})
    print("ready", flush=True)
    sys.stdin.read()
"""
CLIENT = """
    import sys
    import runnel
    from runnel.errors import EnvironmentProblem
    from runnel.execute import session

    spark = session.remote(f"sc://127.0.0.1:{sys.argv[2]}", {})
    rn = runnel.connect(spark, warehouse=sys.argv[1])
    rn.sql("INSERT INTO shop.orders VALUES (1, 'ada', 12), (2, 'bob', 5), (3, 'ada', 1)")
    spark.udf.register("doubled", lambda x: 2 * x, "int")
    rn.create("shop.ids", "SELECT doubled(id) AS id FROM shop.orders", mode="FULL")
    rn.alter("shop.totals", schedule="on update")
    with rn.start(workers=2) as daemon:
        assert daemon.settle() and rn.status("shop.totals")["fresh"]
        rn.sql("DELETE FROM shop.orders WHERE id = 2")
        assert daemon.settle() and rn.status("shop.totals")["fresh"]
    assert [r.action for r in rn.history("shop.totals", 2)] == ["DIFFERENTIAL"] * 2
    rn.refresh_all()
    rn.compact("shop.totals")
    rn.alter("shop.large", query="SELECT customer FROM shop.totals WHERE total > 100")
    for name in ("shop.totals", "shop.large", "shop.ids"):
        found = rn.verify(name)
        assert found.ok, found
    assert [tuple(r) for r in rn.sql("SELECT customer, total FROM shop.totals").collect()] == [("ada", 13)]
    rn.drop("shop.ids")
    rn.close()
"""


@pytest.mark.parametrize("url", ["spark://host", "sc://", "sc://host:many", "host:15002"])
def test_an_address_that_is_no_server_is_refused(url: str) -> None:
    with pytest.raises(EnvironmentProblem, match="is no Spark Connect server"):
        session.remote(url, {})


def test_a_server_that_is_not_there_is_named_at_once() -> None:
    before = time.monotonic()
    with pytest.raises(EnvironmentProblem, match=r"cannot connect to sc://127\.0\.0\.1:1") as caught:
        session.remote("sc://127.0.0.1:1", {})
    assert caught.value.code == "REMOTE" and "pyspark[connect]" in caught.value.hint and time.monotonic() - before < 10


@pytest.mark.spark
@pytest.mark.slow
def test_a_pipeline_and_a_daemon_over_spark_connect(tmp_path: Path) -> None:
    warehouse, project, port = str(tmp_path / "warehouse"), tmp_path / "project", _free_port()
    project.mkdir()
    (project / "spark-pipeline.yml").write_text("name: shop\nstorage: storage\ndatabase: shop\nlibraries: [{glob: {include: 'sql/**'}}]\n")
    (project / "sql").mkdir()
    (project / "sql" / "all.sql").write_text("""
        CREATE SCHEMA IF NOT EXISTS shop;
        CREATE TABLE IF NOT EXISTS shop.orders (id INT, customer STRING, amount INT) USING delta;
        CREATE MATERIALIZED VIEW totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;
        CREATE MATERIALIZED VIEW large AS SELECT customer FROM totals WHERE total > 10;
    """)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    script = [sys.executable, "-c", textwrap.dedent(SERVER), warehouse, str(port)]
    server = subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None and server.stdout.readline().strip() == "ready"
        pipeline = ["-m", "runnel.cli", "--json", "--warehouse", warehouse, "pipeline", "run", "--remote", f"sc://127.0.0.1:{port}"]
        made = json.loads(_output([*pipeline, "--spec", str(project / "spark-pipeline.yml")], environment))
        assert [(r["stream_table"], r["action"]) for r in made] == [(f"spark_catalog.shop.{n}", "FULL") for n in ("totals", "large")]
        _output(["-c", textwrap.dedent(CLIENT), warehouse, str(port)], environment)
    finally:
        server.kill()
        server.wait()


def _output(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
