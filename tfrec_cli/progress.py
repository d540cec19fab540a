"""Progress events: what a run tells whoever watches it."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    """Receives the events of one run, all in the thread that called `convert`."""

    def stage(self, name: str, records: int | None) -> None:
        """A stage begins: `survey`, `check`, `shuffle`, `sort`, `split` or `convert`, with the
        records it will handle.
        """

    def advance(self, records: int, size: int) -> None:
        """`records` more records are done, `size` bytes of them."""

    def notice(self, text: str) -> None:
        """Something the user should know: one line, no full stop needed."""

    def waiting(self, text: str) -> None:
        """What the run waits for now, where that may take long: one line, to be shown at once."""


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
