"""Temporary folders that a killed process leaves to the next one to remove.

A folder holds a lock file as long as its process lives. Where the lock is free, the process is
dead, and whoever makes a folder beside it removes it; unless the lock file names another folder
that is there, which tells what is in this one and by which it can be gone on with.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import tempfile
import time
import weakref
from contextlib import suppress

LOCK = ".tfrec-scratch"
_NAME = re.compile(r"tfrec-[0-9a-f]{16}")
# A folder without a lock is being made, or its process died just then.
_MAKING_SECONDS = 3600
_LONGEST_PATH = 65536


class Scratch:
    """A new temporary folder, which is gone when this object is, or the process ends.

    path: of it.
    """

    def __init__(self, parent: str | None = None, kept: str | None = None) -> None:
        """parent: where it is made; None is the system's. kept: should the process be killed, the
        folder stays for as long as this one is there. Raises OSError.
        """
        parent = tempfile.gettempdir() if parent is None else parent
        clean(parent)
        while True:
            self.path = os.path.join(os.path.abspath(parent), f"tfrec-{secrets.token_hex(8)}")
            os.mkdir(self.path, 0o700)
            lock = _made(self.path, os.fsencode(os.path.abspath(kept) if kept else ""))
            if lock is not None:
                self._hold(lock)
                return

    @classmethod
    def adopted(cls, path: str) -> Scratch | None:
        """The folder at `path` that a dead process has left; None where it is not there."""
        try:
            lock = None if _is_strange(path) else _locked(os.path.join(path, LOCK))
        except OSError:
            return None
        if lock is None:
            return None
        found = cls.__new__(cls)
        found.path = path
        found._hold(lock)
        return found

    def _hold(self, lock: int) -> None:
        self._end = weakref.finalize(self, _end, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove the folder with all that is in it, as far as the system lets it."""
        self._end()


def _made(folder: str, note: bytes) -> int | None:
    """The lock of a new folder, with a note in it; None where another process has removed it.

    Raises OSError where there is no room for it; then the folder is gone.
    """
    lock = None
    try:
        lock = _locked(os.path.join(folder, LOCK), os.O_CREAT)
        if lock is not None:
            os.write(lock, note)
        return lock
    except OSError:
        _remove(folder)
        if lock is not None:
            os.close(lock)
        raise


def _end(folder: str, lock: int, owner: int) -> None:
    # A forked process ends like its parent, whose folders are not its own.
    if os.getpid() == owner:
        _remove(folder)
        with suppress(OSError):
            os.close(lock)


def clean(parent: str) -> None:
    """Remove the folders of dead processes in `parent`; what cannot be removed stays."""
    try:
        names = [name for name in os.listdir(parent) if _NAME.fullmatch(name)]
    except OSError:
        return
    for name in names:
        with suppress(OSError):
            _clean(os.path.join(parent, name))


def _clean(folder: str) -> None:
    if _is_strange(folder):
        return
    try:
        lock = _locked(os.path.join(folder, LOCK))
    except FileNotFoundError:
        if time.time() - os.stat(folder).st_mtime > _MAKING_SECONDS:
            os.rmdir(folder)
        return
    if lock is not None:
        kept = os.fsdecode(os.read(lock, _LONGEST_PATH))
        if not kept or not os.path.isdir(kept):
            _remove(folder)
        os.close(lock)


def _is_strange(folder: str) -> bool:
    """Whether a folder is another user's, or elsewhere. Raises OSError."""
    return os.path.islink(folder) or os.stat(folder).st_uid != os.getuid()


def _remove(folder: str) -> None:
    """Remove a folder, its lock last: what is left of it can still be told to be dead."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != LOCK:
                with suppress(OSError):
                    os.unlink(entry.path)
    shutil.rmtree(folder, ignore_errors=True)


def _locked(path: str, flags: int = 0) -> int | None:
    """The lock file, opened and locked; None where another process holds it, or has removed it.

    Raises FileNotFoundError where there is none.
    """
    lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    try:
        if _flocked(lock, bool(flags)) and os.path.samestat(os.fstat(lock), os.stat(path)):
            return lock
    except FileNotFoundError:
        pass
    os.close(lock)
    return None


def _flocked(lock: int, otherwise: bool) -> bool:
    """Whether the lock is now held. otherwise: the answer where a file system has no locks, so that
    nobody can tell who lives, and nothing is removed.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return otherwise
    return True
