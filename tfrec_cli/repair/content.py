"""The content of a damaged file, decompressed as far as that goes, with random access.

A plain file is its own content. Compressed data is inflated into a scratch file. Behind a fault
inflating goes on where the data allows it: at the next GZIP member, or at the next place where a
writer flushed and began a block that needs nothing before it, as tfrec's ZLIB shards have every
4 MiB. What lies between is a gap.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tfrec_cli.errors import SourceError
from tfrec_cli.records.framing import HEADER, Container, starts_with_record
from tfrec_cli.records.streams import ContentStream

_READ = 1 << 16
_CHUNK = 1 << 18
_NEAR = 1 << 12
_SEARCH = 1 << 20
_TRIAL = 1 << 16
_GZIP_TRAILER = 8
_ZLIB_HEADER = 2
_ZLIB_TRAILER = 4
_MAGIC = b"\x1f\x8b\x08"
_FLUSH = b"\x00\x00\xff\xff"
_PLACE = re.compile(re.escape(_MAGIC) + b"|" + re.escape(_FLUSH), re.DOTALL)
_HEADER = re.compile(rb"\x1f\x8b\x08(?P<flags>[\x00-\x1f]).{6}", re.DOTALL)
_MAX_HEADER = 1 << 17


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of the file that could not be inflated. at: bytes of content before it. start, end: in
    the file as it lies on the disk.
    """

    at: int
    start: int
    end: int
    kind: str
    text: str


@dataclass(slots=True)
class Content:
    """What a file holds, decompressed: `size` bytes with `gaps` in them, in order.

    doubtful: start and end of what comes of compressed data that is damaged somewhere.
    """

    path: str
    container: Container
    size: int = 0
    gaps: list[Gap] = field(default_factory=list)
    doubtful: list[tuple[int, int]] = field(default_factory=list)
    _file: IO[bytes] | None = None

    def read(self, offset: int, size: int) -> bytes:
        """The bytes from `offset` on, fewer at the end. Raises SourceError."""
        return _read_at(self._file, offset, size, self.path)


@contextmanager
def open_content(path: str, promised: Container, scratch: Path) -> Iterator[Content]:
    """The content of the file at `path`. promised: the compression that its name speaks of.

    scratch: a folder for what is inflated. Raises SourceError where the file cannot be read.
    """
    with _open(path) as file:
        content = Content(path, _container(file, promised, path), _file=file)
        if content.container == "none":
            content.size = os.fstat(file.fileno()).st_size
            yield content
            return
        with open(scratch / "content", "w+b") as inflated:
            _Inflation(file, content, inflated).run()
            inflated.flush()
            content._file = inflated
            yield content
        os.unlink(scratch / "content")


def _open(path: str) -> IO[bytes]:
    try:
        return open(path, "rb")
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}.") from None


def _container(file: IO[bytes], promised: Container, path: str) -> Container:
    """How the content is compressed; of a file that starts with nothing known, as its name says."""
    try:
        found = ContentStream(file, promised=promised).container
        file.seek(0)
        head = file.read(HEADER)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}.") from None
    return promised if found == "none" and not starts_with_record(head) else found


def _read_at(file: IO[bytes] | None, offset: int, size: int, path: str) -> bytes:
    assert file is not None
    parts = []
    try:
        while size > 0 and (data := os.pread(file.fileno(), min(size, 1 << 30), offset)):
            parts.append(data)
            offset, size = offset + len(data), size - len(data)
    except OSError as error:
        raise SourceError(
            f"{path}, byte {offset}: {error.strerror or error}. Copy what can be read to another "
            "disk (as with ddrescue), and repair the copy."
        ) from None
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class _Stop:
    """Where inflating stopped. end: just past the stream, None at a fault. at: of the fault."""

    end: int | None
    at: int = 0
    kind: str = ""
    text: str = ""


class _Inflation:
    """One pass over a compressed file."""

    def __init__(self, file: IO[bytes], content: Content, sink: IO[bytes]) -> None:
        self._file, self._content, self._sink = file, content, sink
        self._size = os.fstat(file.fileno()).st_size
        self._is_gzip = content.container == "gzip"
        self._trailer = _GZIP_TRAILER if self._is_gzip else _ZLIB_TRAILER
        self._known = 0
        self._last = 0, 0
        self._crc, self._adler = 0, 1

    def run(self) -> None:
        """Inflate all that can be."""
        at, is_raw = 0, False
        while at < self._size:
            begin = at if is_raw else self._begin(at)
            if begin is None:
                kind = "trailing data" if at else "header"
                what = "GZIP member" if self._is_gzip else "ZLIB stream"
                stop = _Stop(None, at, kind, f"no {what} begins here")
                at, is_raw = self._go_on(self._known, stop)
                continue
            self._last = begin, self._content.size
            stop = self._inflate(begin)
            size, is_good = self._last[1], stop.end is not None
            if stop.end is None:
                at, is_raw = self._go_on(at + 1, stop)
            else:
                is_good = self._note_end(at, stop.end, is_raw)
                at, is_raw = stop.end + self._trailer, False
            if not is_good and self._content.size > size:
                self._content.doubtful.append((size, self._content.size))

    def _note_end(self, at: int, end: int, is_raw: bool) -> bool:
        """From where on another member may begin, behind the stream of the one at `at`. Returns
        whether its checksum holds; that of a part of a stream is not known.
        """
        trailer = self._bytes(end, self._trailer)
        right = struct.pack("<I", self._crc) if self._is_gzip else struct.pack(">I", self._adler)
        is_good = is_raw or trailer[:4] == right
        # Where it is wrong, the stream may have run over the next member's beginning.
        self._known = end + self._trailer if is_good or not self._is_gzip else at + 1
        return is_good

    def _go_on(self, start: int, stop: _Stop) -> tuple[int, bool]:
        """Note the gap behind a fault. Returns the next place, from `start` on, where inflating is
        possible, and whether that is deflated data without a header.
        """
        place, is_member = self._next_place(start, stop.at)
        if is_member and place < stop.at:
            self._redo(place)
        gap = Gap(self._content.size, stop.at, max(place, stop.at), stop.kind, stop.text)
        if place > stop.at or stop.kind != "trailing data":
            self._content.gaps.append(gap)
        return place, not is_member

    def _redo(self, limit: int) -> None:
        """Inflate the last stream again, without the next member, which begins at `limit` and which
        it ran into: what is stored there as it is would be read twice.
        """
        begin, size = self._last
        self._sink.seek(size)
        self._sink.truncate()
        self._content.size = size
        self._inflate(begin, limit)

    def _next_place(self, start: int, fault: int) -> tuple[int, bool]:
        """The next member from `start` on, or the next flush from `fault` on, whichever is first;
        and whether it is a member. The file's end where there is neither.
        """
        size = _NEAR
        while start < self._size:
            data = self._bytes(start, size)
            for match in _PLACE.finditer(data):
                place, is_member = start + match.start(), match[0] == _MAGIC
                if is_member and self._is_gzip:
                    begin = self._begin(place)
                    if begin is not None and self._inflates(begin):
                        return place, True
                place += len(_FLUSH)
                if not is_member and place > fault and self._inflates(place):
                    return place, False
            start += max(1, len(data) - len(_FLUSH) + 1)
            size = min(4 * size, _SEARCH)
        return self._size, False

    def _inflates(self, begin: int) -> bool:
        """Whether what begins here can be inflated for a while, without anything before it."""
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            return bool(inflate.decompress(self._bytes(begin, _TRIAL), _TRIAL))
        except zlib.error:
            return False

    def _begin(self, at: int) -> int | None:
        """Where the deflated data of the member or stream at `at` begins; None where none does."""
        if not self._is_gzip:
            head = self._bytes(at, _ZLIB_HEADER)
            good = len(head) == _ZLIB_HEADER and int.from_bytes(head, "big") % 31 == 0
            good = good and head[0] & 0x8F == 8 and not head[1] & 0x20
            # A damaged header is no loss: nothing in it is needed.
            return at + _ZLIB_HEADER if good or (not at and self._inflates(_ZLIB_HEADER)) else None
        if self._bytes(at, len(_MAGIC)) != _MAGIC:
            return None
        head = self._bytes(at, _MAX_HEADER)
        size = _gzip_header_size(head)
        return None if size is None else at + size

    def _inflate(self, begin: int, limit: int | None = None) -> _Stop:
        """Inflate one raw stream into the sink, reading no further than `limit`."""
        limit = self._size if limit is None else limit
        inflate, at = zlib.decompressobj(-zlib.MAX_WBITS), begin
        self._crc, self._adler = 0, 1
        while not inflate.eof:
            data = self._bytes(at, min(_READ, limit - at))
            if not data:
                return _Stop(None, at, "truncated", "the file ends within the compressed data")
            before = inflate.copy()
            try:
                self._take(inflate, data)
            except zlib.error as error:
                read = self._salvage(before, data)
                return _Stop(None, at + read, "compressed data", f"it cannot be inflated ({error})")
            at += len(data)
        return _Stop(at - len(inflate.unused_data))

    def _take(self, inflate: Any, data: bytes) -> None:
        """Inflate `data`. Nothing is kept where it raises zlib.error."""
        mark, sums = self._sink.tell(), (self._crc, self._adler)
        try:
            while data and not inflate.eof:
                chunk = inflate.decompress(data, _CHUNK)
                self._put(chunk)
                data = inflate.unconsumed_tail
            while not inflate.eof and (chunk := inflate.decompress(b"", _CHUNK)):
                self._put(chunk)
        except zlib.error:
            self._sink.seek(mark)
            self._sink.truncate()
            self._crc, self._adler = sums
            raise
        self._content.size = self._sink.tell()

    def _put(self, chunk: bytes) -> None:
        self._sink.write(chunk)
        if self._is_gzip:
            self._crc = zlib.crc32(chunk, self._crc)
        else:
            self._adler = zlib.adler32(chunk, self._adler)

    def _salvage(self, inflate: Any, data: bytes) -> int:
        """Inflate what comes before the fault in `data`; how many of its bytes were read."""
        read = 0
        for step in (1024, 32, 1):
            while read < len(data):
                before = inflate.copy()
                try:
                    self._take(inflate, data[read : read + step])
                except zlib.error:
                    inflate = before
                    break
                read += step
        return min(read, len(data))

    def _bytes(self, offset: int, size: int) -> bytes:
        return _read_at(self._file, offset, size, self._content.path)


def _gzip_header_size(head: bytes) -> int | None:
    """The length of the GZIP header (RFC 1952) that `head` begins with; None where it is none."""
    match = _HEADER.match(head)
    if match is None:
        return None
    flags, size = match["flags"][0], match.end()
    if flags & 4:
        size += 2 + int.from_bytes(head[size : size + 2], "little")
    for flag in (8, 16):
        if flags & flag:
            end = head.find(b"\0", size)
            if end < 0:
                return None
            size = end + 1
    return size + (2 if flags & 2 else 0)
