"""Where the time of a run goes: the functions that do its work note what they took.

Nothing is noted, at the cost of a look at two variables for each call, unless a `Recording` is
running. One runs at a time in a process, or one for a thread alone.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
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
    """Notes spans while it is entered. began: of `time.perf_counter`; began_at: of `time.time`.

    elsewhere: threads of other processes whose work is included, 0 where there is none; cpu: their
    seconds of processor time.
    """

    spans: list[Span] = field(default_factory=list)
    began: float = 0.0
    began_at: float = 0.0
    elsewhere: int = 0
    cpu: float = 0.0

    def __enter__(self) -> Recording:
        global _recording
        self.begin()
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

    def begin(self) -> None:
        """Start its clocks."""
        self.began, self.began_at = time.perf_counter(), time.time()


_recording: Recording | None = None
_inner = threading.local()
# How many threads record their own work alone.
_alone = 0
_alone_lock = threading.Lock()


def recording() -> Recording | None:
    """What takes the spans of this thread now."""
    if _recording is None and _alone:
        found: Recording | None = getattr(_inner, "recording", None)
        return found
    return _recording


@contextmanager
def recorded_here(wanted: bool = True) -> Iterator[Recording | None]:
    """Record what this thread does, whatever others do, if `wanted`. The recording can be pickled
    and included in that of another process.
    """
    global _alone
    if not wanted:
        yield None
        return
    made = Recording()
    made.begin()
    _inner.recording = made
    with _alone_lock:
        _alone += 1
    try:
        yield made
    finally:
        with _alone_lock:
            _alone -= 1
        del _inner.recording


def include(other: Recording | None, name: str) -> None:
    """Take what another process recorded into the recording that runs here, if there are both.
    name: of that process.
    """
    if other is None or _recording is None:
        return
    # The clocks of spans differ by process; those of the day are the same everywhere.
    shift = (other.began_at - other.began) - (_recording.began_at - _recording.began)
    _recording.cpu += sum(span.cpu for span in other.spans)
    for span in other.spans:
        start, stop = span.start + shift, span.stop + shift
        thread = f"{name} {span.thread}"
        _recording.spans.append(replace(span, thread=thread, start=start, stop=stop))


def timed(
    stage: str, size: Callable[[Any], int]
) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """A decorator: calls of the function are work of `stage`. size: bytes, from its result."""

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        @functools.wraps(function)
        def noted(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            if (current := recording()) is None:
                return function(*args, **kwargs)
            with _Open(current, stage) as span:
                result = function(*args, **kwargs)
                span.size = size(result)
            return result

        return noted

    return decorate


def timed_items(stage: str, items: Iterable[Item], size: Callable[[Item], int]) -> Iterator[Item]:
    """`items`, the making of each being work of `stage`."""
    iterator = iter(items)
    while True:
        current = recording()
        if current is None:
            yield from iterator
            return
        with _Open(current, stage) as span:
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
