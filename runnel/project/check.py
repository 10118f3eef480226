"""Every definition of a project, bound over tables without rows: what would be recomputed, what is wrong, what changed since the lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

from runnel.bind.expand import split_key
from runnel.bind.faithful import SparkText
from runnel.definition import Definition
from runnel.errors import RunnelError
from runnel.execute.lookup import SparkLookup, quoted, translated
from runnel.execute.prepare import prepare
from runnel.observe.record import Mode
from runnel.project.clauses import said
from runnel.project.declare import Declarations, Declared, Place, Source, at
from runnel.project.lock import Classification, difference
from runnel.settings import Settings
from runnel.tables.content import quote


@dataclass(frozen=True)
class Finding:
    """One reason to fail. `kind` is error, full or lock."""

    kind: str
    name: str
    message: str
    place: Place | None = None
    error: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        where = {"file": self.place.file, "line": self.place.line, "column": self.place.column} if self.place else {}
        return {"kind": self.kind, "name": self.name, "message": self.message, **where, "error": dict(self.error) if self.error else None}


@dataclass(frozen=True)
class Report:
    """What a check found: how the definitions are maintained, and what is wrong with them."""

    classes: Mapping[str, Classification]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not self.findings


def check(
    spark: SparkSession,
    settings: Settings,
    wanted: Declarations,
    defaults: Mapping[str, Any],
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Bind all definitions, each over those that it reads as they would be. Nothing is loaded, and no row is read.

    The statements for sources run in the session, which therefore belongs to the check alone.
    """
    findings = [f for source in wanted.sources if (f := _made(spark, source)) is not None]
    known: dict[str, Definition] = {}
    classes: dict[str, Classification] = {}
    broken: set[str] = set()
    views: list[str] = []
    try:
        for declared in wanted.stream_tables:
            say(f"checking {wanted.home.short(declared.name)}")
            if below := sorted(broken & set(declared.reads)):
                broken.add(declared.name)
                findings.append(Finding("error", declared.name, f"not checked, since {', '.join(below)} failed", declared.place))
                continue
            try:
                with at(declared.query_place):
                    definition, classes[declared.name] = _bound(spark, settings, declared, defaults, known)
            except RunnelError as error:
                broken.add(declared.name)
                findings.append(Finding("error", declared.name, error.message, declared.place, error.as_dict()))
                continue
            known[declared.name] = definition
            _stand_in(spark, definition)
            views.append(declared.name)
            if classes[declared.name].silently_full:
                findings.append(recomputed(declared.name, classes[declared.name], declared.place))
    finally:
        for name in views:
            spark.sql(f"DROP VIEW IF EXISTS {_quoted(name)}")
    return Report(classes, tuple(findings))


def recomputed(name: str, found: Classification, place: Place | None = None) -> Finding:
    """A definition that would run FULL although it does not say so."""
    return Finding("full", name, f"would be recomputed at each refresh: {found.reason}", place)


def compared(report: Report, locked: Mapping[str, Classification] | None) -> Report:
    """The report with what differs from the lockfile; none at all differs as a whole."""
    if locked is None:
        lines = ["there is no lockfile yet"]
    else:
        failed = {f.name for f in report.findings if f.kind == "error"}
        lines = difference({n: c for n, c in locked.items() if n not in failed}, report.classes)
    differs = [Finding("lock", line.partition(":")[0], line) for line in lines]
    return Report(report.classes, (*report.findings, *differs))


def _made(spark: SparkSession, source: Source) -> Finding | None:
    """Make a source where there is none, wherever the session keeps its tables: never at the place that the statement names."""
    try:
        tree = sqlglot.parse_one(source.text, dialect=SparkText)
        location = tree.find(exp.LocationProperty)
        if location is not None:
            location.pop()
        spark.sql(source.text if location is None else tree.sql("spark"))
    except (sqlglot.errors.SqlglotError, PySparkException) as error:
        try:
            with at(source.place):
                raise translated(error) if isinstance(error, PySparkException) else RunnelError("cannot be read", code="SYNTAX")
        except RunnelError as known:
            return Finding("error", source.name, known.message, source.place, known.as_dict())
    return None


def _bound(
    spark: SparkSession, settings: Settings, declared: Declared, defaults: Mapping[str, Any], known: Mapping[str, Definition]
) -> tuple[Definition, Classification]:
    options = said(declared.statement, defaults)
    paths = dict.fromkeys(known, "")
    mode = options["mode"]
    assert isinstance(mode, Mode)
    lookup = SparkLookup(spark, dict(known))
    found = prepare(spark, lookup, settings, declared.name, declared.statement.query, mode, paths, options["comment"], dict(options["properties"]))
    return found.definition, Classification.of(found.definition, found.root)


def _stand_in(spark: SparkSession, definition: Definition) -> None:
    """A view without rows that has the columns of a stream table, for those that read it."""
    columns = ", ".join(f"CAST(NULL AS {c.type}) AS {quote(c.name)}" for c in definition.layout.output)
    spark.sql(f"CREATE OR REPLACE VIEW {_quoted(definition.name)} AS SELECT {columns} WHERE FALSE")


def _quoted(name: str) -> str:
    return quoted(tuple(split_key(name)))
