"""The catalog's schema: four tables, and the version that says who may read them."""

from __future__ import annotations

from sqlalchemy import Column, Connection, Float, Index, Integer, MetaData, Table, Text, insert, inspect, select, text, update

from runnel.errors import DefinitionError

SCHEMA_VERSION = 2

metadata = MetaData()

# Names and ISO times must sort by byte in both databases; PostgreSQL's default collation may skip punctuation.
SortedText = Text().with_variant(Text(collation="C"), "postgresql")

schema = Table("runnel_schema", metadata, Column("version", Integer, primary_key=True, autoincrement=False))

entry = Table(
    "runnel_entry",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", SortedText, nullable=False, unique=True),
    Column("path", Text, nullable=False),
    Column("definition", Text, nullable=False),
    Column("created_at", Text, nullable=False),
)

history = Table(
    "runnel_history",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("stream_table", SortedText, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("started_at", SortedText, nullable=False),
    Column("action", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("record", Text, nullable=False),
    Index("runnel_history_by_table", "stream_table", "started_at", "id"),
    Index("runnel_history_by_time", "started_at", "id"),
)

# Few are running at any time, and every refresh asks for those of its stream table.
_running = history.c.status == "RUNNING"
Index("runnel_history_running", history.c.stream_table, sqlite_where=_running, postgresql_where=_running)

# Times are seconds since 1970 on the database's clock, the only one that all holders share.
lease = Table(
    "runnel_lease",
    metadata,
    Column("name", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("token", Text, nullable=False),
    Column("acquired_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
)

# What schedulers remember of each stream table, as JSON; the schedules themselves are part of the definitions.
run_state = Table("runnel_run_state", metadata, Column("name", SortedText, primary_key=True), Column("state", Text, nullable=False))

gate = Table(
    "runnel_gate",
    metadata,
    Column("source", SortedText, primary_key=True),
    Column("since", Text, nullable=False),
    Column("note", Text, nullable=False),
)

watermark = Table(
    "runnel_watermark",
    metadata,
    Column("source", SortedText, primary_key=True),
    Column("moment", Text, nullable=False),
    Column("advanced_at", Text, nullable=False),
)

watermark_group = Table(
    "runnel_watermark_group",
    metadata,
    Column("name", SortedText, primary_key=True),
    Column("sources", Text, nullable=False),
    Column("tolerance", Float, nullable=False),
)

# Single facts about the whole: the pause, the count of operators' words, what the leading daemon says of itself.
value = Table("runnel_value", metadata, Column("name", Text, primary_key=True), Column("value", Text, nullable=False))

# What readers see of stream tables that are published together; all rows of one publication change in one transaction.
published = Table(
    "runnel_published",
    metadata,
    Column("name", SortedText, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("cut", Text, nullable=False),
)

# One row that counts changes of entries, so that a process can tell with one small query that it knows them all.
revision = Table("runnel_revision", metadata, Column("number", Integer, nullable=False))

ADDED = {1: (published, revision, run_state, gate, watermark, watermark_group, value)}
"""The tables that came after a version of the schema."""

_CREATION_LOCK = 7_286_635_001  # any number that no other application locks


def exists(connection: Connection) -> bool:
    return inspect(connection).has_table(schema.name)


def create(connection: Connection) -> None:
    """Create what is missing. Runs in a write transaction, so a second creator waits and then finds it done."""
    _wait_for_others(connection)
    if not exists(connection):
        metadata.create_all(connection)
        connection.execute(insert(schema).values(version=SCHEMA_VERSION))
        connection.execute(insert(revision).values(number=0))


def outdated(connection: Connection) -> bool:
    """Whether an older Runnel wrote the catalog, one that `migrate` knows."""
    return connection.execute(select(schema.c.version)).scalar() in ADDED


def migrate(connection: Connection) -> None:
    """Bring an older catalog to this schema; what it holds stays. Runs in a write transaction like `create`."""
    _wait_for_others(connection)
    found = connection.execute(select(schema.c.version)).scalar()
    for version in range(found, SCHEMA_VERSION) if found in ADDED else ():
        metadata.create_all(connection, tables=ADDED[version])
        if revision in ADDED[version]:
            connection.execute(insert(revision).values(number=0))
        connection.execute(update(schema).values(version=version + 1))


def _wait_for_others(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": _CREATION_LOCK})


def check(connection: Connection) -> str:
    """What is wrong with the stored schema, or nothing; a missing table or column fails in the database."""
    version = connection.execute(select(schema.c.version)).scalar()
    if version is not None and version > SCHEMA_VERSION:
        raise DefinitionError(
            "the catalog was written by a newer Runnel",
            code="CATALOG_NEWER",
            detail=f"Its schema has version {version}; this Runnel reads version {SCHEMA_VERSION}.",
            hint="Upgrade Runnel, or give this one a catalog of its own.",
        )
    if version != SCHEMA_VERSION:
        return f"Its schema has version {version}; this Runnel reads version {SCHEMA_VERSION}."
    for table in metadata.sorted_tables:
        connection.execute(select(table).limit(0))
    return ""
