"""Ctrl-C, SIGTERM and SIGHUP: unwind, clean up, exit 130, 143 or 129.

A handler raises in the main thread, but where Python cannot let an exception out (a weak reference
going away, an import lock) it is lost. So the signal is remembered, and raised again at the next
step of the work. Once the work is over, done or not, and only words and temporary files are left,
signals change nothing any more; but a reader who does not read on need not be waited for.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any

from tfrec_cli.interruption import ENDINGS

is_over = False
"""Whether the work has ended. To be set by an assignment, which no signal can break."""

_caught: list[int] = []


def watch() -> None:
    """Have these signals raise from now on; one that is ignored (`nohup`, `&`) stays ignored."""
    sys.unraisablehook = _tell_unraisable
    for number in ENDINGS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _raise)


def exit_at_once() -> None:
    """Have these signals end the process where it stands, by their usual exit code."""
    for number in ENDINGS:
        if signal.getsignal(number) is _raise:
            signal.signal(number, _exit)


def caught() -> BaseException | None:
    """The error for a signal that has arrived."""
    return ENDINGS[_caught[0]]() if _caught else None


def check() -> None:
    """Raise for a signal that has arrived."""
    if (error := caught()) is not None:
        raise error


def _raise(number: int, _frame: FrameType | None) -> None:
    if not is_over:
        _caught.append(number)
        raise ENDINGS[number]


def _exit(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


def _tell_unraisable(lost: Any) -> None:
    """As Python does, but for the signals, which are remembered."""
    if not isinstance(lost.exc_value, tuple(ENDINGS.values())):
        sys.__unraisablehook__(lost)
