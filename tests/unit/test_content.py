"""Which form of reading a log its notes allow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runnel.algebra import Column
from runnel.differentiate.layout import Layout
from runnel.tables.backing import CommitNote
from runnel.tables.content import CELLS, HASHES, content_sql

ROWS = Layout("rows", (Column("k", "bigint"),), (), (), "", ())
GROUPS = Layout("groups", (Column("k", "bigint"), Column("n", "bigint")), ("k",), ("n",), "", ())
NOTE = CommitNote("refresh", 2, {}, tail_rows=10, tail_files=1, tail_negatives=True, tail_nulls=[])


def form(layout: Layout, note: CommitNote, checked: bool = False) -> str:
    return content_sql(layout, "log", note.log_facts, checked)


@pytest.mark.parametrize(("layout", "most"), [(ROWS, HASHES), (GROUPS, CELLS // 2)], ids=["rows", "groups"])
def test_only_a_tail_known_to_be_small_is_broadcast(layout: Layout, most: int) -> None:
    assert "BROADCAST" in form(layout, replace(NOTE, tail_rows=most))
    assert "BROADCAST" not in form(layout, replace(NOTE, tail_rows=most + 1))
    assert "BROADCAST" not in form(layout, replace(NOTE, tail_rows=0, tail_nulls=None)), "Spark wrote it, and nobody counted"


def test_the_base_is_read_once_where_the_tail_allows_it() -> None:
    assert form(ROWS, NOTE).count("FROM log AS b") == 2
    assert form(ROWS, replace(NOTE, tail_net=True, base_distinct=True)).count("FROM log AS b") == 1
    assert form(GROUPS, NOTE).count("_level__ = 'base'") == form(GROUPS, replace(NOTE, tail_net=True)).count("_level__ = 'base'")
    updates = replace(NOTE, tail_grows=False)
    assert "ANTI" not in form(GROUPS, updates)
    assert "ANTI" in form(GROUPS, updates, checked=True), "compaction looks for groups that were never there"


def test_null_safe_equality_is_for_columns_with_nulls() -> None:
    assert "<=>" not in form(GROUPS, NOTE)
    assert "<=>" in form(GROUPS, replace(NOTE, tail_nulls=["k"]))
    assert "<=>" in form(GROUPS, replace(NOTE, tail_nulls=None))


def test_a_note_that_says_nothing_gives_the_general_form() -> None:
    old = CommitNote.from_dict({"kind": "refresh", "epoch": 2, "frontier": {}, "tail_files": 1, "tail_rows": 1, "tail_negatives": True})
    for layout in (ROWS, GROUPS):
        assert form(layout, old) == content_sql(layout, "log")
