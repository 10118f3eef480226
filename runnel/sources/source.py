"""The one shape of a source, whoever writes it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from pyspark.sql import DataFrame

from runnel.sources.bounds import Bound
from runnel.sources.facts import SourceFacts
from runnel.sources.held import Held
from runnel.sources.reader import Given, Reader


class Source(Protocol):
    """Facts come from the log alone; faces are DataFrames with the source's own column names. A change has `WEIGHT` too."""

    key: str

    def probe(self, before: int | None, table_id: str | None, columns: dict[str, str], upto: int | None = None) -> SourceFacts:
        """What happened since version `before` to the columns that a query reads, up to a version, or up to the latest.

        What was read already stays read: with `upto` before `before` nothing happened.
        """

    def reflects(self, version: int) -> Mapping[str, int]:
        """The plain sources that its content at a version reflects, and at which versions: a plain source itself."""

    def at(self, reader: Reader, version: int, bounds: Sequence[Bound] = ()) -> DataFrame:
        """The rows at one version. Rows beyond the bounds may be left out."""

    def here(self, reader: Reader, version: int, bounds: Sequence[Bound], columns: Collection[str], folder: str, few: bool = False) -> Given | None:
        """The same in some columns, read by this process where rows are few or have to be summed up, with `few` only where they are few; rows too many
        for a plan go to `folder`."""

    def near(self, version: int, bounds: Sequence[Bound]) -> float:
        """The share of its bytes at a version that lie in files which can hold rows within all bounds."""

    def share(self, version: int, bound: Bound, look: bool = False) -> float | None:
        """The share of the rows at a version that are likely within a bound, by the statistics of its files, or with `look` by a few of its rows
        where these do not tell: good enough to estimate, not to rely on. None where nothing tells."""

    def gone(self, version: int) -> str | None:
        """A file without which a version cannot be read any more; None where all are there, or nobody can tell cheaply."""

    def held(self, facts: SourceFacts, columns: Collection[str]) -> Held | None:
        """The change in these columns, when it is small and this process can read it as well as Spark."""

    def few(self, facts: SourceFacts) -> bool:
        """Whether the change is sure to be small enough to be held, by whoever reads it."""

    def change(self, reader: Reader, facts: SourceFacts) -> DataFrame:
        """The weighted rows by which the source changed between the versions of `facts`."""

    def size(self) -> int:
        """Bytes of its files, as a measure of what reading it costs."""

    def rows(self, version: int | None = None) -> int | None:
        """Rows at the latest version as its file statistics count them; None where a file has none, and of any other version."""
