"""Persistent worker threads, each with an engine of its own: a reading session takes a while to make, and keeps its caches warm."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from runnel.execute.engine import Engine

# PySpark imports these when it first needs them. Threads that do so at the same time can see half of a package.
for package in ("numpy", "pandas"):
    with suppress(ImportError):
        __import__(package)

Task = Callable[[Engine], None]


class Workers:
    """Threads that die with the process: what they leave half done was not committed. One starts when those there are have work."""

    def __init__(self, engine: Engine, count: int) -> None:
        self._engine = engine
        self._count = count
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._unfinished = 0
        self._lock = threading.Lock()

    def submit(self, task: Task) -> None:
        """Run a task on the next free worker. A task handles its own errors."""
        with self._lock:
            self._add(task)

    def hire(self, task: Task) -> bool:
        """Run a task if a worker is free for it now; whether one is. None is while schemas have quotas, which count units, not their members."""
        with self._lock:
            if self._unfinished >= self._count or self._engine.settings.workers_per_schema:
                return False
            self._add(task)
            return True

    def close(self, wait: float | None = None) -> None:
        """Let workers end after what they are at."""
        with self._lock:
            self._count = 0
            threads = list(self._threads)
        for _ in threads:
            self._tasks.put(None)
        for thread in threads:
            thread.join(wait)

    def _add(self, task: Task) -> None:
        self._unfinished += 1
        if len(self._threads) < min(self._unfinished, self._count):
            thread = threading.Thread(target=self._work, name=f"runnel-worker-{len(self._threads) + 1}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._tasks.put(task)

    def _work(self) -> None:
        engine: Engine | None = None
        while (task := self._tasks.get()) is not None:
            try:
                engine = engine or replace(self._engine.worker(), hire=self.hire)
                task(engine)
            finally:
                with self._lock:
                    self._unfinished -= 1
        if engine is not None:
            engine.reader.close()
