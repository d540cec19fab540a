"""The file of a sorted run: written whole, read by position.

It holds the run's segments one after the other, and nothing of those without records. All numbers
have eight bytes in the order of the machine. For `n` records a segment is:

* where each record begins and the last one ends, counted from the first: n + 1 numbers;
* their keys: n numbers; or, where keys are binary, n + 1 numbers as before, then the keys;
* the records, and what fills them up to a multiple of eight bytes.

So one read fetches a segment, and any of its rows or keys can be read alone, by position. Each
segment has a CRC32C, of the number of its records and then of its bytes, by which damage is noticed
that would be read as other records, or in another order.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli._kernel import crc32c
from tfrec_cli.buffers import offsets_of, to_numpy
from tfrec_cli.errors import DatasetError
from tfrec_cli.shuffle.segments import Ends

NUMBER = 8
"""Bytes of a number."""

Offsets = npt.NDArray[np.int64]

# Buffers that one call writes; systems take no fewer.
_AT_ONCE = 1024
# Bytes that are read together to be checked alone.
_CHECKED = 2**20


@dataclass(frozen=True, slots=True)
class Written:
    """A file that is there. offsets: where its segments end, after where the first begins. crcs: of
    each segment. crc: the CRC32C of the whole file, None where it was not written from front to
    back.
    """

    offsets: Offsets
    crcs: Offsets
    crc: int | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """A segment in its file: where it begins, its bytes, records, and its CRC32C."""

    at: int
    size: int
    rows: int
    crc: int

    def check(self, *parts: memoryview) -> None:
        """Raise EOFError unless this is what was written, one part behind the other."""
        crc = seed(self.rows)
        for part in parts:
            crc = crc32c(part, crc)
        if crc != self.crc:
            raise EOFError


def seed(rows: int) -> int:
    """The CRC32C that one of a segment of so many records begins with."""
    return crc32c(rows.to_bytes(NUMBER, "little"))


def segment_crc(file: int, at: int, size: int, rows: int) -> int:
    """The CRC32C of a segment as it lies in a file. Raises OSError; EOFError where less is left."""
    crc = seed(rows)
    while size:
        part = os.pread(file, min(size, _CHECKED), at)
        if not part:
            raise EOFError
        crc = crc32c(part, crc)
        at, size = at + len(part), size - len(part)
    return crc


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """The records of one segment, as batches one after the other.

    rows, key_bytes: of all of them; key_bytes only counts where keys are binary.
    """

    rows: int
    key_bytes: int
    batches: Iterable[pa.RecordBatch]

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> SegmentRows:
        """Of one batch."""
        keys = batch.column(0)
        binary = keys.type != pa.uint64() and len(keys)
        return cls(batch.num_rows, int(np.ptp(offsets_of(keys))) if binary else 0, (batch,))


def write_batch(path: str, batch: pa.RecordBatch, ends: Ends) -> Written:
    """Write sorted records (`key`, `record`), cut into segments at `ends`, to a new file at `path`,
    which is there whole or not at all. Raises DatasetError.
    """
    sizes = np.zeros(len(ends) + 1, np.int64)
    crcs = np.zeros(len(ends), np.int64)
    crc = 0
    with _draft(path) as draft, open(draft, "wb", buffering=0) as file:
        buffers = _buffers(batch, ends, sizes[1:], crcs)
        while some := list(islice(buffers, _AT_ONCE)):
            for buffer in some:
                crc = crc32c(buffer, crc)
            _write_all(file.fileno(), some)
    return Written(np.cumsum(sizes), crcs, crc)


def _buffers(
    batch: pa.RecordBatch, ends: Ends, sizes: Offsets, crcs: Offsets
) -> Iterator[memoryview]:
    """What the file holds, in order; the bytes of each segment go to `sizes`, its CRC to `crcs`."""
    keys, records = batch.column(0), data_of(batch.column(1))
    bounds = np.concatenate([np.zeros(1, np.int64), ends])
    places = offsets_of(batch.column(1))
    record_bounds = (places[bounds] - places[0]).tolist()
    binary = keys.type != pa.uint64()
    key_places = offsets_of(keys) if binary else to_numpy(keys)
    texts = data_of(keys) if binary else memoryview(b"")
    text_bounds = (key_places[bounds] - key_places[0]).tolist() if binary else []
    for segment, (begin, end) in enumerate(pairwise(bounds.tolist())):
        if begin == end:
            continue
        parts = [(places[begin : end + 1] - places[begin]).data]
        if binary:
            first, last = text_bounds[segment : segment + 2]
            parts += [(key_places[begin : end + 1] - key_places[begin]).data, texts[first:last]]
        else:
            parts.append(key_places[begin:end].data)
        first, last = record_bounds[segment : segment + 2]
        parts += [records[first:last], memoryview(bytes(-_bytes_of(parts, last - first) % NUMBER))]
        sizes[segment] = _bytes_of(parts)
        crc = seed(end - begin)
        for part in parts:
            crc = crc32c(part, crc)
        crcs[segment] = crc
        yield from (part for part in parts if part.nbytes)


def _bytes_of(parts: Sequence[memoryview], more: int = 0) -> int:
    return sum(part.nbytes for part in parts) + more


def _write_all(file: int, buffers: Sequence[memoryview]) -> None:
    left = sum(buffer.nbytes for buffer in buffers)
    while left:
        written = os.writev(file, buffers)
        left -= written
        buffers = _after(buffers, written) if left else ()


def _after(buffers: Sequence[memoryview], done: int) -> list[memoryview]:
    """What is left of buffers behind the first `done` bytes."""
    left = []
    for buffer in buffers:
        if done < buffer.nbytes:
            left.append(buffer.cast("B")[done:] if done else buffer)
        done = max(0, done - buffer.nbytes)
    return left


def write_segments(path: str, segments: Iterable[SegmentRows]) -> tuple[Ends, Written]:
    """Write segments to a new file at `path`, which is there whole or not at all; returns also the
    number of records up to the end of each. Raises DatasetError.
    """
    offsets, ends, crcs = [0], [0], []
    with _draft(path) as draft, open(draft, "w+b", buffering=2**20) as file:
        for segment in segments:
            begin, end = offsets[-1], _write_segment(file, offsets[-1], segment)
            # Its parts grow side by side, so that only what is there can be summed up in order.
            file.flush()
            crcs.append(segment_crc(file.fileno(), begin, end - begin, segment.rows))
            offsets.append(end)
            ends.append(ends[-1] + segment.rows)
    written = Written(np.array(offsets, np.int64), np.array(crcs, np.int64))
    return np.array(ends[1:], np.int64), written


def _write_segment(file: IO[bytes], at: int, segment: SegmentRows) -> int:
    """Write a segment that begins at `at`; returns where it ends."""
    if not segment.rows:
        return at
    places: list[int] = []
    begins = [0, 0]
    for batch in segment.batches:
        keys, records = batch.column(0), batch.column(1)
        binary = keys.type != pa.uint64()
        if not places:
            index = at + (segment.rows + 1) * NUMBER
            data = index + (segment.rows + binary) * NUMBER
            places = [at, index, data, data + segment.key_bytes]
        # Of each list of offsets the last is the first of the next batch.
        places[0], begins[0] = _write_offsets(file, places[0], records, begins[0])
        if binary:
            places[1], begins[1] = _write_offsets(file, places[1], keys, begins[1])
            places[2] = _write(file, places[2], data_of(keys))
        else:
            places[1] = _write(file, places[1], to_numpy(keys))
        places[3] = _write(file, places[3], data_of(records))
    return _write(file, places[3], bytes(-places[3] % NUMBER))


def _write_offsets(file: IO[bytes], at: int, array: pa.Array, begin: int) -> tuple[int, int]:
    """Write where the values of `array` begin and end, the first at `begin`. Returns where the last
    number stands, and the number.
    """
    offsets = offsets_of(array)
    moved = offsets - (offsets[0] - begin)
    return _write(file, at, moved) - NUMBER, int(moved[-1])


def _write(file: IO[bytes], at: int, data: Any) -> int:
    """Write at a place; returns the next one."""
    if file.tell() != at:
        file.seek(at)
    view = memoryview(data).cast("B") if memoryview(data).nbytes else b""
    file.write(view)
    return at + len(view)


def fill(file: int, at: int, buffers: Sequence[memoryview]) -> None:
    """Read from `at` on until all buffers are full. Raises OSError; EOFError where less is left."""
    left = sum(buffer.nbytes for buffer in buffers)
    if not 0 <= at < 2**63:
        # By a damaged number.
        raise EOFError
    os.lseek(file, at, os.SEEK_SET)
    while left:
        # One call reads no more than 2 GiB.
        read = os.readv(file, buffers)
        if not read:
            raise EOFError
        left -= read
        buffers = _after(buffers, read) if left else ()


def numbers_at(file: int, at: int, count: int) -> Offsets:
    """Some numbers of a file. Raises as `fill` does."""
    found = np.empty(count, np.int64)
    fill(file, at, [found.data])
    return found


def check_offsets(offsets: Offsets, most: int) -> None:
    """Raise EOFError unless these numbers of a file can be where values begin and end, one behind
    the other, `most` bytes in all or less.
    """
    falls = bool((offsets[1:] < offsets[:-1]).any())
    if falls or offsets[0] < 0 or int(offsets[-1]) - int(offsets[0]) > most:
        raise EOFError


@contextmanager
def opened(path: str) -> Iterator[int]:
    """A run's file. Raises DatasetError where it cannot be read, or is not as it was."""
    with keeping(path):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield file
        except EOFError:
            reason = "damaged or cut short, by another program or a broken disk"
            raise DatasetError(f"{path}: {reason}. Run again.") from None
        finally:
            os.close(file)


@contextmanager
def keeping(path: str) -> Iterator[None]:
    """Raise DatasetError where the system refuses what concerns the run at `path`."""
    try:
        yield
    except OSError as error:
        raise DatasetError(
            f"{os.path.dirname(path)}: sorted records cannot be kept there "
            f"({error.strerror or error}). Free some space, choose another folder by --temp-dir, "
            "or raise --memory."
        ) from error


@contextmanager
def _draft(path: str) -> Iterator[str]:
    """A file beside `path` that takes its place in the end."""
    # A name of its own: on a cluster the same run may be written twice at the same moment.
    draft = f"{path}.{secrets.token_hex(8)}.part"
    with keeping(path):
        try:
            yield draft
            os.replace(draft, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft)
            raise


def data_of(array: pa.Array) -> memoryview:
    """The bytes of all values of a large_binary array, back to back."""
    offsets, data = offsets_of(array), array.buffers()[2]
    return memoryview(data)[int(offsets[0]) : int(offsets[-1])] if data else memoryview(b"")
