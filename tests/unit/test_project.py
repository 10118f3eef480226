"""Definitions in files: reading them, comparing them with what is stored, and writing them again; all without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runnel.bind.script import pieces
from runnel.definition import Definition, SourceRef
from runnel.differentiate.layout import Layout
from runnel.errors import DefinitionError, RunnelError
from runnel.observe.record import Mode
from runnel.project.apply import apply
from runnel.project.declare import Declarations, declarations, sql_files
from runnel.project.export import export
from runnel.project.names import Home, portable_text, same_query
from runnel.project.plan import Plan, Verb, plan

HOME = "spark_catalog.default."


def stored(name: str, text: str, *sources: str, **options: Any) -> Definition:
    """A definition as the catalog has it; sources without a schema are in `default`."""
    full = [s if "." in s else HOME + s for s in sources]
    refs = tuple(SourceRef(s, "delta", f"/{s}") for s in full)
    layout = Layout("rows", (), (), (), "", ())
    return Definition(name, name if "." in name else HOME + name, text, f"-- {name} in full", options.pop("mode", Mode.AUTO), refs, layout, **options)


def by_name(*definitions: Definition) -> dict[str, Definition]:
    return {d.name: d for d in definitions}


@pytest.fixture
def write(tmp_path: Path):
    def write(**files: str) -> Declarations:
        for name, text in files.items():
            (tmp_path / f"{name}.sql").write_text(text)
        return declarations(sql_files([tmp_path]), Home(), tmp_path)

    return write


def shown(found: Plan) -> list[str]:
    return [str(s).replace(HOME, "") for s in found.steps]


# -- splitting ---------------------------------------------------------------------------------------------------------


def test_semicolons_in_strings_names_and_comments_split_nothing() -> None:
    text = "SELECT ';', \"a;b\", `c;d`, 'it''s;', 'x\\';y' -- e;f\n; /* g;h */ SELECT 2 /* ; */;\n;"
    assert [p.text for p in pieces(text)] == ["SELECT ';', \"a;b\", `c;d`, 'it''s;', 'x\\';y'", "SELECT 2"]


def test_pieces_know_where_they_began() -> None:
    found = pieces("SELECT 1;\n\n  SELECT\n 2; SELECT 3")
    assert [(p.line, p.column) for p in found] == [(1, 1), (3, 3), (4, 5)]
    assert found[1].at(len("SELECT\n 2")) == (4, 3)


@pytest.mark.parametrize(
    ("text", "place", "words"), [("SELECT 1;\n  SELECT 'a\n", (2, 10), "begins with '"), ("SELECT 1 /* a", (1, 10), "a comment"), ("`a", (1, 1), "`")]
)
def test_what_does_not_end_is_named_with_its_place(text: str, place: tuple[int, int], words: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        pieces(text)
    assert caught.value.position == place and words in caught.value.message


# -- declaring ---------------------------------------------------------------------------------------------------------


def test_definitions_are_sorted_by_who_reads_whom(write) -> None:
    found = write(
        a="CREATE STREAM TABLE top AS SELECT * FROM middle; CREATE STREAM TABLE middle AS WITH top AS (SELECT 1) SELECT * FROM bottom, top",
        b="CREATE OR REPLACE MATERIALIZED VIEW Bottom COMMENT 'x;y' AS SELECT * FROM orders;\nCREATE TABLE IF NOT EXISTS orders (id INT) USING delta;"
        "CREATE SCHEMA IF NOT EXISTS sales; CREATE EXTERNAL TABLE IF NOT EXISTS `sales`.`t t` (id INT) USING delta LOCATION '/x'",
    )
    assert [d.name.removeprefix(HOME) for d in found.stream_tables] == ["bottom", "middle", "top"]
    assert found.stream_tables[0].reads == (HOME + "orders",)
    assert [(s.kind, s.name) for s in found.sources] == [
        ("table", HOME + "orders"),
        ("schema", "sales"),
        ("table", "spark_catalog.sales.`t t`"),
    ]


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        ("SELECT 1;\n DROP TABLE x", "NOT_A_DEFINITION", (1, 1)),
        ("\n DROP STREAM TABLE x", "NOT_A_DEFINITION", (2, 2)),
        ("CREATE OR REPLACE VIEW v AS SELECT 1", "NOT_A_DEFINITION", (1, 1)),
        ("\nCREATE TABLE t (id INT)", "NOT_REPEATABLE", (2, 1)),
        ("CREATE STREAM TABLE t AS\nSELECT FROM WHERE", "SYNTAX", (2, 17)),
        ("\n\n  CREATE STREAM TABLE t REFRESH MODE NEVER AS SELECT 1", "SYNTAX", (3, 38)),
        ("CREATE STREAM TABLE a AS SELECT * FROM t;\nCREATE STREAM TABLE A AS SELECT * FROM u", "DEFINED_TWICE", (2, 1)),
        ("CREATE STREAM TABLE a AS SELECT * FROM b;\nCREATE STREAM TABLE b AS SELECT * FROM a", "CYCLE", (1, 1)),
        ("SELECT 'a", "SYNTAX", (1, 8)),
    ],
)
def test_errors_name_file_line_and_column(write, text: str, code: str, position: tuple[int, int]) -> None:
    with pytest.raises(RunnelError) as caught:
        write(wrong=text)
    assert (caught.value.code, caught.value.file, caught.value.position) == (code, "wrong.sql", position)
    assert f"(wrong.sql, line {position[0]}, column {position[1]})" in str(caught.value) and caught.value.hint


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="no file or folder"):
        sql_files([tmp_path / "nowhere"])
    (tmp_path / "a.sql").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DefinitionError, match="cannot read a"):
        declarations(sql_files([tmp_path]), Home(), tmp_path)


def test_hidden_folders_and_other_files_are_left_out(tmp_path: Path) -> None:
    for name in ("b.sql", "a/c.sql", ".git/d.sql", "e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert [str(p.relative_to(tmp_path)) for p in sql_files([tmp_path, tmp_path / "b.sql"])] == ["a/c.sql", "b.sql"]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE STREAMING TABLE t AS SELECT * FROM x",
        "CREATE OR REPLACE STREAMING TABLE t",
        "CREATE FLOW f AS INSERT INTO t BY NAME SELECT * FROM STREAM x",
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM STREAM x",
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM STREAM(x)",
    ],
)
def test_streams_of_declarative_pipelines_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.sql").write_text(text)
    with pytest.raises(DefinitionError) as caught:
        declarations(sql_files([tmp_path]), Home(), tmp_path, only_batch=True)
    assert caught.value.code == "STREAMING_ONLY" and caught.value.file == "a.sql"


# -- planning ----------------------------------------------------------------------------------------------------------

TOTALS = "SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer"


def test_what_is_already_so_is_unchanged_however_it_is_written(write) -> None:
    wanted = write(
        a=f"CREATE STREAM TABLE totals AS -- sums\n {TOTALS.replace('SELECT', 'select').replace('FROM orders', 'FROM default.Orders AS orders')}"
    )
    found = plan(wanted, by_name(stored("totals", TOTALS, "orders")))
    assert [s.verb for s in found.steps] == [Verb.UNCHANGED] and found.empty


def test_create_alter_replace_and_prune(write) -> None:
    wanted = write(
        a="CREATE TABLE IF NOT EXISTS orders (id INT) USING delta; CREATE TABLE IF NOT EXISTS people (id INT) USING delta;"
        f"CREATE STREAM TABLE fresh AS SELECT * FROM totals;CREATE STREAM TABLE totals COMMENT 'sums' REFRESH MODE FULL AS {TOTALS};"
        "CREATE STREAM TABLE other AS SELECT 2 AS x FROM orders"
    )
    existing = by_name(
        stored("totals", TOTALS, "orders", properties={"a": "b"}),
        stored("other", "SELECT 1 AS x FROM orders", "orders"),
        stored("gone", "SELECT * FROM totals", "totals"),
        stored("gone_too", "SELECT * FROM gone", "gone"),
    )
    found = plan(wanted, existing, prune=True, present=[HOME + "orders"])
    assert shown(found) == [
        "unchanged     orders (table)",
        "ensure        people (table)",
        "alter options totals (comment none -> sums; properties {a = b} -> {}; mode AUTO -> FULL)",
        "create        fresh",
        "replace query other",
        "prune         gone_too (no file defines it)",
        "prune         gone (no file defines it)",
    ]
    assert not plan(wanted, existing).of(Verb.PRUNE)


def test_what_is_still_read_is_not_pruned(write) -> None:
    wanted = write(a="CREATE STREAM TABLE reader AS SELECT * FROM other")
    with pytest.raises(DefinitionError) as caught:
        plan(wanted, by_name(stored("other", TOTALS, "orders")), prune=True)
    assert caught.value.code == "HAS_READERS" and caught.value.file == "a.sql"


def test_the_same_text_over_other_tables_is_another_query() -> None:
    elsewhere = stored("spark_catalog.sales.totals", TOTALS, "spark_catalog.sales.orders")
    assert same_query(TOTALS, Home(schema="sales"), elsewhere)
    assert not same_query(TOTALS, Home(), elsewhere)
    over_a_view = stored("totals", TOTALS, "behind_the_view")
    assert same_query(TOTALS, Home(), over_a_view)


def test_defaults_hold_where_a_definition_says_nothing(write) -> None:
    wanted = write(a=f"CREATE STREAM TABLE totals AS {TOTALS}; CREATE STREAM TABLE auto REFRESH MODE AUTO AS {TOTALS}")
    existing = by_name(stored("totals", TOTALS, "orders"), stored("auto", TOTALS, "orders"))
    found = plan(wanted, existing, defaults={"mode": Mode.STRICT})
    assert shown(found) == ["unchanged     auto", "alter options totals (mode AUTO -> STRICT)"]
    found = plan(wanted, existing, defaults={"schedule": "SCHEDULE EVERY 5m"})
    assert shown(found)[0] == "alter options auto (schedule none -> SCHEDULE EVERY 5m)"


# -- carrying out ------------------------------------------------------------------------------------------------------


class Recorder:
    """Verbs that remember what they were asked."""

    def __init__(self, broken: str = "") -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.broken = broken

    def sql(self, text: str) -> None:
        self.calls.append(("sql", text))

    def create(self, name: str, query: str, mode: str = "AUTO", *, replace: bool = False, **options: Any) -> None:
        if name.endswith(self.broken) and self.broken:
            raise DefinitionError("table does not exist", code="TABLE_NOT_FOUND", hint="Create it.", position=(2, 3))
        self.calls.append(("create", name, query, mode, replace, options))

    def alter(self, name: str, **options: Any) -> None:
        self.calls.append(("alter", name, options))

    def drop(self, name: str) -> None:
        self.calls.append(("drop", name))


def test_a_plan_is_carried_out_in_order(write) -> None:
    wanted = write(
        a=f"CREATE TABLE IF NOT EXISTS orders (id INT);CREATE STREAM TABLE t TBLPROPERTIES ('c' = 'd') AS {TOTALS};CREATE STREAM TABLE u AS {TOTALS}"
    )
    existing = by_name(stored("t", TOTALS, "orders", properties={"a": "b"}), stored("old", TOTALS, "orders"))
    verbs = Recorder()
    done = apply(verbs, plan(wanted, existing, prune=True))
    assert verbs.calls == [
        ("sql", "CREATE TABLE IF NOT EXISTS orders (id INT)"),
        ("alter", HOME + "t", {"properties": {"c": "d"}, "unset": ["a"]}),
        ("create", HOME + "u", TOTALS, Mode.AUTO, False, {"comment": "", "properties": {}, "schedule": ""}),
        ("drop", HOME + "old"),
    ]
    assert [d.step.verb for d in done] == [Verb.ENSURE, Verb.ALTER, Verb.CREATE, Verb.PRUNE]


def test_an_error_names_the_place_in_the_file_and_what_was_done_before(write) -> None:
    wanted = write(a=f"CREATE STREAM TABLE a AS {TOTALS};\n\nCREATE STREAM TABLE b AS SELECT *\n  FROM nowhere")
    with pytest.raises(DefinitionError) as caught:
        apply(Recorder(broken=".b"), plan(wanted, {}))
    assert (caught.value.file, caught.value.position) == ("a.sql", (4, 3))
    assert [d.step.name for d in caught.value.values["done"]] == [HOME + "a"]


def test_what_spark_says_about_the_data_is_told_with_the_place(write) -> None:
    wanted = write(a=f"CREATE STREAM TABLE a AS\n {TOTALS}")
    verbs = Recorder()
    verbs.create = lambda *words, **options: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(DefinitionError) as caught:
        apply(verbs, plan(wanted, {}))
    assert (caught.value.code, caught.value.file, caught.value.position) == ("LOAD_FAILED", "a.sql", (2, 2))
    assert "division by zero" in caught.value.detail


# -- writing -----------------------------------------------------------------------------------------------------------


def test_an_export_defines_the_same_again(tmp_path: Path) -> None:
    existing = by_name(
        stored("totals", TOTALS, "orders", comment='it\'s; \\ a\nlong "one"', properties={"owner.team": "x'y", "runnel.storage": "read_optimised"}),
        stored("a_reader", "SELECT * FROM totals -- the last line; a comment", "totals", mode=Mode.FULL, schedule="SCHEDULE EVERY 5m"),
        stored(
            "spark_catalog.sales.`odd name`", "SELECT o.id FROM orders AS o, spark_catalog.default.totals", "spark_catalog.sales.orders", "totals"
        ),
    )
    text = export(existing)
    (tmp_path / "all.sql").write_text(text)
    wanted = declarations(sql_files([tmp_path]), Home(), tmp_path)
    assert [s.verb for s in plan(wanted, existing, prune=True).steps] == [Verb.UNCHANGED] * 3, text
    assert wanted.stream_tables[0].name == HOME + "totals"
    assert "CREATE STREAM TABLE sales.`odd name`\nAS SELECT o.id FROM sales.orders AS o" in text


def test_an_export_of_some(tmp_path: Path) -> None:
    existing = by_name(stored("totals", TOTALS, "orders"), stored("reader", "SELECT * FROM totals", "totals"))
    assert export(existing, [HOME + "reader"]) == "CREATE STREAM TABLE reader\nAS SELECT * FROM totals;\n"
    assert export({}) == ""


def test_a_query_whose_names_cannot_be_told_is_exported_as_it_stands_on_its_own() -> None:
    assert portable_text(stored("t", "SELECT * FROM a_view", "orders"), Home()) == "-- t in full"
    two = stored("t", "SELECT * FROM orders, b.orders", "spark_catalog.a.orders", "spark_catalog.b.orders")
    assert portable_text(two, Home()) == "-- t in full"
