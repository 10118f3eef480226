"""Estimates: which faces are read, how large a change is, what counts as a share. No Spark."""

from __future__ import annotations

import pytest

from runnel.algebra import STORED, Face, Facts
from runnel.algebra.want import Want
from runnel.differentiate import ChangePlan, InputFace, Part
from runnel.execute import cost
from runnel.execute.cost import Pruned, Size, Weighed
from runnel.observe.record import Action

MB = 1 << 20
TABLES = {"orders": Size(100 * MB, 1_000_000), "customers": Size(10 * MB, 100_000)}


def plan(*faces: tuple[str, Face], sql: str = "SELECT 1", small: bool = True, parts: int = 1) -> ChangePlan:
    inputs = tuple(InputFace(Want(source, face), f"{source}__{face}") for source, face in faces)
    return ChangePlan(sql, inputs, Facts(frozenset({"orders"}), small=small), tuple(Part(f"p{i}", sql, ()) for i in range(parts)))


def test_a_change_costs_its_share_and_a_face_its_table() -> None:
    change = cost.differential(plan(("orders", Face.CHANGE)), TABLES, {"orders": 10_000}, Size(0, 0))
    assert change.bytes == MB and change.rows == 10_000
    joined = cost.differential(plan(("orders", Face.CHANGE), ("customers", Face.AFTER)), TABLES, {"orders": 10_000}, Size(0, 0))
    assert joined.bytes == 11 * MB and joined.ms > change.ms


def test_a_change_of_unknown_size_is_taken_for_the_table() -> None:
    found = cost.differential(plan(("orders", Face.CHANGE)), TABLES, {"orders": None}, Size(0, 0))
    assert found.bytes == 100 * MB and found.rows is None


def test_what_is_stored_and_every_job_count() -> None:
    stored = Size(50 * MB, 10)
    assert cost.differential(plan((STORED, Face.BEFORE)), TABLES, {}, stored).bytes == 50 * MB
    one, three = (cost.differential(plan(parts=n), TABLES, {}, stored).ms for n in (1, 3))
    assert three - one == pytest.approx(2 * cost.JOB_MS)


def test_a_face_costs_as_often_as_it_is_read_and_only_its_files() -> None:
    faces = [InputFace(Want("orders", face), f"orders__{face}_{i}", uses=3) for i, face in enumerate((Face.BEFORE, Face.BEFORE, Face.AFTER))]
    read = ChangePlan("SELECT 1", tuple(faces), Facts(frozenset({"orders"}), small=True))
    assert cost.differential(read, TABLES, {}, Size(0, 0)).bytes == 900 * MB
    near = Pruned({"orders__after_2": 0.1})
    assert cost.differential(read, TABLES, {}, Size(0, 0), near).bytes == 630 * MB
    gathered = Pruned({"orders__after_2": 0.1}, (frozenset({"orders__before_0", "orders__before_1"}), frozenset({"orders__after_2"})))
    found = cost.differential(read, TABLES, {}, Size(0, 0), gathered)
    assert found.bytes == 110 * MB, "one pass over each face"
    assert [t.what for t in found.terms if "jobs" in t.what] == ["3 jobs with 0 joins, groupings and windows"]


def test_a_query_that_reads_a_table_twice_is_recomputed_by_two_passes() -> None:
    assert cost.full("SELECT 1", TABLES, Size(0, 0), first=True, uses={"orders": 2, "customers": 1}).bytes == 210 * MB


def test_a_clock_costs_nothing() -> None:
    assert cost.differential(plan(("clock.now", Face.CHANGE)), TABLES, {}, Size(0, 0)).bytes == 0


def test_a_large_change_shuffles_the_tables_it_is_joined_with() -> None:
    faces = (("orders", Face.CHANGE), ("customers", Face.AFTER))
    sql = "SELECT * FROM a JOIN b"
    small, large = (cost.differential(plan(*faces, sql=sql, small=s), TABLES, {"orders": 1}, Size(0, 0)).ms for s in (True, False))
    assert large - small == pytest.approx(100_000 * cost.SHUFFLED_ROW_MS)


def test_full_reads_every_source_and_groups_what_is_stored() -> None:
    found = cost.full("SELECT 1", TABLES, Size(5 * MB, 1000))
    assert found.action is Action.FULL and found.bytes == 115 * MB
    assert any(t.what == "difference to what is stored" and t.ms == pytest.approx(2000 * cost.GROUPED_ROW_MS) for t in found.terms)
    assert cost.full("SELECT 1", TABLES, Size(0, 0), first=True).bytes == 110 * MB


def test_an_additive_change_is_far_cheaper_than_recompute_at_any_share() -> None:
    for rows in (1_000, 500_000):
        change = cost.differential(plan(("orders", Face.CHANGE)), TABLES, {"orders": rows}, Size(MB, 100))
        assert change.ms < 2 * cost.full("SELECT 1", TABLES, Size(MB, 100)).ms


@pytest.mark.parametrize(("changed", "rows", "ratio"), [(150_000, 1_000_000, 0.15), (10, 20, 0.0001), (None, 5, None), (5, None, None)])
def test_the_ratio_takes_small_tables_for_larger_ones(changed, rows, ratio) -> None:
    assert Weighed(cost.full("", {}, Size(0)), changed_rows=changed, source_rows=rows).ratio == ratio


@pytest.mark.parametrize(
    ("share", "stored", "moved"),
    [(1.0, 1_000_000, 1_000_000), (0.01, 1_000_000, 10_000), (1.0, 5, 5), (1.0, 10_000_000, 1_000_000)],
    ids=["all rows", "few of them", "rows are summed up", "no more than are touched"],
)
def test_what_a_change_of_keys_moves_is_bounded_by_the_rows_that_it_touches_and_by_those_that_are_stored(share, stored, moved) -> None:
    read = plan(("orders", Face.CHANGE), ("orders", Face.AFTER))
    found = cost.differential(read, TABLES, {"orders": 100}, Size(MB, stored), Pruned(touched={"orders__after": share}))
    assert [t.what for t in found.terms if t.what.startswith("move")] == [f"move {moved} rows of the result"]
    assert not [t for t in cost.differential(read, TABLES, {"orders": 100}, Size(MB, stored)).terms if t.what.startswith("move")], "nobody knows"


def test_each_appended_row_pays_for_its_part_of_the_fold() -> None:
    def fold(rows: int, fold_at: int) -> float:
        return cost.differential(plan(("orders", Face.CHANGE)), TABLES, {"orders": rows}, Size(MB, 1_000_000), fold_at=fold_at).of(cost.FOLD)

    assert fold(1_000, 200_000) == pytest.approx(fold(200_000, 200_000) / 200, rel=0.2)
    assert fold(300_000, 200_000) > (1_000_000 * cost.WRITTEN_ROW_MS) > 2 * fold(50_000, 200_000)
    assert fold(1, 0) > 1_000_000 * cost.WRITTEN_ROW_MS, "where every refresh compacts"
