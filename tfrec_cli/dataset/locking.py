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
    within = dest.path / ".tfrec-lock"
    with ExitStack() as after:
        inside = False
        try:
            after.enter_context(locked(dest.lock, dest.text))
        except OSError as error:
            if os.path.lexists(dest.lock):
                _refuse_held(dest.lock, dest.text)
                # Another user's: to go around it would be two runs onto one DEST.
                raise failure(error, dest.lock) from error
            if error.errno not in _DENIED or dest.kind != "folder" or not dest.path.is_dir():
                raise failure(error, dest.text) from error
            inside = True
            with writing(dest.text):
                after.enter_context(locked(within, dest.text))
        # The run of a user with other rights may have the other lock. Each looks for it when it has
        # its own: one at least sees that of the other.
        _refuse_held(dest.lock if inside else within, dest.text)
        yield inside


def _refuse_held(path: Path, dest: str) -> None:
    """Raise BusyError where another run holds the lock file `path`, DatasetError where that cannot
    be told.
    """
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise failure(error, path) from error
    try:
        _flock(lock, dest, fcntl.LOCK_SH)
    finally:
        os.close(lock)


def _take(path: Path, dest: str) -> int:
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            _flock(lock, dest)
            if _is_at(lock, path):
                _sign(lock)
                return lock
        except BusyError:
            os.close(lock)
            raise
        except BaseException:
            # Nobody else holds it: it is held, or there are no locks.
            with suppress(OSError):
                os.unlink(path)
            os.close(lock)
            raise
        # The holder we waited behind removed the file between our opening and our locking it.
        os.close(lock)


def _sign(lock: int) -> None:
    """Note who holds the lock."""
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)


def _flock(lock: int, dest: str, how: int = fcntl.LOCK_EX) -> None:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
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
