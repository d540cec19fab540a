"""What a TFRecord file holds, decompressed in bounded memory, and what is wrong around it.

A file is plain, GZIP (RFC 1952: members, each with a header, deflated data, CRC-32 and size) or
ZLIB (RFC 1950: a header, deflated data, Adler-32). The containers are taken apart here, rather
than by zlib, so that what stands before a fault is still read, and the fault gets a place.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import IO, Any

from tfrec_cli import _kernel
from tfrec_cli.errors import counted
from tfrec_cli.records.framing import HEADER, Container, sniff

_READ = 1 << 16
_HEAD = 1 << 10
_CHUNK = 1 << 18
_EXTRA, _NAME, _COMMENT, _HEADER_CRC, _RESERVED = 4, 8, 16, 2, 0xE0
_MAX_NAME = 1 << 16


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong around the records.

    kind: `truncated`, `compressed data`, `header`, `trailer`, `empty member` or `trailing data`.
    offset: bytes of content before it. at: where it is in the file as it lies on the disk: the
    start of the member, header, trailer or data that is meant, or the end of a file that is cut.
    """

    kind: str
    offset: int
    at: int
    text: str


class RawFile:
    """The bytes of a file as it lies on the disk, counted and, on request, summed up.

    size: bytes read so far; crc32c: of all of them, None where it was not asked for.
    """

    def __init__(self, file: IO[bytes], checksum: bool) -> None:
        self._file = file
        self._back = b""
        self.size = 0
        self.crc32c: int | None = 0 if checksum else None

    def readinto(self, view: memoryview) -> int:
        """Fill `view` as far as one read goes; 0 at the end."""
        size = self._file.readinto(view)  # type: ignore[attr-defined]
        self._note(view[:size])
        return int(size)

    def read(self) -> bytes:
        """The next bytes, none at the end."""
        if self._back:
            data, self._back = self._back, b""
            return data
        data = self._file.read(_READ)
        self._note(data)
        return data

    def take(self, size: int) -> bytes:
        """Exactly `size` bytes, fewer at the end."""
        parts, missing = [], size
        while missing and (data := self.read()):
            parts.append(data[:missing])
            self._back = data[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    def unread(self, data: bytes) -> None:
        """Give back bytes that were read last."""
        self._back = data + self._back

    def drain(self) -> int:
        """Read what is left; how much it was."""
        size = 0
        while data := self.read():
            size += len(data)
        return size

    @property
    def at(self) -> int:
        """The place in the file of the next byte."""
        return self.size - len(self._back)

    def _note(self, data: bytes | memoryview) -> None:
        self.size += len(data)
        if self.crc32c is not None:
            self.crc32c = _kernel.crc32c(data, self.crc32c)


class ContentStream:
    """The content of a TFRecord file, decompressed.

    promised: how the file's name says it is compressed. container: how it is, by its content.
    faults: what was found so far; where one ends the content, `readinto` returns 0. total: bytes
    of content so far.
    """

    def __init__(
        self, file: IO[bytes], checksum: bool = False, promised: Container = "none"
    ) -> None:
        head = file.read(_HEAD)
        file.seek(0)
        self.raw = RawFile(file, checksum)
        self.size = os.fstat(file.fileno()).st_size
        self.container: Container = sniff(head[:HEADER])
        if self.container == "zlib" and promised != "zlib" and not _inflates(head):
            self.container = "none"
        self.faults: list[Fault] = []
        self.total = 0
        self._chunks: Iterator[bytes] | None = None
        if self.container != "none":
            self._chunks = _gzip(self) if self.container == "gzip" else _zlib(self)
        self._waiting = memoryview(b"")

    @property
    def crc32c(self) -> int | None:
        """Of the bytes of the file that were read, where it was asked for."""
        return self.raw.crc32c

    def readinto(self, view: memoryview) -> int:
        """Put the next bytes of content into `view`; how many, 0 at the end."""
        if self._chunks is None:
            size = self.raw.readinto(view)
            self.total += size
            return size
        filled = 0
        while filled < len(view):
            if not self._waiting:
                self._waiting = memoryview(next(self._chunks, b""))
                if not self._waiting:
                    break
            part = self._waiting[: len(view) - filled]
            view[filled : filled + len(part)] = part
            self._waiting = self._waiting[len(part) :]
            filled += len(part)
        return filled

    def fault(self, kind: str, text: str, at: int | None = None) -> None:
        """Note a fault at the content's end so far, and at the place in the file where reading
        stands, or `at`.
        """
        self.faults.append(Fault(kind, self.total, self.raw.at if at is None else at, text))


def _inflates(head: bytes) -> bool:
    """Whether ZLIB data follows its two bytes, which a damaged record may begin with too."""
    try:
        zlib.decompressobj().decompress(head, HEADER)
    except zlib.error:
        return False
    return True


def _gzip(stream: ContentStream) -> Iterator[bytes]:
    """The content of all members. TensorFlow stops at an empty one without a word, so one is a
    fault where content follows.
    """
    raw, empty = stream.raw, -1
    while head := raw.take(2):
        begin = raw.at - len(head)
        if head != b"\x1f\x8b"[: len(head)]:
            raw.unread(head)
            _trailing(stream, "no GZIP member")
            return
        if fault := _gzip_header(raw, head):
            stream.fault(*fault, begin if fault[0] == "header" else None)
            return
        size, crc = 0, 0
        for chunk in _Inflate(stream):
            if empty >= 0:
                text = "a GZIP member without content stands before it"
                stream.fault("empty member", text, empty)
                empty = -1
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
            stream.total += len(chunk)
            yield chunk
        if stream.faults and stream.faults[-1].kind in ("compressed data", "truncated"):
            return
        if not size and empty < 0:
            empty = begin
        _gzip_trailer(stream, size, crc)


def _gzip_header(raw: RawFile, head: bytes) -> tuple[str, str] | None:
    """Read the rest of a member's header; its fault, if there is one."""
    head += raw.take(8)
    if len(head) < 10:
        return "truncated", f"the file ends within a GZIP header ({len(head)} of 10 bytes)"
    if head[2] != 8 or head[3] & _RESERVED:
        return "header", "the GZIP header names a method or flags that do not exist"
    flags = head[3]
    if flags & _EXTRA:
        head += raw.take(2)
        head += raw.take(int.from_bytes(head[-2:], "little"))
    for flag in (_NAME, _COMMENT):
        if flags & flag:
            head += _text(raw)
    if flags & _HEADER_CRC and raw.take(2) != struct.pack("<H", zlib.crc32(head) & 0xFFFF):
        return "header", "the GZIP header is not the one that was written"
    return None


def _text(raw: RawFile) -> bytes:
    """Up to and with the zero byte that ends a name or comment; longer ones are cut."""
    text = b""
    while (byte := raw.take(1)) and len(text) < _MAX_NAME:
        text += byte
        if byte == b"\0":
            break
    return text


def _gzip_trailer(stream: ContentStream, size: int, crc: int) -> None:
    at, trailer = stream.raw.at, stream.raw.take(8)
    if len(trailer) < 8:
        stream.fault("trailer", f"{len(trailer)} of the 8 bytes of the GZIP trailer are there", at)
    elif trailer[:4] != struct.pack("<I", crc):
        stream.fault("trailer", "the CRC-32 in the GZIP trailer is not that of the content", at)
    elif trailer[4:] != struct.pack("<I", size & 0xFFFFFFFF):
        stream.fault("trailer", "the size in the GZIP trailer is not that of the content", at)


def _zlib(stream: ContentStream) -> Iterator[bytes]:
    """The content of the one stream; TensorFlow reads nothing of what follows it."""
    head = stream.raw.take(2)
    if head[1] & 0x20:
        stream.fault("header", "the ZLIB stream needs a dictionary, which no TFRecord file has", 0)
        return
    adler = 1
    for chunk in _Inflate(stream):
        adler = zlib.adler32(chunk, adler)
        stream.total += len(chunk)
        yield chunk
    if stream.faults:
        return
    at, trailer = stream.raw.at, stream.raw.take(4)
    if len(trailer) < 4:
        stream.fault("trailer", f"{len(trailer)} of the 4 bytes of the ZLIB trailer are there", at)
    elif trailer != struct.pack(">I", adler):
        stream.fault("trailer", "the Adler-32 in the ZLIB trailer is not that of the content", at)
    if head := stream.raw.take(HEADER):
        stream.raw.unread(head)
        _trailing(stream, "a second ZLIB stream" if sniff(head) == "zlib" else "no records")


def _trailing(stream: ContentStream, what: str) -> None:
    at = stream.raw.at
    head = stream.raw.take(16)
    zeros = "zero bytes, " if head and not head.strip(b"\0") else ""
    size = len(head) + stream.raw.drain()
    text = f"{counted(size, 'byte')} behind the compressed data: {zeros}{what}"
    stream.faults.append(Fault("trailing data", stream.total, at, text))


class _Inflate:
    """Deflated data of one member or stream, in chunks of bounded size whatever the ratio. What
    follows it is given back; a fault ends it.
    """

    def __init__(self, stream: ContentStream) -> None:
        self._stream = stream

    def __iter__(self) -> Generator[bytes, None, None]:
        raw, inflate = self._stream.raw, zlib.decompressobj(-zlib.MAX_WBITS)
        data = raw.read()
        while not inflate.eof:
            before = inflate.copy()
            try:
                chunk = inflate.decompress(data, _CHUNK)
            except zlib.error as error:
                left = yield from _salvage(before, data)
                text = f"it cannot be inflated ({error})"
                self._stream.fault("compressed data", text, raw.at - left)
                return
            if chunk:
                yield chunk
            data = inflate.unconsumed_tail
            if not data and not inflate.eof:
                data = raw.read()
                if not data and not chunk:
                    self._stream.fault("truncated", "the file ends within the compressed data")
                    return
        raw.unread(inflate.unused_data)


def _salvage(inflate: Any, data: bytes) -> Generator[bytes, None, int]:
    """What can still be inflated before the fault in `data`, to the byte. Returns how many bytes of
    `data` are left then.
    """
    for step in (4096, 64, 1):
        while True:
            before = inflate.copy()
            try:
                chunk = inflate.decompress(data, step)
            except zlib.error:
                inflate = before
                break
            if not chunk:
                return len(data)
            yield chunk
            data = inflate.unconsumed_tail
    return len(data)
