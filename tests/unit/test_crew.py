"""A crew of threads without Spark: what runs side by side, what waits, and what a failure stops."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from runnel.execute.crew import together
from runnel.execute.workers import Workers

DIAMOND = {"b": (), "c": (), "d": ("b", "c")}


class Engine(SimpleNamespace):
    """As much of an engine as workers need."""

    def worker(self) -> Engine:
        return Engine(**vars(self))


@pytest.fixture
def pool():
    made: list[Workers] = []

    def make(count: int, per_schema: int = 0) -> Engine:
        engine = Engine(settings=SimpleNamespace(workers_per_schema=per_schema), hire=lambda task: False, reader=SimpleNamespace(close=int))
        made.append(Workers(engine, count))
        engine.hire = made[-1].hire
        return engine

    # A worker's engine is copied by dataclasses.replace, which this stand-in is too plain for.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runnel.execute.workers.replace", lambda engine, **fields: Engine(**{**vars(engine), **fields}))
        yield make
    for workers in made:
        workers.close(5.0)


def test_packages_that_threads_would_import_at_once_are_there_before_them() -> None:
    """Two first refreshes in two threads once failed with "module 'numpy' has no attribute 'ndarray'"."""
    code = "import sys, runnel.execute.workers; sys.exit('numpy' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_pieces_that_do_not_wait_run_side_by_side_and_hand_on_their_results(pool) -> None:
    meet = threading.Barrier(2)

    def work(engine, piece, below):
        if piece != "d":
            meet.wait(10)  # breaks, unless both are at work
        return piece + "".join(sorted(below))

    done = together(pool(1), DIAMOND, work)
    assert done.results == {"b": "b", "c": "c", "d": "dbc"} and not done.errors


@pytest.mark.parametrize("workers", [0, 3])
def test_without_a_free_worker_the_caller_does_it_all_in_order(pool, workers: int) -> None:
    order, threads = [], set()

    def work(engine, piece, below):
        order.append(piece)
        threads.add(threading.current_thread())

    engine = pool(workers, per_schema=1)
    together(engine, DIAMOND, work)
    assert order == ["b", "c", "d"] and threads == {threading.current_thread()}


def test_a_worker_that_is_done_goes_on_while_the_caller_is_busy(pool) -> None:
    """b is slow: what waits for c alone must not wait for it."""
    deep = threading.Event()

    def work(engine, piece, below):
        if piece == "b":
            assert deep.wait(10), "e did not run beside b"
        elif piece == "e":
            deep.set()
        return piece

    done = together(pool(1), {"b": (), "c": (), "d": ("c",), "e": ("d",)}, work)
    assert set(done.results) == {"b", "c", "d", "e"} and not done.errors


def test_a_failure_begins_nothing_more_and_waits_for_what_was_begun(pool) -> None:
    failed, ended = threading.Event(), []

    def work(engine, piece, below):
        if piece == "b":
            assert failed.wait(10)
            ended.append(piece)
        elif piece == "c":
            failed.set()
            raise ValueError("c")
        return piece

    done = together(pool(1), {**DIAMOND, "e": ("b",)}, work)
    assert ended == ["b"] and str(done.errors["c"]) == "c" and set(done.results) <= {"b", "e"}, "b was begun, so it ends"
    assert "d" not in done.results and "d" not in done.errors


def test_without_stop_only_readers_of_a_failed_piece_are_left_out(pool) -> None:
    def work(engine, piece, below):
        if piece == "c":
            raise ValueError(piece)
        return piece

    done = together(pool(0), {**DIAMOND, "e": ("b",)}, work, stop=False)
    assert set(done.results) == {"b", "e"} and set(done.errors) == {"c"}


def test_crews_that_share_workers_do_not_block_each_other(pool) -> None:
    engine, wide = pool(2), dict.fromkeys(range(6), ())

    def outer(mine, piece, below):
        return len(together(mine, wide, lambda e, p, b: p).results)

    assert set(together(engine, wide, outer).results.values()) == {6}
