"""Framed records of one file, a block at a time, and the damage among them.

Unlike `framing.read_records`, which stops at the first damage, this goes on where it can: past a
record whose data is not what was written, since its length still is. A wrong length ends the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tfrec_cli import _kernel
from tfrec_cli.records.framing import FOOTER, HEADER, mask

BLOCK = 4 << 20
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")


class Readable(Protocol):
    """What blocks are read from: a file's content (`streams.ContentStream`), or a part of it."""

    def readinto(self, view: memoryview) -> int:
        """Put the next bytes into `view`; how many, 0 at the end."""


@dataclass(frozen=True, slots=True)
class Block:
    """Intact records back to back: `data` holds them until the next block is asked for.

    ends: int64, the offset in `data` just past each. record: number of the first of them in the
    file, from 0. offset: bytes of content before it.
    """

    data: memoryview
    ends: np.ndarray
    record: int
    offset: int


@dataclass(frozen=True, slots=True)
class Damage:
    """One record that is not what its writer left.

    kind: `length checksum`, `length`, `data checksum`, `truncated` or `too large` (its checksums
    hold, but neither protobuf nor TensorFlow reads it as an Example). size: of its frame in bytes,
    0 where nothing after it can be read. in_header: whether a cut is within the 12 header bytes.
    """

    kind: str
    record: int
    offset: int
    text: str
    size: int = 0
    in_header: bool = False


def read_blocks(stream: Readable, size: int = BLOCK) -> Iterator[Block | Damage]:
    """The records of a file in order, as blocks of about `size` bytes, and the damage.

    Memory is bounded by the block and the largest record that can be an Example (2 GiB).
    """
    yield from _Blocks(stream, size).read()


class _Blocks:
    """One pass: a buffer that is filled from the stream and emptied record by record."""

    def __init__(self, stream: Readable, size: int) -> None:
        self._stream = stream
        self._view = memoryview(bytearray(size))
        self._start = self._stop = 0
        self._record = self._offset = 0
        self._is_over = False

    def read(self) -> Iterator[Block | Damage]:
        """See `read_blocks`."""
        while not self._is_over:
            more = self._fill()
            while self._start < self._stop and not self._is_over:
                found = _kernel.scan(self._view[self._start : self._stop])
                if len(found.ends):
                    yield self._block(found.ends)
                if not found.damage:
                    break
                if found.damage == "truncated" and more:
                    if self._needs() > _kernel.MAX_RECORD_BYTES + HEADER + FOOTER:
                        yield self._skip_giant()
                        continue
                    break
                yield self._damage(found.damage)
            self._is_over |= not more

    def _block(self, ends: np.ndarray) -> Block:
        start, size = self._start, int(ends[-1])
        block = Block(self._view[start : start + size], ends, self._record, self._offset)
        self._pass(size, len(ends))
        return block

    def _pass(self, size: int, records: int) -> None:
        self._start += size
        self._offset += size
        self._record += records

    def _needs(self) -> int:
        """Bytes of the record that begins at the start, as far as is known."""
        if self._stop - self._start < HEADER:
            return HEADER
        return int(_LENGTH.unpack_from(self._view, self._start)[0]) + HEADER + FOOTER

    def _fill(self) -> bool:
        """Read on after what is left of a record. False at the end of the content."""
        left, needs, target = self._stop - self._start, self._needs(), self._view
        if needs > len(target) and left == len(target):
            # At once, not step by step: of memory that is not zeroed only what is filled counts.
            target = np.empty(needs, np.uint8).data
        target[:left] = self._view[self._start : self._stop]
        self._view, self._start, self._stop = target, 0, left
        before = self._stop
        while self._stop < len(target):
            size = self._stream.readinto(target[self._stop :])
            if not size:
                break
            self._stop += size
        return self._stop > before and self._stop == len(target)

    def _damage(self, kind: str) -> Damage:
        record, offset, have = self._record, self._offset, self._stop - self._start
        if kind == "truncated":
            self._is_over = True
            if have < HEADER:
                text = f"{have} of its 12 header bytes are there"
                return Damage(kind, record, offset, text, in_header=True)
            text = f"{have} of its {self._needs()} bytes are there"
            return Damage(kind, record, offset, text)
        if kind == "data checksum":
            size = self._needs()
            self._pass(size, 1)
            return _bad_data(record, offset, size)
        self._is_over = True
        return Damage(kind, record, offset, "its length is not the one written")

    def _skip_giant(self) -> Damage:
        """Check a record too long to be held, and step over it."""
        record, offset, needs = self._record, self._offset, self._needs()
        length = needs - HEADER - FOOTER
        crc, tail, have = 0, b"", 0
        part = self._view[self._start + HEADER : self._stop]
        while have < length + FOOTER and len(part):
            part = part[: length + FOOTER - have]
            data = part[: max(0, length - have)]
            crc, tail = _kernel.crc32c(data, crc), tail + bytes(part[len(data) :])
            have += len(part)
            size = self._stream.readinto(self._view[: min(BLOCK, length + FOOTER - have)])
            part = self._view[:size]
        self._start = self._stop = 0
        self._offset, self._record = offset + needs, record + 1
        if have < length + FOOTER:
            self._is_over = True
            text = f"{HEADER + have} of its {needs} bytes are there"
            return Damage("truncated", record, offset, text)
        if _CRC.unpack(tail)[0] != mask(crc):
            return _bad_data(record, offset, needs)
        return Damage("too large", record, offset, f"{length} bytes are more than 2 GiB - 1", needs)


def _bad_data(record: int, offset: int, size: int) -> Damage:
    text = f"its {size - HEADER - FOOTER} bytes are not those written"
    return Damage("data checksum", record, offset, text, size)
