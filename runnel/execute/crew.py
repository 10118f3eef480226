"""A crew: pieces of work of which some wait for others, done by the caller's thread and by workers that have nothing else to do.

The caller works itself and never waits for a worker to become free, so crews that share workers cannot block each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from runnel.execute.engine import Engine

T = TypeVar("T", bound=Hashable)
R = TypeVar("R")


@dataclass
class Done(Generic[T, R]):
    """What came of the pieces; those that waited for a failed one are in neither."""

    results: dict[T, R] = field(default_factory=dict)
    errors: dict[T, BaseException] = field(default_factory=dict)


def together(engine: Engine, waits_for: Mapping[T, Collection[T]], work: Callable[[Engine, T, list[R]], R], stop: bool = True) -> Done[T, R]:
    """Do each piece after those it waits for, with their results; with `stop`, begin nothing after a failure.

    All that was begun has ended on return, also after Ctrl-C, which counts as a failure of the piece it hits.
    """
    crew = _Crew(waits_for, work, stop)
    crew.join(engine, stays=True)
    return crew.done


class _Crew(Generic[T, R]):
    def __init__(self, waits_for: Mapping[T, Collection[T]], work: Callable[[Engine, T, list[R]], R], stop: bool) -> None:
        self._waits_for, self._work, self._stop = waits_for, work, stop
        self._open = list(waits_for)
        self._at_work = 0
        self._changed = threading.Condition()
        self.done: Done[T, R] = Done()

    def join(self, engine: Engine, stays: bool = False) -> None:
        """Work as long as something is ready. Who stays also waits for what others are at."""
        while (piece := self._take(engine, stays)) is not None:
            try:
                result = self._work(engine, piece, [self.done.results[p] for p in self._waits_for[piece]])
            except BaseException as error:
                self._end(error, piece)
            else:
                with self._changed:
                    self.done.results[piece] = result
                    self._leave()

    def _take(self, engine: Engine, stays: bool) -> T | None:
        with self._changed:
            while True:
                ready = [p for p in self._open if self.done.results.keys() >= set(self._waits_for[p])]
                if ready:
                    if len(ready) > 1:
                        engine.hire(self.join)  # who hires the next one in turn
                    self._open.remove(ready[0])
                    self._at_work += 1
                    return ready[0]
                if not stays or not self._at_work:
                    return None
                self._changed.wait()

    def _end(self, error: BaseException, piece: T) -> None:
        with self._changed:
            self.done.errors[piece] = error
            if self._stop or not isinstance(error, Exception):
                self._open.clear()
            self._leave()

    def _leave(self) -> None:
        self._at_work -= 1
        self._changed.notify_all()
