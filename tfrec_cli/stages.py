"""Where the time of a run goes: the functions that do its work note what they took.

Nothing is noted, at the cost of one look at a variable for each call, unless a `Recording` is
running. One runs at a time in a process.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")
Item = TypeVar("Item")

STAGES = ("survey", "read", "cast", "encode", "order", "compress", "write")
"""What a run does, in this order; `order` is there where records are shuffled or sorted."""


@dataclass(frozen=True, slots=True)
class Span:
    """One piece of work. thread: a name. start, stop: seconds on the clock of `Recording.began`.

    wall, cpu: seconds of it, and of the thread's processor time, without spans inside it.
    size: bytes handled.
    """

    stage: str
    thread: str
    start: float
    stop: float
    wall: float
    cpu: float
    size: int


@dataclass(slots=True)
class Recording:
    """Notes spans while it is entered. began: of `time.perf_counter`; began_at: of `time.time`."""

    spans: list[Span] = field(default_factory=list)
    began: float = 0.0
    began_at: float = 0.0

    def __enter__(self) -> Recording:
        global _recording
        self.began, self.began_at = time.perf_counter(), time.time()
        _recording = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _recording
        _recording = None


_recording: Recording | None = None
_inner = threading.local()


def timed(
    stage: str, size: Callable[[Any], int]
) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """A decorator: calls of the function are work of `stage`. size: bytes, from its result."""

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        @functools.wraps(function)
        def noted(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            if _recording is None:
                return function(*args, **kwargs)
            with _Open(_recording, stage) as span:
                result = function(*args, **kwargs)
                span.size = size(result)
            return result

        return noted

    return decorate


def timed_items(stage: str, items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[Item]:
    """`items`, the making of each being work of `stage`."""
    iterator = iter(items)
    while True:
        recording = _recording
        if recording is None:
            yield from iterator
            return
        with _Open(recording, stage) as span:
            try:
                item = next(iterator)
            except StopIteration:
                return
            span.size = size(item)
        yield item


class _Open:
    """A span that has begun. What other spans inside it take is theirs."""

    __slots__ = ("_cpu", "_inside", "_outer", "_recording", "_stage", "_start", "size")

    def __init__(self, recording: Recording, stage: str) -> None:
        self._recording, self._stage = recording, stage
        self._inside = (0.0, 0.0)
        self.size = 0

    def __enter__(self) -> _Open:
        self._outer: _Open | None = getattr(_inner, "span", None)
        _inner.span = self
        self._cpu = _cpu_clock(self._stage)
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        stop = time.perf_counter()
        wall, cpu = stop - self._start, _cpu_clock(self._stage) - self._cpu
        _inner.span = self._outer
        if self._outer is not None:
            self._outer.include(wall, cpu)
        self._recording.spans.append(
            Span(
                self._stage,
                threading.current_thread().name,
                self._start,
                stop,
                wall - self._inside[0],
                max(0.0, cpu - self._inside[1]),
                self.size,
            )
        )

    def include(self, wall: float, cpu: float) -> None:
        """Take what an inner span took off this one."""
        self._inside = (self._inside[0] + wall, self._inside[1] + cpu)


def _cpu_clock(stage: str) -> float:
    # A survey has threads of its own, and nothing else runs beside it.
    return time.process_time() if stage == "survey" else time.thread_time()
