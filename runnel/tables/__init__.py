"""WHERE STREAM TABLES LIVE: the backing table, its commits, its content and the view that users read.

Comes in: a definition, rows to append. Goes out: Delta commits that carry the frontier, and SQL that reads them.
"""

from runnel.tables.backing import BackingTable, CommitNote
from runnel.tables.content import LogFacts, content_sql, finished_sql

__all__ = ["BackingTable", "CommitNote", "LogFacts", "content_sql", "finished_sql"]
