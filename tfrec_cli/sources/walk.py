"""What lies below a folder: files in a fixed order, and all that is passed over."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tfrec_cli.errors import counted
from tfrec_cli.sources.paths import display, is_hidden, some, sorted_paths, unreadable


@dataclass(frozen=True, slots=True)
class Walk:
    """What lies below one folder.

    files: the paths of all plain files, links to files included, in byte order.
    folders: the folders that were entered, the top one left out, in the same order.
    hidden: files and folders passed over for their names. broken: links that lead nowhere.
    odd: pipes, sockets and devices. again: links to folders that had been entered before.
    linked: whether links led to any file or folder, so that one may be there twice.
    """

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    linked: bool = False


@dataclass(slots=True)
class _Found:
    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    linked: bool = False
    entered: set[tuple[int, int] | str] = field(default_factory=set)


def walk(folder: str) -> Walk:
    """Everything below `folder`, links followed, each folder entered once.

    Raises SourceError naming a folder that cannot be listed.
    """
    found = _Found()
    _enter(folder, found)
    while found.links:
        _enter(found.links.pop(0), found)
    return Walk(
        files=tuple(sorted_paths(found.files)),
        folders=tuple(sorted_paths(found.folders)[1:]),
        hidden=tuple(sorted_paths(found.hidden)),
        broken=tuple(sorted_paths(found.broken)),
        odd=tuple(sorted_paths(found.odd)),
        again=tuple(sorted_paths(found.again)),
        linked=found.linked,
    )


def _enter(top: str, found: _Found) -> None:
    """Walk from `top` through real folders; links to folders are left in `found.links`."""
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        if not _first_time(folder, found):
            found.again.append(folder)
            continue
        found.folders.append(folder)
        links, below = len(found.links), list[str]()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    _sort_entry(entry, found, below)
        except OSError as error:
            raise unreadable(folder, error) from error
        # What is entered first does not depend on the file system.
        found.links[links:] = sorted_paths(found.links[links:])
        waiting += sorted_paths(below)


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


def _sort_entry(entry: os.DirEntry[str], found: _Found, below: list[str]) -> None:
    """Put one entry where it belongs. below: takes real folders, which are to be entered."""
    if is_hidden(entry.name):
        found.hidden.append(entry.path)
    elif _is(entry.is_file):
        found.files.append(entry.path)
        found.linked = found.linked or entry.is_symlink()
    elif _is(entry.is_dir):
        (found.links if entry.is_symlink() else below).append(entry.path)
        found.linked = found.linked or entry.is_symlink()
    else:
        (found.odd if os.path.exists(entry.path) else found.broken).append(entry.path)


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
