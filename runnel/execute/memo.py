"""What several threads need and only one should make: a cache that makes each value once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Values by what they were made from. A second thread that asks for a value in the making waits for it; other keys do not wait.

    `trim` is called with the values, oldest first, after one was added, and may remove any but the last.

    >>> memo = Memo()
    >>> memo.get("a", lambda: 1), memo.get("a", lambda: 2)
    (1, 1)
    """

    def __init__(self, trim: Callable[[dict[K, V]], None] | None = None) -> None:
        self._values: dict[K, V] = {}
        self._making: dict[K, threading.Lock] = {}
        self._lock = threading.Lock()
        self._trim = trim

    def get(self, key: K, make: Callable[[], V]) -> V:
        with self._lock:
            if key in self._values:
                return self._values[key]
            mine = self._making.setdefault(key, threading.Lock())
        with mine:
            with self._lock:
                if key in self._values:
                    return self._values[key]
            value = make()  # an error is the caller's, and the next one tries again
            with self._lock:
                self._values[key] = value
                self._making.pop(key, None)
                if self._trim is not None:
                    self._trim(self._values)
            return value

    def items(self) -> list[tuple[K, V]]:
        with self._lock:
            return list(self._values.items())

    def forget(self, gone: Callable[[K], bool] = lambda _: True) -> None:
        """Drop the values whose keys are meant, by default all."""
        with self._lock:
            for key in [k for k in self._values if gone(k)]:
                del self._values[key]
