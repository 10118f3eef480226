"""Put a broken catalog file aside, so that a new one can be rebuilt from the backing tables in its place."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, text

from runnel.errors import DefinitionError
from runnel.state.catalog import Catalog
from runnel.state.url import parse


def quarantine(url: str) -> str | None:
    """Move a corrupt SQLite file to `<file>.corrupt-<time>` and return that path; None when there is nothing to move.

    A sound file stays, since moving it would let two processes hold one lease. Tables in PostgreSQL stay too.
    """
    address = parse(url)
    file = Path(address.database or "")
    if address.get_backend_name() != "sqlite" or not file.is_file() or _is_sound(url):
        return None
    aside = f"{file}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    # The main file goes last: a log left beside a new database would be replayed into it.
    for suffix in ("-wal", "-shm", ""):
        part = Path(f"{file}{suffix}")
        if part.exists():
            part.rename(f"{aside}{suffix}")
    return aside


def _is_sound(url: str) -> bool:
    try:
        catalog = Catalog.open(url)
        try:
            return catalog._database.read(_integrity) == ["ok"]
        finally:
            catalog.close()
    except DefinitionError as error:
        if error.code != "CATALOG_CORRUPT":
            raise
        return False


def _integrity(connection: Connection) -> list[str]:
    return list(connection.execute(text("PRAGMA integrity_check")).scalars())
