"""Logs summed up by this process against the same sums made row by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from runnel.algebra import WEIGHT, Column
from runnel.differentiate.layout import LEVEL, Layout
from runnel.sources import here
from runnel.sources.bounds import Bound
from runnel.sources.delta_log import DeltaLog
from runnel.sources.held import Held

ROWS = Layout("rows", (Column("k", "bigint"), Column("v", "string")), (), (), "SELECT k, v FROM content", (), finish_change="x")
GROUPS = Layout("groups", (Column("k", "bigint"), Column("n", "decimal(12,2)")), ("k",), ("n",), "SELECT k, n FROM content", (), finish_change="x")
ONE = Layout("groups", (Column("n", "decimal(12,2)"),), (), ("n",), "SELECT n FROM content", (), finish_change="x")
TYPES = {"k": pa.int64(), "v": pa.string(), "n": pa.decimal128(12, 2), WEIGHT: pa.int64(), LEVEL: pa.string()}


def write(path: Path, layout: Layout, rows: Iterable[Sequence[object]], level: str) -> list[str]:
    """Append rows with their weights; the paths of the files."""
    names = [*(c.name for c in layout.stored), WEIGHT]
    types = TYPES | {c.name: pa.int64() for c in layout.stored if c.type == "bigint"}
    before = set(DeltaTable(str(path)).file_uris()) if path.exists() else set()
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    table = pa.table(
        {**{n: pa.array(c, types[n]) for n, c in zip(names, columns, strict=True)}, LEVEL: pa.array([level] * len(columns[0]), TYPES[LEVEL])}
    )
    write_deltalake(str(path), table, mode="append", partition_by=[LEVEL])
    return sorted(set(DeltaTable(str(path)).file_uris()) - before)


def plain(rows: here.Rows | None) -> Counter:
    assert rows is not None
    return Counter(zip(*(rows.table[n].to_pylist() for n in rows.table.column_names), strict=True))


@pytest.mark.parametrize("seed", range(30))
def test_rows_of_a_bag_come_as_often_as_their_weights_sum_up_to(tmp_path: Path, seed: int) -> None:
    random, path = Random(seed), tmp_path / "t"
    content = Counter((random.choice([1, 2, 3, None]), random.choice(["a", "b", None])) for _ in range(random.randint(1, 9)))
    start = Counter(content)
    write(path, ROWS, [(*row, 1) for row in content.elements()], "base")
    for _ in range(random.randint(0, 3)):
        gone = Counter(random.sample(list(content.elements()), random.randint(0, content.total())))
        came = Counter((random.choice([1, 2, 9]), random.choice(["a", "c"])) for _ in range(random.randint(0, 3)))
        content = content - gone + came
        write(path, ROWS, [*((*row, -n) for row, n in gone.items()), *((*row, n) for row, n in came.items())], "tail")
    log = DeltaLog(str(path))
    assert plain(here.of_content(log, log.version(), ROWS, ["k", "v"], [])) == content
    assert plain(here.of_content(log, log.version(), ROWS, ["v"], [])) == Counter(v for k, v in content.elements() for v in [(v,)])
    bound = Bound("k", "number", (2, 9), null=random.random() < 0.5)
    near = Counter({row: n for row, n in content.items() if row[0] in (2, 9) or (row[0] is None and bound.null)})
    assert plain(here.of_content(log, log.version(), ROWS, ["k", "v"], [bound])) == near
    assert plain(here.folded(log, log.version(), ROWS, [], "base")) == Counter({(*row, 1): n for row, n in content.items()})
    moved = {(*row, content[row] - start[row]): 1 for row in content | start if content[row] != start[row]}
    assert plain(here.folded(log, log.version(), ROWS, [], "tail")) == Counter(moved)
    weights = Counter()
    for (k, v, weight), times in plain(here.of_log(log, log.version(), ["k", "v"], [])).items():
        weights[k, v] += weight * times
    assert {row: n for row, n in weights.items() if n} == dict(content)


@pytest.mark.parametrize("seed", range(30))
def test_groups_have_the_sums_of_their_partials_and_change_by_what_touches_them(tmp_path: Path, seed: int) -> None:
    random, path = Random(seed), tmp_path / "t"
    sums: dict[int | None, list] = {}

    def rows(keys: Sequence[int | None]) -> list[tuple]:
        return [(k, Decimal(random.randint(-500, 500)) / 100, random.choice([1, 1, 2])) for k in keys]

    def add(found: list[tuple]) -> None:
        for k, n, weight in found:
            old = sums.setdefault(k, [Decimal(0), 0])
            sums[k] = [old[0] + n, old[1] + weight]

    base = rows([None, *range(random.randint(1, 6))])
    write(path, GROUPS, base, "base")
    add(base)
    for _ in range(random.randint(0, 2)):
        tail = rows(random.choices([None, 0, 1, 7], k=3)) + ([(2, -sums[2][0], -sums[2][1])] if 2 in sums else [])
        write(path, GROUPS, tail, "tail")
        add(tail)
    log = DeltaLog(str(path))
    version, before = log.version(), {k: tuple(s) for k, s in sums.items() if s[1] > 0}
    assert plain(here.of_content(log, version, GROUPS, ["k"], [])) == Counter((k, *s) for k, s in before.items())
    assert plain(here.folded(log, version, GROUPS, [], "base")) == Counter((k, *s) for k, s in before.items())
    first = {k: (n, weight) for k, n, weight in base}
    moved = {k: (s[0] - first.get(k, (0, 0))[0], s[1] - first.get(k, (0, 0))[1]) for k, s in sums.items()}
    assert plain(here.folded(log, version, GROUPS, [], "tail")) == Counter((k, *m) for k, m in moved.items() if any(m))
    tail = rows(random.choices([None, 1, 8], k=2))
    appended = write(path, GROUPS, tail, "tail")
    add(tail)
    touched = {k for k, _, _ in tail}
    expected = Counter((k, before[k][0], -1) for k in touched & before.keys()) + Counter((k, sums[k][0], 1) for k in touched if sums[k][1] > 0)
    assert plain(here.of_change(log, version, appended, GROUPS)) == expected


@pytest.mark.parametrize("seed", range(20))
def test_new_groups_are_those_that_come_and_that_the_base_has_not(tmp_path: Path, seed: int) -> None:
    random, path = Random(seed), tmp_path / "t"
    layout = replace(GROUPS, stored=(Column("k", "bigint"), Column("v", "string"), Column("n", "decimal(12,2)")), keys=("k", "v"))

    def rows(count: int, weights: Sequence[int]) -> list[tuple]:
        return [(random.choice([1, 2, None]), random.choice(["a", "b", None]), Decimal(1), random.choice(weights)) for _ in range(count)]

    base = [(*key, Decimal(1), 1) for key in {row[:2] for row in rows(random.randint(1, 5), [1])}]
    write(path, layout, base, "base")
    tail = [row for _ in range(random.randint(1, 3)) for row in rows(3, [-1, 0, 1, 2])]
    for i in range(0, len(tail), 3):
        write(path, layout, tail[i : i + 3], "tail")
    log = DeltaLog(str(path))
    new = {row[:2] for row in tail if row[3] > 0} - {row[:2] for row in base}
    assert plain(here.new_groups(log, log.version(), layout)) == Counter(new)


def test_new_groups_are_left_to_spark_where_files_are_large_or_equal_keys_may_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, doubles = tmp_path / "t", tmp_path / "doubles"
    write(path, GROUPS, [(1, Decimal(1), 1)], "base")
    log = DeltaLog(str(path))
    assert here.new_groups(log, 0, GROUPS) is not None
    monkeypatch.setattr(here, "BYTES", 10)
    assert here.new_groups(log, 0, GROUPS) is None
    monkeypatch.undo()
    rows = pa.table({"k": [0.0, float("nan")], "n": pa.array([1, 2], TYPES["n"]), WEIGHT: [1, 1], LEVEL: ["base", "tail"]})
    write_deltalake(str(doubles), rows, partition_by=[LEVEL])
    assert here.new_groups(DeltaLog(str(doubles)), 0, GROUPS) is None


def test_an_aggregate_without_keys_has_its_row_over_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write(path, ONE, [], "base")
    appended = write(path, ONE, [(Decimal("1.50"), 2)], "tail")
    log = DeltaLog(str(path))
    assert plain(here.of_content(log, 0, ONE, ["n"], [])) == Counter([(Decimal(0), 0)])
    assert plain(here.of_content(log, 1, ONE, ["n"], [])) == Counter([(Decimal("1.50"), 2)])
    assert plain(here.of_change(log, 0, appended, ONE)) == Counter([(Decimal(0), -1), (Decimal("1.50"), 1)])


@pytest.mark.parametrize("layout", [ROWS, GROUPS], ids=["rows", "groups"])
def test_what_weighs_less_than_nothing_is_left_to_spark_which_names_it(tmp_path: Path, layout: Layout) -> None:
    value = {"k": 1, "v": "a", "n": Decimal(1)}
    row = [value[c.name] for c in layout.stored]
    write(tmp_path / "t", layout, [(*row, 1)], "base")
    write(tmp_path / "t", layout, [(*row, -2)], "tail")
    log = DeltaLog(str(tmp_path / "t"))
    assert here.folded(log, log.version(), layout, [], "base") is None
    assert here.folded(log, log.version(), layout, [], "tail") is not None


def test_few_rows_that_stand_for_many_are_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "ROWS", 100)
    write(tmp_path / "t", ROWS, [(1, "a", 1)], "base")
    write(tmp_path / "t", ROWS, [(1, "a", -1), (2, "b", 101)], "tail")
    log = DeltaLog(str(tmp_path / "t"))
    assert here.folded(log, 1, ROWS, [], "base") is None
    assert here.of_content(log, 1, ROWS, ["k", "v"], []) is None
    assert here.folded(log, 1, ROWS, [], "tail").count == 2


@pytest.mark.parametrize("level", ["base", "tail"])
def test_sums_too_large_for_their_type_are_left_to_spark(tmp_path: Path, level: str) -> None:
    whole = replace(GROUPS, stored=(Column("k", "bigint"), Column("n", "bigint")))
    most = 9 * 10**18
    write(tmp_path / "t", whole, [(1, most, 1)], "base")
    for _ in range(2):
        appended = write(tmp_path / "t", whole, [(1, most, 1)], "tail")
    log = DeltaLog(str(tmp_path / "t"))
    assert here.folded(log, 2, whole, [], level) is None
    assert here.of_change(log, 1, appended, whole) is None


def test_what_is_large_or_could_differ_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    write(path, ROWS, [(k, "a", 1) for k in range(100)], "base")
    log = DeltaLog(str(path))
    monkeypatch.setattr(here, "IN_PLAN", 10)
    assert here.of_content(log, 0, ROWS, ["k"], []) is None  # a plain base, all of which is wanted
    assert here.of_content(log, 0, ROWS, ["k"], [Bound("k", "number", (3,), False)]).count == 1
    monkeypatch.setattr(here, "BYTES", 10)
    monkeypatch.setattr(here, "LARGE", 10)
    assert here.of_content(log, 0, ROWS, ["k"], [Bound("k", "number", (3,), False)]) is None
    monkeypatch.undo()
    floats = replace(ROWS, stored=(Column("k", "double"),))
    table = pa.table({"k": [0.0, -0.0], WEIGHT: pa.array([1, -1]), LEVEL: ["base", "tail"]})
    write_deltalake(str(tmp_path / "f"), table, partition_by=[LEVEL])
    assert here.of_content(DeltaLog(str(tmp_path / "f")), 0, floats, ["k"], []) is None


def test_few_rows_of_a_large_table_are_read_where_statistics_tell_that_they_are_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    write(path, ROWS, [(k, str(k), 1) for k in range(100)], "base")
    log = DeltaLog(str(path))
    three, text = Bound("k", "number", (3, 50, 99), False), Bound("v", "text", ("3",), False)
    monkeypatch.setattr(here, "BYTES", 10)
    monkeypatch.setattr(here, "MANY", 3)
    assert plain(here.of_content(log, 0, ROWS, ["k", "v"], [three])) == Counter([(3, "3"), (50, "50"), (99, "99")])
    assert here.of_content(log, 0, ROWS, ["v"], [text]) is None  # nobody knows how many rows have a text
    assert here.of_content(log, 0, ROWS, ["k", "v"], [three, text]).count == 1
    assert here.of_content(log, 0, ROWS, ["k"], []) is None
    monkeypatch.setattr(here, "MANY", 2)
    assert here.of_content(log, 0, ROWS, ["k"], [three]) is None


def test_only_few_rows_are_read_when_asked_for_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    write(path, ROWS, [(k, str(k), 1) for k in range(100)], "base")
    write(path, ROWS, [(7, "7", -1)], "tail")
    log = DeltaLog(str(path))
    monkeypatch.setattr(here, "IN_PLAN", 3)
    some = [Bound("k", "number", (5, 7), False)]
    assert plain(here.of_content(log, 1, ROWS, ["k", "v"], some, few=True)) == Counter([(5, "5")])
    assert here.of_content(log, 1, ROWS, ["k", "v"], [], few=True) is None
    assert here.of_content(log, 1, ROWS, ["k", "v"], [Bound("k", "number", (5, 6, 7), False)], few=True) is None
    assert here.of_content(log, 1, ROWS, ["k", "v"], []).count == 99


def test_a_table_whose_rows_have_few_values_after_all_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    table = pa.table({"k": pa.array([7] * 99 + [10_000])})
    write_deltalake(str(path), table)
    log = DeltaLog(str(path))
    schema, bounds = StructType([StructField("k", LongType())]), [Bound("k", "number", (7,), False)]
    near = here.worth_reading(log, log.plain_files(0), bounds, ["k"], few=True)
    assert here.of_files(log, near, schema, bounds).count == 99
    monkeypatch.setattr(here, "ROWS", 50)
    assert here.of_files(log, near, schema, bounds) is None


def test_keys_at_hand_are_as_an_engine_groups_them() -> None:
    schema = StructType([StructField("d", DoubleType()), StructField("s", StringType())])
    rows = {"d": [0.0, -0.0, float("nan"), -float("nan"), None, 1.5], "s": ["a", "b", "c", "d", "e", None]}
    held = Held(pa.table({**rows, WEIGHT: [1] * 6}), schema)
    assert [str(r["d"]) for r in held.keys(["d", "s"], ["d"]).to_pylist()] == ["0.0", "nan", "None", "1.5"]
    assert held.keys(["d", "s"], ["s", "d"]).num_rows == 6
