"""Logs stay short: the tail is folded by itself, then into the base; old files go when nobody needs them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

import runnel
from benchmarks.measure import Meter
from runnel.algebra import WEIGHT
from runnel.errors import Internal
from runnel.execute import compact as compact_module
from runnel.execute import due as due_module
from runnel.execute.compact import compact
from runnel.execute.daemon import SparkEffects
from runnel.execute.due import Fold
from runnel.execute.engine import Engine
from runnel.tables.backing import TAIL, BackingTable
from runnel.tables.content import quote
from tests.support.shop import LARGE, TOTALS, Shop

pytestmark = pytest.mark.spark


def parquet_files(path: str) -> int:
    return sum(n.endswith(".parquet") and not n.startswith(".") for folder, _, names in os.walk(path) if "_delta_log" not in folder for n in names)


def test_the_tail_is_folded_without_the_base_and_files_go_when_nobody_needs_them(rn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_module, "WORTHWHILE", 3)
    shop = Shop(rn)
    by_spark = {"disabled_optimisations": ("rows_here",)}  # what this process folds itself is in test_reading.py
    other = runnel.connect(spark=rn.spark, warehouse=rn.folder, settings={"compact_tail_files": 2, "compact_tail_ratio": 100.0, **by_spark})
    shop.rn = other
    for name, query in (("large", LARGE), ("totals", TOTALS), ("above", "SELECT * FROM large")):
        other.create(name, query)
    backing = {t: other._engine.backing(shop.name(t)) for t in ("large", "totals")}
    base = {t: {f["path"] for f in b.log.files()} for t, b in backing.items()}
    for turn in range(4):
        rn.sql(f"INSERT INTO orders VALUES ({20 + turn}, {turn % 2 + 1}, 30), (90, 9, 90)")
        rn.sql("DELETE FROM orders WHERE id = 90")
        for table in backing:
            shop.refresh(table, "DIFFERENTIAL")
    for table, kept in backing.items():
        folds = [c.runnel for v in range(kept.log.version() + 1) if (c := kept.log.commit(v)).runnel and c.runnel["kind"] == "compact"]
        assert folds, "the tail was folded on the way"
        assert kept.note()[1].tail_files <= 3
        assert base[table] <= {f["path"] for f in kept.log.files()}, "the base was not rewritten"
        shop.check(table)

    before = parquet_files(backing["large"].path)
    other.vacuum("large", hours=0)
    shop.refresh("above", "DIFFERENTIAL")
    shop.check("above")
    freed = other.vacuum("large", hours=0)
    assert freed.files > 0
    assert parquet_files(backing["large"].path) == len(backing["large"].log.files()) < before
    rn.sql("INSERT INTO orders VALUES (50, 1, 50)")
    for table in ("large", "above"):
        shop.refresh(table, "DIFFERENTIAL")
        shop.check(table)
    other.compact("large")
    shop.check("large")
    shop.refresh("above", "NO_DATA")
    other.close()


@pytest.mark.parametrize("query", ["SELECT k, v FROM t", "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM t GROUP BY k"], ids=["a row", "a group"])
@pytest.mark.parametrize("gone", [1, 7], ids=["held", "never held"])
@pytest.mark.parametrize("writer", ["here", "Spark"])
def test_compaction_does_not_hide_what_weighs_less_than_nothing(rn, monkeypatch: pytest.MonkeyPatch, query: str, gone: int, writer: str) -> None:
    if writer == "Spark":
        monkeypatch.setattr(compact_module, "ALONE", -1)
    schema = f"below_{gone}_{len(query)}_{writer}".lower()
    rn.sql(f"CREATE SCHEMA {schema}")
    rn.sql(f"USE {schema}")
    rn.sql("CREATE TABLE t USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS SELECT 1 AS k, 10 AS v")
    rn.create("s", query)
    backing = rn._engine.backing(next(e.name for e in rn._engine.catalog.entries() if e.name.endswith(f"{schema}.s")))
    version, note = backing.note()
    columns = ", ".join(f"{v} AS {quote(c.name)}" for c, v in zip(backing.definition.layout.stored, (gone, 10, 1, 1), strict=False))
    rows = rn.spark.sql(f"SELECT {columns}, -2 AS {WEIGHT}")
    written = backing.write(rows, TAIL, note.epoch)
    backing.commit(version, written, replace(note, tail_rows=1, tail_files=1, tail_negatives=True))
    with pytest.raises(Internal, match="negative weight") as caught:
        rn.compact("s")
    assert f"{{{gone}" in caught.value.detail
    assert backing.log.version() == version + 1


def test_one_change_over_rows_that_differ_is_folded_by_one_pass(rn, there) -> None:
    rn.sql("CREATE SCHEMA one_pass")
    rn.sql("USE one_pass")
    rn.sql("CREATE TABLE t USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS SELECT id, id % 7 AS x FROM range(200)")
    there.create("s", "SELECT id, x FROM t", mode="DIFFERENTIAL")
    jobs = []
    for changes in (1, 2):
        for change in range(changes):
            rn.sql(f"UPDATE t SET x = x + 1 WHERE id % 3 = {change}")
            rn.sql(f"DELETE FROM t WHERE id < {10 * changes + change}")
            there.refresh("s")
        note = there._engine.backing(there._name("s")).note()[1]
        assert note.base_distinct and note.tail_net == (changes == 1)
        jobs.append(Meter(rn.spark).run(lambda: there.compact("s")).jobs)
        assert there.verify("s").ok and there.status("s")["tail_rows"] == 0
    assert jobs[0] < jobs[1]


@pytest.mark.parametrize(
    ("key", "touched"),
    [
        ("id * 7919 % 2000", "77"),
        ("concat('k', id * 7919 % 2000)", "'k77'"),
        ("date_add(DATE'1990-01-01', CAST(id % 2000 AS INT))", "DATE'1990-03-01'"),
    ],
    ids=["numbers", "texts", "dates"],
)
def test_few_touched_keys_lie_in_few_files(rn, there, monkeypatch: pytest.MonkeyPatch, key: str, touched: str) -> None:
    monkeypatch.setattr(compact_module, "CLUSTERED", 0)
    monkeypatch.setattr(compact_module, "SMALL_FILE", 8 << 10)
    schema = f"clustered_{len(key)}"
    rn.sql(f"CREATE SCHEMA {schema}")
    rn.sql(f"USE {schema}")
    rn.sql(
        f"CREATE TABLE t USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS SELECT id, {key} AS k, id % 7 AS x FROM range(20000)"
    )
    for table, other in (("here", rn), ("by_spark", there)):
        other.create(table, "SELECT id, k, SUM(x) OVER (PARTITION BY k) AS total FROM t", mode="DIFFERENTIAL")
        other.compact(table)
    rn.sql(f"UPDATE t SET x = x + 1 WHERE k = {touched}")
    for table, other in (("here", rn), ("by_spark", there)):
        log, read = other._engine.backing(other._name(table)).log, []
        monkeypatch.setattr(BackingTable, "near", lambda *given, near=BackingTable.near, read=read: read.append(near(*given)) or read[-1])
        record = other.refresh(table)
        sizes = [f["size_bytes"] for f in log.plain_files(record.version - 1, partitioned=True)]
        assert record.action == "DIFFERENTIAL" and other.verify(table).ok and len(sizes) >= 8
        if table == "here":
            assert record.bytes_here - rn._engine.source(rn._engine.backing(rn._name(table)).definition.sources[0]).size() <= 2 * max(sizes)
        else:
            assert [len(files) for files in read] == [1]
    rn.sql(f"DELETE FROM t WHERE k = {touched}")
    rn.sql("INSERT INTO t SELECT id + 20000, NULL, 1 FROM range(3)")
    for table, other in (("here", rn), ("by_spark", there)):
        assert other.refresh(table).action == "DIFFERENTIAL" and other.verify(table).ok
        other.compact(table)
        assert other.verify(table).ok


def test_a_table_that_cannot_be_compacted_holds_up_no_other(rn, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(rn)
    names = [shop.name("large"), shop.name("totals")]
    for name, query in zip(names, (LARGE, TOTALS), strict=True):
        rn.create(name, query, mode="DIFFERENTIAL")

    def moved(order: int) -> None:
        rn.sql(f"INSERT INTO orders VALUES ({order}, 1, 30)")
        for name in names:
            shop.refresh(name, "DIFFERENTIAL")
            effects.standing.reached(name)

    def fails(engine: Engine, backing: BackingTable, fold: Fold) -> int:
        if backing.definition.name == names[0]:
            raise Internal("no room is left")
        return compact(engine, backing, fold)

    effects = SparkEffects(rn._engine, AtOnce(rn._engine), lambda: None, lambda event: None, lambda: None)  # type: ignore[arg-type]
    moved(50)
    with monkeypatch.context() as patched:
        patched.setattr(compact_module, "compact", fails)
        assert [effects.tidy(lambda: None) for _ in range(3)] == [*names, None]
        moved(51)
        assert {effects.tidy(lambda: None) for _ in range(2)} == {*names}
    moved(52)
    assert [effects.tidy(lambda: None) for _ in range(3)] == [*names, None]


class AtOnce:
    """Workers that do what they are given before they return."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def submit(self, work: Callable[[Engine], None]) -> None:
        work(self.engine)
