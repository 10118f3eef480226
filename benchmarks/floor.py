"""The floor: the rows that a refresh appended, already computed and in memory, appended again by the fastest path there is.

Spark writes Parquet, delta-rs commits; to a copy, so that the stream table stays right. A refresh cannot cost less, since it must
write the same rows.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

import runnel
from benchmarks.measure import Work
from runnel.observe.record import RefreshRecord
from runnel.tables.backing import TAIL, BackingTable, CommitNote


def floor(rn: runnel.Runnel, record: RefreshRecord) -> Work | None:
    """The work to measure, prepared; None when the refresh appended nothing."""
    engine = rn._engine
    backing = engine.backing(record.stream_table)
    if not record.rows_out or record.version is None:
        return None
    adds = [backing.log.full_path(a["path"]) for a in backing.log.commit(record.version).adds]
    schema = engine.reader.table(backing.path, record.version).schema
    rows = engine.reader.session.read.schema(schema).parquet(*adds).localCheckpoint(eager=True)
    mark = uuid.uuid4().hex
    copy = BackingTable.create(f"{rn.folder}/_floor/{mark}", replace(backing.definition, id=mark), schema)

    def append() -> None:
        with engine.reader.configured(spark__sql__adaptive__enabled="false"):
            copy.commit(0, copy.write(rows, TAIL, 1), CommitNote("refresh", 1, {}))

    return append
