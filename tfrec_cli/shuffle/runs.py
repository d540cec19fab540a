"""Sorted runs: records sorted by split and key, held in memory or left in a file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tfrec_cli.buffers import from_numpy, offsets_of
from tfrec_cli.shuffle.pile import Pile, binary_array, run_schema
from tfrec_cli.shuffle.runfile import (
    NUMBER,
    Offsets,
    SegmentRows,
    Stretch,
    check_offsets,
    fill,
    numbers_at,
    opened,
    segment_crc,
    write_batch,
    write_segments,
)
from tfrec_cli.shuffle.segments import Ends

__all__ = ["Room", "Run", "SegmentRows", "hold_run", "run_path", "run_schema", "spill_run",
           "write_run"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """Sorted records.

    ends: for each segment the number of records up to its end. offsets: the bytes up to the end of
    each segment in the file (or of what it would be), after those before the first. held: the
    records, where they are in memory. path: else the file. crcs: then the CRC32C of each segment.
    key: the type of the keys. crc: the CRC32C of the file, where it is known.
    """

    ends: Ends
    offsets: Offsets
    held: pa.RecordBatch | None = None
    path: str = ""
    key: pa.DataType = field(default_factory=pa.uint64)
    crc: int | None = None
    crcs: Offsets | None = None

    @property
    def rows(self) -> int:
        """All records."""
        return int(self.ends[-1])

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return int(self.offsets[-1] - self.offsets[0])

    def rows_of(self, segment: int, last: int | None = None) -> int:
        """The records of the segments from `segment` to before `last`; by default of one."""
        return int(self.ends[segment if last is None else last - 1]) - self._begin(segment)

    def size_of(self, segment: int, last: int) -> int:
        """The bytes of the segments from `segment` to before `last`."""
        return int(self.offsets[last]) - int(self.offsets[segment])

    def pour(self, pile: Pile, segment: int, last: int) -> None:
        """Put the records of the segments from `segment` to before `last` on a pile. Raises
        DatasetError where the file cannot be read.
        """
        begin = self._begin(segment)
        if self.held is not None:
            pile.add(self.held.slice(begin, int(self.ends[last - 1]) - begin))
            return
        with opened(self.path) as file:
            for stretch in self._stretches(segment, last):
                pile.read(file, stretch)

    def pour_part(self, pile: Pile, segment: int, first: int, last: int) -> None:
        """Put some records of a segment on a pile: `first` to before `last`. Raises as `pour`."""
        if self.held is not None:
            pile.add(self.held.slice(self._begin(segment) + first, last - first))
            return
        with opened(self.path) as file:
            at, rows = int(self.offsets[segment]), self.rows_of(segment)
            pile.read_part(file, at, rows, (first, last))

    def keys(self, segment: int, first: int, most: int) -> tuple[pa.Array, Offsets]:
        """The keys of the records from `first` of a segment on, with the bytes of each record and
        its key: about `most` bytes of keys, at least one. Raises as `pour` does.
        """
        last = min(self.rows_of(segment), first + max(1, most // (2 * NUMBER)))
        if self.held is not None:
            found = self.held.slice(self._begin(segment) + first, last - first)
            offsets, keys = offsets_of(found.column(1)), found.column(0)
        else:
            with opened(self.path) as file:
                last = self._last(file, segment, (first, last), most)
                offsets, keys = self._index(file, segment, first, last)
        sizes = np.diff(offsets) + 2 * NUMBER
        return keys, sizes if self.key == pa.uint64() else sizes + np.diff(offsets_of(keys))

    def key_bytes(self, segment: int) -> int:
        """The bytes of a segment's keys, where keys are binary."""
        rows = self.rows_of(segment)
        if not rows:
            return 0
        if self.held is not None:
            return int(np.ptp(offsets_of(self.held.slice(self._begin(segment), rows).column(0))))
        with opened(self.path) as file:
            return self._key_bytes(file, segment)

    def check(self, segment: int) -> None:
        """See whether a segment is what was written, before some of its rows are read. Raises as
        `pour` does.
        """
        if self.held is not None:
            return
        with opened(self.path) as file:
            for stretch in self._stretches(segment, segment + 1):
                if segment_crc(file, stretch.at, stretch.size, stretch.rows) != stretch.crc:
                    raise EOFError

    def drop(self) -> None:
        """Remove the file, if there is one."""
        if self.path:
            with suppress(FileNotFoundError):
                os.unlink(self.path)

    def _stretches(self, segment: int, last: int) -> Iterator[Stretch]:
        """Where the segments from `segment` to before `last` lie, but for those without records."""
        assert self.crcs is not None
        begin = self._begin(segment)
        ends, crcs = self.ends[segment:last].tolist(), self.crcs[segment:last].tolist()
        offsets = self.offsets[segment : last + 1].tolist()
        for place, (end, crc) in enumerate(zip(ends, crcs, strict=True)):
            if end > begin:
                at = offsets[place]
                yield Stretch(at, offsets[place + 1] - at, end - begin, crc)
            begin = end

    def _begin(self, segment: int) -> int:
        return int(self.ends[segment - 1]) if segment else 0

    def _index(self, file: int, segment: int, first: int, last: int) -> tuple[Offsets, pa.Array]:
        """Where some records begin and end, and their keys."""
        at, rows = int(self.offsets[segment]), self.rows_of(segment)
        most = self.size_of(segment, segment + 1)
        offsets = numbers_at(file, at + first * NUMBER, last - first + 1)
        check_offsets(offsets, most)
        at += (rows + 1) * NUMBER
        if self.key == pa.uint64():
            keys = numbers_at(file, at + first * NUMBER, last - first).view(np.uint64)
            return offsets, from_numpy(keys)
        places = numbers_at(file, at + first * NUMBER, last - first + 1)
        check_offsets(places, most)
        texts = np.empty(int(places[-1] - places[0]), np.uint8)
        fill(file, at + (rows + 1) * NUMBER + int(places[0]), [texts.data])
        return offsets, binary_array(places - places[0], texts)

    def _last(self, file: int, segment: int, rows: tuple[int, int], most: int) -> int:
        """The end of those rows from the first of `rows` on whose keys are about `most` bytes."""
        first, last = rows
        if self.key == pa.uint64():
            return last
        at = int(self.offsets[segment]) + (self.rows_of(segment) + 1 + first) * NUMBER
        places = numbers_at(file, at, last - first + 1)
        check_offsets(places, self.size_of(segment, segment + 1))
        fits = int(np.searchsorted(places, places[0] + most, side="right")) - 1
        return first + max(1, fits)

    def _key_bytes(self, file: int, segment: int) -> int:
        at, rows = int(self.offsets[segment]), self.rows_of(segment)
        size = numbers_at(file, at + (2 * rows + 1) * NUMBER, 1)
        check_offsets(np.append(np.zeros(1, np.int64), size), self.size_of(segment, segment + 1))
        return int(size[0])


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


def hold_run(batch: pa.RecordBatch, ends: Ends) -> Run:
    """A run in memory: `batch` (`key`, `record`) sorted, cut into segments at `ends`."""
    return Run(ends, _sizes(batch, ends), held=batch, key=batch.schema.field(0).type)


def spill_run(path: str, batch: pa.RecordBatch, ends: Ends) -> Run:
    """A run in a new file at `path`, which is there whole or not at all; the other arguments are
    those of `hold_run`. Raises DatasetError where the file cannot be written.
    """
    written = write_batch(path, batch, ends)
    key = batch.schema.field(0).type
    return Run(ends, written.offsets, None, path, key, written.crc, written.crcs)


def write_run(path: str, segments: Iterable[SegmentRows], key: pa.DataType) -> Run:
    """A run in a new file at `path`, of segments one after the other; otherwise as `spill_run`.

    key: the type of the keys.
    """
    ends, written = write_segments(path, segments)
    return Run(ends, written.offsets, None, path, key, crcs=written.crcs)


def _sizes(batch: pa.RecordBatch, ends: Ends) -> Offsets:
    """The bytes up to the end of each segment, as a file would have them, and 0 before."""
    bounds = np.concatenate([[0], ends]).astype(np.int64)
    keys, records = batch.column(0), batch.column(1)
    offsets = offsets_of(records)
    sizes = np.diff(offsets[bounds]) + np.diff(bounds) * 2 * NUMBER
    if keys.type != pa.uint64():
        sizes += np.diff(offsets_of(keys)[bounds])
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def run_path(folder: str, number: str) -> str:
    """Where a run lies."""
    return os.path.join(folder, f"run-{number}")
