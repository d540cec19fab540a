"""Compressed shards, cut into blocks that are deflated apart and written in order.

TensorFlow reads GZIP and ZLIB only, each with a trap:

* GZIP (RFC 1952): a file may be many members. Each is one block here, its header without name or
  time, so equal records give equal bytes. TensorFlow stops at an empty member, so there is none,
  except that a file without records is one.
* ZLIB (RFC 1950): TensorFlow reads the first stream of a file and silently ignores the others.
  The blocks are therefore one stream: each deflated on its own and ended by a sync flush, one
  Adler-32 over all of them combined from theirs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfrec_cli.options import Compression
from tfrec_cli.records.compressors import compressor
from tfrec_cli.stages import timed

if TYPE_CHECKING:
    from typing_extensions import Buffer

BLOCK_SIZE = 4 << 20
"""Bytes of records that are compressed in one go; a part of what makes the output repeatable."""

_ADLER_BASE = 65521
_GZIP_HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
_FINAL_BLOCK = b"\x03\x00"


@dataclass(frozen=True, slots=True)
class Block:
    """One compressed block: `data` to write, and size and Adler-32 of what it was made of."""

    data: Buffer
    size: int
    adler32: int


@timed("compress", lambda block: block.size)
def compress_block(data: Buffer, compression: Compression) -> Block:
    """`data` as one block of a file. Depends on its arguments alone; releases the GIL."""
    size = memoryview(data).nbytes
    if compression.kind == "none":
        return Block(data, size, 1)
    if compression.kind == "gzip":
        return Block(_member(data, size, compression), size, 1)
    used = compressor(compression.compressor)
    if used.part is None:
        raise ValueError(f"{compression.compressor} cannot write one stream in parts")
    return Block(used.part(data, compression.level), size, used.adler32(data))


def adler32_combine(first: int, second: int, second_size: int) -> int:
    """The Adler-32 of two runs of bytes together, from that of each and the second's size.

    Follows from RFC 1950: the low half is one more than the sum of the bytes, the high half sums
    the low halves after each byte, modulo 65521.
    """
    low, high = first & 0xFFFF, first >> 16
    low2, high2 = second & 0xFFFF, second >> 16
    total = (low + low2 - 1) % _ADLER_BASE
    weighted = (high + high2 + second_size * (low - 1)) % _ADLER_BASE
    return weighted << 16 | total


class Container:
    """What goes around the blocks of one file: `start`, then `add` in order, then `finish`."""

    def __init__(self, compression: Compression) -> None:
        self._compression = compression
        self._adler32 = 1
        self._blocks = 0

    def start(self) -> bytes:
        """The bytes before the first block."""
        return _zlib_header(self._compression) if self._compression.kind == "zlib" else b""

    def add(self, block: Block) -> Buffer:
        """The bytes to write for the next block."""
        self._blocks += 1
        self._adler32 = adler32_combine(self._adler32, block.adler32, block.size)
        return block.data

    def finish(self) -> bytes:
        """The bytes after the last block; what makes a file without blocks a valid one."""
        if self._compression.kind == "zlib":
            return _FINAL_BLOCK + struct.pack(">I", self._adler32)
        if self._compression.kind == "gzip" and not self._blocks:
            return _member(b"", 0, self._compression)
        return b""


def _member(data: Buffer, size: int, compression: Compression) -> bytes:
    used = compressor(compression.compressor)
    footer = struct.pack("<II", used.crc32(data), size & 0xFFFFFFFF)
    return b"".join((_GZIP_HEADER, used.deflate(data, compression.level), footer))


def _zlib_header(compression: Compression) -> bytes:
    """Two bytes: deflate with a 32 KiB window, and a hint of the level; a multiple of 31."""
    level = compression.level if compression.compressor != "isal" else 1
    hint = 0 if level < 2 else 1 if level < 6 else 2 if level == 6 else 3
    head = 0x7800 | hint << 6
    return (head + 31 - head % 31).to_bytes(2, "big")
