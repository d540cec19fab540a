"""Files in: from what the user typed to the files that are read, and what was passed over.

The rules, the same for every source of files:

* An input that exists is taken literally, whatever characters its name has. Any other input with
  `*`, `?` or `[` in it is a pattern (`**` crosses folders).
* A folder means the files below it that end as the source wants.
* Below a folder and under a pattern, hidden names (a leading `.` or `_`) are passed over, unless
  that part of the pattern begins with the same character.
* Links are followed. A folder is entered once, whatever leads to it, and real folders go first.
* The files of one folder or pattern are in the byte order of their paths; inputs keep their order.
* A file that is reached twice is read once.
* `-`, a pipe that is named as a file, and URLs are copied to temporary files, which are removed
  when the source that reads them is, or at exit.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tfrec_cli.errors import SourceError, counted, listed
from tfrec_cli.sources.fingerprints import as_found, fingerprint
from tfrec_cli.sources.paths import (
    byte_order,
    display,
    has_suffix,
    is_hidden,
    missing,
    some,
    sorted_paths,
    unreadable,
)
from tfrec_cli.sources.spools import Spools
from tfrec_cli.sources.streams import settle_streams
from tfrec_cli.sources.walk import Walk, walk, walk_notices

# What an adapter needs to find its files.
__all__ = [
    "FileList",
    "Walk",
    "as_found",
    "by_suffix",
    "byte_order",
    "counted",
    "display",
    "expand_inputs",
    "fingerprint",
    "has_suffix",
    "is_hidden",
    "some",
    "sorted_paths",
    "unreadable",
    "walk",
    "walk_notices",
]


@dataclass(frozen=True, slots=True)
class FileList:
    """Files to read, in order, and one notice for each thing that was passed over. distinct:
    whether it is known that no two are the same file by other paths.
    """

    files: tuple[str, ...]
    notices: tuple[str, ...] = ()
    distinct: bool = False


def expand_inputs(
    inputs: Sequence[str],
    suffixes: Sequence[str],
    temp_dir: str | None = None,
    fits: Callable[[str], bool] | None = None,
) -> FileList:
    """The files that `inputs` mean, by the rules at the top of this module.

    inputs: paths, patterns, folders, `-`. suffixes: lower-case endings with the dot, which choose
    among the files of a folder or pattern (of a pattern only where some file has one of them);
    a file named by itself may end in anything. temp_dir: where streams are copied, None for the
    system's. fits: tells by content which files of another ending a pattern means all the same.
    Raises SourceError for what is missing, unreadable, matches nothing or holds nothing.
    """
    files: list[str] = []
    notices: list[str] = []
    spools = Spools(temp_dir)
    settled = settle_streams(inputs, spools)
    # Paths do not tell who reads them, and how long.
    spools.live_until_exit()
    for item in settled:
        found = _expand(item, tuple(suffixes), fits)
        if found.distinct and len(settled) == 1:
            return found
        files += found.files
        notices += found.notices
    return _once(files, notices)


def _expand(item: str, suffixes: tuple[str, ...], fits: Callable[[str], bool] | None) -> FileList:
    if os.path.isdir(item):
        return _folder_files(item, suffixes)
    if os.path.lexists(item):
        fingerprint(item)
        return FileList((item,))
    if glob.has_magic(item):
        return _pattern_files(item, suffixes, fits)
    raise missing(item)


def _once(files: list[str], notices: list[str]) -> FileList:
    first: dict[str, str] = {}
    twice: list[str] = []
    folders: dict[str, str] = {}
    for path in files:
        real = _real(path, folders)
        if real in first:
            twice.append(path)
        first.setdefault(real, path)
    if twice:
        what = counted(len(twice), "file")
        notices.append(f"{what} named or linked more than once, read once: {some(twice)}")
    return FileList(tuple(first.values()), tuple(notices))


def _real(path: str, folders: dict[str, str]) -> str:
    """`os.path.realpath`, of folders once each. folders: those that are known."""
    folder, name = os.path.split(path)
    if os.path.islink(path) or name in ("", ".", ".."):
        return os.path.realpath(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)


def _folder_files(folder: str, suffixes: tuple[str, ...]) -> FileList:
    tree = walk(folder)
    wanted, strays = by_suffix(tree.files, suffixes)
    if not wanted:
        held = f"only {some(strays)}" if strays else "nothing"
        raise SourceError(
            f"{display(folder)}: holds no file ending in {listed(suffixes, 15)}; found {held}. "
            "Name the right folder, or the files themselves."
        )
    return FileList(tuple(wanted), walk_notices(folder, tree, strays), not tree.linked)


def by_suffix(paths: Iterable[str], suffixes: Sequence[str]) -> tuple[list[str], list[str]]:
    """The paths that end in one of `suffixes` (see `has_suffix`), and the others."""
    wanted: list[str] = []
    strays: list[str] = []
    for path in paths:
        (wanted if has_suffix(path, suffixes) else strays).append(path)
    return wanted, strays


def _pattern_files(
    pattern: str, suffixes: tuple[str, ...], fits: Callable[[str], bool] | None
) -> FileList:
    found = _matching(pattern)
    plain, hidden = found.plain, found.hidden
    wanted = [m for m in plain if has_suffix(m, suffixes) or (fits and fits(m))] or plain
    below = [path for folder in found.folders for path in walk(folder).files]
    files = wanted + [path for path in below if has_suffix(path, suffixes)]
    if not files:
        passed = f" but hidden names ({some(hidden)})" if hidden else ""
        raise SourceError(
            f"{display(pattern)}: no file matches this pattern{passed}. "
            "Check the path; a pattern knows *, ?, [abc] and ** for any depth."
        )
    strays = sorted_paths(set(plain) - set(wanted))
    notices = walk_notices(pattern, Walk(hidden=tuple(hidden)), strays)
    return FileList(tuple(sorted_paths(files)), notices, found.distinct and not below)


@dataclass(slots=True)
class _Matches:
    """The files, the folders and the hidden names that match a pattern, each in byte order.
    distinct: whether it is known that no two of the files are the same.
    """

    plain: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    distinct: bool = False


def _matching(pattern: str) -> _Matches:
    folder, name = os.path.split(pattern)
    if "**" in pattern.split("/"):
        return _matching_any_depth(pattern)
    if not glob.has_magic(folder):
        return _matching_below(folder, name)
    found = _Matches()
    for match in sorted_paths(glob.glob(pattern, include_hidden=True)):
        if _hides(pattern, match):
            found.hidden.append(match)
        elif os.path.isfile(match):
            found.plain.append(match)
        elif os.path.isdir(match):
            found.folders.append(match)
    return found


def _matching_below(folder: str, pattern: str) -> _Matches:
    """What matches in one folder, most of which the system tells while it lists it."""
    fits, found = re.compile(fnmatch.translate(pattern)).match, _Matches(distinct=True)
    # One that cannot be listed has nothing that matches, as with `glob`.
    with suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if not fits(entry.name):
                continue
            path, linked = os.path.join(folder, entry.name), entry.is_symlink()
            if _hides(pattern, entry.name):
                found.hidden.append(path)
            elif os.path.isfile(path) if linked else entry.is_file():
                found.plain.append(path)
                found.distinct &= not linked
            elif os.path.isdir(path) if linked else entry.is_dir():
                found.folders.append(path)
    found.plain, found.folders = sorted_paths(found.plain), sorted_paths(found.folders)
    found.hidden = sorted_paths(found.hidden)
    return found


def _hides(pattern: str, match: str) -> bool:
    """Whether a wildcard of `pattern` took a hidden name without spelling its first character."""
    if "/." not in match and "/_" not in match and not is_hidden(match):
        return False
    pairs = zip(pattern.split("/"), match.split("/"), strict=False)
    return any(is_hidden(name) and part[:1] != name[0] for part, name in pairs)


def _matching_any_depth(pattern: str) -> _Matches:
    """`glob` follows a link to a parent folder round and round; `walk` does not."""
    parts = pattern.split("/")
    depth = parts.index("**")
    top = "/".join(parts[:depth]) or ("/" if pattern.startswith("/") else ".")
    tops = sorted_paths(glob.glob(top)) if glob.has_magic(top) else [top]
    files: list[str] = []
    hidden: list[str] = []
    for folder in filter(os.path.isdir, tops):
        tree = walk(folder)
        names = ((path, os.path.relpath(path, folder).split(os.sep)) for path in tree.files)
        files += [path for path, below in names if _fits(parts[depth:], below)]
        hidden += tree.hidden
    files = [os.path.normpath(path) if top == "." else path for path in files]
    return _Matches(files, hidden=hidden)


def _fits(parts: list[str], names: list[str]) -> bool:
    """Whether the path `names` matches the pattern `parts`, in which `**` is any depth or none."""
    if not parts:
        return not names
    if parts[0] == "**":
        return any(_fits(parts[1:], names[i:]) for i in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], parts[0]) and _fits(parts[1:], names[1:])
