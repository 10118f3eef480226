"""Calls that are made later unless they are taken back, all from one thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest

from runnel.state.alarms import Alarms


def waited(until: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5
    while not until() and time.monotonic() < deadline:
        time.sleep(0.005)
    return until()


def test_calls_are_made_in_their_order_and_not_before_their_time() -> None:
    alarms, made, started = Alarms(), [], time.monotonic()
    for seconds in (0.3, 0.1, 0.2):  # the second wakes a thread that waits for the first
        alarms.put(seconds, lambda seconds=seconds: made.append((seconds, time.monotonic() - started)))
    assert waited(lambda: len(made) == 3)
    assert [seconds for seconds, _ in made] == [0.1, 0.2, 0.3]
    assert all(after >= seconds for seconds, after in made)


def test_what_is_taken_back_is_not_called() -> None:
    alarms, made = Alarms(), []
    gone = alarms.put(0.05, lambda: made.append("gone"))
    alarms.put(0.1, lambda: made.append("kept"))
    alarms.take_back(gone)
    alarms.take_back(gone)
    assert waited(lambda: bool(made))
    assert made == ["kept"]


def test_one_thread_waits_for_all_and_ends_when_nothing_is_left() -> None:
    alarms, made, before = Alarms(), [], threading.active_count()
    for _ in range(10):
        alarms.put(0.05, lambda: made.append(1))
    assert threading.active_count() <= before + 1
    assert waited(lambda: len(made) == 10 and alarms._thread is None)
    alarms.put(0.01, lambda: made.append(2))
    assert waited(lambda: made[-1] == 2)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_is_gone_is_replaced() -> None:
    def fail() -> None:
        raise SystemExit  # which ends a thread without a word

    alarms, made = Alarms(), []
    alarms.put(0.01, fail)
    assert waited(lambda: alarms._thread is not None and not alarms._thread.is_alive())
    alarms.put(0.01, lambda: made.append(1))
    assert waited(lambda: made == [1])


def test_a_call_that_fails_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("no thread can be started")

    alarms, made = Alarms(), []
    alarms.put(0.01, fail)
    alarms.put(0.02, lambda: made.append(1))
    assert waited(lambda: made == [1])
    assert "no thread can be started" in caplog.text


def test_a_forked_process_makes_no_calls_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    alarms, made = Alarms(), []
    number = alarms.put(0.05, lambda: made.append("parent"))
    parents, process = alarms._moved, os.getpid()
    with parents:  # as if a thread of the parent had held it when it was forked
        monkeypatch.setattr(os, "getpid", lambda: process + 1)
        alarms.take_back(number)
        alarms.put(0.01, lambda: made.append("child"))
        assert alarms._moved is not parents
        assert waited(lambda: made == ["child"])
        assert waited(lambda: alarms._thread is None)
