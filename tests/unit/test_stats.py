"""Statistics of files as a commit of ours carries them."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from runnel.tables.backing import SHORT, _stats


def written(folder: Path, **columns: pa.Array) -> dict[str, dict[str, object]]:
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    return json.loads(_stats(pq.read_metadata(folder / "rows.parquet"))[0])


def test_bounds_are_those_that_a_log_can_hold(tmp_path: Path) -> None:
    not_text = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"\xff\xfea"))
    found = written(
        tmp_path,
        number=pa.array([-3, None]),
        text=pa.array(["b", "a"]),
        long=pa.array(["a", "z" * (SHORT + 1)]),
        day=pa.array([date(1, 1, 1), date(2026, 1, 1)]),
        late=pa.array([0, 4_000_000], pa.int32()).cast(pa.date32()),
        not_text=not_text,
        half=pa.array([0.5, 1.5]),
    )
    assert found["minValues"] == {"number": -3, "text": "a", "day": "0001-01-01"}
    assert found["maxValues"] == {"number": -3, "text": "b", "day": "2026-01-01"}
    assert found["nullCount"]["number"] == 1 and found["nullCount"]["not_text"] == 0
