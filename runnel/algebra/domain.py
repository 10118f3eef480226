"""change(domain(Q)) = change(distinct(Q))

The values for which a correlated subquery is asked. Whoever reads the subquery looks its rows up by these columns, so a
larger domain changes nothing: `decorrelate` replaces it by the subquery's own columns where they are equated with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from runnel.algebra.distinct import Distinct


@dataclass(frozen=True)
class Domain(Distinct):
    """The distinct values of the outer columns that a correlated subquery reads."""

    title = "Domain"
    law_text = "as Distinct"
    supports = "correlated subqueries that compare with more than equality, or use outer columns anywhere"
    cost = "as Distinct; none where the correlation is an equality"

    @property
    def slug(self) -> str:
        return "domain"
