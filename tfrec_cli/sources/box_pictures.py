"""From the names in a box table to the picture files.

A name is relative to the folders given beside the table, or, where none of them has it, to the
folder of the table. Separators are the system's: a backslash is not one on Linux or macOS.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.sources.files import as_found, counted, display, is_hidden, some
from tfrec_cli.sources.suffixes import IMAGE_SUFFIXES

SKIP = "or leave such pictures out with --on-error skip."


@dataclass(frozen=True, slots=True)
class Found:
    """The file that a name means; or why there is none, and what to do."""

    file: Fingerprint | None = None
    reason: str = ""
    hint: str = ""


@dataclass(slots=True)
class Finder:
    """Finds pictures. roots: the folders that hold them."""

    roots: tuple[str, ...]
    _listed: dict[str, dict[str, str]] = field(default_factory=dict)

    def find(self, name: str, table: str) -> Found:
        """The picture that `name` in the file `table` means."""
        if "://" in name:
            return Found(reason="is an address, not a file", hint=f"Copy the pictures here, {SKIP}")
        beside = os.path.dirname(table)
        hits = [file for root in self.roots if (file := _file(root, name))]
        hits = hits or [file for file in (_file(beside, name),) if file]
        if len(hits) > 1 and len({os.path.realpath(file.path) for file in hits}) > 1:
            places = " and ".join(display(file.path) for file in hits[:2])
            hint = f"Write a name that only one folder has, {SKIP}"
            return Found(reason=f"names several pictures: {places}", hint=hint)
        return Found(hits[0]) if hits else self._lost(name, beside)

    def _lost(self, name: str, beside: str) -> Found:
        folders = self.roots or (beside,)
        near = self._near(name, folders)
        start = " and ".join(display(folder) or "the current folder" for folder in folders)
        if re.match(r"[A-Za-z]:[\\/]|\\\\", name):
            said = f', such as "{near}"' if near else ""
            hint = f"Write names relative to {start}{said}, {SKIP}"
            return Found(reason="is a path on a Windows machine", hint=hint)
        if "\\" in name:
            hint = f'Write "{display(near or name.replace(chr(92), "/"))}", {SKIP}'
            return Found(reason="has backslashes, which part folders on Windows only", hint=hint)
        if any(os.path.isdir(os.path.join(folder, name)) for folder in (*folders, beside)):
            return Found(reason="names a folder, not a picture", hint=f"Correct the row, {SKIP}")
        others = "" if self.roots else ", or to folders named beside the table"
        hint = f'Did you mean "{near}"?' if near else f"Names are relative to {start}{others}."
        hint = f"{hint} Correct the row, {SKIP}"
        return Found(reason="names a picture that does not exist", hint=hint)

    def _near(self, name: str, folders: Iterable[str]) -> str:
        """A name that exists and differs in its ending, in case, or in folders before it."""
        parts = [part for part in re.split(r"[\\/]+", name) if part]
        for folder in folders:
            for first in range(len(parts)):
                below = os.path.join(*parts[first:])
                names = self._names(os.path.dirname(os.path.join(folder, below)))
                if near := names.get(_loose(parts[-1])) or names.get(_stem(parts[-1])):
                    return display(os.path.join(os.path.dirname(below), near))
        return ""

    def _names(self, folder: str) -> dict[str, str]:
        """The pictures in a folder by their lower-case names with and without ending; an ending
        that several share tells nothing.
        """
        if folder not in self._listed:
            by_name: dict[str, str] = {}
            for entry in _pictures(folder):
                for key in {_loose(entry), _stem(entry)}:
                    by_name[key] = "" if key in by_name else entry
            self._listed[folder] = by_name
        return self._listed[folder]


def _loose(name: str) -> str:
    return name.strip().lower()


def _stem(name: str) -> str:
    base, ending = os.path.splitext(_loose(name))
    return base if ending in IMAGE_SUFFIXES else _loose(name)


def _file(folder: str, name: str) -> Fingerprint | None:
    path = os.path.normpath(os.path.join(folder, name))
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return as_found(path, found)


def _pictures(folder: str) -> list[str]:
    """The names of pictures in a folder; none where it cannot be listed."""
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:
        return []
    return [n for n in names if n.lower().endswith(IMAGE_SUFFIXES) and not is_hidden(n)]


def unnamed_notices(paths: Sequence[str]) -> Iterator[str]:
    """A line for each folder that holds pictures beside those at `paths`."""
    known = set(paths)
    for folder in dict.fromkeys(os.path.dirname(path) for path in paths):
        others = [n for n in _pictures(folder) if os.path.join(folder, n) not in known]
        if others:
            where = display(folder or ".")
            yield f"{where}: {counted(len(others), 'picture')} in no row, left out: {some(others)}"
