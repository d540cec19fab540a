"""What the operating system refused, in the user's words."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from tfrec_cli.errors import DatasetError

_FULL = "Free some space or choose another DEST"
_ELSEWHERE = "Choose another DEST, or change its permissions"
_REASONS = {
    errno.ENOSPC: f"the disk is full. {_FULL}",
    errno.EDQUOT: f"the disk quota is used up. {_FULL}",
    errno.EFBIG: "the file would be larger than is allowed here. Use more and smaller shards",
    errno.EACCES: f"permission denied. {_ELSEWHERE}",
    errno.EPERM: f"not permitted. {_ELSEWHERE}",
    errno.EROFS: "the file system is read-only. Choose another DEST",
    errno.ENAMETOOLONG: "the name is too long. Choose a shorter DEST",
    errno.ENOTDIR: "a part of the path is a file, not a folder. Choose another DEST",
    errno.ELOOP: "the path is a loop of symbolic links. Choose another DEST",
    errno.ENOENT: "a folder of its path is missing, or was removed meanwhile. Run again",
    errno.EMFILE: "too many open files. Use fewer jobs (-j), or raise the limit (ulimit -n)",
    errno.ENFILE: "the system has too many open files. Close some programs and run again",
    errno.EIO: "the device reports an input/output error. Check it, or choose another DEST",
}


def failure(error: OSError, path: str | os.PathLike[str], what: str = "DEST") -> DatasetError:
    """The error of the one line `PATH cannot be written: reason. What to do.` what: that which may
    be chosen otherwise.
    """
    reason = _REASONS.get(error.errno or 0, error.strerror or str(error)).replace("DEST", what)
    return DatasetError(f"{os.fspath(path)} cannot be written: {reason}.")


@contextmanager
def writing(path: str | os.PathLike[str], what: str = "DEST") -> Iterator[None]:
    """Turns an OSError of the block into the DatasetError that names `path` (see `failure`)."""
    try:
        yield
    except OSError as error:
        raise failure(error, path, what) from error
