"""The shell's words of operation and the overview, on a warehouse made without Spark."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from deltalake.transaction import AddAction
from pyspark.sql.types import LongType, StringType, StructField, StructType
from typer.testing import CliRunner

from runnel.algebra import WEIGHT, Column
from runnel.cli import app
from runnel.definition import Definition, SourceRef
from runnel.differentiate import rows_layout
from runnel.execute.refresh import entry_of
from runnel.observe.record import Action, Mode
from runnel.schedule.fuse import Blown
from runnel.schedule.run_state import RunState, Trouble
from runnel.state import Catalog
from runnel.tables.backing import BackingTable, CommitNote, Written
from runnel.tables.content import HASH, LEVEL

HOME = "spark_catalog.default."


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """`orders` and `payments`, `totals` over both, which is triggered by updates and has read everything, and `report` over it."""
    column = (Column("k", "bigint"),)
    schema = StructType([StructField(n, LongType()) for n in ("k", HASH, WEIGHT)] + [StructField(LEVEL, StringType())])
    catalog = Catalog.open(f"sqlite:///{tmp_path}/_runnel/catalog.db")
    refs = []
    for name in ("orders", "payments"):
        write_deltalake(str(tmp_path / name), pa.table({"k": [1]}))
        refs.append(SourceRef(HOME + name, "delta", str(tmp_path / name), {"k": '"long"'}))
    path = ""
    for number, (name, schedule) in enumerate((("totals", "TRIGGER ON UPDATE"), ("report", ""))):
        sources = tuple(refs) if name == "totals" else (SourceRef(f"{HOME}totals", "stream", path),)
        path = str(tmp_path / "_runnel" / "tables" / name)
        made = datetime.now(UTC).isoformat()
        definition = Definition(
            f"{number:032x}", HOME + name, "q", "q", Mode.AUTO, sources, rows_layout(column, column), schedule=schedule, created_at=made
        )
        backing = BackingTable.create(path, definition, schema)
        frontier: dict[str, list[Any]] = {s.key: [0 if s.kind == "delta" else 1, BackingTable(s.path, definition).log.table_id()] for s in sources}
        backing.commit(0, Written((), 0), CommitNote("refresh", 1, frontier, Action.FULL))
        catalog.put(entry_of(backing))
    catalog.close()
    return tmp_path


def shell(warehouse: Path, *words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["--warehouse", str(warehouse), *words, "--json"])
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return json.loads(result.stdout)


def text(warehouse: Path, *words: str) -> str:
    result = CliRunner().invoke(app, ["--warehouse", str(warehouse), *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def state(warehouse: Path, name: str, found: RunState) -> None:
    catalog = Catalog.open(f"sqlite:///{warehouse}/_runnel/catalog.db")
    catalog.schedules.remember({HOME + name: found})
    catalog.close()


def commit(warehouse: Path, source: str) -> None:
    write_deltalake(str(warehouse / source), pa.table({"k": [2]}), mode="append")


def lines(warehouse: Path) -> dict[str, dict[str, Any]]:
    return {line["name"].removeprefix(HOME): line for line in shell(warehouse, "status")}


def test_the_overview_shows_staleness_against_the_schedule(warehouse: Path) -> None:
    found = lines(warehouse)
    assert found["totals"]["fresh"] and found["totals"]["schedule"] == "TRIGGER ON UPDATE" and found["totals"]["next"] == ""
    assert found["report"]["schedule"] == "SCHEDULE CALCULATED" and found["report"]["period_seconds"] is None
    commit(warehouse, "orders")
    found = lines(warehouse)
    assert not found["totals"]["fresh"] and not found["report"]["fresh"] and found["totals"]["next"] == f"update of {HOME}orders"
    assert found["totals"]["behind_seconds"] >= 0 and not found["totals"]["late"]
    shown = text(warehouse, "status")
    assert "TRIGGER ON UPDATE" in shown and "no daemon runs" in shown and "update of" in shown


def test_what_was_refreshed_by_its_name_makes_its_readers_stale_from_then_on(warehouse: Path) -> None:
    """Nobody scheduled it, so the scheduler knows no time of a run: the time is that of the commit."""
    backing = BackingTable.open(str(warehouse / "_runnel" / "tables" / "totals"))
    assert backing is not None
    version, note = backing.note()
    rows = AddAction(f"{LEVEL}=tail/part.parquet", 1, {LEVEL: "tail"}, int(time.time() * 1000), True, "{}")
    backing.commit(version, Written((rows,), 1, False), replace(note, epoch=2))
    found = lines(warehouse)["report"]
    assert not found["fresh"] and found["behind_seconds"] < 600


def test_a_tick_with_nothing_to_do_starts_no_spark(warehouse: Path) -> None:
    assert shell(warehouse, "run", "--once") | {"waiting": {}} == {
        "ok": True,
        "refreshed": [],
        "failed": {},
        "suspended": [],
        "skipped": {},
        "blown": {},
        "waiting": {},
    }
    assert "nothing is due" in text(warehouse, "run", "--once")
    commit(warehouse, "orders")
    found = shell(warehouse, "run", "--once", "--dry-run")
    assert found["run"] == [{"unit": [f"{HOME}totals"], "reasons": {f"{HOME}totals": f"update of {HOME}orders"}, "full": []}]
    everything = shell(warehouse, "run", "--once", "--all", "--dry-run")["run"]
    assert [r["unit"] for r in everything] == [[f"{HOME}totals"], [f"{HOME}report"]]
    shell(warehouse, "suspend", "totals")
    assert shell(warehouse, "run", "--once")["waiting"] == {f"{HOME}totals": "is suspended: suspended by an operator"}
    assert f"wait {HOME}totals" in text(warehouse, "run", "--once", "--dry-run")


def test_suspend_and_resume(warehouse: Path) -> None:
    commit(warehouse, "orders")
    shell(warehouse, "suspend", "totals", "--reason", "wrong numbers")
    found = lines(warehouse)["totals"]
    assert found["status"] == "SUSPENDED" and found["waiting"] == "is suspended: wrong numbers" and found["trouble"]["by"] == "user"
    assert "wrong numbers" in text(warehouse, "status", "totals")
    said = CliRunner().invoke(app, ["--warehouse", str(warehouse), "status", "totals"]).stderr
    assert "error totals: wrong numbers" in said, "what an operator says has no code"
    assert shell(warehouse, "resume", "totals") == {"resumed": True} and shell(warehouse, "resume", "totals") == {"resumed": False}
    assert lines(warehouse)["totals"]["status"] == "ACTIVE"
    assert shell(warehouse, "suspend", "nothing", code=1)["error"]["code"] == "STREAM_TABLE_NOT_FOUND"


def test_a_failure_shows_cause_and_remedy(warehouse: Path) -> None:
    trouble = Trouble("divided by zero", "2026-01-01", "DIVIDE_BY_ZERO", "", hint="Filter zeros out.")
    state(warehouse, "totals", RunState(failures=3, trouble=trouble, suspended=trouble))
    found = shell(warehouse, "status", "totals")
    assert found["trouble"]["hint"] == "Filter zeros out." and found["failures"] == 3 and found["suspended"].startswith("[DIVIDE_BY_ZERO]")


def test_pause_drain_and_resume(warehouse: Path) -> None:
    commit(warehouse, "orders")
    shell(warehouse, "pause")
    assert lines(warehouse)["totals"]["waiting"] == "paused"
    assert shell(warehouse, "drain") == {"drained": True}, "no daemon runs"
    assert shell(warehouse, "resume") == {"resumed": True} and shell(warehouse, "resume") == {"resumed": False}


def test_drain_waits_for_the_leader(warehouse: Path) -> None:
    catalog = Catalog.open(f"sqlite:///{warehouse}/_runnel/catalog.db")
    with catalog.lease("daemon", wait=0.0, ttl=30.0) as lease:
        facts = {"owner": lease.owner, "running": [f"{HOME}totals"], "revision": 0}
        catalog.schedules.put_daemon(facts)
        assert lines(warehouse)["totals"]["status"] == "RUNNING"
        assert shell(warehouse, "drain", "--timeout", "0.2", code=1)["error"]["code"] == "NOT_DRAINED"

        done = threading.Event()

        def answer() -> None:
            while not done.wait(0.3):  # as a daemon does: the word may come after its first answer
                catalog.schedules.put_daemon({**facts, "running": [], "revision": catalog.schedules.revision()})

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            assert shell(warehouse, "drain", "--timeout", "20") == {"drained": True}
        finally:
            done.set()
            thread.join()
    catalog.close()


def test_gates(warehouse: Path) -> None:
    commit(warehouse, "orders")
    shell(warehouse, "gate", "orders", "--note", "loading")
    assert lines(warehouse)["totals"]["waiting"] == f"{HOME}orders is gated"
    (found,) = shell(warehouse, "gate")
    assert found["note"] == "loading" and found["readers"] == [f"{HOME}report", f"{HOME}totals"]
    assert shell(warehouse, "gate", "orders", "--open")["was"] and shell(warehouse, "gate") == []
    assert "is a stream table" in shell(warehouse, "gate", "totals", code=1)["error"]["message"]
    assert "Sources are" in shell(warehouse, "gate", "order", code=1)["error"]["detail"]


def test_watermarks(warehouse: Path) -> None:
    commit(warehouse, "orders")
    shell(warehouse, "watermark", "--group", "load", "--with", "orders", "--with", "payments", "--tolerance", "1m")
    shell(warehouse, "watermark", "orders", "2026-01-01T12:05:00+00:00")
    shell(warehouse, "watermark", "payments", "2026-01-01T12:00:00")
    found = shell(warehouse, "watermark")
    assert len(found["watermarks"]) == 2 and not found["groups"][0]["aligned"] and "5m behind" in found["groups"][0]["reason"]
    assert "is apart" in lines(warehouse)["totals"]["waiting"] and "load" in text(warehouse, "watermark")
    assert shell(warehouse, "watermark", "orders", "2026-01-01T12:00:00", code=1)["error"]["code"] == "WATERMARK"
    assert shell(warehouse, "watermark", "orders", "yesterday", code=1)["error"]["code"] == "WATERMARK"
    shell(warehouse, "watermark", "--group", "load", "--drop")
    assert lines(warehouse)["totals"]["waiting"] == ""
    assert shell(warehouse, "watermark", "--group", "load", "--drop", code=1)["error"]["code"] == "WATERMARK"


def test_fuses(warehouse: Path) -> None:
    commit(warehouse, "orders")
    assert shell(warehouse, "fuse", "totals", "apply", code=1)["error"]["code"] == "FUSE"
    state(warehouse, "totals", RunState(blown=Blown(500, 10, "2026-01-01", {f"{HOME}orders": 1})))
    assert shell(warehouse, "fuse")[0]["rows"] == 500 and lines(warehouse)["totals"]["waiting"].startswith("has a blown fuse")
    assert shell(warehouse, "fuse", "totals", "ignore", code=1)["error"]["code"] == "FUSE"
    shell(warehouse, "fuse", "totals", "apply")
    assert lines(warehouse)["totals"]["waiting"] == "" and lines(warehouse)["totals"]["next"]


def test_schedules_are_altered_without_spark(warehouse: Path) -> None:
    found = shell(warehouse, "alter", "totals", "--schedule", "0 3 * * *")
    assert found["schedule"] == "SCHEDULE CRON '0 3 * * *'" and len(found["next_runs"]) == 3
    assert lines(warehouse)["totals"]["next_at"] == found["next_runs"][0] and "at 20" in text(warehouse, "status")
    assert "next runs" in text(warehouse, "alter", "totals", "--schedule", "5m")
    refused = shell(warehouse, "alter", "totals", "--schedule", "5 parsecs", code=1)["error"]
    assert refused["code"] == "SCHEDULE" and refused["position"] is not None
    assert shell(warehouse, "repair")["found"] == [f"{HOME}report", f"{HOME}totals"]
    assert lines(warehouse)["totals"]["schedule"] == "SCHEDULE EVERY 5m", "the schedule is part of the definition"
    assert shell(warehouse, "alter", "totals", "--schedule", "")["schedule"] == ""
