"""Record headers found at any byte.

A header is a uint64 length and the masked CRC32C of its eight bytes. A CRC is linear: that of eight
bytes is the exclusive or of what each byte gives at its place, which a table holds, so that numpy
checks every offset of a buffer at once.
"""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

from tfrec_cli import _kernel
from tfrec_cli.records.framing import HEADER

_LENGTH_BYTES = 8
_DELTA = np.uint32(0xA282EAD8)


def find_headers(data: bytes | memoryview, room: int) -> np.ndarray:
    """The offsets in `data` at which a good header begins, in order (int64).

    room: bytes from the start of `data` to the end of the content. A header whose record would
    not end by then is left out.
    """
    view = np.frombuffer(data, np.uint8)
    count = len(view) - HEADER + 1
    if count <= 0:
        return np.zeros(0, np.int64)
    # Lengths from 2^40 on are left out first, which leaves next to nothing of ordinary bytes.
    short = (view[5 : 5 + count] | view[6 : 6 + count] | view[7 : 7 + count]) == 0
    places = np.flatnonzero(short)
    window = view[places[:, None] + np.arange(HEADER)]
    lengths = window[:, :_LENGTH_BYTES].copy().view("<u8")[:, 0].astype(np.int64)
    fits = lengths <= room - places - (HEADER + 4)
    places, window = places[fits], window[fits]
    stored = window[:, _LENGTH_BYTES:].copy().view("<u4")[:, 0]
    found: np.ndarray = places[_masked_crc(window) == stored]
    return found


def header_length(head: bytes) -> int | None:
    """The length that the 12 bytes of a good header say; None where they are none."""
    if len(head) < HEADER or _kernel.masked_crc32c(head[:8]) != struct.unpack("<I", head[8:])[0]:
        return None
    return int(struct.unpack("<Q", head[:8])[0])


def _masked_crc(window: np.ndarray) -> np.ndarray:
    """The masked CRC32C of the first eight bytes of each row."""
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
