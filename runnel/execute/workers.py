"""Persistent worker threads, each with an engine of its own: a reading session takes a while to make, and keeps its caches warm."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from runnel.execute.engine import Engine

Task = Callable[[Engine], None]


class Workers:
    """Threads that die with the process: what they leave half done was not committed."""

    def __init__(self, engine: Engine, count: int) -> None:
        self._engine = engine
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._work, name=f"runnel-worker-{n}", daemon=True) for n in range(1, count + 1)]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Task) -> None:
        """Run a task on the next free worker. A task handles its own errors."""
        self._tasks.put(task)

    def close(self, wait: float | None = None) -> None:
        """Let workers end after what they are at."""
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join(wait)

    def _work(self) -> None:
        engine: Engine | None = None
        while (task := self._tasks.get()) is not None:
            engine = engine or self._engine.worker()
            task(engine)
