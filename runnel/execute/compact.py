"""Compaction: one marked commit that turns the log into fewer rows and files. It never alters the sum.

*tail*: the tail's files become one, rows that cancel are gone; the base is neither read nor written.
*base*: base and tail become a new base.

Folding the tail bounds the number of files at the cost of the tail alone; folding into the base waits until the tail is a
share of the base. So a row that came is rewritten a few times, however many refreshes there are.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from runnel.algebra import WEIGHT, Steps
from runnel.algebra.steps import consolidation
from runnel.differentiate.plan import summed
from runnel.errors import Internal
from runnel.execute.cluster import clustering
from runnel.execute.due import Fold
from runnel.execute.engine import Engine
from runnel.execute.publication import follow
from runnel.execute.sized import ALONE
from runnel.sources import here
from runnel.tables.backing import TAIL, BackingTable, CommitNote, Written
from runnel.tables.content import BELOW, HASH, LEVEL, content_sql, quote

FILE = 64 << 20
"""Bytes that a file of the base should have at least, where there are as many. A choice, not yet a measurement."""
SMALL_FILE = 8 << 20
"""The same in a table so small that some cores would have no file to write, or where more files tell keys apart."""
CLUSTERED, TELLING = 16 << 20, 64
"""Bytes from which on rows are kept together by key: what is smaller is read as a whole in a tenth of a second. And the files that tell keys
apart well enough: one of them has a few hundredths of the rows."""


def compact(engine: Engine, backing: BackingTable, fold: Fold = Fold.BASE) -> int:
    """Rewrite part of the log; the version it committed. The caller holds the stream table's lease."""
    version, note = backing.note()
    jobs = engine.jobs(backing.definition.name)
    try:
        with engine.reader.lock, jobs.stage(f"compact {fold}"):
            committed = _commit(engine, backing, fold, version, note)
    except Exception as error:  # as Spark raised it, or as Py4J hands it on
        below = _below(backing, version, error)
        if below is None:
            raise
        raise below from error
    finally:
        engine.reader.clean()
    follow(engine, backing, version, committed)
    return committed


def _tail(engine: Engine, backing: BackingTable, log: DataFrame) -> DataFrame:
    """The rows of the tail summed up, in one file."""
    layout, steps = backing.definition.layout, Steps()
    tail = engine.reader.register(log.where(F.col(LEVEL) == TAIL))
    query = consolidation(tail, layout.stored) if layout.kind == "rows" else summed(steps, layout, tail)
    return engine.reader.session.sql(steps.build(query).sql("spark")).coalesce(1)


def _base(engine: Engine, backing: BackingTable, log: DataFrame, note: CommitNote, checked: bool = True) -> DataFrame:
    """The content, as rows of weight 1 or one row per group, in files of a good size.

    What went is looked up in the base as it is read; a row that went more often than it came means that a refresh was wrong, and
    compacting it would hide that.
    """
    layout, size = backing.definition.layout, backing.log.size()
    rows = engine.reader.session.sql(content_sql(layout, engine.reader.register(log), engine.log_facts(note), checked))
    if layout.kind == "rows":
        rows = rows.withColumn(WEIGHT, F.lit(1).cast("bigint"))
    if by := [F.col(quote(c)) for c in _clustered(engine, backing)]:
        return rows.repartitionByRange(max(size // FILE, min(TELLING, size // SMALL_FILE)), *by).sortWithinPartitions(*by)
    return rows.coalesce(max(1, size // FILE, min(engine.parallelism, size // SMALL_FILE)))


def _clustered(engine: Engine, backing: BackingTable) -> tuple[str, ...]:
    """The columns by which the rows of the base are kept together, none where it is read as a whole in no time."""
    return clustering(engine, backing.definition) if backing.log.size() >= CLUSTERED else ()


def _commit(engine: Engine, backing: BackingTable, fold: Fold, version: int, note: CommitNote) -> int:
    marked = replace(note, kind="compact", action=None, reason="", rows_in=None, rows_out=None, negatives=False, swap=None)
    if fold is Fold.BASE:
        marked = marked.without_tail
    else:
        marked = replace(marked, tail_files=1, tail_net=True)
    if not engine.commits_directly(backing):
        return backing.commit_with_spark(engine.spark, version, _rows(engine, backing, fold, version, note), fold.value, marked, overwrite=fold)
    written = _write(engine, backing, fold, version, note)
    if fold is Fold.TAIL:
        marked = replace(marked, tail_rows=written.rows, tail_files=len(written.adds), tail_negatives=written.negatives, tail_grows=written.grows)
        marked = replace(marked, tail_nulls=sorted(written.nulls))
    else:
        marked = replace(marked, base_rows=written.rows, base_distinct=backing.distinct(written))
    return backing.commit(version, written, marked, overwrite=fold)


def _write(engine: Engine, backing: BackingTable, fold: Fold, version: int, note: CommitNote) -> Written:
    """Few rows are folded by this process: Spark takes eight jobs to fold a table of rows, whatever it holds."""
    layout = backing.definition.layout
    columns = [HASH] if layout.kind == "rows" else []
    apart = fold is Fold.BASE and _clustered(engine, backing)
    found = here.folded(backing.log, version, layout, columns, fold.value) if engine.reader.here and not apart else None
    if found is not None:
        return backing.write_rows(found.table, fold.value, note.epoch)
    facts = engine.log_facts(note)
    change = backing.weight(version, TAIL) if fold is Fold.BASE and facts is not None and facts.net and facts.distinct else None
    if change is not None:
        # One change over rows that all differ: each that went is one row of the base, so the number of rows tells whether all of them were there.
        written = backing.write(_base(engine, backing, engine.reader.table(backing.path, version), note, checked=False), fold.value, note.epoch)
        if written.rows == note.base_rows + change:
            return written
    return backing.write(_rows(engine, backing, fold, version, note), fold.value, note.epoch, note.base_rows + note.tail_rows <= ALONE)


def _rows(engine: Engine, backing: BackingTable, fold: Fold, version: int, note: CommitNote) -> DataFrame:
    log = engine.reader.table(backing.path, version)
    return _tail(engine, backing, log) if fold is Fold.TAIL else _base(engine, backing, log, note)


def _below(backing: BackingTable, version: int, error: Exception) -> Internal | None:
    """The error of a row that weighs less than nothing, if it is that."""
    _, found, rest = str(error).partition(BELOW)
    if not found:
        return None
    return Internal(
        f"{backing.definition.name} holds a row of negative weight",
        detail=f"{rest.splitlines()[0]} at version {version}.",
        hint="Refresh it with FULL, and report the query and this text.",
    )
