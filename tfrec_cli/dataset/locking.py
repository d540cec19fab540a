"""One run at a time onto one DEST."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tfrec_cli.errors import DatasetError

_HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}


@contextmanager
def locked(path: Path, dest: str) -> Iterator[None]:
    """Hold the lock file `path` for the block; the file is gone afterwards.

    The lock ends with the process however it ends; a file left by a killed run is no lock. Raises
    DatasetError where another run holds it, OSError where the file cannot be made.
    """
    lock = _take(path, dest)
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(path)
        os.close(lock)


def _take(path: Path, dest: str) -> int:
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            _flock(lock, dest)
            if _is_at(lock, path):
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
                return lock
        except BaseException:
            os.close(lock)
            raise
        # The holder we waited behind removed the file between our opening and our locking it.
        os.close(lock)


def _flock(lock: int, dest: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise DatasetError(
                f"{dest} is being written by another run{_holder(lock)}. Wait for it to end, or "
                "choose another DEST."
            ) from None
        raise DatasetError(
            f"{dest}: the file system has no file locks ({error.strerror}). Write to a local DEST, "
            "then copy."
        ) from error


def _holder(lock: int) -> str:
    pid, _, host = os.pread(lock, 300, 0).decode(errors="replace").strip().partition(" ")
    if not pid:
        return ""
    return f" (process {pid})" if host == socket.gethostname() else f" (process {pid} on {host})"


def _is_at(lock: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
