"""One database behind the catalog: short transactions, bounded retries, and failures in our words."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Float, Table, create_engine, event, literal_column
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError, TimeoutError
from sqlalchemy.sql.elements import ColumnClause

from runnel.errors import DefinitionError, EnvironmentProblem, Internal, RunnelError, Transient
from runnel.state.url import scrub, show

T = TypeVar("T")
Failure = SQLAlchemyError | sqlite3.Error

BUSY_SECONDS = 30.0  # how long a call waits for other writers; a write of ours takes about a millisecond

_SQLITE_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_SQLITE_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SQLITE_NO_ACCESS = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR}
_SQLITE_OTHER_SCHEMA = ("no such table", "no such column", "has no column named")

# unique_violation is here because a second try sees the row that won, and can say so.
_POSTGRES_BUSY = {"40001", "40P01", "55P03", "23505"}
_POSTGRES_OTHER_SCHEMA = {"42P01", "42703"}
_POSTGRES_NO_ACCESS = {"28000", "28P01", "3D000", "42501", "25006"}
_POSTGRES_NO_ACCESS_TEXTS = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "does not exist")


class Database:
    """An engine for SQLite or PostgreSQL. Nothing it raises, logs or prints carries the password."""

    def __init__(self, url: URL) -> None:
        self._url = url
        self.shown = show(url)
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self._engine = _sqlite_engine(url) if self.is_sqlite else _postgres_engine(url)

    def __repr__(self) -> str:
        return f"Database({self.shown!r})"

    def read(self, work: Callable[[Connection], T]) -> T:
        return self._run(work, immediate=False)

    def write(self, work: Callable[[Connection], T]) -> T:
        return self._run(work, immediate=True)

    def insert(self, table: Table) -> Any:
        """INSERT with ON CONFLICT, which both databases spell alike and SQLAlchemy keeps per dialect."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    @property
    def clock(self) -> ColumnClause[float]:
        """Seconds since 1970 on the database's clock, to the millisecond.

        Not `unixepoch('subsec')`, which SQLite has only since 3.42; not `now()`, which stands still in a transaction.
        """
        if self.is_sqlite:
            return literal_column("((julianday('now') - 2440587.5) * 86400.0)", Float)
        return literal_column("cast(extract(epoch from clock_timestamp()) as double precision)", Float)

    def close(self) -> None:
        self._engine.dispose()

    def corrupt(self, detail: str) -> DefinitionError:
        repair = "run `runnel repair` to rebuild the catalog from the backing tables"
        return DefinitionError(
            "the catalog is damaged",
            code="CATALOG_CORRUPT",
            detail=f"{detail.rstrip('.')}. The catalog is {self.shown}.",
            hint=repair if self.is_sqlite else f"drop its tables, whose names begin with runnel_, then {repair}",
        )

    def _run(self, work: Callable[[Connection], T], *, immediate: bool) -> T:
        give_up_at = time.monotonic() + BUSY_SECONDS
        pause = 0.005
        while True:
            try:
                with self._engine.connect().execution_options(immediate=immediate) as connection, connection.begin():
                    return work(connection)
            except (SQLAlchemyError, sqlite3.Error) as error:
                failure = error
            # Outside the except block: the driver's error, which may quote the address, is not chained to ours.
            if not _is_busy(failure) or time.monotonic() >= give_up_at:
                raise self._named(failure)
            time.sleep(pause)
            pause = min(pause * 2, 0.25)

    def _named(self, failure: Failure) -> RunnelError:
        cause = _cause(failure)
        detail = f"The database said: {scrub(' '.join(str(cause).split()), self._url).rstrip('.')}. The catalog is {self.shown}."
        if _is_busy(failure) or isinstance(failure, TimeoutError):
            return Transient("the catalog is busy", code="CATALOG_BUSY", detail=detail, hint="Try again.")
        if _is_damage(cause):
            return self.corrupt(scrub(str(cause), self._url))
        if _is_no_access(cause):
            hint = "Check that the catalog's folder or database exists and that this user may write to it."
            return EnvironmentProblem("the catalog cannot be used", code="CATALOG_NO_ACCESS", detail=detail, hint=hint)
        if getattr(failure, "connection_invalidated", False) or type(cause).__name__ in ("OperationalError", "AdminShutdown", "ConnectionTimeout"):
            return Transient(
                "the catalog cannot be reached", code="CATALOG_UNREACHABLE", detail=detail, hint="Check that the database runs; try again."
            )
        return Internal("the catalog refused a statement", code="CATALOG_STATEMENT", detail=detail)


def _sqlite_engine(url: URL) -> Engine:
    folder = Path(url.database or "").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem(
            "the catalog's folder cannot be created",
            code="CATALOG_NO_ACCESS",
            detail=f"{folder}: {error.strerror}.",
            hint="Give a folder that can be written.",
        ) from error
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # the driver begins no transactions; `begin` below does
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # a power cut may lose the last writes, which the logs still have
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A reader that turns writer fails at once when another wrote meanwhile; writers therefore queue up from the start.
        immediate = connection.get_execution_options().get("immediate")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def _postgres_engine(url: URL) -> Engine:
    # Without prepared statements it also works behind a pooler that shares sessions.
    arguments: dict[str, Any] = {"prepare_threshold": None}
    if "connect_timeout" not in url.query:
        arguments["connect_timeout"] = 10
    return create_engine(url, hide_parameters=True, pool_pre_ping=True, connect_args=arguments)


def _cause(failure: Failure) -> BaseException:
    return getattr(failure, "orig", None) or failure


def _sqlite_code(cause: BaseException) -> int:
    return getattr(cause, "sqlite_errorcode", 0) & 0xFF  # the high bits tell kinds of the same failure apart


def _is_busy(failure: Failure) -> bool:
    cause = _cause(failure)
    return _sqlite_code(cause) in _SQLITE_BUSY or getattr(cause, "sqlstate", None) in _POSTGRES_BUSY


def _is_damage(cause: BaseException) -> bool:
    if isinstance(cause, sqlite3.Error):
        return _sqlite_code(cause) in _SQLITE_CORRUPT or any(text in str(cause) for text in _SQLITE_OTHER_SCHEMA)
    return getattr(cause, "sqlstate", None) in _POSTGRES_OTHER_SCHEMA


def _is_no_access(cause: BaseException) -> bool:
    if isinstance(cause, sqlite3.Error):
        return _sqlite_code(cause) in _SQLITE_NO_ACCESS
    state = getattr(cause, "sqlstate", None)
    # A refused login carries no code, only the server's text.
    return state in _POSTGRES_NO_ACCESS or (state is None and any(text in str(cause) for text in _POSTGRES_NO_ACCESS_TEXTS))
