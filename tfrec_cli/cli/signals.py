"""Ctrl-C, SIGTERM and SIGHUP: unwind, clean up, exit 130, 143 or 129.

A handler raises in the main thread, but where Python cannot let an exception out (a weak reference
going away, an import lock) it is lost. So the signal is remembered, and raised again at the next
step of the work.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

from tfrec_cli.interruption import ENDINGS

_caught: list[int] = []


def watch() -> None:
    """Have these signals raise from now on; one that is ignored (`nohup`, `&`) stays ignored."""
    for number in ENDINGS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _raise)


def caught() -> BaseException | None:
    """The error for a signal that has arrived."""
    return ENDINGS[_caught[0]]() if _caught else None


def check() -> None:
    """Raise for a signal that has arrived."""
    if (error := caught()) is not None:
        raise error


def _raise(number: int, _frame: FrameType | None) -> NoReturn:
    _caught.append(number)
    raise ENDINGS[number]
