"""change(L except R) = after - before of the rows that a change of either side touches

NULL equals NULL, as set operations have it. With ALL a row appears as often as L has it more often than R.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from runnel.algebra.intersect import Intersect


@dataclass(frozen=True)
class Except(Intersect):
    """The rows of the left side that the right side does not have; both have the same columns."""

    title = "Except"
    supports = "EXCEPT, MINUS and EXCEPT ALL, nested anywhere"
    operation = exp.Except
