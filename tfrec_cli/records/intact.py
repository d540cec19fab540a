"""The intact records of a file, or of a part of it, and its damage as an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import IO, Protocol

from tfrec_cli.records.blocks import BLOCK, Block, Damage, read_blocks
from tfrec_cli.records.framing import Container, RecordDamage, promised_compression
from tfrec_cli.records.streams import ContentStream, Fault

_REST = 1 << 16
_RATIO = 8
# TensorFlow reads nothing behind an empty member, but what is there is sound.
_HARMLESS = ("empty member",)
REMEDY = "`tfrec verify` lists all damage, `tfrec repair` saves what is intact."
_ORIGIN = "; if the file ever was a TFRecord file, it was not plain, GZIP or ZLIB"


@dataclass(frozen=True, slots=True)
class Span:
    """Records of a plain file that lie next to each other.

    start, end: bytes of the file. record: number of the first of them in the file, from 0.
    """

    start: int
    end: int
    record: int


class Content(Protocol):
    """What records are read from: a file's content (`ContentStream`), or a part of it."""

    container: Container
    size: int
    faults: list[Fault]

    @property
    def crc32c(self) -> int | None:
        """Of the file as it lies on the disk, once all of it was read and where that was asked."""

    def readinto(self, view: memoryview) -> int:
        """Put the next bytes into `view`; how many, 0 at the end."""


@dataclass(slots=True)
class SpanStream:
    """A part of a plain file, read from its start."""

    file: IO[bytes]
    left: int
    container: Container = "none"
    size: int = 0
    faults: list[Fault] = field(default_factory=list)
    crc32c: None = None

    def readinto(self, view: memoryview) -> int:
        """Put the next bytes into `view`; how many, 0 at the end."""
        size = int(self.file.readinto(view[: self.left]))  # type: ignore[attr-defined]
        self.left -= size
        return size


@contextmanager
def open_content(path: str, span: Span | None = None, checksum: bool = False) -> Iterator[Content]:
    """The content of the file at `path`, or of a span of it. Raises OSError.

    checksum: whether the CRC32C of the file is taken, which is for whole files.
    """
    with open(path, "rb", buffering=0 if span else -1) as file:
        if span is None:
            yield ContentStream(file, checksum, promised_compression(path))
        else:
            file.seek(span.start)
            size = span.end - span.start
            yield SpanStream(file, size, size=size)


def intact_blocks(
    path: str, stream: Content, span: Span | None = None, block: int = BLOCK
) -> Iterator[Block]:
    """The records of a file or span, checked, in blocks of about `block` bytes.

    Memory is bounded by the block and the largest record. Raises RecordDamage (a DamageError) at
    the first record that is not intact and for damage around the records.
    """
    before, begin = (span.record, span.start) if span else (0, 0)
    room = max(_REST, stream.size * (1 if stream.container == "none" else _RATIO))
    record, offset = before, begin
    for part in read_blocks(stream, min(block, room)):
        if isinstance(part, Damage):
            placed = replace(part, record=part.record + before, offset=part.offset + begin)
            raise _damage(path, placed, stream)
        record = before + part.record + len(part.ends)
        offset = begin + part.offset + int(part.ends[-1])
        yield replace(part, record=before + part.record, offset=begin + part.offset)
    if faults := [fault for fault in stream.faults if fault.kind not in _HARMLESS]:
        raise _fault(path, faults[0], record, offset)


def record_count(path: str, record: int, offset: int, written: int) -> RecordDamage:
    """The damage of a file that ends after `record` records where `written` were written."""
    text = f"the file ends, but {written:,} records were written, by the manifest. {REMEDY}"
    return RecordDamage(path, record, offset, "record count", text)


def _damage(path: str, damage: Damage, stream: Content) -> RecordDamage:
    if damage.kind == "truncated" and stream.faults:
        return _fault(path, stream.faults[-1], damage.record, damage.offset)
    text = damage.text
    if not damage.record and not damage.size and stream.container == "none":
        text += _ORIGIN
    return RecordDamage(path, damage.record, damage.offset, damage.kind, f"{text}. {REMEDY}")


def _fault(path: str, fault: Fault, record: int, offset: int) -> RecordDamage:
    text = f"{fault.text} (byte {fault.at:,} of the file). {REMEDY}"
    return RecordDamage(path, record, offset, fault.kind, text)
