"""A value is made once, however many threads ask for it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from runnel.execute.memo import Memo


def test_threads_share_one_making() -> None:
    memo: Memo[str, int] = Memo()
    made, inside, go = [], threading.Event(), threading.Event()

    def make() -> int:
        made.append(1)
        inside.set()
        assert go.wait(10)
        return 7

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(memo.get, "a", make) for _ in range(3)]
        assert inside.wait(10)
        assert memo.get("b", lambda: 8) == 8, "another key does not wait"
        go.set()
        assert [w.result(10) for w in waiting] == [7, 7, 7]
    assert len(made) == 1


def test_an_error_is_not_kept() -> None:
    memo: Memo[str, int] = Memo()
    with pytest.raises(ZeroDivisionError):
        memo.get("a", lambda: 1 // 0)
    assert memo.get("a", lambda: 2) == 2


def test_trimming_and_forgetting() -> None:
    memo: Memo[int, int] = Memo(lambda values: values.pop(next(iter(values))) if len(values) > 2 else None)
    for i in range(4):
        memo.get(i, lambda i=i: i)
    assert memo.items() == [(2, 2), (3, 3)]
    memo.forget(lambda key: key == 2)
    assert memo.items() == [(3, 3)]
