"""What a look at some rows says about all of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from runnel.sources import sample
from runnel.sources.bounds import Bound
from runnel.sources.delta import DeltaSource
from runnel.sources.delta_log import DeltaLog

REGIONS = ("north", "south", "east", "west", "central")


@pytest.mark.parametrize(("values", "share"), [(REGIONS, 1.0), (("east", "none"), 0.2), (("none",), 0.0)])
def test_text_is_looked_at_in_a_few_files(tmp_path: Path, values: tuple[str, ...], share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(sample, "_look", lambda path, bound, look=sample._look: looks.append(path) or look(path, bound))
    for _ in range(9):
        write_deltalake(str(tmp_path), pa.table({"Region": [REGIONS[i % 5] for i in range(100)], "n": list(range(100))}), mode="append")
    source = DeltaSource("t", DeltaLog(str(tmp_path)))
    texts = Bound("region", "text", tuple(sorted(values)), null=False)
    assert source.share(8, texts, look=True) == pytest.approx(share)
    assert len(looks) <= sample.FILES
    looks.clear()
    assert source.share(8, texts) is None, "without a look nothing is known of text"
    assert source.share(8, Bound("n", "number", (1, 2), null=False)) == pytest.approx(0.02) and not looks, "numbers are told by the log"


def test_files_that_cannot_be_read_fail_no_estimate(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"region": [*REGIONS]}))
    source, bound = DeltaSource("t", DeltaLog(str(tmp_path))), Bound("region", "text", ("east",), null=False)
    (file,) = tmp_path.glob("*.parquet")
    file.write_bytes(b"torn")
    assert source.share(0, bound, look=True) is None and source.gone(0) is None
    pq.write_table(pa.table({"region": pa.array([b"\xff"])}), file)
    assert source.share(0, bound, look=True) is None
    write_deltalake(str(tmp_path), pa.table({"region": ["east"]}), mode="overwrite")
    file.unlink()
    assert source.share(0, bound, look=True) is None and source.gone(1) is None
    assert str(source.gone(0)).endswith(file.name)


def test_nulls_count_where_they_matter_and_nothing_is_said_of_what_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"v": ["a", None, None, "b"]}), path)
    assert sample.sampled([path], Bound("v", "text", ("a",), null=True)) == 0.75
    assert sample.sampled([path], Bound("w", "text", ("a",), null=True)) is None
    assert sample.sampled([], Bound("v", "text", ("a",), null=True)) is None
