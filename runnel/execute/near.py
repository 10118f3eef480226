"""What changes at hand say about the rows of other tables that matter, and so about the files to read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from runnel.algebra import Face
from runnel.algebra.want import Origin, Side, Want
from runnel.differentiate import InputFace
from runnel.sources.bounds import Bound, Values
from runnel.sources.facts import SourceFacts
from runnel.sources.held import Held
from runnel.sources.source import Source


def bounds_of(want: Want, held: Mapping[str, Held]) -> list[Bound]:
    """Which rows of a face matter, as far as the changes that it depends on are at hand."""
    found = []
    for within in want.within:
        values = values_among(within.among, held)
        if values is not None and not (within.side is Side.SINCE and values.null):
            found.append(Bound.of(within.column, values, within.side))
    return found


def values_among(origins: Collection[Origin], held: Mapping[str, Held]) -> Values | None:
    """The values that columns have in changes; None when one of them is not at hand or cannot be compared."""
    parts = [held[source].values(column) if source in held else None for source, column in origins]
    known = [p for p in parts if p is not None]
    return Values.all(known) if known and len(known) == len(parts) else None


def version_of(facts: SourceFacts, face: Face) -> int:
    """The version at which a source has a face."""
    version = facts.after if face is Face.AFTER else facts.before
    assert version is not None, "a first load reads no face before"
    return version


def shares(
    inputs: Sequence[InputFace], sources: Mapping[str, Source], facts: Mapping[str, SourceFacts], held: Mapping[str, Held]
) -> dict[str, float]:
    """Of inputs by name, the share of their table's bytes in files that can hold rows that matter."""
    found = {}
    for needed in inputs:
        bounds = bounds_of(needed.want, held) if needed.source in sources else []
        if bounds:
            found[needed.name] = sources[needed.source].near(version_of(facts[needed.source], needed.face), bounds)
    return found


def touched(
    inputs: Sequence[InputFace], sources: Mapping[str, Source], facts: Mapping[str, SourceFacts], held: Mapping[str, Held]
) -> dict[str, float]:
    """Of inputs by name, the share of their table's rows that have values of a change, where that can be told."""
    found = {}
    for needed in inputs:
        if needed.source not in sources or needed.face is Face.CHANGE:
            continue
        equal = [b for b in bounds_of(needed.want, held) if b.side is Side.EQUAL]
        version = version_of(facts[needed.source], needed.face) if equal else 0
        known = [s for b in equal if (s := sources[needed.source].share(version, b, look=True)) is not None]
        if known:
            found[needed.name] = min(known)
    return found
