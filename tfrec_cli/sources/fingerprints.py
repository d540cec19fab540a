"""What files look like, and whether one is what it was."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tfrec_cli.checksums import file_crc32c
from tfrec_cli.errors import SourceError
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.sources.paths import display, unreadable


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
    rights = (found.st_mode, found.st_uid, found.st_gid)
    state = (found.st_ino, found.st_ctime_ns, found.st_nlink, *rights)
    return Fingerprint(path, found.st_size, found.st_mtime_ns, crc32c, state)


def looks_same(before: Fingerprint, now: Fingerprint) -> bool | None:
    """Whether what lies at a path now is what lay there before, as far as that is known without
    reading it; None where only the content can tell.

    Another file may have the same size and time; so may the same one with another content, if its
    time was set back: then it has another inode, or was changed later than was noted.
    """
    if now.size != before.size:
        return False
    if before.crc32c is not None and now.crc32c is not None:
        return before.crc32c == now.crc32c
    same = now.mtime_ns == before.mtime_ns and now.state[:2] == before.state[:2]
    return True if same and before.state else None


def gather(known: dict[str, Fingerprint], files: Iterable[Fingerprint]) -> None:
    """Add files that were read to those that are `known` by their path.

    Raises SourceError where one had another content when it was read before.
    """
    for file in files:
        before = known.get(file.path, file)
        if before.crc32c != file.crc32c and None not in (before.crc32c, file.crc32c):
            raise changed(file.path)
        known[file.path] = file


def changed(path: str) -> SourceError:
    """The error for a file that is no longer what it was when the run began."""
    return SourceError(
        f"{display(path)}: the file changed while it was being read. "
        "Run again when nothing writes to it."
    )


def has_content(before: Fingerprint, path: str) -> bool:
    """Whether the content of the file at `path` is known to be what it was. Raises OSError."""
    return before.crc32c is not None and file_crc32c(path) == before.crc32c


def is_unchanged(before: Fingerprint) -> bool:
    """Whether a file is what it was, with the time that it had; where nothing else tells, it is
    read. Raises SourceError where it is not there, or cannot be read.
    """
    now = fingerprint(before.path)
    if now.mtime_ns != before.mtime_ns:
        return False
    if (same := looks_same(before, now)) is not None:
        return same
    if before.crc32c is None:
        return _has_other_rights(before, now)
    try:
        return has_content(before, before.path)
    except OSError as error:
        raise unreadable(before.path, error) from error


def _has_other_rights(before: Fingerprint, now: Fingerprint) -> bool:
    """Whether a file, whose content nobody knows, is the one that it was with a hard link more or
    less, or other rights: that moves the time that nobody can set.
    """
    (file, *_), (file_now, *_) = before.state or (0,), now.state
    return not before.state or (file == file_now and before.state[2:] != now.state[2:])
