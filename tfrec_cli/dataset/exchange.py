"""Swapping two folders in one step, where the system can."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

_AT_FDCWD = -100
_LINUX_EXCHANGE = 2
_MACOS_SWAP = 2
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


def exchange(first: Path, second: Path) -> bool:
    """Swap two existing paths of one file system atomically. False where that is not to be had.

    renameat2(2) with RENAME_EXCHANGE on Linux, renamex_np(2) with RENAME_SWAP on macOS. Raises
    OSError where the system can, but did not.
    """
    code = _swap(os.fsencode(first), os.fsencode(second))
    if code and code not in _UNSUPPORTED:
        raise OSError(code, os.strerror(code), os.fspath(second))
    return not code


def _swap(first: bytes, second: bytes) -> int:
    """Zero, or the error number."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(first, second, ctypes.c_uint(_MACOS_SWAP))
        else:
            here = ctypes.c_int(_AT_FDCWD)
            flag = ctypes.c_uint(_LINUX_EXCHANGE)
            failed = library.renameat2(here, first, here, second, flag)
    except AttributeError:
        return errno.ENOSYS
    return ctypes.get_errno() if failed else 0
