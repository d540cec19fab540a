"""Threads that help to read many small files, shared by all who read in this process.

Every caller works too, and waits for no helper that has not begun. So a call ends however busy the
helpers are, and however many workers there are, only HELPERS threads come on top of them.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
HELPERS = 16
# One caller is helped by no more than this many: others read at the same time.
_HELPERS_OF_ONE = 4
_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def read_each(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """`work` for each item, in order, several at a time. Raises what `work` raises.

    Handing over costs more than a small file, so items go in portions.
    """
    size = 1 + len(items) // 32
    portions = [items[at : at + size] for at in range(0, len(items), size)]
    waiting = deque(enumerate(portions))
    done: list[list[R]] = [[] for _ in portions]

    def take_part() -> None:
        try:
            while (portion := _next(waiting)) is not None:
                done[portion[0]] = [work(item) for item in portion[1]]
        finally:
            # After a failure the rest is for nothing.
            waiting.clear()

    _with_help(take_part, min(_HELPERS_OF_ONE, len(portions) - 1))
    return [result for results in done for result in results]


def _next(waiting: deque[T]) -> T | None:
    # Asking first whether there is one would be too early: others take from the same.
    try:
        return waiting.popleft()
    except IndexError:
        return None


def _with_help(take_part: Callable[[], None], helpers: int) -> None:
    futures = [_shared_pool().submit(take_part) for _ in range(helpers)]
    try:
        take_part()
    finally:
        begun = [future for future in futures if not future.cancel()]
        failures = [future.exception() for future in begun]
    for failure in failures:
        if failure is not None:
            raise failure


def _shared_pool() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(HELPERS, "tfrec-reader")
        return _pool


def _forget_pool() -> None:
    """A forked process has none of its parent's threads, and perhaps a lock that nobody holds."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
