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
* `-`, a pipe that is named as a file, and URLs are copied to temporary files, removed at exit.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import IO

from tfrec_cli.errors import SourceError, did_you_mean, shorten
from tfrec_cli.sources.base import Fingerprint

STDIN = "-"
_MAGIC = (
    (b"\x1f\x8b", ".gz"),
    (b"BZh", ".bz2"),
    (b"\x28\xb5\x2f\xfd", ".zst"),
    (b"\xfd7zXZ\x00", ".xz"),
    (b"PAR1", ".parquet"),
)
_spools: list[tempfile.TemporaryDirectory[str]] = []


@dataclass(frozen=True, slots=True)
class FileList:
    """Files to read, in order, and one notice for each thing that was passed over."""

    files: tuple[str, ...]
    notices: tuple[str, ...] = ()


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
    files: list[Fingerprint] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    entered: set[tuple[int, int] | str] = field(default_factory=set)


def display(path: str) -> str:
    """`path` as it can be shown anywhere: undecodable bytes and control characters escaped."""
    if path.isascii():
        return shorten(path, 4096)
    return shorten(os.fsencode(path).decode("utf-8", "backslashreplace"), 4096)


def byte_order(path: str) -> bytes:
    """The sort key of paths, which does not depend on the locale."""
    return os.fsencode(path)


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this base name is passed over: `.cache`, `_SUCCESS`."""
    return name.startswith((".", "_"))


def some(paths: Iterable[str], limit: int = 3) -> str:
    """The first base names of `paths`, for notices: `a.txt, b.txt, …`."""
    names = list(dict.fromkeys(display(os.path.basename(p) or p) for p in paths))
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")


def counted(number: int, noun: str) -> str:
    """`1 file`, `3 files`, `2 classes`."""
    plural = noun + ("es" if noun.endswith(("s", "x")) else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def fingerprint(path: str) -> Fingerprint:
    """Size and modification time of a file (links followed). Raises SourceError naming it."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise SourceError(f"{display(path)}: is not a file name ({error}).") from error
    return Fingerprint(path, found.st_size, found.st_mtime_ns)


def unreadable(path: str, error: OSError) -> SourceError:
    """The error for a file or folder that the system refuses; a missing one gets a suggestion."""
    if isinstance(error, FileNotFoundError):
        return SourceError(f"{display(path)}: no such file or folder.{_sibling(path)}")
    reason = os.strerror(error.errno) if error.errno else str(error)
    return SourceError(f"{display(path)}: cannot be read ({reason}).")


def _sibling(path: str) -> str:
    folder, name = os.path.split(path.rstrip("/"))
    while folder and not os.path.isdir(folder):
        folder, name = os.path.split(folder)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return ""
    return did_you_mean(display(name), [display(n) for n in names if not is_hidden(n)])


def expand_inputs(
    inputs: Sequence[str], suffixes: Sequence[str], temp_dir: str | None = None
) -> FileList:
    """The files that `inputs` mean, by the rules at the top of this module.

    inputs: paths, patterns, folders, `-`. suffixes: lower-case endings with the dot, which choose
    among the files of a folder or pattern (of a pattern only where some file has one of them);
    a file named by itself may end in anything. temp_dir: where streams are copied, None for the
    system's. Raises SourceError for what is missing, unreadable, matches nothing or holds nothing.
    """
    files: list[str] = []
    notices: list[str] = []
    for item in settle_streams(inputs, temp_dir):
        found = _expand(item, tuple(suffixes))
        files += found.files
        notices += found.notices
    return _once(files, notices)


def _expand(item: str, suffixes: tuple[str, ...]) -> FileList:
    if os.path.isdir(item):
        return _folder_files(item, suffixes)
    if os.path.lexists(item):
        fingerprint(item)
        return FileList((item,))
    if glob.has_magic(item):
        return _pattern_files(item, suffixes)
    raise SourceError(f"{display(item)}: no such file or folder.{_sibling(item)}")


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
            f"{display(folder)}: holds no file ending in {', '.join(suffixes)}; found {held}. "
            "Name the right folder, or the files themselves."
        )
    return FileList(tuple(wanted), walk_notices(folder, tree, strays))


def _pattern_files(pattern: str, suffixes: tuple[str, ...]) -> FileList:
    plain, folders, hidden = _matching(pattern)
    wanted = [m for m in plain if has_suffix(m, suffixes)] or plain
    below = [f.path for folder in folders for f in walk(folder).files]
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


def has_suffix(path: str, suffixes: Sequence[str]) -> bool:
    """Whether `path` ends in one of `suffixes` (lower case) in any case of letters."""
    return os.path.basename(path).lower().endswith(tuple(suffixes))


def walk(folder: str) -> Walk:
    """Everything below `folder`, links followed, each folder entered once.

    Raises SourceError naming a folder that cannot be listed.
    """
    found = _Found()
    _enter(folder, found)
    while found.links:
        _enter(found.links.pop(0), found)
    return Walk(
        files=tuple(sorted(found.files, key=lambda f: byte_order(f.path))),
        folders=tuple(sorted(found.folders, key=byte_order)[1:]),
        hidden=tuple(sorted(found.hidden, key=byte_order)),
        broken=tuple(sorted(found.broken, key=byte_order)),
        odd=tuple(sorted(found.odd, key=byte_order)),
        again=tuple(sorted(found.again, key=byte_order)),
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
        return None
    try:
        here = entry.stat()
    except OSError:
        found.broken.append(entry.path)
        return None
    if stat.S_ISDIR(here.st_mode):
        if not entry.is_symlink():
            return entry.path
        found.links.append(entry.path)
    elif stat.S_ISREG(here.st_mode):
        found.files.append(Fingerprint(entry.path, here.st_size, here.st_mtime_ns))
    else:
        found.odd.append(entry.path)
    return None


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


def settle_streams(inputs: Sequence[str], temp_dir: str | None = None) -> list[str]:
    """`inputs` with `-`, named pipes and URLs replaced by temporary files of the same content.

    The copy is called `stdin` (or as the pipe), with an ending that tells its compression or
    format where its first bytes do. It is removed at exit. Raises SourceError where the stream
    is empty or a terminal, or cannot be copied.
    """
    settled = (_settle_stream(item, temp_dir) for item in dict.fromkeys(inputs))
    return [path for paths in settled for path in paths]


def _settle_stream(item: str, temp_dir: str | None) -> list[str]:
    if "://" in item:
        from tfrec_cli.sources.remote import fetch, is_remote

        return fetch(item, temp_dir) if is_remote(item) else [item]
    if item == STDIN:
        if sys.stdin is None or sys.stdin.isatty():
            raise SourceError('"-" is standard input, but nothing is piped into it.')
        return [_spool(sys.stdin.buffer, "stdin", temp_dir)]
    if _is_stream(item):
        try:
            with open(item, "rb") as stream:
                return [_spool(stream, os.path.basename(item), temp_dir)]
        except OSError as error:
            raise unreadable(item, error) from error
    return [item]


def _is_stream(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def temporary_folder(temp_dir: str | None) -> str:
    """A new folder in `temp_dir` (None: the system's), removed at exit. Raises OSError."""
    folder = tempfile.TemporaryDirectory(prefix="tfrec-", dir=temp_dir)
    _spools.append(folder)
    return folder.name


def _spool(stream: IO[bytes], name: str, temp_dir: str | None) -> str:
    try:
        path = os.path.join(temporary_folder(temp_dir), name)
        with open(path, "wb") as copy:
            shutil.copyfileobj(stream, copy, 2**20)
        with open(path, "rb") as copy:
            head = copy.read(8)
        ending = next((s for magic, s in _MAGIC if head.startswith(magic)), "")
        if ending and not name.endswith(ending):
            os.rename(path, path + ending)
            path += ending
    except OSError as error:
        raise SourceError(
            f"{name}: cannot be copied to a temporary file ({error.strerror or error}). "
            "Choose a folder with room by --temp-dir."
        ) from error
    if not head:
        raise SourceError(f"{name}: the input is empty.")
    return path
