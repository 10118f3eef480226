"""The finalising view: what users read by the stream table's name."""

from __future__ import annotations

from pyspark.sql import SparkSession
from sqlglot import exp

from runnel.definition import Definition
from runnel.tables.content import finished_sql, quote

MARK = "runnel.stream_table"


def create_view(spark: SparkSession, definition: Definition, path: str, parts: list[str], version: int | None = None) -> None:
    """Create or replace the view. Its text is right for any state of the log, so it never has to follow a refresh.

    The view of a stream table that is published with others shows one version, and follows publications.
    """
    columns = ", ".join(quote(c.name) for c in definition.layout.output)
    comment = f" COMMENT {exp.Literal.string(definition.comment).sql('spark')}" if definition.comment else ""
    name = ".".join(quote(p) for p in parts)
    log = f"delta.{quote(path)}" if version is None else f"(SELECT * FROM delta.{quote(path)} VERSION AS OF {version})"
    spark.sql(
        f"CREATE OR REPLACE VIEW {name} ({columns}){comment} TBLPROPERTIES ('{MARK}' = '{definition.id}') AS {finished_sql(definition.layout, log)}"
    )


def drop_view(spark: SparkSession, parts: list[str]) -> None:
    spark.sql(f"DROP VIEW IF EXISTS {'.'.join(quote(p) for p in parts)}")
