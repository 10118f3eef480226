"""What is measured, one module a part. A part imports the shared modules and no other part."""

from __future__ import annotations

from benchmarks.part import Part
from benchmarks.parts import growth, matrix, medallion, operators, plans, reads, shared, stages, ticks, tpch, wake

PARTS: dict[str, Part] = {p.PART.name: p.PART for p in (matrix, tpch, medallion, growth, stages, operators, reads, plans, ticks, shared, wake)}
