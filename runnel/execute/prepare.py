"""Query text -> `Definition`: bind it, check it against Spark's own analysis, choose the layout, find the sources."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType
from sqlglot import exp

from runnel.algebra import WEIGHT, Column, Node, Scan
from runnel.bind import Bound, bind, clock, parse_query, refuse
from runnel.bind.expand import expand
from runnel.bind.faithful import faithful
from runnel.bind.lookup import Relation
from runnel.bind.spell import foreign, spell
from runnel.canonicalize import canonicalize
from runnel.definition import Definition, SourceRef
from runnel.differentiate import Layout, Root, arbitrary_columns, root_of, rows_layout
from runnel.differentiate.layout import AGREEING
from runnel.errors import DefinitionError, Internal, Unsupported
from runnel.execute.lookup import SparkLookup
from runnel.observe.record import Mode
from runnel.passes import Pass
from runnel.settings import Settings
from runnel.sources.delta_log import DeltaLog
from runnel.tables.content import HASH, LEVEL, finished_sql, quote


@dataclass(frozen=True)
class Prepared:
    """A definition, the tree it was made from (None when it is recomputed), and the schema of its backing table."""

    definition: Definition
    root: Root | None
    schema: StructType


def prepare(
    spark: SparkSession,
    lookup: SparkLookup,
    settings: Settings,
    name: str,
    text: str,
    mode: Mode,
    backing: dict[str, str],
    comment: str = "",
    properties: dict[str, str] | None = None,
) -> Prepared:
    """`backing` maps the names of existing stream tables to the paths of their backing tables."""
    tree = spell(parse_query(text))
    spoken = text if not foreign(parse_query(text)) else faithful(tree.copy()).sql("spark")
    tree, relations = expand(tree, lookup)
    if mode is not Mode.FULL:
        refuse.nondeterministic(tree)
    if not relations:
        raise DefinitionError("the query reads no table", code="NO_SOURCE", hint="Select from at least one Delta table or stream table.")
    if name in relations and not (settings.allow_circular and name in backing):
        raise DefinitionError(
            f'"{name}" reads itself', code="CYCLE", detail=f"{name} -> {name}.", hint="Read another table, or give the stream table another name."
        )
    sql, refused, bound, first = faithful(tree.copy()).sql("spark"), "", None, None
    try:
        first = bind(text, lookup, settings.disabled_rules)
        sql = first.sql
        # Bound from the text that is kept, so that binding it again later gives the same names.
        bound = bind(sql, lookup)
    except Unsupported as error:
        if mode.applies_changes:
            raise
        where = f" (line {error.position[0]}, column {error.position[1]})" if error.position else ""
        refused = f"{error.message}{where}"
    except DefinitionError as error:
        if mode is not Mode.FULL or error.code != "EXPRESSION_NOT_DETERMINISTIC":
            raise
        refused = error.message
    output = lookup.describe(spoken)
    _check_output(output)
    if mode is not Mode.FULL:
        _check_deterministic(spark, spoken)
    root, unchecked = None, tuple[str, ...]()
    if bound is not None:
        try:
            root, unchecked = _rooted(bound, settings, output)
        except Unsupported as error:
            if mode.applies_changes:
                raise
            refused = error.message
    layout = root.layout if root is not None else rows_layout(_storable(output), output)
    _check_printed(lookup, sql, output)
    layout = agreeing(spark, layout, spark.sql(spoken).schema)
    definition = Definition(
        id=uuid.uuid4().hex,
        name=name,
        text=text,
        sql=sql,
        mode=mode,
        sources=_sources(lookup, relations, root, backing),
        layout=layout,
        refused=refused,
        comment=comment,
        properties=properties or {},
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        clocks=clock.readings(tree),
        functions=tuple(sorted({f.name.lower() for f in tree.find_all(exp.Anonymous)} & lookup.user_functions())) if _calls_unknown(tree) else (),
        notes=_notes(first, unchecked),
        unchecked=unchecked,
    )
    return Prepared(definition, root, backing_schema(spark, layout))


def _rooted(bound: Bound, settings: Settings, output: tuple[Column, ...]) -> tuple[Root, tuple[str, ...]]:
    """What is kept of a query, and the columns of its result that cannot be checked."""
    tree = canonicalize(bound.node, settings.disabled_rules)
    root = root_of(tree, output)
    return root, tuple(output[i].name for i in arbitrary_columns(tree, root))


def _notes(bound: Bound | None, unchecked: tuple[str, ...]) -> tuple[str, ...]:
    said = bound.notes if bound is not None else ()
    return (*said, f"{', '.join(unchecked)}: one of several correct results, which verify does not compare") if unchecked else said


def _calls_unknown(tree: exp.Expr) -> bool:
    return tree.find(exp.Anonymous) is not None


def rebind(definition: Definition, lookup: SparkLookup, settings: Settings, trace: list[Pass] | None = None) -> tuple[Node, Root]:
    """The trees of a stored definition, bound and canonical. Its text went through the rewrites when it was stored."""
    bound = bind(definition.sql, lookup)
    return bound.node, root_of(canonicalize(bound.node, settings.disabled_rules, trace), definition.layout.output)


def backing_schema(spark: SparkSession, layout: Layout) -> StructType:
    """Stored columns, hash, weight and level."""
    typed = ", ".join(f"CAST(NULL AS {c.type}) AS `{c.name}`" for c in layout.stored)
    described = spark.sql(f"SELECT {typed}").schema.fields if typed else []
    fields = [StructField(f.name, f.dataType, f.name not in layout.required) for f in described]
    if layout.kind == "rows":
        fields.append(StructField(HASH, LongType(), True))
    return StructType([*fields, StructField(WEIGHT, LongType(), True), StructField(LEVEL, StringType(), True)])


def agreeing(spark: SparkSession, layout: Layout, expected: StructType) -> Layout:
    """The layout whose finished columns have the names, types and nullability of Spark's own analysis of the query.

    A type that differs is our mistake and refuses the table. NULLs that cannot be are said so: by the stored column where
    the result is stored as it is, else by a default that is never taken.
    """
    plain = layout.kind == "rows" and len(layout.stored) == len(layout.output) and "WITH" not in layout.finish
    if plain:
        required = tuple(s.name for s, f in zip(layout.stored, expected.fields, strict=True) if not f.nullable)
        layout = replace(layout, required=required)
    found = _finished_schema(spark, layout)
    differ = [f"{f.name} {f.dataType.simpleString()}" for f, e in zip(found, expected.fields, strict=True) if not _same_type(f.dataType, e.dataType)]
    if differ or [f.name for f in found] != [e.name for e in expected.fields]:
        raise Internal(
            "the maintained result differs in type from the query",
            detail=f"Spark gives {expected.simpleString()}, the operators {StructType(found).simpleString()}.",
        )
    values = []
    for f, e in zip(found, expected.fields, strict=True):
        name = quote(e.name)
        if f.nullable and not e.nullable and (default := _default(e.dataType.simpleString())):
            values.append(f"COALESCE({name}, {default}) AS {name}")
        elif not f.nullable and e.nullable:
            values.append(f"CASE WHEN TRUE THEN {name} END AS {name}")
        else:
            values.append(name)
    if all(v.startswith("`") for v in values):
        return layout
    change = f"SELECT {', '.join((*values, WEIGHT))} FROM ({layout.finish_change}) AS {AGREEING}" if layout.finish_change else ""
    return replace(layout, finish=f"SELECT {', '.join(values)} FROM ({layout.finish}) AS {AGREEING}", finish_change=change)


def _finished_schema(spark: SparkSession, layout: Layout) -> list[StructField]:
    view = f"__runnel_empty_{uuid.uuid4().hex[:12]}"
    spark.createDataFrame([], backing_schema(spark, layout)).createOrReplaceTempView(view)
    try:
        return list(spark.sql(finished_sql(layout, view)).schema.fields)
    finally:
        spark.catalog.dropTempView(view)


def _same_type(a: DataType, b: DataType) -> bool:
    """Equal but for the nullability of what is nested."""
    return a.simpleString() == b.simpleString()


def _default(type_: str) -> str | None:
    """A value of a type, to stand where NULL never is. Nested types have none, and stay nullable."""
    if type_.startswith(("array", "map", "struct", "variant", "interval")):
        return None
    zero = {"string": "''", "boolean": "FALSE", "binary": "X''", "date": "DATE'1970-01-01'", "timestamp": "TIMESTAMP'1970-01-01'"}
    zero["timestamp_ntz"] = "TIMESTAMP_NTZ'1970-01-01'"
    return zero.get(type_, f"CAST(0 AS {type_})")


def _sources(lookup: SparkLookup, relations: dict[str, Relation], root: Root | None, backing: dict[str, str]) -> tuple[SourceRef, ...]:
    used: dict[str, set[str]] = {}
    if root is not None:
        for scan in root.maintained.walk():
            if isinstance(scan, Scan):
                used.setdefault(scan.source, set()).update(o.lower() for o in scan.origin)
    found = []
    for key in sorted(relations):
        if key in backing:
            found.append(SourceRef(key, "stream", backing[key]))
            continue
        types = DeltaLog(lookup.locations[key]).schema()
        columns = {c: t for c, t in types.items() if root is None or c in used.get(key, set())}
        found.append(SourceRef(key, "delta", lookup.locations[key], columns))
    return tuple(found)


def _storable(output: tuple[Column, ...]) -> tuple[Column, ...]:
    """Names that Delta Lake can store whatever users call their columns."""
    return tuple(Column(f"c{i}_{''.join(ch if ch.isalnum() else '_' for ch in c.name.lower())}"[:60], c.type) for i, c in enumerate(output))


def _check_output(output: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for column in output:
        if column.name.lower() in seen:
            raise DefinitionError(
                f'column "{column.name}" appears twice in the result', code="DUPLICATE_COLUMN", hint="Give each column its own alias."
            )
        if column.type == "void":
            raise DefinitionError(
                f'column "{column.name}" has no type', code="VOID_COLUMN", hint=f"Write CAST(NULL AS STRING) AS {column.name}, or another type."
            )
        seen.add(column.name.lower())


def _check_deterministic(spark: SparkSession, text: str) -> None:
    """Catch what no list of names knows, such as user functions declared non-deterministic. Not askable on Spark Connect."""
    plan = getattr(spark.sql(text), "_jdf", None)
    if plan is not None and not plan.queryExecution().analyzed().deterministic():
        raise DefinitionError(
            "the query is not deterministic",
            code="EXPRESSION_NOT_DETERMINISTIC",
            detail="Spark's analyser says that it may give another result over the same rows.",
            hint="Mark user functions deterministic if they are, or use REFRESH MODE FULL.",
        )


def _check_printed(lookup: SparkLookup, sql: str, output: tuple[Column, ...]) -> None:
    """The text we keep must mean what the user wrote, as far as names and types show it."""
    printed = lookup.describe(sql)
    if [c.type for c in printed] != [c.type for c in output]:
        raise Internal(
            "the query does not survive printing",
            detail=f"Spark sees {[str(c) for c in output]} in the text and {[str(c) for c in printed]} in {sql[:300]}.",
        )
