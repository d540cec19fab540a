"""Progress events: what a run tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Reporter(Protocol):
    """Receives the events of one run, all in the thread that called `convert`.

    It may also have a method `waiting(text: str) -> None`: what the run waits for now, where that
    may take long; one line, to be shown at once.
    """

    def stage(self, name: str, records: int | None) -> None:
        """A stage begins: `survey`, `check`, `shuffle`, `sort`, `split` or `convert`, with the
        records it will handle.
        """

    def advance(self, records: int, size: int) -> None:
        """`records` more records are done, `size` bytes of them."""

    def notice(self, text: str) -> None:
        """Something the user should know: one line, no full stop needed."""


class Silent:
    """The reporter that says nothing."""

    def stage(self, name: str, records: int | None) -> None:
        """Ignored."""

    def advance(self, records: int, size: int) -> None:
        """Ignored."""

    def notice(self, text: str) -> None:
        """Ignored."""

    def waiting(self, text: str) -> None:
        """Ignored."""


SILENT = Silent()


def teller(reporter: Reporter) -> Callable[[str], None]:
    """What takes the lines on what is waited for: the reporter, or nobody where it has no ear for
    them.
    """
    waiting: Callable[[str], None] = getattr(reporter, "waiting", SILENT.waiting)
    return waiting
