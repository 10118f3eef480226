"""Names as people write them in the shell, where the project says which catalog and schema may be left out."""

from __future__ import annotations

from runnel.bind.expand import split_key
from runnel.errors import DefinitionError
from runnel.project.names import Home

home = Home()
"""Where names live in this call of the shell: set once, before the command runs."""


def full_name(name: str) -> str:
    """A name with its catalog and schema, in lower case.

    >>> full_name("Totals"), full_name("sales.totals")
    ('spark_catalog.default.totals', 'spark_catalog.sales.totals')
    """
    parts = split_key(name)
    if not 1 <= len(parts) <= 3 or not all(parts):
        raise DefinitionError(f'"{name}" is not a table name', code="NAME", hint="Use name, schema.name or catalog.schema.name.")
    return home.full(parts)


def short(name: str) -> str:
    """A name as people write it."""
    return home.short(name)
