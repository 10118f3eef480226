"""The one shape of a source, whoever writes it."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame

from runnel.sources.facts import SourceFacts
from runnel.sources.reader import Reader


class Source(Protocol):
    """Facts come from the log alone; faces are DataFrames with the source's own column names. A change has `WEIGHT` too."""

    key: str

    def probe(self, before: int | None, table_id: str | None, columns: dict[str, str]) -> SourceFacts:
        """What happened since version `before` to the columns that a query reads."""

    def at(self, reader: Reader, version: int) -> DataFrame:
        """The rows at one version."""

    def change(self, reader: Reader, facts: SourceFacts) -> DataFrame:
        """The weighted rows by which the source changed between the versions of `facts`."""

    def size(self) -> int:
        """Bytes of its files, as a measure of what reading it costs."""

    def rows(self) -> int | None:
        """Rows as its file statistics count them, None where a file has none."""
