"""Reading framed records from any TFRecord file, checked.

A record is, all little endian: uint64 length, uint32 masked CRC32C of those eight bytes, the
data, uint32 masked CRC32C of the data (tensorflow/core/lib/io/record_writer.h). A file is records
back to back, as it is, or as a whole in GZIP (RFC 1952) or ZLIB (RFC 1950) form.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Literal

from tfrec_cli._kernel import crc32c
from tfrec_cli.errors import DamageError

Container = Literal["none", "gzip", "zlib"]

HEADER = 12
FOOTER = 4
_CHUNK = 1 << 20
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_PROMISES: dict[str, Container] = {"gz": "gzip", "gzip": "gzip", "zz": "zlib", "zlib": "zlib"}
_SUFFIX = re.compile(r".*\.(gz|gzip|zz|zlib)", re.IGNORECASE | re.DOTALL)


class RecordDamage(DamageError):
    """A record, or the compressed stream around it, that is not what its writer left.

    file: the damaged file. record: number of the first record that cannot be read, from 0.
    offset: bytes of intact records before it, after decompression. kind: `length checksum`,
    `data checksum`, `truncated`, `compressed data`, `empty member` or `trailing data`.
    """

    def __init__(self, file: str, record: int, offset: int, kind: str, text: str) -> None:
        super().__init__(f"{file}, record {record}, byte {offset}: {kind}: {text}")
        self.file, self.record, self.offset, self.kind = file, record, offset, kind


def mask(crc: int) -> int:
    """The masked form in which TFRecord stores a CRC32C; both are uint32."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data: bytes) -> bytes:
    """One framed record that holds `data`."""
    length = _LENGTH.pack(len(data))
    check, data_check = mask(crc32c(length)), mask(crc32c(data))
    return b"".join((length, _CRC.pack(check), data, _CRC.pack(data_check)))


def is_frame(data: bytes) -> bool:
    """Whether bytes are one intact framed record."""
    size = len(data) - HEADER - FOOTER
    if size < 0 or not _header_fits(data[:HEADER]) or _LENGTH.unpack_from(data)[0] != size:
        return False
    check: int = _CRC.unpack_from(data, HEADER + size)[0]
    return check == mask(crc32c(memoryview(data)[HEADER : HEADER + size]))


def promised_compression(path: str) -> Container:
    """How a file's name says that it is compressed."""
    match = _SUFFIX.fullmatch(path)
    return _PROMISES[match[1].lower()] if match else "none"


def sniff(head: bytes) -> Container:
    """How a file that starts with `head` (its first 12 bytes, or all of it) is compressed.

    A good record header counts first: the length of a plain record can look like a magic number.
    """
    if starts_with_record(head):
        return "none"
    if head[:3] == b"\x1f\x8b\x08":
        return "gzip"
    if len(head) >= 2 and head[0] & 0x8F == 8 and int.from_bytes(head[:2], "big") % 31 == 0:
        return "zlib"
    return "none"


def starts_with_record(head: bytes) -> bool:
    """Whether `head`, the first 12 bytes of a file, is the header of a plain record."""
    return len(head) >= HEADER and _header_fits(head)


def sniff_file(path: str | os.PathLike[str]) -> Container:
    """`sniff` for the file at `path`. Raises OSError where it cannot be read."""
    with open(path, "rb") as file:
        return sniff(file.read(HEADER))


def read_records(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The data of each record of a TFRecord file, in order, whatever the file's suffix says.

    Streams; memory is bounded by the largest record. A file without bytes has no records.
    Raises RecordDamage at the first record that is not intact, OSError where the file cannot be
    read.
    """
    with open(path, "rb") as file:
        head = file.read(HEADER)
        file.seek(0)
        yield from _Reader(Path(path), file, sniff(head)).records()


def _header_fits(head: bytes) -> bool:
    check: int = _CRC.unpack_from(head, 8)[0]
    return check == mask(crc32c(head[:8]))


class _Reader:
    """One pass over one file: counts what it has read, so that damage has a place."""

    def __init__(self, path: Path, file: IO[bytes], container: Container) -> None:
        self._path, self._container = path, container
        self._chunks = _OPENERS[container](self, file)
        self._waiting = bytearray()
        self._record = self._offset = 0

    def records(self) -> Iterator[bytes]:
        while head := self._take(HEADER):
            if len(head) < HEADER:
                raise self.damage("truncated", f"{len(head)} of its 12 header bytes are there")
            if not _header_fits(head):
                raise self.damage("length checksum", self._bad_length())
            yield self._data(_LENGTH.unpack_from(head)[0])

    def _data(self, length: int) -> bytes:
        body = self._take(length + FOOTER)
        if len(body) < length + FOOTER:
            text = f"{len(body)} of its {length + FOOTER} bytes are there"
            raise self.damage("truncated", text)
        data = body[:length]
        if _CRC.unpack_from(body, length)[0] != mask(crc32c(data)):
            raise self.damage(
                "data checksum", f"its {length} bytes are not those that were written"
            )
        self._record += 1
        self._offset += HEADER + length + FOOTER
        return data

    def _take(self, size: int) -> bytes:
        """The next `size` bytes, fewer at the end of the file."""
        while len(self._waiting) < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            self._waiting += chunk
        taken = bytes(memoryview(self._waiting)[:size])
        del self._waiting[:size]
        return taken

    def _bad_length(self) -> str:
        if self._record == 0 and self._container == "none":
            return "the file does not start with a record; it is no TFRecord file, or is damaged"
        return "the record's length is not the one that was written"

    def damage(self, kind: str, text: str) -> RecordDamage:
        return RecordDamage(os.fspath(self._path), self._record, self._offset, kind, text)

    def plain(self, file: IO[bytes]) -> Iterator[bytes]:
        return iter(lambda: file.read(_CHUNK), b"")

    def gzip(self, file: IO[bytes]) -> Iterator[bytes]:
        """The members' content. An empty member is damage where anything follows or precedes it:
        TensorFlow stops reading there without a word.
        """
        rest, first = file.read(_CHUNK), True
        while rest:
            if rest[:2] != b"\x1f\x8b"[: len(rest)]:
                raise self.damage("trailing data", "bytes follow that are no GZIP member")
            size, member = 0, zlib.decompressobj(wbits=31)
            for chunk in self._inflate(member, rest, file):
                size += len(chunk)
                yield chunk
            rest = member.unused_data or file.read(_CHUNK)
            if not size and (rest or not first):
                raise self.damage("empty member", "TensorFlow reads nothing that follows it")
            first = False

    def zlib(self, file: IO[bytes]) -> Iterator[bytes]:
        """The content of the one stream. Anything after it is damage: TensorFlow ignores it."""
        stream = zlib.decompressobj()
        yield from self._inflate(stream, file.read(_CHUNK), file)
        if stream.unused_data or file.read(1):
            raise self.damage("trailing data", "TensorFlow reads one ZLIB stream and ignores these")

    def _inflate(self, stream: Any, data: bytes, file: IO[bytes]) -> Iterator[bytes]:
        """Inflated chunks of one member or stream, bounded in size whatever the ratio."""
        while not stream.eof:
            try:
                chunk = stream.decompress(data, _CHUNK)
            except zlib.error as error:
                raise self.damage("compressed data", f"it cannot be inflated ({error})") from None
            if chunk:
                yield chunk
            data = stream.unconsumed_tail
            if not data and not stream.eof:
                data = file.read(_CHUNK)
                if not data and not chunk:
                    raise self.damage("truncated", "the compressed data stops before its end")


_OPENERS: dict[Container, Callable[[_Reader, IO[bytes]], Iterator[bytes]]] = {
    "none": _Reader.plain,
    "gzip": _Reader.gzip,
    "zlib": _Reader.zlib,
}
