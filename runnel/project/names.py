"""Which table a name in a query means, told from the text alone: for SQL that was read from a file, and for stored definitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from runnel.bind.expand import join_key, split_key
from runnel.bind.faithful import faithful
from runnel.bind.parse import parse_query, parts_of, tables_of
from runnel.definition import Definition
from runnel.errors import DefinitionError

Parts = tuple[str, ...]


@dataclass(frozen=True)
class Home:
    """Where a name without catalog or schema lives.

    >>> Home().full(("Totals",)), Home(schema="sales").short("spark_catalog.sales.totals"), Home().short("spark_catalog.sales.totals")
    ('spark_catalog.default.totals', 'totals', 'sales.totals')
    """

    catalog: str = "spark_catalog"
    schema: str = "default"

    def full(self, parts: Sequence[str]) -> str:
        """The key of a table; one by its path stays as it is."""
        if is_path(parts):
            return f"delta.`{parts[1]}`"
        return join_key(tuple(p.lower() for p in ((self.catalog, self.schema)[: 3 - len(parts)] + tuple(parts))))

    def short(self, key: str) -> str:
        """A key as somebody at home writes it."""
        parts = split_key(key)
        if len(parts) != 3 or parts[0] != self.catalog:
            return key
        return join_key(parts[2:] if parts[1] == self.schema else parts[1:])


def is_path(parts: Sequence[str]) -> bool:
    return len(parts) == 2 and parts[0].lower() == "delta" and ("/" in parts[1] or "\\" in parts[1])


def reads(query: str, home: Home) -> tuple[str, ...]:
    """The keys of the tables that a query reads.

    >>> reads("WITH c AS (SELECT * FROM Orders) SELECT * FROM c JOIN sales.items", Home())
    ('spark_catalog.default.orders', 'spark_catalog.sales.items')
    """
    return tuple(dict.fromkeys(sorted(home.full(parts_of(t)) for t in tables_of(parse_query(query)))))


def normal(query: str, resolve: Callable[[Parts], str]) -> str:
    """A query with full names, without comments, laid out always alike: two texts that differ in nothing else give the same.

    >>> home = Home()
    >>> normal("select a -- first\\n from t", home.full) == normal("SELECT a FROM default.T AS t", home.full)
    True
    """
    tree = parse_query(query).copy()
    for reference in list(tables_of(tree)):
        key = resolve(parts_of(reference))
        alias = reference.alias or reference.name
        names = [exp.to_identifier(p, quoted=True) for p in reversed(split_key(key))]
        for part, name in zip(("this", "db", "catalog"), [*names, None, None], strict=False):
            reference.set(part, name)
        if not reference.args.get("alias"):
            reference.set("alias", exp.TableAlias(this=exp.to_identifier(alias.lower())))
        else:
            reference.args["alias"].set("this", exp.to_identifier(alias.lower()))
    return faithful(tree).sql("spark", comments=False)


def stored_names(definition: Definition) -> Callable[[Parts], str]:
    """What the names in a stored text mean: the sources that the definition names. Raises `KeyError` for any other."""

    def resolve(parts: Parts) -> str:
        wanted = [p if is_path(parts) else p.lower() for p in parts]
        fitting = [key for key in definition.source_keys if split_key(key)[-len(wanted) :] == wanted]
        if len(fitting) != 1:
            raise KeyError(".".join(parts))  # a view, whose query stands in its place
        return fitting[0]

    return resolve


def same_query(query: str, home: Home, definition: Definition) -> bool:
    """Whether a text from a file says what a stored definition says."""
    try:
        return normal(query, home.full) == normal(definition.text, stored_names(definition))
    except KeyError:
        return normal(query, home.full) == normal(definition.text, home.full)


def portable_text(definition: Definition, home: Home) -> str:
    """The text of a definition such that its names mean the same to whoever is at `home`: as it was written, where that is so."""
    try:
        resolve = stored_names(definition)
        text = definition.text
        changes: list[tuple[int, int, str]] = []
        for reference in tables_of(parse_query(text)):
            key = resolve(parts_of(reference))
            if home.full(parts_of(reference)) != key:
                start, end = reference.parts[0].meta["start"], reference.parts[-1].meta["end"] + 1
                changes.append((start, end, home.short(key)))
        for start, end, name in sorted(set(changes), reverse=True):
            text = text[:start] + name + text[end:]
        if normal(text, home.full) == normal(definition.text, resolve):
            return text
    except (KeyError, DefinitionError):  # it reads views, or positions were lost on the way
        pass
    return definition.sql
