"""The threads engine: ordered, bounded parallel work in one process.

Reading, casting, encoding and compressing release the GIL, so threads use all cores. Results come
in the order of the items, whatever finishes first, and an error surfaces where its item stands in
that order: the first error in source order is the same for any number of jobs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import Full, Queue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from tfrec_cli.engines.base import Check

Item = TypeVar("Item")
Part = TypeVar("Part")
Result = TypeVar("Result")

# Parts that may wait, encoded or not, for each item being read.
QUEUED_PARTS = 3
_END = object()


class Threads:
    """Runs tasks on `jobs` threads of this process (see `tfrec_cli.engines.base.Engine`)."""

    def __init__(self, jobs: int) -> None:
        self.remote = False
        self.notices: list[str] = []
        self._jobs = jobs

    def map(
        self,
        function: Callable[[Item], Result],
        tasks: Iterable[Item],
        wanted: str | None = None,  # noqa: ARG002 (tasks here end with the run)
    ) -> Iterator[Result]:
        """As `Engine.map`, at most `2 * jobs` results ahead."""
        return ordered_map(function, tasks, self._jobs)

    def require(self, check: Check) -> None:
        """Nothing: what the run sees, its threads see."""

    def threads(self) -> tuple[int, int]:
        """As `Engine.threads`."""
        return self._jobs, self._jobs


def ordered_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    jobs: int,
    stop: threading.Event | None = None,
) -> Iterator[Result]:
    """`map(function, items)` on `jobs` threads, at most `2 * jobs` results ahead.

    stop: set when nobody waits for results any more, for functions that look at it.
    """
    if jobs == 1:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    with _pool(jobs, stop) as pool:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= 2 * jobs:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def ordered_flat_map(
    expand: Callable[[Item], Iterable[Part]],
    function: Callable[[Part], Result],
    items: Iterable[Item],
    jobs: int,
    readers: int | None = None,
) -> Iterator[Result]:
    """`function(part)` for each part of each item, in order.

    Items are expanded by up to `readers` (None: `jobs`) readers, parts handled by `jobs` workers,
    so that one large item keeps all cores busy as many small ones do. A few parts an item wait at
    the most.
    """
    if jobs == 1:
        yield from (function(part) for item in items for part in expand(item))
        return
    stop = threading.Event()
    open_items: deque[Queue[Any]] = deque()
    # Readers are stopped first: they hand work to the workers.
    most = readers or jobs
    with _pool(jobs) as workers, _pool(most, stop) as pool:
        feed = _Feed(expand, function, workers, stop)
        for item in items:
            open_items.append(_start(pool, feed, item))
            if len(open_items) > most:
                yield from _drain(open_items.popleft())
        while open_items:
            yield from _drain(open_items.popleft())


class _Feed:
    """Reads one item after another and hands its parts to the workers."""

    def __init__(
        self,
        expand: Callable[[Any], Iterable[Any]],
        function: Callable[[Any], Any],
        workers: ThreadPoolExecutor,
        stop: threading.Event,
    ) -> None:
        self._expand, self._function = expand, function
        self._workers, self._stop = workers, stop

    def __call__(self, item: Any, channel: Queue[Any]) -> None:
        try:
            for part in self._expand(item):
                if not self._put(channel, self._workers.submit(self._function, part)):
                    return
            self._put(channel, _END)
        except BaseException as error:
            self._put(channel, error)

    def _put(self, channel: Queue[Any], entry: Any) -> bool:
        while not self._stop.is_set():
            try:
                channel.put(entry, timeout=0.1)
                return True
            except Full:
                continue
        return False


def _start(readers: ThreadPoolExecutor, feed: _Feed, item: Any) -> Queue[Any]:
    channel: Queue[Any] = Queue(maxsize=QUEUED_PARTS)
    readers.submit(feed, item, channel)
    return channel


def _drain(channel: Queue[Any]) -> Iterator[Any]:
    while True:
        entry = channel.get()
        if entry is _END:
            return
        if isinstance(entry, BaseException):
            raise entry
        yield entry.result()


@contextmanager
def _pool(jobs: int, stop: threading.Event | None = None) -> Iterator[ThreadPoolExecutor]:
    """A pool that, on any way out, drops what has not begun and waits for what has."""
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="tfrec")
    try:
        yield pool
    finally:
        if stop is not None:
            stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
