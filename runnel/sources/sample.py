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
    looks = [look for path in paths[step // 2 :: step][:FILES] if (look := _look(path, bound.column)) is not None]
    rows = sum(len(look) for look in looks)
    return sum(pc.sum(bound.mask(look)).as_py() or 0 for look in looks) / rows if rows else None


def _look(path: str, column: str) -> pa.ChunkedArray | None:
    """Some values of a column; None where the file has none, or is not there to be read: an estimate is no reason to fail."""
    try:
        with pq.ParquetFile(path) as file:
            names = [n for n in file.schema_arrow.names if n.lower() == column.lower()]
            if not names or not file.num_row_groups:
                return None
            for batch in file.iter_batches(ROWS, row_groups=[file.num_row_groups // 2], columns=names):
                return pa.chunked_array([batch.column(0)])
    except (OSError, pa.ArrowException):
        pass
    return None
