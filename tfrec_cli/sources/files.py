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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tfrec_cli.errors import SourceError, counted, listed
from tfrec_cli.sources.paths import (
    byte_order,
    display,
    has_suffix,
    is_hidden,
    missing,
    some,
    unreadable,
)
from tfrec_cli.sources.spools import Spools
from tfrec_cli.sources.streams import settle_streams
from tfrec_cli.sources.walk import Walk, as_found, files_below, fingerprint, walk, walk_notices

# What an adapter needs to find its files.
__all__ = [
    "FileList",
    "Walk",
    "as_found",
    "byte_order",
    "counted",
    "display",
    "expand_inputs",
    "files_below",
    "fingerprint",
    "has_suffix",
    "is_hidden",
    "some",
    "unreadable",
    "walk",
    "walk_notices",
]


@dataclass(frozen=True, slots=True)
class FileList:
    """Files to read, in order, and one notice for each thing that was passed over."""

    files: tuple[str, ...]
    notices: tuple[str, ...] = ()


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
    for path in files:
        real = os.path.realpath(path)
        if real in first:
            twice.append(path)
        first.setdefault(real, path)
    if twice:
        what = counted(len(twice), "file")
        notices.append(f"{what} named or linked more than once, read once: {some(twice)}")
    return FileList(tuple(first.values()), tuple(notices))


def _folder_files(folder: str, suffixes: tuple[str, ...]) -> FileList:
    tree = walk(folder)
    wanted = [f.path for f in tree.files if has_suffix(f.path, suffixes)]
    strays = [f.path for f in tree.files if not has_suffix(f.path, suffixes)]
    if not wanted:
        held = f"only {some(strays)}" if strays else "nothing"
        raise SourceError(
            f"{display(folder)}: holds no file ending in {listed(suffixes, 15)}; found {held}. "
            "Name the right folder, or the files themselves."
        )
    return FileList(tuple(wanted), walk_notices(folder, tree, strays))


def _pattern_files(
    pattern: str, suffixes: tuple[str, ...], fits: Callable[[str], bool] | None
) -> FileList:
    plain, folders, hidden = _matching(pattern)
    wanted = [m for m in plain if has_suffix(m, suffixes) or (fits and fits(m))] or plain
    below = [path for folder in folders for path in files_below(folder)]
    files = wanted + [path for path in below if has_suffix(path, suffixes)]
    if not files:
        passed = f" but hidden names ({some(hidden)})" if hidden else ""
        raise SourceError(
            f"{display(pattern)}: no file matches this pattern{passed}. "
            "Check the path; a pattern knows *, ?, [abc] and ** for any depth."
        )
    strays = sorted(set(plain) - set(wanted), key=byte_order)
    notices = walk_notices(pattern, Walk(hidden=tuple(hidden)), strays)
    return FileList(tuple(sorted(files, key=byte_order)), notices)


def _matching(pattern: str) -> tuple[list[str], list[str], list[str]]:
    """The files, the folders and the hidden names that match `pattern`, each in byte order."""
    if "**" in pattern.split("/"):
        return _matching_any_depth(pattern)
    matches = sorted(glob.glob(pattern, include_hidden=True), key=byte_order)
    hidden = [m for m in matches if _hides(pattern, m)]
    shown = [m for m in matches if not _hides(pattern, m)]
    return (
        [m for m in shown if os.path.isfile(m)],
        [m for m in shown if os.path.isdir(m)],
        hidden,
    )


def _hides(pattern: str, match: str) -> bool:
    """Whether a wildcard of `pattern` took a hidden name without spelling its first character."""
    pairs = zip(pattern.split("/"), match.split("/"), strict=False)
    return any(is_hidden(name) and part[:1] != name[0] for part, name in pairs)


def _matching_any_depth(pattern: str) -> tuple[list[str], list[str], list[str]]:
    """`glob` follows a link to a parent folder round and round; `walk` does not."""
    parts = pattern.split("/")
    depth = parts.index("**")
    top = "/".join(parts[:depth]) or ("/" if pattern.startswith("/") else ".")
    tops = sorted(glob.glob(top), key=byte_order) if glob.has_magic(top) else [top]
    files: list[str] = []
    hidden: list[str] = []
    for folder in filter(os.path.isdir, tops):
        tree = walk(folder)
        names = ((f.path, os.path.relpath(f.path, folder).split(os.sep)) for f in tree.files)
        files += [path for path, below in names if _fits(parts[depth:], below)]
        hidden += tree.hidden
    return [os.path.normpath(path) if top == "." else path for path in files], [], hidden


def _fits(parts: list[str], names: list[str]) -> bool:
    """Whether the path `names` matches the pattern `parts`, in which `**` is any depth or none."""
    if not parts:
        return not names
    if parts[0] == "**":
        return any(_fits(parts[1:], names[i:]) for i in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], parts[0]) and _fits(parts[1:], names[1:])
