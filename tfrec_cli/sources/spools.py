"""Temporary folders for inputs that can be read only once, or only in leaps after a copy."""

from __future__ import annotations

import os
import weakref
from typing import Any

from tfrec_cli.scratch import Scratch
from tfrec_cli.sources.paths import display


class Spools:
    """Temporary folders that go together: when the object they are for does, when nobody holds
    this one, and at the latest when the process ends.

    temp_dir: where they are made; None is the system's.
    """

    def __init__(self, temp_dir: str | None = None) -> None:
        self.temp_dir = temp_dir
        self._folders: list[Scratch] = []
        weakref.finalize(self, _remove, self._folders, os.getpid())

    def folder(self) -> str:
        """A new folder. Raises OSError."""
        folder = Scratch(self.temp_dir)
        self._folders.append(folder)
        _made.add(folder.path)
        return folder.path

    def live_for(self, owner: Any) -> None:
        """Keep the folders as long as `owner` lives."""
        try:
            weakref.finalize(owner, _let_go, self)
        except TypeError:
            # Nothing tells when such an object goes.
            self.live_until_exit()

    def live_until_exit(self) -> None:
        """Keep the folders, where there are any, as long as the process."""
        if self._folders:
            _kept.append(self)


_kept: list[Spools] = []
# The folders that are there now.
_made: set[str] = set()


def within_spool(path: str) -> str | None:
    """What `path`, as it is displayed, is called within a spool folder; None for any other file."""
    for folder in tuple(_made):
        top = display(os.path.join(folder, ""))
        if path.startswith(top):
            return path[len(top) :]
    return None


def _let_go(_spools: Spools) -> None:
    """The last one to hold the folders was this call's argument."""


def _remove(folders: list[Scratch], owner: int) -> None:
    # A forked process ends like its parent, whose folders are not its own.
    if os.getpid() == owner:
        for folder in folders:
            folder.remove()
            _made.discard(folder.path)
