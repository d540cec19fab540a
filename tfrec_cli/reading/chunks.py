"""The records of a file as chunks that may be kept, and its damage as an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tfrec_cli.reading.targets import Target
from tfrec_cli.records.blocks import BLOCK, Damage, read_blocks
from tfrec_cli.records.framing import RecordDamage, promised_compression
from tfrec_cli.records.streams import ContentStream, Fault

_REST = 1 << 16
_RATIO = 8
# TensorFlow reads nothing behind an empty member, but what is there is sound.
_HARMLESS = ("empty member",)
_REMEDY = "`tfrec verify` lists all damage."


@dataclass(frozen=True, slots=True)
class Chunk:
    """Intact records of one file, framed, back to back.

    data, ends: as `_kernel.scan` has them. record: number of the first, from 0. offset: bytes of
    content before it. The last chunk of a file has no records, and says how the file is compressed
    and how many bytes it has on the disk and decompressed.
    """

    target: Target
    data: pa.Buffer
    ends: np.ndarray
    record: int
    offset: int
    container: str | None = None
    bytes: int = 0
    content_bytes: int = 0

    def place(self, number: int) -> tuple[int, int]:
        """Which record of the file record `number` of the chunk is, and the content before it."""
        start = int(self.ends[number - 1]) if number else 0
        return self.record + number, self.offset + start


def read_chunks(target: Target, block: int = BLOCK) -> Iterator[Chunk]:
    """The records of a file of any origin, checked, in chunks of about `block` bytes.

    Memory is bounded by the chunk and the largest record. Raises RecordDamage (a DamageError) at
    the first record that is not intact and for damage around the records, OSError where the file
    cannot be read.
    """
    with open(target.path, "rb") as file:
        stream = ContentStream(file, False, promised_compression(target.path))
        room = max(_REST, stream.size * (1 if stream.container == "none" else _RATIO))
        record = offset = 0
        for part in read_blocks(stream, min(block, room)):
            if isinstance(part, Damage):
                raise _damage(target, part, stream)
            yield Chunk(target, pa.py_buffer(bytes(part.data)), part.ends, record, offset)
            record, offset = part.record + len(part.ends), part.offset + int(part.ends[-1])
        if faults := [fault for fault in stream.faults if fault.kind not in _HARMLESS]:
            raise _fault(target, faults[0], record, offset)
        if target.shard is not None and target.shard.records != record:
            raise _short(target, record, offset, target.shard.records)
        yield Chunk(
            target, pa.py_buffer(b""), np.zeros(0, np.int64), record, offset, stream.container,
            stream.size, stream.total,
        )  # fmt: skip


def _damage(target: Target, damage: Damage, stream: ContentStream) -> RecordDamage:
    if damage.kind == "truncated" and stream.faults:
        return _fault(target, stream.faults[-1], damage.record, damage.offset)
    text = damage.text
    if not damage.record and not damage.size and stream.container == "none":
        text += "; if the file ever was a TFRecord file, it was not plain, GZIP or ZLIB"
    return RecordDamage(
        target.path, damage.record, damage.offset, damage.kind, f"{text}. {_REMEDY}"
    )


def _short(target: Target, record: int, offset: int, written: int) -> RecordDamage:
    text = f"the file ends, but {written:,} records were written, by the manifest. {_REMEDY}"
    return RecordDamage(target.path, record, offset, "record count", text)


def _fault(target: Target, fault: Fault, record: int, offset: int) -> RecordDamage:
    text = f"{fault.text} (byte {fault.at:,} of the file). {_REMEDY}"
    return RecordDamage(target.path, record, offset, fault.kind, text)
