"""Sorted runs: records sorted by split and key, held in memory or left in a file.

The file of a run holds its segments one after the other, and nothing of those without records. All
numbers have eight bytes in the order of the machine. For `n` records a segment is:

* where each record begins and the last one ends, counted from the first: n + 1 numbers;
* their keys: n numbers; or, where keys are binary, n + 1 numbers as before, then the keys;
* the records, and what fills them up to a multiple of eight bytes.

So one read fetches a segment, and any of its rows or keys can be read alone, by position.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from itertools import pairwise
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli.buffers import from_numpy, to_numpy
from tfrec_cli.errors import DatasetError
from tfrec_cli.shuffle.segments import Ends

_NUMBER = 8
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Run:
    """Sorted records.

    ends: for each segment the number of records up to its end. offsets: the bytes up to the end of
    each segment in the file (or of what it would be), after those before the first. held: the
    records, where they are in memory. path: else the file. key: the type of the keys.
    """

    ends: Ends
    offsets: Offsets
    held: pa.RecordBatch | None = None
    path: str = ""
    key: pa.DataType = field(default_factory=pa.uint64)

    @property
    def rows(self) -> int:
        """All records."""
        return int(self.ends[-1])

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return int(self.offsets[-1] - self.offsets[0])

    def rows_of(self, segment: int) -> int:
        """The records of a segment."""
        return int(self.ends[segment]) - self._begin(segment)

    def read(self, segment: int, last: int | None = None) -> list[pa.RecordBatch]:
        """The records (`key`, `record`) of the segments from `segment` to before `last`; by default
        of one. Raises DatasetError where the file cannot be read.
        """
        last = segment + 1 if last is None else last
        begin, end = self._begin(segment), int(self.ends[last - 1])
        if begin == end:
            return []
        if self.held is not None:
            return [self.held.slice(begin, end - begin)]
        first = int(self.offsets[segment])
        with self._opened() as file:
            data = _bytes(file, first, int(self.offsets[last]) - first)
        parts = (s for s in range(segment, last) if self.rows_of(s))
        return [
            _segment(data[int(self.offsets[s]) - first :], self.rows_of(s), self.key) for s in parts
        ]

    def part(self, segment: int, first: int, last: int) -> pa.RecordBatch:
        """The records `first` to before `last` of a segment. Raises as `read` does."""
        if self.held is not None:
            return self.held.slice(self._begin(segment) + first, last - first)
        with self._opened() as file:
            offsets, keys, after = self._index(file, segment, first, last)
            data = _bytes(file, after + int(offsets[0]), int(offsets[-1] - offsets[0]))
        return _batch(keys, _binary(offsets, data), self.key)

    def keys(self, segment: int, first: int, most: int) -> tuple[pa.Array, Offsets]:
        """The keys of the records from `first` of a segment on, with the bytes of each record and
        its key: about `most` bytes of keys, at least one. Raises as `read` does.
        """
        last = min(self.rows_of(segment), first + max(1, most // (2 * _NUMBER)))
        if self.held is not None:
            found = self.part(segment, first, last)
            offsets, keys = _offsets(found.column(1)), found.column(0)
        else:
            with self._opened() as file:
                last = self._last(file, segment, (first, last), most)
                offsets, keys, _ = self._index(file, segment, first, last)
        sizes = np.diff(offsets) + 2 * _NUMBER
        return keys, sizes if self.key == pa.uint64() else sizes + np.diff(_offsets(keys))

    def key_bytes(self, segment: int) -> int:
        """The bytes of a segment's keys, where keys are binary."""
        rows = self.rows_of(segment)
        if not rows:
            return 0
        if self.held is not None:
            return int(np.ptp(_offsets(self.part(segment, 0, rows).column(0))))
        with self._opened() as file:
            return self._key_bytes(file, segment)

    def drop(self) -> None:
        """Remove the file, if there is one."""
        if self.path:
            with suppress(FileNotFoundError):
                os.unlink(self.path)

    def _begin(self, segment: int) -> int:
        return int(self.ends[segment - 1]) if segment else 0

    @contextmanager
    def _opened(self) -> Iterator[FileIO]:
        with _spilling(self.path), FileIO(self.path) as file:
            try:
                yield file
            except EOFError:
                raise DatasetError(
                    f"{self.path}: cut short by another program. Run again."
                ) from None

    def _index(
        self, file: FileIO, segment: int, first: int, last: int
    ) -> tuple[Offsets, pa.Array, int]:
        """The offsets and keys of some records, and where the segment's records begin."""
        at, rows = int(self.offsets[segment]), self.rows_of(segment)
        offsets = _numbers(file, at + first * _NUMBER, last - first + 1)
        at += (rows + 1) * _NUMBER
        if self.key == pa.uint64():
            keys = _numbers(file, at + first * _NUMBER, last - first).view(np.uint64)
            return offsets, from_numpy(keys), at + rows * _NUMBER
        places = _numbers(file, at + first * _NUMBER, last - first + 1)
        at += (rows + 1) * _NUMBER
        data = _bytes(file, at + int(places[0]), int(places[-1] - places[0]))
        return offsets, _binary(places, data), at + self._key_bytes(file, segment)

    def _last(self, file: FileIO, segment: int, rows: tuple[int, int], most: int) -> int:
        """The end of those rows from the first of `rows` on whose keys are about `most` bytes."""
        first, last = rows
        if self.key == pa.uint64():
            return last
        at = int(self.offsets[segment]) + (self.rows_of(segment) + 1 + first) * _NUMBER
        places = _numbers(file, at, last - first + 1)
        fits = int(np.searchsorted(places, places[0] + most, side="right")) - 1
        return first + max(1, fits)

    def _key_bytes(self, file: FileIO, segment: int) -> int:
        at, rows = int(self.offsets[segment]), self.rows_of(segment)
        return int(_numbers(file, at + (2 * rows + 1) * _NUMBER, 1)[0])


class Room:
    """Memory that runs may be held in, given away to whoever asks first.

    full: whether somebody was refused for want of it.
    """

    def __init__(self, free: int, direct: int | None = None) -> None:
        """free: bytes. direct: a run of that many goes into a file of its own in any case."""
        self._lock = threading.Lock()
        self.empty(free, direct)

    def take(self, size: int) -> bool:
        """Whether `size` bytes may be held; they are then taken."""
        with self._lock:
            if self._direct is not None and size >= self._direct:
                return False
            fits = size <= self._free
            self._free -= size if fits else 0
            self.full |= not fits
        return fits

    def empty(self, free: int, direct: int | None = None) -> None:
        """Begin again: nothing is held any more. Arguments as for a new one."""
        with self._lock:
            self._free, self._direct, self.full = free, direct, False


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
        return cls(batch.num_rows, int(np.ptp(_offsets(keys))) if binary else 0, (batch,))


def hold_run(batch: pa.RecordBatch, ends: Ends) -> Run:
    """A run in memory: `batch` (`key`, `record`) sorted, cut into segments at `ends`."""
    return Run(ends, _sizes(batch, ends), held=batch, key=batch.schema.field(0).type)


def spill_run(path: str, batch: pa.RecordBatch, ends: Ends) -> Run:
    """A run in a new file at `path`; the arguments are those of `hold_run`."""
    bounds = [0, *ends.tolist()]
    cut = (batch.slice(a, b - a) for a, b in pairwise(bounds))
    return write_run(path, map(SegmentRows.of, cut), batch.schema.field(0).type)


def write_run(path: str, segments: Iterable[SegmentRows], key: pa.DataType) -> Run:
    """A run in a new file at `path`, which is there whole or not at all.

    key: the type of the keys. Raises DatasetError where the file cannot be written.
    """
    offsets, ends = [0], [0]
    # A name of its own: on a cluster the same run may be written twice at the same moment.
    part = f"{path}.{secrets.token_hex(8)}.part"
    with _spilling(path, part):
        with open(part, "wb", buffering=2**20) as file:
            for segment in segments:
                offsets.append(_write_segment(file, offsets[-1], segment))
                ends.append(ends[-1] + segment.rows)
        os.replace(part, path)
    return Run(np.array(ends[1:], np.int64), np.array(offsets, np.int64), None, path, key)


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
            index = at + (segment.rows + 1) * _NUMBER
            data = index + (segment.rows + binary) * _NUMBER
            places = [at, index, data, data + segment.key_bytes]
        # Of each list of offsets the last is the first of the next batch.
        places[0], begins[0] = _write_offsets(file, places[0], records, begins[0])
        if binary:
            places[1], begins[1] = _write_offsets(file, places[1], keys, begins[1])
            places[2] = _write(file, places[2], _data(keys))
        else:
            places[1] = _write(file, places[1], to_numpy(keys))
        places[3] = _write(file, places[3], _data(records))
    return _write(file, places[3], bytes(-places[3] % _NUMBER))


def _write_offsets(file: IO[bytes], at: int, array: pa.Array, begin: int) -> tuple[int, int]:
    """Write where the values of `array` begin and end, the first at `begin`. Returns where the last
    number stands, and the number.
    """
    offsets = _offsets(array)
    moved = offsets - (offsets[0] - begin)
    return _write(file, at, moved) - _NUMBER, int(moved[-1])


def _write(file: IO[bytes], at: int, data: Any) -> int:
    """Write at a place; returns the next one."""
    if file.tell() != at:
        file.seek(at)
    view = memoryview(data).cast("B") if memoryview(data).nbytes else b""
    file.write(view)
    return at + len(view)


def _sizes(batch: pa.RecordBatch, ends: Ends) -> Offsets:
    """The bytes up to the end of each segment, as a file would have them, and 0 before."""
    bounds = np.concatenate([[0], ends]).astype(np.int64)
    keys, records = batch.column(0), batch.column(1)
    offsets = _offsets(records)
    sizes = np.diff(offsets[bounds]) + np.diff(bounds) * 2 * _NUMBER
    if keys.type != pa.uint64():
        sizes += np.diff(_offsets(keys)[bounds])
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _segment(data: npt.NDArray[np.uint8], rows: int, key: pa.DataType) -> pa.RecordBatch:
    """A segment as it was read."""
    offsets, rest = _cut(data, (rows + 1) * _NUMBER)
    if key == pa.uint64():
        numbers, rest = _cut(rest, rows * _NUMBER)
        keys = from_numpy(numbers.view(np.uint64))
    else:
        numbers, rest = _cut(rest, (rows + 1) * _NUMBER)
        places = numbers.view(np.int64)
        texts, rest = _cut(rest, int(places[-1]))
        keys = _binary(places, texts)
    return _batch(keys, _binary(offsets.view(np.int64), rest), key)


def _cut(data: npt.NDArray[np.uint8], size: int) -> tuple[Any, Any]:
    return data[:size], data[size:]


def _binary(offsets: Offsets, data: npt.NDArray[np.uint8]) -> pa.Array:
    """Values that lie in `data`, the first at its beginning."""
    moved = np.ascontiguousarray(offsets - offsets[0])
    buffers = [None, pa.py_buffer(moved), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(moved) - 1, buffers)


def _batch(keys: pa.Array, records: pa.Array, key: pa.DataType) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([keys, records], schema=run_schema(key))


def _offsets(array: pa.Array) -> Offsets:
    """Where the values of a large_binary array begin and end in its data."""
    if not len(array):
        return np.zeros(1, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * _NUMBER)


def _data(array: pa.Array) -> Sequence[int] | memoryview:
    """The bytes of all values of a large_binary array, back to back."""
    offsets, data = _offsets(array), array.buffers()[2]
    return memoryview(data)[int(offsets[0]) : int(offsets[-1])] if data else memoryview(b"")


def _numbers(file: FileIO, at: int, count: int) -> Offsets:
    return _bytes(file, at, count * _NUMBER).view(np.int64)


def _bytes(file: FileIO, at: int, size: int) -> npt.NDArray[np.uint8]:
    """Bytes of a file. Raises EOFError where they are fewer."""
    data = np.empty(size, np.uint8)
    view, done = data.data, 0
    file.seek(at)
    while done < size:
        # One call reads no more than 2 GiB.
        read = file.readinto(view[done : done + 2**30])
        if not read:
            raise EOFError
        done += read
    return data


def run_schema(key: pa.DataType) -> pa.Schema:
    """The columns of a run."""
    return pa.schema([("key", key), ("record", pa.large_binary())])


def run_path(folder: str, number: str) -> str:
    """Where a run lies."""
    return os.path.join(folder, f"run-{number}")


@contextmanager
def _spilling(path: str, part: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        with suppress(OSError):
            os.unlink(part)
        raise DatasetError(
            f"{os.path.dirname(path)}: sorted records cannot be kept there "
            f"({error.strerror or error}). Free some space, choose another folder by --temp-dir, "
            "or raise --memory."
        ) from error
