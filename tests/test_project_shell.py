"""A project in the shell: its file is found and read, its definitions applied, exported and checked."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from runnel.cli import app
from runnel.project.folder import find, load

ORDERS = "CREATE TABLE IF NOT EXISTS {schema}.orders (id INT, customer STRING, amount DECIMAL(10,2)) USING delta;"


def run(*words: str, code: int = 0, stdin: str | None = None):
    result = CliRunner().invoke(app, list(words), input=stdin)
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result


def parsed(*words: str, code: int = 0):
    return json.loads(run(*words, "--json", code=code).stdout)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("RUNNEL_WAREHOUSE", "RUNNEL_CATALOG", "RUNNEL_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


# -- the file ----------------------------------------------------------------------------------------------------------


def test_init_makes_a_project_that_every_command_finds_from_below(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parsed("init") == {"warehouse": str(folder / "runnel-warehouse"), "created": True, "project": str(folder / "runnel.toml")}
    assert load(folder).sql == (folder / "sql",) and (folder / "sql").is_dir()
    deep = folder / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert find(deep) == folder / "runnel.toml"
    assert parsed("list") == []
    assert parsed("apply", "--dry-run") == []
    assert not (deep / "runnel-warehouse").exists()


def test_init_leaves_a_project_as_it_is(folder: Path) -> None:
    write(folder / "runnel.toml", 'warehouse = "w"\n')
    assert parsed("init", ".")["warehouse"] == str(folder / "w")
    assert (folder / "runnel.toml").read_text() == 'warehouse = "w"\n'
    assert parsed("init", "sub")["warehouse"] == str(folder / "sub" / "runnel-warehouse")
    assert parsed("--warehouse", "alone", "init") == {"warehouse": str(folder / "alone"), "created": True}


def test_the_command_line_wins_over_the_environment_over_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "runnel.toml", 'warehouse = "of_file"\ncatalog = "sqlite:///shared.db"\n[settings]\nlock_wait_seconds = 7\n')
    for name in ("of_file", "of_environment", "of_line"):
        (folder / name).mkdir()
    run("list")
    assert (folder / "shared.db").is_file() and not (folder / "of_file" / "_runnel").exists()
    monkeypatch.setenv("RUNNEL_WAREHOUSE", "of_environment")
    run("list")
    assert (folder / "of_environment" / "_runnel").is_dir(), "another warehouse has a catalog of its own"
    run("list", "--warehouse", "of_line")
    assert (folder / "of_line" / "_runnel").is_dir()
    assert load(folder).catalog == f"sqlite:///{folder}/shared.db"


def test_settings_of_the_file_are_below_all_others(folder: Path) -> None:
    from runnel.settings import load as settings

    found = settings({"vacuum_hours": 3.0}, {"RUNNEL_LOCK_WAIT_SECONDS": "2"}, {"lock_wait_seconds": 1, "vacuum_hours": 1, "disabled_rules": ["a"]})
    assert (found.lock_wait_seconds, found.vacuum_hours, found.disabled_rules) == (2.0, 3.0, ("a",))


def test_passwords_come_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "runnel.toml", 'catalog = "postgresql://ann:${SHELL_TEST_PASSWORD}@127.0.0.1:1/runnel?connect_timeout=1"')
    assert "SHELL_TEST_PASSWORD is not set" in parsed("list", code=1)["error"]["message"]
    monkeypatch.setenv("SHELL_TEST_PASSWORD", "s3cret")
    (folder / "runnel-warehouse").mkdir()
    result = run("list", code=1)
    assert "s3cret" not in result.stdout + result.stderr and "CATALOG_UNREACHABLE" in result.stderr
    run("version")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("warehose = 'x'", ['key "warehose" does not exist', "warehouse, catalog"]),
        ("[defaults]\nmodus = 'x'", ['key "defaults.modus" does not exist', "defaults.mode"]),
        ("[defaults]\nmode = 'never'", ["refresh mode never does not exist"]),
        ("[defaults]\nschedule = 'sometimes'", ["SCHEDULE EVERY", "runnel.toml"]),
        ("warehouse = 3", ['key "warehouse" cannot be 3']),
        ("[settings]\nbogus = 3", ['setting "bogus" does not exist']),
        ("[settings]\nvacuum_hours = true", ['setting "vacuum_hours" cannot be "True"']),
        ("a = = b", ["is not TOML", "line 1, column 5"]),
        ("schema = 'a.b.c'", ['schema "a.b.c" is not a name']),
    ],
)
def test_a_wrong_file_is_refused_with_what_exists(folder: Path, text: str, words: list[str]) -> None:
    write(folder / "runnel.toml", text)
    (folder / "runnel-warehouse").mkdir()
    result = run("status", code=1)
    assert all(w in result.stderr for w in words), result.stderr
    assert "Traceback" not in result.stderr


def test_a_project_elsewhere(folder: Path) -> None:
    write(folder / "p" / "runnel.toml", "[spark]\nspark.sql.ansi.enabled = true\n'spark.x' = 3\n")
    write(folder / "p" / "runnel.toml", (folder / "p" / "runnel.toml").read_text() + "[defaults]\nschedule = '5m'\n")
    assert load(folder / "p").defaults == {"schedule": "SCHEDULE EVERY 5m"}
    assert load(folder / "p").spark == {"spark.sql.ansi.enabled": "true", "spark.x": "3"}
    assert parsed("--project", "p", "apply", "--dry-run", code=1)["error"]["code"] == "FILE_NOT_FOUND"
    assert parsed("--project", "nowhere", "list", code=1)["error"]["code"] == "PROJECT_NOT_FOUND"
    assert parsed("apply", code=1)["error"]["code"] == "PROJECT_NOT_FOUND"


# -- the pipeline spec -------------------------------------------------------------------------------------------------

SPEC = """
name: shop
storage: file:///tmp/shop
catalog: spark_catalog
database: Sales
configuration:
  spark.sql.shuffle.partitions: "3"
libraries:
  - glob:
      include: transformations/**
"""


def test_a_pipeline_spec_stands_where_the_project_file_would(folder: Path) -> None:
    write(folder / "spark-pipeline.yml", SPEC)
    write(folder / "transformations" / "deep" / "a.sql", "CREATE MATERIALIZED VIEW totals AS SELECT id FROM orders")
    found = load(folder)
    assert (found.home.schema, found.spark, found.only_batch) == ("sales", {"spark.sql.shuffle.partitions": "3"}, True)
    assert [s["name"] for s in parsed("apply", "--dry-run")] == ["spark_catalog.sales.totals"]
    write(folder / "transformations" / "b.sql", "CREATE STREAMING TABLE raw AS SELECT * FROM STREAM x")
    refused = parsed("apply", "--dry-run", code=1)["error"]
    assert (refused["code"], refused["file"]) == ("STREAMING_ONLY", "transformations/b.sql")
    write(folder / "runnel.toml", "")
    assert load(folder).file.name == "runnel.toml"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: a", 'key "storage" is missing'),
        ("name: a\nstorage: b\ntarget: c", 'key "target" does not exist'),
        ("name: a\nstorage: b\nconfiguration: {a: 1}", "configuration is not a table of texts"),
        ("name: a\nstorage: b\nlibraries: [{glob: {include: 'x/*.sql'}}]", "the pattern x/*.sql is not allowed"),
        ("name: a\nstorage: b\nlibraries: [{glob: {include: 'py/**'}}]", "py/a.py is not SQL"),
        ("name: a\nstorage: b\nlibraries: [{file: x}]", "is not a library"),
        ("name: [a", "is not YAML"),
        ("- a", "is not a table of keys"),
    ],
)
def test_a_wrong_spec_is_refused(folder: Path, text: str, words: str) -> None:
    write(folder / "py" / "a.py", "")
    write(folder / "spark-pipeline.yml", text)
    found = parsed("apply", "--dry-run", code=1)["error"]
    assert found["code"] == "PIPELINE_SPEC" and words in found["message"] and found["hint"]


def test_wrong_selections_fail_before_spark_starts(folder: Path) -> None:
    write(folder / "spark-pipeline.yml", SPEC)
    write(folder / "transformations" / "a.sql", "CREATE MATERIALIZED VIEW totals AS SELECT id FROM orders")
    assert parsed("pipeline", "run", "--full-refresh-all", "--refresh", "totals", code=1)["error"]["code"] == "SELECTION"
    assert parsed("pipeline", "run", "--full-refresh", "totals", "--refresh", "totals", code=1)["error"]["code"] == "SELECTION"
    wrong = parsed("pipeline", "run", "--refresh", "totals,nope", code=1)["error"]
    assert wrong["code"] == "STREAM_TABLE_NOT_FOUND" and wrong["detail"] == "Its tables are totals."
    run("pipeline", "run", "--spec", "nowhere.yml", code=2)


def test_an_empty_project_starts_no_spark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    run("init")
    assert (parsed("apply"), parsed("pipeline", "run"), parsed("pipeline", "dry-run")["ok"]) == ([], [], True)
    assert "no file defines anything" in run("apply").stdout and run("export").stdout == ""
    assert parsed("check", "--update")["ok"] and parsed("check")["ok"]


# -- with Spark --------------------------------------------------------------------------------------------------------

_numbers = itertools.count(1)
TOTALS = "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"


@pytest.fixture
def project(rn, folder: Path):
    """A project in the warehouse of the shared session, with a schema of its own; gives its folder."""
    schema = f"project_{next(_numbers)}"
    write(folder / "runnel.toml", f'warehouse = "{rn.folder}"\nschema = "{schema}"\n')
    write(folder / "sql" / "sources.sql", ORDERS.format(schema=schema))
    yield folder
    rn.sql("USE default")
    for name in [d["name"] for d in rn.list() if f".{schema}." in d["name"]]:
        rn.drop(name, cascade=True, if_exists=True)
    rn.sql(f"DROP TABLE IF EXISTS {schema}.orders")


def steps(found: list[dict]) -> list[tuple[str, str]]:
    return [(s["step"], s["name"].rpartition(".")[2]) for s in found]


def facts(rn, schema: str) -> dict[str, tuple]:
    found = rn._engine.definitions().values()
    return {d.name: (d.text, d.sql, d.mode, d.comment, d.properties, d.source_keys) for d in found if f".{schema}." in d.name}


@pytest.mark.spark
def test_the_life_of_a_project(rn, project: Path) -> None:
    schema = load(project).home.schema
    write(project / "sql" / "a.sql", "CREATE STREAM TABLE rich COMMENT 'it''s; all' AS SELECT customer FROM totals WHERE total > 10;")
    write(project / "sql" / "b.sql", f"CREATE STREAM TABLE totals TBLPROPERTIES ('owner' = 'ann') AS\n{TOTALS};")
    planned = [("ensure", "orders"), ("create", "totals"), ("create", "rich")]
    assert steps(parsed("apply", "--dry-run")) == planned
    assert facts(rn, schema) == {}
    assert steps(parsed("apply")) == planned
    assert parsed("apply") == [] and steps(parsed("apply", "--dry-run"))[1] == ("unchanged", "totals")

    rn.sql(f"INSERT INTO {schema}.orders VALUES (1, 'ada', 12.50), (2, 'bob', 8.00)")
    write(project / "sql" / "a.sql", "CREATE STREAM TABLE rich COMMENT 'it''s; all' AS SELECT customer FROM totals WHERE total > 9;")
    write(project / "sql" / "b.sql", f"CREATE STREAM TABLE totals COMMENT 'sums' REFRESH MODE FULL AS {TOTALS}")
    assert steps(parsed("apply")) == [("alter options", "totals"), ("replace query", "rich")]
    write(project / "sql" / "b.sql", f"CREATE STREAM TABLE totals COMMENT 'all sums' REFRESH MODE FULL AS {TOTALS}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runnel.cli.project.connected", lambda *words, **options: pytest.fail("options alone need no Spark"))
        assert steps(parsed("apply")) == [("alter options", "totals")]
    text, _, mode, comment, properties, _ = facts(rn, schema)[f"spark_catalog.{schema}.totals"]
    assert (text, mode, comment, properties) == (TOTALS, "FULL", "all sums", {})
    assert [r["action"] for r in parsed("refresh", "totals", "rich")] == ["FULL", "DIFFERENTIAL"]
    assert [v["ok"] for v in parsed("verify", "totals", "rich")] == [True, True]
    assert "rich" in run("timeline", "--since", "1h").stdout

    before, exported = facts(rn, schema), run("export", "totals", "rich").stdout
    rn.drop(f"{schema}.totals", cascade=True)
    for name in ("a", "b"):
        (project / "sql" / f"{name}.sql").unlink()
    write(project / "sql" / "all.sql", exported)
    assert steps(parsed("apply")) == [("create", "totals"), ("create", "rich")]
    assert facts(rn, schema) == before

    write(project / "sql" / "all.sql", f"CREATE STREAM TABLE wrong AS\n SELECT nothing FROM totals;\nCREATE STREAM TABLE totals AS {TOTALS}")
    failed = run("apply", code=1)
    assert "alter options" in failed.stdout and "(sql/all.sql, line 2, column 9)" in failed.stderr

    assert rn.apply(str(project / "sql" / "sources.sql"), dry_run=True).steps[0].name.endswith(".orders")


@pytest.mark.spark
def test_pruning_asks_first(rn, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = load(project).home.schema
    write(project / "sql" / "a.sql", f"CREATE STREAM TABLE totals AS {TOTALS}; CREATE STREAM TABLE above AS SELECT * FROM totals")
    parsed("apply")
    write(project / "sql" / "a.sql", "")
    # Other tests share the catalog, so only the tables of this schema are known here.
    definitions = rn._engine.definitions()
    monkeypatch.setattr("runnel.cli.project._existing", lambda options: {n: d for n, d in definitions.items() if f".{schema}." in n})
    assert steps(parsed("apply", "--prune", "--dry-run"))[-2:] == [("prune", "above"), ("prune", "totals")]
    assert parsed("apply", "--prune", code=1)["error"]["code"] == "NOT_CONFIRMED"
    run("apply", "--prune", stdin="n\n", code=1)
    assert len(facts(rn, schema)) == 2
    assert steps(parsed("apply", "--prune", "--yes"))[-2:] == [("prune", "above"), ("prune", "totals")]
    assert facts(rn, schema) == {}


@pytest.mark.spark
def test_check_fails_for_what_is_recomputed_and_for_what_changed(rn, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = load(project).home.schema
    monkeypatch.setattr("runnel.cli.project._existing", lambda options: {})
    write(project / "sql" / "a.sql", f"CREATE STREAM TABLE totals AS {TOTALS}; CREATE STREAM TABLE top AS SELECT MAX(total) AS m FROM totals")
    sampled = "CREATE STREAM TABLE sampled {mode} AS SELECT id FROM orders TABLESAMPLE (10 ROWS)"
    write(project / "sql" / "b.sql", sampled.format(mode=""))
    found = parsed("check", "--update", code=1)
    assert [(p["kind"], p["name"], p["file"]) for p in found["problems"]] == [("full", f"spark_catalog.{schema}.sampled", "sql/b.sql")]
    assert facts(rn, schema) == {}

    write(project / "sql" / "b.sql", sampled.format(mode="REFRESH MODE FULL"))
    found = parsed("check", "--update")["definitions"]
    assert found[f"spark_catalog.{schema}.totals"] == {
        "incremental": True,
        "reason": "",
        "mode": "AUTO",
        "layout": "groups",
        "aggregates": ["SUM: additive"],
        "sources": [f"spark_catalog.{schema}.orders"],
    }
    assert parsed("check")["ok"]

    write(project / "sql" / "a.sql", "CREATE STREAM TABLE totals AS SELECT customer, MAX(amount) AS total FROM orders GROUP BY customer;")
    write(project / "sql" / "c.sql", "CREATE STREAM TABLE broken AS SELECT\n nope FROM totals; CREATE STREAM TABLE above AS SELECT * FROM broken")
    result = run("check", code=1)
    assert "totals: aggregates SUM: additive -> MAX: mergeable on inserts" in result.stdout
    assert "top: no longer defined" in result.stdout and "not checked, since" in result.stdout
    assert "(sql/c.sql, line 2, column 2)" in result.stderr
    (project / "runnel.lock").write_text("{")
    assert parsed("check", code=1)["error"]["code"] == "LOCK"


@pytest.mark.spark
def test_a_declarative_pipeline_runs(rn, project: Path) -> None:
    schema = load(project).home.schema
    (project / "runnel.toml").unlink()
    write(project / "spark-pipeline.yml", SPEC.replace("Sales", schema).replace("transformations", "sql"))
    write(
        project / "sql" / "a.sql", f"CREATE MATERIALIZED VIEW totals AS {TOTALS}; CREATE MATERIALIZED VIEW top AS SELECT MAX(total) AS m FROM totals"
    )
    here = ("--warehouse", rn.folder)
    assert parsed("pipeline", "dry-run", *here)["ok"] and facts(rn, schema) == {}

    def ran(*words: str) -> list[tuple[str, str]]:
        return [(r["stream_table"].rpartition(".")[2], r["action"]) for r in parsed("pipeline", "run", *words, *here)]

    assert ran() == [("totals", "FULL"), ("top", "FULL")]
    rn.sql(f"INSERT INTO {schema}.orders VALUES (1, 'ada', 12.50)")
    assert ran("--refresh", "totals") == [("totals", "DIFFERENTIAL")]
    assert ran("--full-refresh", "top") == [("top", "FULL")]
    assert ran() == [("totals", "NO_DATA"), ("top", "NO_DATA")]
    assert ran("--full-refresh-all", "--spec", "spark-pipeline.yml") == [("totals", "FULL"), ("top", "FULL")]
    assert "pyspark" in parsed("pipeline", "run", "--remote", "sc://127.0.0.1:1", *here, code=1)["error"]["hint"]
