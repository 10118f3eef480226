"""The shell: the same verbs, results on stdout, one JSON document with --json, errors with code and hint."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runnel.cli import app
from runnel.cli.app import hoisted
from runnel.cli.names import full_name
from runnel.cli.show import plain
from runnel.observe import docs


def run(*words: str, code: int = 0):
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result


def parsed(*words: str, code: int = 0):
    return json.loads(run(*words, "--json", code=code).stdout)


# -- without Spark -----------------------------------------------------------------------------------------------------


def test_generated_pages_are_up_to_date() -> None:
    assert docs.stale() == [], "run `make docs`"


def test_check_tells_stale_pages(tmp_path: Path) -> None:
    assert docs.stale(tmp_path) == ["support.md", "settings.md"]


def test_every_operator_has_a_row() -> None:
    from runnel.algebra import OPERATORS

    assert all(f"| {o.title} |" in docs.support() for o in OPERATORS)


def test_init_makes_the_folder_and_says_what_next(tmp_path: Path) -> None:
    folder = str(tmp_path / "w")
    first = run("--warehouse", folder, "init")
    assert Path(folder).is_dir() and "runnel create" in first.stdout
    assert parsed("--warehouse", folder, "init") == {"warehouse": folder, "created": False}


def test_an_empty_warehouse(tmp_path: Path) -> None:
    run("--warehouse", str(tmp_path), "init")
    for command in ("list", "history", "status"):
        assert parsed(command, "--warehouse", str(tmp_path)) == []
    assert "no stream tables yet" in run("list", "--warehouse", str(tmp_path)).stdout
    assert parsed("repair", "--warehouse", str(tmp_path)) == {"found": [], "put_aside": None}
    assert parsed("refresh", "--warehouse", str(tmp_path)) == []


def test_a_missing_warehouse_is_an_error_and_stays_missing(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    result = run("list", "--warehouse", str(folder), code=1)
    assert "error [WAREHOUSE_NOT_FOUND]" in result.stderr and "hint: Run `runnel init`" in result.stderr
    assert result.stdout == "" and not folder.exists()


def test_an_unknown_name_fails_before_spark_starts(tmp_path: Path) -> None:
    run("--warehouse", str(tmp_path), "init")
    for words in (
        ("refresh", "nope"),
        ("verify", "nope"),
        ("explain", "nope"),
        ("drop", "nope"),
        ("compact", "nope"),
        ("history", "nope"),
        ("status", "nope"),
    ):
        found = parsed(*words, "--warehouse", str(tmp_path), code=1)
        assert found["error"]["code"] == "STREAM_TABLE_NOT_FOUND" and "nope" in found["error"]["message"]
    result = run("refresh", "nope", "--warehouse", str(tmp_path), code=1)
    assert 'error [STREAM_TABLE_NOT_FOUND] stream table "nope" does not exist' in result.stderr
    assert "Traceback" not in result.stderr


def test_usage_errors_exit_with_2(tmp_path: Path) -> None:
    run("bogus", code=2)
    run("create", "name_alone", code=2)
    run("--set", "novalue", "list", code=2)
    assert parsed("bogus", code=2)["error"]["code"] == "USAGE"


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    run("--warehouse", str(tmp_path), "init")
    found = parsed("status", "--set", "bogus=1", "--warehouse", str(tmp_path), code=1)
    assert found["error"]["message"] == 'setting "bogus" does not exist'


def test_the_password_of_the_catalog_is_never_printed(tmp_path: Path) -> None:
    address = "postgresql://ann:s3cret@127.0.0.1:1/runnel?connect_timeout=1"
    for extra in ((), ("--json",), ("--debug",)):
        result = run("list", "--catalog", address, "--warehouse", str(tmp_path), *extra, code=1)
        assert "s3cret" not in result.stdout + result.stderr


def test_a_damaged_catalog_is_put_aside(tmp_path: Path) -> None:
    run("--warehouse", str(tmp_path), "init")
    (tmp_path / "_runnel" / "catalog.db").write_bytes(b"not a database, not at all" * 100)
    assert parsed("list", "--warehouse", str(tmp_path), code=1)["error"]["code"] == "CATALOG_CORRUPT"
    assert parsed("repair", "--warehouse", str(tmp_path))["put_aside"]
    assert parsed("list", "--warehouse", str(tmp_path)) == []


def test_as_a_process() -> None:
    done = subprocess.run([sys.executable, "-m", "runnel.cli", "version", "--json"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and json.loads(done.stdout)["runnel"]


def test_list_does_not_import_spark(tmp_path: Path) -> None:
    run("--warehouse", str(tmp_path), "init")
    script = (
        "import sys; from runnel.cli import app\ntry: app(sys.argv[1:])\nexcept SystemExit: pass\nprint('pyspark' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script, "list", "--json", "--warehouse", str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr.strip()) == ("[]", "False")


def test_helpers() -> None:
    assert hoisted(["query", "--", "--json"]) == ["query", "--", "--json"]
    assert hoisted(["list", "--warehouse=w"]) == ["--warehouse=w", "list"]
    assert full_name("Totals") == "spark_catalog.default.totals"
    assert plain({"a": float("nan"), "b": (1, None), "c": b"\x01"}) == {"a": "nan", "b": [1, None], "c": "01"}


# -- with Spark --------------------------------------------------------------------------------------------------------


@pytest.fixture
def shell(rn):
    """`runnel ... --json` on the warehouse of the shared session; parsed stdout."""
    rn.spark.catalog.setCurrentDatabase("default")

    def call(*words: str, code: int = 0):
        return parsed(*words, "--warehouse", rn.folder, code=code)

    yield call
    for name in ("cli_places", "cli_totals"):
        rn.drop(name, cascade=True, if_exists=True)


@pytest.mark.spark
def test_the_life_of_a_stream_table(rn, shell, tmp_path: Path) -> None:
    shell(
        "query",
        "CREATE TABLE cli_orders (id INT, customer STRING, amount DECIMAL(10,2)) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)",
    )
    shell("query", "INSERT INTO cli_orders VALUES (1, 'ada', 12.50), (2, 'bob', 8.00)")

    created = shell("create", "cli_totals", "SELECT customer, SUM(amount) AS total FROM cli_orders GROUP BY customer", "--comment", "spend")
    assert (created["action"], created["reason"], created["rows_out"]) == ("FULL", "first load", 2)
    assert shell("create", "cli_totals", "SELECT 1", "--if-not-exists")["created"] is False
    assert shell("create", "cli_totals", "SELECT 1", code=1)["error"]["code"] == "NAME_TAKEN"

    script = tmp_path / "more.sql"
    script.write_text(
        "CREATE STREAM TABLE cli_places AS SELECT customer FROM cli_totals WHERE total > 10; -- readers of readers\nSHOW STREAM TABLES;"
    )
    assert len(shell("create", "--file", str(script))) == 2

    listed = {found["name"]: found for found in shell("list")}
    assert listed == {found["name"]: found for found in rn.list()}
    assert listed["spark_catalog.default.cli_totals"]["comment"] == "spend"

    shell("query", "INSERT INTO cli_orders VALUES (3, 'bob', 4.00)")
    assert shell("status", "CLI_TOTALS")["fresh"] is False
    order = [found["stream_table"] for found in shell("refresh", "cli_places", "cli_totals")]
    assert order == ["spark_catalog.default.cli_totals", "spark_catalog.default.cli_places"]
    assert shell("status", "cli_totals")["last_refresh"]["action"] == "DIFFERENTIAL"

    found = shell("query", "SELECT * FROM cli_totals ORDER BY customer")
    assert found == {
        "columns": ["customer", "total"],
        "rows": [{"customer": "ada", "total": "12.50"}, {"customer": "bob", "total": "12.00"}],
        "more": False,
    }
    assert shell("query", "SELECT * FROM cli_totals", "--limit", "1")["more"] is True
    assert [v["ok"] for v in shell("verify", "cli_totals", "cli_places")] == [True, True]
    assert [r["action"] for r in shell("history", "cli_totals")] == ["DIFFERENTIAL", "FULL"]

    assert "SUM" in shell("explain", "cli_totals", "--at", "plan")["plan"]
    assert shell("alter", "cli_totals", "--mode", "full")["effective"] == "FULL"
    assert shell("compact", "cli_totals")[0]["stream_table"] == "spark_catalog.default.cli_totals"

    refused = shell("drop", "cli_totals", code=1)
    assert refused["error"]["code"] == "HAS_READERS"
    assert shell("drop", "cli_totals", "--cascade")["dropped"] == ["spark_catalog.default.cli_places", "spark_catalog.default.cli_totals"]
    assert shell("drop", "cli_totals", "--if-exists")["dropped"] == []


@pytest.mark.spark
def test_errors_of_statements(rn, shell) -> None:
    assert shell("query", "SELECT * FROM cli_nowhere", code=1)["error"]["code"] == "TABLE_OR_VIEW_NOT_FOUND"
    assert shell("query", "SELEC 1", code=1)["error"]["code"] == "SYNTAX"
    assert shell("query", "SELECT CAST('x' AS INT)", code=1)["error"]["code"] == "CAST_INVALID_INPUT"
    assert shell("create", "cli_bad", "SELECT a FROM cli_nowhere", code=1)["error"]["code"] == "TABLE_NOT_FOUND"
    result = run("create", "cli_bad", "SELECT a FROM cli_nowhere", "--warehouse", rn.folder, code=1)
    assert 'error [TABLE_NOT_FOUND] table "cli_nowhere" does not exist (line 1, column 15)' in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.spark
def test_verify_exits_with_1_when_something_differs(rn, shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from runnel.execute.verify import Verification

    shell("query", "CREATE TABLE cli_small USING delta AS SELECT 1 AS x")
    shell("create", "cli_totals", "SELECT x FROM cli_small")
    monkeypatch.setattr("runnel.api.verify", lambda engine, name: Verification(name, False, 1, {"cli_small": 0}, missing=({"x": 2},)))
    assert shell("verify", "cli_totals", code=1)[0]["missing"] == [{"x": 2}]
    assert "missing {'x': 2}" in run("verify", "cli_totals", "--warehouse", rn.folder, code=1).stdout


@pytest.mark.spark
def test_order_and_lines_follow_the_definitions(rn, shell) -> None:
    shell("query", "CREATE TABLE cli_base USING delta AS SELECT 1 AS x")
    shell("create", "cli_totals", "SELECT x FROM cli_base")
    shell("create", "cli_places", "SELECT x FROM cli_totals")
    definitions = rn._engine.definitions()
    names = rn.graph().order
    assert names.index("spark_catalog.default.cli_totals") < names.index("spark_catalog.default.cli_places")
    assert definitions["spark_catalog.default.cli_places"].line()["sources"] == "spark_catalog.default.cli_totals"
    graph = shell("graph", "cli_places")
    assert graph["plain"] == ["spark_catalog.default.cli_base"] and graph["order"][-1] == "spark_catalog.default.cli_places"
    assert "cli_places" in rn.graph().mermaid() and "cli_base" in rn.graph().dot()
