"""The records of a file as chunks that may be kept, and its damage as an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tfrec_cli.reading.targets import Target
from tfrec_cli.records.blocks import BLOCK
from tfrec_cli.records.framing import promised_compression
from tfrec_cli.records.intact import intact_blocks, record_count
from tfrec_cli.records.streams import ContentStream


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
        record = offset = 0
        for part in intact_blocks(target.path, stream, block=block):
            yield Chunk(target, _kept(part.data), part.ends, record, offset)
            record, offset = part.record + len(part.ends), part.offset + int(part.ends[-1])
        if target.shard is not None and target.shard.records != record:
            raise record_count(target.path, record, offset, target.shard.records)
        yield Chunk(
            target, pa.py_buffer(b""), np.zeros(0, np.int64), record, offset, stream.container,
            stream.size, stream.total,
        )  # fmt: skip


def _kept(data: memoryview) -> pa.Buffer:
    """A copy, in memory that Arrow has at hand: fresh memory takes longer than to copy."""
    buffer = pa.allocate_buffer(len(data))
    memoryview(buffer).cast("B")[:] = data
    return buffer
