"""What a part of the benchmark is: a name, two sizes, a measurement, figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.results import Measured


@dataclass(frozen=True)
class Options:
    """How much is measured. Sizes are rows of the source, or a scale; content is verified up to `verify_up_to` of them."""

    sizes: tuple[float, ...]
    rates: tuple[float, ...] = (0.01,)
    queries: tuple[str, ...] = ()
    rounds: int = 3
    verify_up_to: float = 1_000_000
    refreshes: int = 0
    """The longest series of refreshes on one table, where a part measures that."""
    ways: tuple[str, ...] = ()
    """The ways to compare, all of a part's when none are named."""

    def of(self, ways: Sequence[str]) -> tuple[str, ...]:
        """Those of some ways that are asked for."""
        return tuple(w for w in ways if not self.ways or w in self.ways)


@dataclass(frozen=True)
class Part:
    """`measure` gives results one by one; `figures` gives SVG texts by the end of their file names, from results and a note."""

    name: str
    title: str
    quick: Options
    full: Options
    measure: Callable[[Bench, Options], Iterator[Measured]]
    figures: Callable[[list[Measured], str], dict[str, str]]
    against: str = "overwrite"
    shown: Callable[[list[Measured]], list[Measured]] = lambda found: found
    """What the table has lines for, when there are too many results to read."""
