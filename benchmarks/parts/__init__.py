"""What is measured, one module a part, or two where only the changes differ. A part imports the shared modules and no other part."""

from __future__ import annotations

from benchmarks.part import Part
from benchmarks.parts import growth, matrix, medallion, operators, plans, reads, shared, stages, ticks, tpch, wake

_EVERY = (
    matrix.PART,
    tpch.PART,
    tpch.EVERY,
    medallion.PART,
    growth.PART,
    stages.PART,
    operators.PART,
    reads.PART,
    plans.PART,
    ticks.PART,
    shared.PART,
    wake.PART,
)
PARTS: dict[str, Part] = {part.name: part for part in _EVERY}
