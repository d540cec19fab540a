"""The CRC32C of whole files."""

from __future__ import annotations

import os
from pathlib import Path

from tfrec_cli._kernel import crc32c

_CHUNK = 1 << 20


def file_crc32c(path: str | os.PathLike[str], crc: int = 0) -> int:
    """CRC-32C (RFC 3720, unmasked) of the bytes of the file at `path`, after those whose checksum
    is `crc`. Raises OSError.
    """
    with open(path, "rb", buffering=0) as file:
        # Room for a large file takes longer than a small one. What grows is read all the same.
        size = os.fstat(file.fileno()).st_size
        buffer = bytearray(min(_CHUNK, size + 1) if size else _CHUNK)
        view = memoryview(buffer)
        while size := file.readinto(buffer):
            crc = crc32c(view[:size], crc)
    return crc


def is_file(path: Path, size: int, crc: int) -> bool:
    """Whether the file at `path` is there with this size and this CRC32C."""
    try:
        return os.stat(path).st_size == size and file_crc32c(path) == crc
    except OSError:
        return False
