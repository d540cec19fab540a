"""What a worker of a cluster does with a task: looks around once, runs it, reports."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tfrec_cli.engines.base import Check
from tfrec_cli.errors import EngineError, first_line
from tfrec_cli.interruption import ENDINGS
from tfrec_cli.stages import Recording, recorded_here


class Unwanted(Exception):
    """The run that a task belongs to was given up."""


class Unfit(Exception):
    """A worker on which no task of the run may be done; says why."""


@dataclass(frozen=True, slots=True)
class Call:
    """One task with all that it takes to run it elsewhere.

    wanted: as in `Engine.map`. recorded: whether the stages of the work are to be noted.
    """

    function: Callable[[Any], Any]
    task: Any
    wanted: str | None = None
    recorded: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call: the receipt or the error. recording: of its stages, if asked for."""

    worker: str
    receipt: Any = None
    error: BaseException | None = None
    recording: Recording | None = None


_thread = threading.local()
_passed: set[str] = set()


def dask_setup(_worker: Any) -> None:
    """Called by Dask in the workers that a run starts for itself. A terminal sends Ctrl-C and its
    end to all processes, a batch system SIGTERM; but it is for the run to end its workers.
    """
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)


def check_wanted() -> None:
    """For long tasks, now and then: raises where the run was given up meanwhile."""
    path = getattr(_thread, "wanted", None)
    if path is not None and not os.path.exists(path):
        raise Unwanted(path)


@dataclass(frozen=True, slots=True)
class _Packed:
    """A call of `run_call`, which whoever unpickles this makes."""

    checks: bytes
    payload: bytes

    def __reduce__(self) -> tuple[Callable[..., Outcome], tuple[bytes, bytes]]:
        return run_call, (self.checks, self.payload)


def packed(checks: Sequence[tuple[str, Check]], call: Call) -> bytes:
    """What `pickle.loads` makes an outcome of, in a worker. Of a task that is sent as a function of
    ours, a scheduler without tfrec can make nothing, and a worker without it dies.
    """
    return pickle.dumps(_Packed(pickle.dumps(tuple(checks)), pickle.dumps(call)))


def run_call(checks: bytes, payload: bytes) -> Outcome:
    """Run a pickled call in a Dask worker. An error is returned, so that it names the worker.

    checks: pickled, each with a name, to be passed once in each process before the call is looked
    at.
    """
    from distributed import get_worker

    worker = str(get_worker().address)
    try:
        _look_around(checks)
        call: Call = pickle.loads(payload)
        with _wanting(call.wanted), recorded_here(call.recorded) as recording:
            check_wanted()
            receipt = call.function(call.task)
        return Outcome(worker, receipt, recording=recording)
    except Exception as error:
        return Outcome(worker, error=_portable(error))


def _look_around(checks: bytes) -> None:
    try:
        found: tuple[tuple[str, Check], ...] = pickle.loads(checks)
    except Exception as error:
        raise Unfit(f"has another tfrec ({first_line(error)})") from error
    for name, check in found:
        if name not in _passed:
            if (wrong := check()) is not None:
                raise Unfit(wrong)
            _passed.add(name)


@contextmanager
def _wanting(path: str | None) -> Iterator[None]:
    _thread.wanted = path
    try:
        yield
    finally:
        _thread.wanted = None


def _portable(error: Exception) -> Exception:
    """The error, or what can be said of it where it cannot be pickled; with its traceback."""
    trace = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = EngineError(f"{type(error).__name__}: {first_line(error)}.")
    error.__traceback__ = error.__cause__ = error.__context__ = None
    error.add_note(trace)
    return error
