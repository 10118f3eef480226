"""What binding has to ask: which relation a name means, and which types an engine gives to expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from runnel.algebra import Column


@dataclass(frozen=True)
class Relation:
    """What a table name in a query stands for: a table with columns, or a view whose text is bound in its place."""

    key: str
    columns: tuple[Column, ...] = ()
    view_text: str | None = None


class Lookup(Protocol):
    """Answers of the catalog and of the engine. The engine is Spark in production and DuckDB in the fast tests."""

    def relation(self, parts: tuple[str, ...]) -> Relation | None:
        """The relation behind a one-, two- or three-part name, or None."""

    def known(self) -> list[str]:
        """Names worth suggesting when a table is not found."""

    def aggregates(self, name: str, arguments: int) -> bool:
        """Whether a function that users registered aggregates rows."""

    def describe(self, sql: str) -> tuple[Column, ...]:
        """Names and types of a query's result, by analysis alone."""
