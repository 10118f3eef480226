"""TEXT -> ALGEBRA: parse with sqlglot's Spark dialect, resolve every name, build the operator tree.

Comes in: the query's text, a `Lookup` that knows tables and types. Goes out: a `Bound` query. No pyspark here.
"""

from runnel.bind.bind import Bound, bind
from runnel.bind.lookup import Lookup, Relation
from runnel.bind.parse import parse_query, tables_of

__all__ = ["Bound", "Lookup", "Relation", "bind", "parse_query", "tables_of"]
