"""Answers for binding, from Spark's catalog and analyser."""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from runnel.algebra import Column
from runnel.bind.expand import join_key
from runnel.bind.lookup import Relation
from runnel.definition import Definition
from runnel.errors import DefinitionError, RunnelError, Unsupported
from runnel.tables.content import quote


class SparkLookup:
    """See `bind.Lookup`. Stream tables come first, so that their views are never inlined.

    Made for one operation, so it may remember its answers.
    """

    def __init__(self, spark: SparkSession, stream_tables: dict[str, Definition]) -> None:
        self.spark = spark
        self.stream_tables = stream_tables
        self.locations: dict[str, str] = {}
        """Where the Delta tables met so far are stored."""
        self._relations: dict[tuple[str, ...], Relation | None] = {}
        self._described: dict[str, tuple[Column, ...]] = {}
        self._user_functions: frozenset[str] | None = None

    def qualify(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """The full name: catalog, schema, table, in lower case as Spark's catalogs have it."""
        catalog = self.spark.catalog
        missing = [ask() for ask in (catalog.currentCatalog, catalog.currentDatabase)[: 3 - len(parts)]]
        return tuple(p.lower() for p in (*missing, *parts))

    def relation(self, parts: tuple[str, ...]) -> Relation | None:
        if parts not in self._relations:
            self._relations[parts] = self._relation(parts)
        return self._relations[parts]

    def _relation(self, parts: tuple[str, ...]) -> Relation | None:
        if len(parts) == 2 and parts[0].lower() == "delta" and ("/" in parts[1] or "\\" in parts[1]):
            return self._at_path(parts[1])
        key = join_key(self.qualify(parts))
        if key in self.stream_tables:
            return Relation(key, self.stream_tables[key].layout.output)
        try:
            described = self.spark.sql(f"DESCRIBE TABLE EXTENDED {quoted(parts)}").collect()
        except AnalysisException:
            return None
        details = {r["col_name"]: r["data_type"] for r in described}
        columns = _columns(self.spark.table(quoted(parts)).schema)
        if details.get("Type", "").upper() == "VIEW" or "View Text" in details:
            return self._view(key, columns, details)
        if details.get("Provider", "").lower() != "delta":
            raise DefinitionError(
                f'table "{".".join(parts)}" is not a Delta table',
                code="INPUT_NOT_IN_DELTA",
                detail=f"Its format is {details.get('Provider') or 'unknown'}.",
                hint="Convert it with CONVERT TO DELTA, or copy it into a Delta table that is kept up to date.",
            )
        self.locations[key] = re.sub(r"^file:/+", "/", details["Location"])
        return Relation(key, columns)

    def _at_path(self, path: str) -> Relation:
        key = f"delta.`{path}`"
        try:
            columns = _columns(self.spark.read.format("delta").load(path).schema)
        except PySparkException as error:
            raise DefinitionError(f"there is no Delta table at {path}", code="TABLE_NOT_FOUND", hint="Check the path.") from error
        self.locations[key] = path
        return Relation(key, columns)

    def _view(self, key: str, columns: tuple[Column, ...], details: dict[str, str]) -> Relation:
        text = details.get("View Text")
        if not text:
            raise DefinitionError(
                f"view {key} has no SQL text",
                code="VIEW_WITHOUT_TEXT",
                detail="It was made from a DataFrame.",
                hint="Create it with CREATE VIEW ... AS SELECT.",
            )
        return Relation(key, columns, view_text=text)

    def known(self) -> list[str]:
        try:
            return sorted({t.name for t in self.spark.catalog.listTables()})
        except PySparkException:
            return []

    def aggregates(self, name: str, arguments: int) -> bool:
        """Asked of the analyser: only an aggregate may stand OVER a window."""
        if name.lower() not in self.user_functions():
            return False
        try:
            nulls = ", ".join(["NULL"] * arguments)
            return bool(self.describe(f"SELECT {quote(name)}({nulls}) OVER () AS c"))
        except RunnelError:
            return False

    def user_functions(self) -> frozenset[str]:
        """Functions that users registered, in this session or for good."""
        if self._user_functions is None:
            rows = self.spark.sql("SHOW USER FUNCTIONS").collect()
            self._user_functions = frozenset(r[0].rpartition(".")[2].lower() for r in rows)
        return self._user_functions

    def describe(self, sql: str) -> tuple[Column, ...]:
        if sql not in self._described:
            try:
                self._described[sql] = _columns(self.spark.sql(sql).schema)
            except PySparkException as error:
                raise translated(error) from error
        return self._described[sql]


def translated(error: PySparkException) -> RunnelError:
    """Spark's complaint about a query as one of ours, with its own words."""
    condition = error.getCondition() if hasattr(error, "getCondition") else None
    said = re.split(r"== SQL|;\n'|SQLSTATE|JVM stacktrace", str(error))[0]
    message = re.sub(r"\s+", " ", re.sub(r"^\[[^\]]*\]\s*", "", said)).strip()
    found = re.search(r"line (\d+),? pos(?:ition)? (\d+)", str(error))
    position = (int(found[1]), int(found[2]) + 1) if found else None
    if condition and condition.startswith(("MISSING_GROUP_BY", "MISSING_AGGREGATION")):
        return Unsupported(
            "an aggregate function that Runnel does not know is not maintained incrementally",
            detail=message[:300],
            hint="Use REFRESH MODE AUTO or FULL.",
        )
    if isinstance(error, ParseException):
        return DefinitionError("syntax error", code="SYNTAX", detail=message[:400], hint="Correct the statement.", position=position)
    return DefinitionError(
        "Spark refuses the query", code=condition or "ANALYSIS", detail=message[:400], hint="Correct the query.", position=position
    )


def quoted(parts: tuple[str, ...]) -> str:
    return ".".join(quote(p) for p in parts)


def _columns(schema: object) -> tuple[Column, ...]:
    return tuple(Column(f.name, f.dataType.simpleString()) for f in schema.fields)  # type: ignore[attr-defined]
