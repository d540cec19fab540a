"""Record headers found at any byte.

A header is a uint64 length and the masked CRC32C of its eight bytes. A CRC is linear: that of eight
bytes is the exclusive or of what each byte gives at its place, which a table holds, so that numpy
checks many offsets of a buffer at once.
"""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

from tfrec_cli import _kernel
from tfrec_cli.records.framing import FOOTER, HEADER

_LENGTH_BYTES = 8
_DELTA = np.uint32(0xA282EAD8)
_WINDOW = 1 << 16
"""Offsets looked at together: what numpy makes of them stays in the processor's cache."""


def find_headers(data: bytes | memoryview, room: int) -> np.ndarray:
    """The offsets in `data` at which a good header begins, in order (int64).

    room: bytes from the start of `data` to the end of the content. A header whose record would
    not end by then is left out. Takes the memory of what is found and a constant.
    """
    count = len(data) - HEADER + 1
    found = [
        _headers(data, start, min(_WINDOW, count - start), room - start)
        for start in range(0, count, _WINDOW)
    ]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _headers(data: bytes | memoryview, start: int, count: int, room: int) -> np.ndarray:
    """The offsets of good headers among the `count` from `start` on."""
    longest = room - HEADER - FOOTER
    if longest < 0:
        return np.zeros(0, np.int64)
    lengths = np.ndarray((count,), "<u8", data, start, (1,))
    checks = np.ndarray((count,), "<u4", data, start + _LENGTH_BYTES, (1,))
    # Next to nothing of ordinary bytes passes, nor of the zeros that a crash may leave.
    likely = lengths <= np.uint64(longest)
    likely &= (lengths != 0) | (checks == np.uint32(_empty_check()))
    places = np.flatnonzero(likely)
    chosen = lengths[places]
    fits = chosen <= (longest - places).clip(0).astype(np.uint64)
    places, chosen = places[fits & (places <= longest)], chosen[fits & (places <= longest)]
    window = chosen.view(np.uint8).reshape(-1, _LENGTH_BYTES)
    found: np.ndarray = places[_masked_crc(window) == checks[places]] + start
    return found


@cache
def _empty_check() -> int:
    """The checksum in the header of a record without data."""
    return _kernel.masked_crc32c(bytes(_LENGTH_BYTES))


def header_length(head: bytes) -> int | None:
    """The length that the 12 bytes of a good header say; None where they are none."""
    if len(head) < HEADER or _kernel.masked_crc32c(head[:8]) != struct.unpack("<I", head[8:])[0]:
        return None
    return int(struct.unpack("<Q", head[:8])[0])


def _masked_crc(window: np.ndarray) -> np.ndarray:
    """The masked CRC32C of each row of eight bytes."""
    crc = np.full(len(window), _kernel.crc32c(bytes(_LENGTH_BYTES)), np.uint32)
    for place, table in enumerate(_tables()):
        crc ^= table[window[:, place]]
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + _DELTA


@cache
def _tables() -> np.ndarray:
    """uint32 [8, 256]: what a byte at a place adds to the CRC of eight zero bytes."""
    zero = _kernel.crc32c(bytes(_LENGTH_BYTES))
    tables = np.zeros((_LENGTH_BYTES, 256), np.uint32)
    for place in range(_LENGTH_BYTES):
        for value in range(256):
            data = bytearray(_LENGTH_BYTES)
            data[place] = value
            tables[place, value] = _kernel.crc32c(bytes(data)) ^ zero
    return tables
