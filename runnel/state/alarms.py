"""Calls that are to be made later, and mostly are taken back before: one thread waits for all of them.

A thread for each would cost more than most of what it watches over.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from itertools import count

log = logging.getLogger("runnel")


class Alarms:
    """The thread starts with the first call, and ends when it wakes up and none is left. What is called must return at once."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._moved = threading.Condition()
        self._due: dict[int, tuple[float, Callable[[], None]]] = {}
        self._numbers = count()
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def put(self, seconds: float, call: Callable[[], None]) -> int:
        """Call this after so many seconds, unless the number that is returned is taken back."""
        if self._process != os.getpid():
            self._begin()  # forked: what is due is due to the parent, and so are its thread and whoever held the lock
        with self._moved:
            number, at = next(self._numbers), time.monotonic() + seconds
            self._due[number] = (at, call)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._wait, name="runnel-alarms", daemon=True)
                self._thread.start()
            elif at < self._wakes_at:
                self._moved.notify()
        return number

    def take_back(self, number: int) -> None:
        """After this the call is not made; one that is being made ends first."""
        if self._process == os.getpid():
            with self._moved:
                self._due.pop(number, None)

    def _wait(self) -> None:
        with self._moved:
            while self._due:
                self._wakes_at = min(at for at, _ in self._due.values())
                self._moved.wait(max(0.0, self._wakes_at - time.monotonic()))
                now = time.monotonic()
                for number in [n for n, (at, _) in self._due.items() if at <= now]:
                    self._call(self._due.pop(number)[1])
            self._thread = None

    def _call(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:  # others are waited for still
            log.exception("a call that was due failed")
