"""Progress on a terminal: a bar with records/s, MB/s and the time left."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from tfrec_cli.cli.common import say
from tfrec_cli.cli.signals import check


class TerminalReporter:
    """Collects notices; draws a bar on standard error where that is a terminal.

    `bar=False` draws nothing (`--quiet`, `--json`).
    """

    def __init__(self, bar: bool = True) -> None:
        self.notices: list[str] = []
        self._draw = bar and sys.stderr is not None and sys.stderr.isatty()
        self._bar: Any = None
        self._size = 0

    def stage(self, name: str, records: int | None) -> None:
        """Begin a new bar."""
        check()
        self.close()
        if self._draw:
            from tqdm import tqdm

            self._size = 0
            self._bar = tqdm(
                total=records, desc=name, unit=" records", unit_scale=True, leave=False,
                dynamic_ncols=True, mininterval=0.1,
            )  # fmt: skip

    def advance(self, records: int, size: int) -> None:
        """Move the bar on."""
        check()
        if self._bar is not None:
            try:
                self._move(records, size)
            except OSError:
                # The terminal is gone, but not what runs in it.
                self._bar, self._draw = None, False

    def notice(self, text: str) -> None:
        """Keep a line for the summary."""
        if text not in self.notices:
            self.notices.append(text)

    def waiting(self, text: str) -> None:
        """Say it now, below the bar or what a terminal shows of Ctrl-C."""
        if self._bar is not None:
            self._bar.clear()
        say(f"tfrec: {text}", err=True)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.close()
            self._bar = None

    def _move(self, records: int, size: int) -> None:
        self._size += size
        elapsed = self._bar.format_dict["elapsed"]
        if elapsed > 0:
            self._bar.set_postfix_str(f"{self._size / elapsed / 1e6:.0f} MB/s", refresh=False)
        self._bar.update(records)
