"""Ctrl-C and SIGTERM: unwind, clean up, exit 130 or 143.

A handler raises in the main thread, but where Python cannot let an exception out (a weak reference
going away, an import lock) it is lost. So the signal is remembered, and raised again at the next
step of the work.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

from tfrec_cli.interruption import Terminated

_ERRORS: dict[int, type[BaseException]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: Terminated,
}
_caught: list[int] = []


def watch() -> None:
    """Have both signals raise from now on; one that is ignored (`nohup`, `&`) stays ignored."""
    for number in _ERRORS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _raise)


def check() -> None:
    """Raise for a signal that has arrived."""
    if _caught:
        raise _ERRORS[_caught[0]]


def _raise(number: int, _frame: FrameType | None) -> NoReturn:
    _caught.append(number)
    raise _ERRORS[number]
