"""The address of a catalog: which databases are accepted, and how an address is shown without its password."""

from __future__ import annotations

import os
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, make_url

from runnel.errors import DefinitionError

POSTGRES_SPELLINGS = ("postgresql", "postgres", "postgresql+psycopg")
SECRET_PARAMETERS = ("sslpassword",)


def parse(text: str) -> URL:
    """The address in the form SQLAlchemy connects with.

    >>> parse("postgresql://ann@db/runnel").drivername
    'postgresql+psycopg'
    """
    try:
        url = make_url(text)
    except Exception:
        url = None
    # The errors quote nothing: an address that is read wrongly may hold a piece of the password anywhere.
    if url is None or "@" in (url.host or ""):
        raise _refuse("the catalog's address cannot be read")
    if url.drivername in POSTGRES_SPELLINGS:
        return _postgres(url)
    if url.drivername == "sqlite":
        return _sqlite(url)
    raise _refuse(f'the catalog cannot be kept in "{url.drivername}"')


def show(url: URL) -> str:
    """The address for people.

    >>> show(parse("postgresql://ann:secret@db/runnel"))
    'postgresql://ann:***@db/runnel'
    """
    hidden = {name: "***" for name in SECRET_PARAMETERS if name in url.query}
    return url.set(drivername=url.get_backend_name()).update_query_dict(hidden).render_as_string(hide_password=True)


def scrub(text: str, url: URL) -> str:
    """A driver's text without the secrets of the address, in whichever encoding they appear.

    >>> scrub("cannot log in with s%40lt or s@lt", parse("postgresql://ann:s%40lt@db/runnel"))
    'cannot log in with *** or ***'
    """
    secrets = [url.password, *(url.query.get(name) for name in SECRET_PARAMETERS)]
    for secret in secrets:
        for spelling in (secret, quote(secret, safe=""), quote_plus(secret)) if isinstance(secret, str) and secret else ():
            text = text.replace(spelling, "***")
    return text


def _postgres(url: URL) -> URL:
    password = url.query.get("password")  # libpq's other place for it; where it belongs, it is hidden with the rest
    if isinstance(password, str):
        url = url.difference_update_query(["password"]).set(password=password)
    return url.set(drivername="postgresql+psycopg")


def _sqlite(url: URL) -> URL:
    if not url.database or url.database == ":memory:":
        raise _refuse("the catalog needs a file", detail="A database in memory cannot be shared between processes.")
    return url.set(database=os.path.abspath(url.database))


def _refuse(message: str, detail: str = "") -> DefinitionError:
    return DefinitionError(
        message,
        code="CATALOG_URL",
        detail=detail,
        hint="Use sqlite:////folder/catalog.db or postgresql://user:password@host/database, special characters percent-encoded.",
    )
