"""One run at a time onto one DEST."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tfrec_cli.dataset.failures import failure, writing
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.errors import DatasetError
from tfrec_cli.interruption import unbroken

_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_HELD = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES}


class BusyError(DatasetError):
    """Another run is at work on DEST."""


@contextmanager
def locked(path: Path, dest: str) -> Iterator[None]:
    """Hold the lock file `path` for the block; the file is gone afterwards.

    The lock ends with the process however it ends; a file left by a killed run is no lock. Raises
    BusyError where another run holds it, OSError where the file cannot be made.
    """
    lock = -1
    try:
        with unbroken():
            lock = _take(path, dest)
        yield
    finally:
        if lock >= 0:
            with unbroken():
                with suppress(OSError):
                    os.unlink(path)
                os.close(lock)


@contextmanager
def locked_dest(dest: Dest) -> Iterator[bool]:
    """Hold the lock of `dest`: beside it, or inside (then True) where the folder above is not ours.

    Raises DatasetError; BusyError where another run holds it.
    """
    with ExitStack() as after:
        beside = dest.path.parent / f".{dest.label}.tfrec-lock"
        inside = False
        try:
            after.enter_context(locked(beside, dest.text))
        except OSError as error:
            if os.path.lexists(beside):
                # Another user's: to go around it would be two runs onto one DEST.
                raise failure(error, beside) from error
            if error.errno not in _DENIED or dest.kind != "folder" or not dest.path.is_dir():
                raise failure(error, dest.text) from error
            inside = True
            with writing(dest.text):
                after.enter_context(locked(dest.path / ".tfrec-lock", dest.text))
        yield inside


def _take(path: Path, dest: str) -> int:
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            _flock(lock, dest)
            if _is_at(lock, path):
                _sign(lock, path)
                return lock
        except BaseException:
            os.close(lock)
            raise
        # The holder we waited behind removed the file between our opening and our locking it.
        os.close(lock)


def _sign(lock: int, path: Path) -> None:
    """Note who holds the lock; where that cannot be written, the file is removed."""
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
    except OSError:
        with suppress(OSError):
            os.unlink(path)
        raise


def _flock(lock: int, dest: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise BusyError(
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
