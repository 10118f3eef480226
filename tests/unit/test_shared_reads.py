"""One reading of a change for all who need it, and each its own when that is switched off."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from runnel.algebra import WEIGHT
from runnel.execute.engine import Engine
from runnel.settings import Settings
from runnel.sources.facts import Kind, SourceFacts
from runnel.sources.held import Held


@pytest.mark.parametrize(("off", "reads"), [((), [{"a", "b"}]), (("shared_reads",), [{"a"}, {"b"}, {"a"}])])
def test_a_change_is_read_once_unless_that_is_off(monkeypatch, off: tuple[str, ...], reads: list[set[str]]) -> None:
    read: list[set[str]] = []

    def held(facts, columns):
        read.append(set(columns))
        names = sorted(columns)
        schema = StructType([StructField(n, LongType()) for n in names])
        return Held(pa.table({**{n: [1] for n in names}, WEIGHT: [1]}), schema)

    engine = Engine(None, Settings(disabled_optimisations=off), None, None)
    monkeypatch.setattr(Engine, "_columns", lambda self, key: frozenset({"a", "b"}))
    facts = SourceFacts("orders", Kind.INSERT_ONLY, 1, 2, "id", 1)
    found = [engine.held(SimpleNamespace(held=held), facts, frozenset({c})) for c in ("A", "b", "a")]
    assert read == reads
    assert [h.table.column_names for h in found] == [["a", WEIGHT], ["b", WEIGHT], ["a", WEIGHT]]
