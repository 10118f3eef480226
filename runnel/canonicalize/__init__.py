"""ALGEBRA -> FEWER SHAPES: small pure functions from tree to tree, applied in the order of `RULES`.

Comes in: the bound tree. Goes out: a tree with the same columns and the same meaning. No pyspark here.
"""

from runnel.canonicalize.rules import RULES, canonicalize

__all__ = ["RULES", "canonicalize"]
