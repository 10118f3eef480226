"""The user's query, run from scratch with every source pinned to a version and the clock to a moment."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from sqlglot import exp

from runnel.bind.clock import fixed
from runnel.bind.expand import join_key
from runnel.bind.faithful import faithful
from runnel.bind.parse import parse_query, parts_of, tables_of
from runnel.definition import Definition
from runnel.sources.reader import Reader
from runnel.sources.source import Source


def pinned_query(reader: Reader, definition: Definition, sources: Mapping[str, Source], versions: Mapping[str, int], clock: str | None) -> DataFrame:
    """The result of the definition's query at exactly these versions."""
    tree = parse_query(definition.sql)
    names: dict[str, str] = {}
    with reader.lock:
        for reference in list(tables_of(tree)):
            key = join_key(parts_of(reference))
            key = key if key in sources else join_key([p.lower() for p in parts_of(reference)])
            if key not in names:
                names[key] = reader.register(sources[key].at(reader, versions[key]))
            reference.set("this", exp.to_identifier(names[key], quoted=True))
            reference.set("db", None)
            reference.set("catalog", None)
        if clock is not None:
            tree = fixed(tree, clock)
        return reader.session.sql(faithful(tree).sql("spark"))
