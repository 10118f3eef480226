"""The share of a table's rows that have some values, by a look at a few rows of a few files, where statistics do not tell.

Text has bounds in the log and no count between them: whether the five regions of a change are five of five or five of a million decides
what touching their rows costs. A page of one column from each of some files answers that in milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runnel.sources.bounds import Bound

FILES, ROWS = 4, 4_096
"""What is looked at: rows of one row group in the middle of each file, since neighbours are often alike."""


def sampled(paths: Sequence[str], bound: Bound) -> float | None:
    """The share of the rows of plain Parquet files that lie within a bound; None where nothing could be seen."""
    step = max(1, len(paths) // FILES)
    masks = [mask for path in paths[step // 2 :: step][:FILES] if (mask := _look(path, bound)) is not None]
    rows = sum(len(mask) for mask in masks)
    return sum(pc.sum(mask).as_py() or 0 for mask in masks) / rows if rows else None


def _look(path: str, bound: Bound) -> pa.ChunkedArray | pa.Array | None:
    """Which of some rows lie within a bound; None where the file does not have its column, or is not there to be read, or has bytes for text: an
    estimate is no reason to fail."""
    try:
        with pq.ParquetFile(path) as file:
            names = [n for n in file.schema_arrow.names if n.lower() == bound.column.lower()]
            if not names or not file.num_row_groups:
                return None
            for batch in file.iter_batches(ROWS, row_groups=[file.num_row_groups // 2], columns=names):
                return bound.mask(batch.column(0))
    except (OSError, pa.ArrowException):
        pass
    return None
