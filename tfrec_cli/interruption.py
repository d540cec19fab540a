"""Signals that end a run, and steps that they must not break, until whose end they wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Terminated(BaseException):
    """SIGTERM arrived."""


class HungUp(Terminated):
    """SIGHUP arrived: the terminal, or the connection to it, is gone."""


ENDINGS: dict[int, type[BaseException]] = {
    signal.SIGINT: KeyboardInterrupt,
    signal.SIGTERM: Terminated,
    signal.SIGHUP: HungUp,
}
"""The signals that end a run, and what each raises."""


@contextmanager
def unbroken() -> Iterator[list[int]]:
    """Hold back these signals for a block, which should be short; they are raised at its end.

    Gives the numbers of those that have arrived: a block that has done what cannot be undone
    clears the list, and they are forgotten. Signals that are not handled by Python, and all in
    threads other than the main one, which never sees them, are left as they are.
    """
    arrived: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield arrived
        return

    def note(number: int, _frame: FrameType | None) -> None:
        arrived.append(number)

    handlers: dict[int, Any] = {}
    try:
        for held in ENDINGS:
            if callable(handler := signal.getsignal(held)):
                handlers[held] = handler
                signal.signal(held, note)
        yield arrived
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in arrived:
            signal.raise_signal(number)
