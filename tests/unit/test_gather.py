"""Which rows are gathered once for several steps: by uses, sizes and statistics. No Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, LongType, StructField, StructType

from runnel.algebra import WEIGHT, Face
from runnel.algebra.want import Side, Want, Within
from runnel.differentiate import InputFace
from runnel.execute.gather import SHARE, SPARED, gatherings
from runnel.sources.bounds import Bound
from runnel.sources.facts import Kind, SourceFacts
from runnel.sources.held import Held

LINES = 1_000_000


class Table:
    """A source that only knows how large it is and how its values are spread."""

    def __init__(self, size: int = SPARED, share: float | None = 0.001) -> None:
        self._size, self._share = size, share

    def size(self) -> int:
        return self._size

    def rows(self, version: int | None = None) -> int:
        return LINES

    def share(self, version: int, bound: Bound) -> float | None:
        return self._share


def near(name: str, *among: tuple[str, str], column: str = "order", face: Face = Face.BEFORE, uses: int = 1, side: Side = Side.EQUAL) -> InputFace:
    return InputFace(Want("lines", face, within=(Within(column, among, side),)), name, uses)


def held(*values: int | None) -> Held:
    return Held(
        pa.table({"order": pa.array(values, pa.int64()), WEIGHT: pa.array([1] * len(values), pa.int64())}),
        StructType([StructField("order", LongType())]),
    )


def doubles(*values: float) -> Held:
    return Held(
        pa.table({"order": pa.array(values, pa.float64()), WEIGHT: pa.array([1] * len(values), pa.int64())}),
        StructType([StructField("order", DoubleType())]),
    )


FACTS = {k: SourceFacts(k, Kind.MIXED, 3, 4, "id") for k in ("lines", "orders")}
OWN, THEIRS = ("lines", "order"), ("orders", "order")


def found(*inputs: InputFace, table: Table | None = None, **changes: Held) -> list:
    return list(gatherings(inputs, {"lines": table or Table()}, FACTS, changes or {"lines": held(1, 2), "orders": held(2, 3)}))  # type: ignore[dict-item]


def test_one_pass_serves_all_who_want_some_of_its_rows() -> None:
    (one,) = found(near("a", OWN), near("b", OWN, THEIRS), near("c", THEIRS))
    assert one.inputs == ("a", "b", "c")
    assert one.values.to_pylist() == [1, 2, 3] and one.bound.values == (1, 2, 3)
    assert one.rows == 0.001 * LINES


def test_one_pass_serves_both_faces_of_a_table_whose_change_is_at_hand() -> None:
    (one,) = found(near("a", OWN), near("b", OWN, face=Face.AFTER))
    assert (one.face, one.inputs, one.others) == (Face.AFTER, ("b",), ("a",))


@pytest.mark.parametrize("changes", [{"lines": doubles(1.0, 2.0), "orders": held(3)}, {"orders": held(3)}], ids=["not exact", "not at hand"])
def test_else_each_face_has_a_pass_of_its_own(changes: dict[str, Held]) -> None:
    passes = found(near("a", THEIRS, uses=2), near("b", THEIRS, face=Face.AFTER, uses=3), **changes)
    assert [(p.face, p.inputs) for p in passes] == [(Face.BEFORE, ("a",)), (Face.AFTER, ("b",))]


def test_rows_before_are_rows_after_less_the_change() -> None:
    change = Held(pa.table({"order": pa.array([1, 2, None, 4], pa.int64()), WEIGHT: [1, -2, 1, 1]}), held().schema)
    before = held(1, 1, None, 3).less(change.among("order", pa.array([1, 2, None], pa.int64())))
    assert sorted(before.plain["order"].to_pylist()) == [1, 2, 2, 3]


@pytest.mark.parametrize(
    ("inputs", "table"),
    [
        ((near("a", OWN),), Table()),  # read once anyway
        ((near("a", OWN, uses=2),), Table(size=SPARED - 1)),  # a small table is quickly read again
        ((near("a", OWN, uses=2),), Table(share=SHARE * 1.01)),  # too many rows to write down
        ((near("a", OWN, uses=2),), Table(share=None)),  # statistics do not tell
        ((near("a", OWN, uses=2, side=Side.FROM),), Table()),  # a range
        ((near("a", ("others", "order"), uses=2),), Table()),  # a change that is not at hand
    ],
)
def test_what_is_not_worth_a_pass_of_its_own(inputs: tuple[InputFace, ...], table: Table) -> None:
    assert found(*inputs, table=table) == []


def test_every_value_is_taken_for_a_row_at_least() -> None:
    (one,) = found(near("a", OWN, uses=2), table=Table(share=0.0), lines=held(*range(500)))
    assert one.rows == 500


def test_null_is_a_value_like_others() -> None:
    (one,) = found(near("a", OWN, uses=2), lines=held(1, None))
    assert one.bound.null and None in one.values.to_pylist()


def test_the_column_that_serves_most_wins() -> None:
    other = InputFace(Want("lines", Face.BEFORE, within=(Within("part", (OWN,)), Within("order", (OWN,)))), "b", 2)
    (one,) = found(near("a", OWN, uses=2), other)
    assert one.bound.column == "order" and one.inputs == ("a", "b")
