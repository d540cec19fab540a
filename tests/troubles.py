"""Tasks that go wrong on some workers of a cluster, in ways of their own."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path


def full(folder: str, number: int) -> int:
    """Fails for want of room on worker w0; elsewhere it goes on until the file `go` is there."""
    _no_room_on_w0(folder)
    Path(folder, "begun").touch()
    while not Path(folder, "go").exists():
        time.sleep(0.02)
    return number


def deadly(folder: str, _: int) -> None:
    """Fails for want of room on worker w0, and is the end of any other."""
    _no_room_on_w0(folder)
    os._exit(1)


def deadly_on_w0() -> None:
    """A check that is the end of worker w0, and that any other passes."""
    if _is_w0():
        os._exit(1)


def deaf_on_w0(folder: str) -> None:
    """A check that on worker w0 ends as a broken connection does, and that any other passes."""
    from distributed.comm import CommClosedError

    if _is_w0():
        with open(Path(folder, "asked"), "a") as file:
            file.write("x")
        raise CommClosedError("in <TCP (closed)>: ConnectionResetError")


def _is_w0() -> bool:
    """Whether this process is worker w0; a check is no task, which could ask its worker."""
    return b"w0" in Path("/proc/self/cmdline").read_bytes().split(b"\0")


def passed() -> None:
    """A check that all pass."""


def _no_room_on_w0(folder: str) -> None:
    from distributed import get_worker

    if get_worker().name == "w0":
        Path(folder, "failed").touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
