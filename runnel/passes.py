"""What a pass did: one line of `explain --trace`, whichever step it belongs to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pass:
    """A rule or rewrite by its name, whether it changed anything, and the tree or text after it."""

    rule: str
    changed: bool
    tree: str

    def __str__(self) -> str:
        return f"-- {self.rule}: {'changed' if self.changed else 'no change'}\n{self.tree if self.changed else ''}".rstrip()
