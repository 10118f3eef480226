"""How many rows a face can have at most, which decides whether one task computes a plan."""

from __future__ import annotations

from typing import Any

import pytest

from runnel.algebra import Face
from runnel.algebra.want import Want
from runnel.execute.provide import Provider
from runnel.sources.facts import Kind, SourceFacts


class Table:
    """A source of ten rows at version 2, its latest."""

    def rows(self, version: int | None = None) -> int | None:
        return 10 if version in (None, 2) else None


@pytest.mark.parametrize(
    ("face", "before", "after", "changed", "most"),
    [
        (Face.AFTER, 1, 2, 5, 10),
        (Face.BEFORE, 1, 2, 5, 15),
        (Face.BEFORE, 1, 2, None, None),
        (Face.BEFORE, 2, 2, 0, 10),
        (Face.AFTER, 0, 1, 5, None),
    ],
    ids=["after", "before, all that changed may have been there", "a change that nobody counted", "unchanged", "not the latest version"],
)
def test_the_most_rows_of_a_face(face: Face, before: int, after: int, changed: int | None, most: int | None) -> None:
    facts = SourceFacts("t", Kind.MIXED if before < after else Kind.UNCHANGED, before, after, "id", rows=changed)
    nothing: Any = None
    sources: Any = {"t": Table()}
    provider = Provider(nothing, nothing, 0, nothing, None, sources, {"t": facts}, {}, None, {})
    assert provider._most(Want("t", face)) == most
