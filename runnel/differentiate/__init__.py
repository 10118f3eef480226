"""ALGEBRA -> CHANGE PLAN: what is kept in the backing table, and the one SQL statement that computes what to append.

Comes in: a canonical tree and the `Facts` of a refresh. Goes out: a `Layout` (once) and a `ChangePlan` (per set of
facts). No pyspark here; the SQL runs on Spark and, transpiled, on DuckDB.
"""

from runnel.differentiate.arbitrary import arbitrary_columns
from runnel.differentiate.layout import Layout
from runnel.differentiate.plan import ChangePlan, InputFace, Part, Root, differentiate, recompute, root_of, rows_layout

__all__ = ["ChangePlan", "InputFace", "Layout", "Part", "Root", "arbitrary_columns", "differentiate", "recompute", "root_of", "rows_layout"]
