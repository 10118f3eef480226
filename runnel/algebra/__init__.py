"""THE WORDS: one operator per file, each with its node, its SQL, its law of change and its row of the support table.

Comes in: nothing, this is the vocabulary. Goes out: `Node` trees that `bind` builds, `canonicalize` simplifies and
`differentiate` turns into SQL. No pyspark here.
"""

from runnel.algebra.aggregate import Aggregate, Call
from runnel.algebra.constant import Constant
from runnel.algebra.distinct import Distinct
from runnel.algebra.domain import Domain
from runnel.algebra.except_ import Except
from runnel.algebra.facts import Facts
from runnel.algebra.filter import Filter
from runnel.algebra.generate import Generate
from runnel.algebra.intersect import Intersect
from runnel.algebra.join import Join
from runnel.algebra.limit import Limit
from runnel.algebra.mark import Mark
from runnel.algebra.node import WEIGHT, Column, Face, Node
from runnel.algebra.outer_join import OuterJoin
from runnel.algebra.project import Project
from runnel.algebra.recursive import Itself, Recursive
from runnel.algebra.scan import Scan
from runnel.algebra.semi_join import SemiJoin
from runnel.algebra.steps import STORED, Steps
from runnel.algebra.union_all import UnionAll
from runnel.algebra.window import Window

OPERATORS: tuple[type[Node], ...] = (
    Scan,
    Constant,
    Filter,
    Project,
    Generate,
    UnionAll,
    Join,
    OuterJoin,
    SemiJoin,
    Mark,
    Domain,
    Aggregate,
    Distinct,
    Intersect,
    Except,
    Window,
    Limit,
    Recursive,
)

__all__ = [
    "OPERATORS",
    "STORED",
    "WEIGHT",
    "Aggregate",
    "Call",
    "Column",
    "Constant",
    "Distinct",
    "Domain",
    "Except",
    "Face",
    "Facts",
    "Filter",
    "Generate",
    "Intersect",
    "Itself",
    "Join",
    "Limit",
    "Mark",
    "Node",
    "OuterJoin",
    "Project",
    "Recursive",
    "Scan",
    "SemiJoin",
    "Steps",
    "UnionAll",
    "Window",
]
