"""How hot a stream table is: a factor on its period, and its place in the queue."""

from __future__ import annotations

from enum import StrEnum


class Tier(StrEnum):
    """
    >>> Tier("cold").factor, Tier("frozen").factor, Tier("hot").rank < Tier("cold").rank
    (4, None, True)
    """

    HOT = "hot"
    WARM = "warm"
    COLD = "cold"
    FROZEN = "frozen"

    @property
    def factor(self) -> int | None:
        """How many times its period a table waits; None for one that is not refreshed by itself."""
        return _FACTORS[self]

    @property
    def rank(self) -> int:
        return list(Tier).index(self)


_FACTORS = {Tier.HOT: 1, Tier.WARM: 2, Tier.COLD: 4, Tier.FROZEN: None}
