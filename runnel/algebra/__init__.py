"""THE WORDS: one operator per file, each with its node, its SQL, its law of change and its row of the support table.

Comes in: nothing, this is the vocabulary. Goes out: `Node` trees that `bind` builds, `canonicalize` simplifies and
`differentiate` turns into SQL. No pyspark here.
"""

from runnel.algebra.aggregate import Aggregate, Call
from runnel.algebra.distinct import Distinct
from runnel.algebra.facts import Facts
from runnel.algebra.filter import Filter
from runnel.algebra.join import Join
from runnel.algebra.node import WEIGHT, Column, Face, Node
from runnel.algebra.project import Project
from runnel.algebra.scan import Scan
from runnel.algebra.steps import Steps
from runnel.algebra.union_all import UnionAll

OPERATORS: tuple[type[Node], ...] = (Scan, Filter, Project, UnionAll, Join, Aggregate, Distinct)

__all__ = [
    "OPERATORS",
    "WEIGHT",
    "Aggregate",
    "Call",
    "Column",
    "Distinct",
    "Face",
    "Facts",
    "Filter",
    "Join",
    "Node",
    "Project",
    "Scan",
    "Steps",
    "UnionAll",
]
