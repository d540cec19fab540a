"""What lies below a folder: files in a fixed order, and all that is passed over."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tfrec_cli.errors import SourceError, counted
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.sources.paths import byte_order, display, is_hidden, some, unreadable


@dataclass(frozen=True, slots=True)
class Walk:
    """What lies below one folder.

    files: all plain files, links to files included, in the byte order of their paths.
    folders: the folders that were entered, the top one left out, in the same order.
    hidden: files and folders passed over for their names. broken: links that lead nowhere.
    odd: pipes, sockets and devices. again: links to folders that had been entered before.
    """

    files: tuple[Fingerprint, ...] = ()
    folders: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    again: tuple[str, ...] = ()


@dataclass(slots=True)
class _Found:
    files: list[os.DirEntry[str]] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    entered: set[tuple[int, int] | str] = field(default_factory=set)


def fingerprint(path: str) -> Fingerprint:
    """Size and modification time of a file (links followed). Raises SourceError naming it."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise SourceError(f"{display(path)}: is not a file name ({error}).") from error
    return as_found(path, found)


def as_found(path: str, found: os.stat_result, crc32c: int | None = None) -> Fingerprint:
    """The fingerprint of the file that the system describes so."""
    state = (found.st_ino, found.st_ctime_ns)
    return Fingerprint(path, found.st_size, found.st_mtime_ns, crc32c, state)


def walk(folder: str) -> Walk:
    """Everything below `folder`, links followed, each folder entered once.

    Raises SourceError naming a folder that cannot be listed.
    """
    found = _found(folder)
    entries = sorted(found.files, key=lambda entry: byte_order(entry.path))
    files = [file for entry in entries if (file := _fingerprint(entry, found.broken))]
    return Walk(
        files=tuple(files),
        folders=tuple(sorted(found.folders, key=byte_order)[1:]),
        hidden=tuple(sorted(found.hidden, key=byte_order)),
        broken=tuple(sorted(found.broken, key=byte_order)),
        odd=tuple(sorted(found.odd, key=byte_order)),
        again=tuple(sorted(found.again, key=byte_order)),
    )


def files_below(folder: str) -> list[str]:
    """The paths that `walk` gives as files, in their order, without a look at each file."""
    return sorted((entry.path for entry in _found(folder).files), key=byte_order)


def _found(folder: str) -> _Found:
    found = _Found()
    _enter(folder, found)
    while found.links:
        _enter(found.links.pop(0), found)
    return found


def _fingerprint(entry: os.DirEntry[str], broken: list[str]) -> Fingerprint | None:
    try:
        here = entry.stat()
    except OSError:
        broken.append(entry.path)
        return None
    return as_found(entry.path, here)


def _enter(top: str, found: _Found) -> None:
    """Walk from `top` through real folders; links to folders are left in `found.links`."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        if not _first_time(folder, found):
            found.again.append(folder)
            continue
        found.folders.append(folder)
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda e: os.fsencode(e.name))
        except OSError as error:
            raise unreadable(folder, error) from error
        for entry in listed:
            if below := _sort_entry(entry, found):
                waiting.append(below)


def _first_time(folder: str, found: _Found) -> bool:
    try:
        here = os.stat(folder)
    except OSError as error:
        raise unreadable(folder, error) from error
    # Some network file systems number nothing.
    key = (here.st_dev, here.st_ino) if here.st_ino else os.path.realpath(folder)
    new = key not in found.entered
    found.entered.add(key)
    return new


def _sort_entry(entry: os.DirEntry[str], found: _Found) -> str | None:
    """Put one entry where it belongs; returns the path of a real folder, which is to be entered."""
    if is_hidden(entry.name):
        found.hidden.append(entry.path)
    elif _is(entry.is_dir):
        if not entry.is_symlink():
            return entry.path
        found.links.append(entry.path)
    elif _is(entry.is_file):
        found.files.append(entry)
    else:
        (found.odd if os.path.exists(entry.path) else found.broken).append(entry.path)
    return None


def _is(kind: Callable[[], bool]) -> bool:
    try:
        return kind()
    except OSError:  # links in a ring, say
        return False


def walk_notices(place: str, tree: Walk, strays: Sequence[str] = ()) -> tuple[str, ...]:
    """One line for each kind of thing that was passed over below `place`."""
    kinds = (
        (tree.hidden, "hidden name", "skipped (a leading . or _)"),
        (strays, "file", "of another ending skipped"),
        (tree.broken, "broken link", "skipped"),
        (tree.again, "link", "to a folder that is read anyway skipped"),
        (tree.odd, "file", "that is a pipe, socket or device skipped"),
    )
    return tuple(
        f"{display(place)}: {counted(len(paths), noun)} {what}: {some(paths)}"
        for paths, noun, what in kinds
        if paths
    )
