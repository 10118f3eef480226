"""WHERE CHANGES COME FROM: a source's version, what happened to it between two versions, and its three faces.

Comes in: a source and two versions. Goes out: `SourceFacts` (from the log alone, no Spark job) and DataFrames.
"""

from runnel.sources.delta_log import Commit, DeltaLog
from runnel.sources.facts import Kind, SourceFacts
from runnel.sources.source import Source

__all__ = ["Commit", "DeltaLog", "Kind", "Source", "SourceFacts"]
