"""Records by number, in any order, of plain TFRecord files."""

from __future__ import annotations

import errno
import operator
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import SupportsIndex, overload

import numpy as np
import pyarrow as pa

from tfrec_cli.dataset.manifest import SideFile
from tfrec_cli.errors import DamageError, DatasetError
from tfrec_cli.reading.chunks import Chunk
from tfrec_cli.reading.places import (
    Places,
    confirmed,
    find_places,
    split_exactly,
    split_stretch,
    stretch_size,
)
from tfrec_cli.reading.targets import Target
from tfrec_cli.records.blocks import BLOCK
from tfrec_cli.records.framing import FOOTER, HEADER, is_frame

OPEN_FILES = 64
"""Most files that stay open at a time, of however many the records are."""


class Records(Sequence[bytes]):
    """The serialized records of some files by number, `records[123_456]`, in the order
    of the files.

    Places come from index files where there are any that fit (see `tfrec index`); other files are
    read once, from end to end, and so is one whose records turn out not to lie where its index
    says. listed: the files beside the shards that a manifest has.

    Of small records the place of one in 4 KiB is kept (16 bytes), in more than 4 GiB of files that
    of one in up to 64 KiB, so that a TiB costs 256 MiB; those between are found when they are asked
    for. Can be pickled and used in several threads and processes: files are opened where they are
    read. Each record's checksum is looked at.

    Raises UsageError for compressed files, DamageError for damaged records, DatasetError for files
    that cannot be read, or have another number of records than their index.
    """

    def __init__(self, files: Sequence[Target], listed: Sequence[SideFile] = ()) -> None:
        self._targets = tuple(files)
        self._size = stretch_size(target.path for target in self._targets)
        beside = {file.name: file for file in listed}
        self._places = [find_places(target, self._size, beside) for target in self._targets]
        counts = [len(places) for places in self._places]
        self._first = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
        self._open = _OpenFiles()
        # Records are often asked for in order.
        self._latest: _Stretch | None = None

    def __len__(self) -> int:
        return int(self._first[-1])

    @overload
    def __getitem__(self, number: SupportsIndex) -> bytes: ...

    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...

    def __getitem__(self, number: SupportsIndex | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return [self[one] for one in self.numbers(number)]
        frame, _ = self._read(*self._find(number))
        return frame[HEADER : len(frame) - FOOTER]

    def numbers(self, those: slice) -> range:
        """The numbers of the records that a slice names."""
        return range(*those.indices(len(self)))

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def chunk(self, number: SupportsIndex) -> Chunk:
        """One record, as those who decode want it."""
        file, place = self._find(number)
        frame, start = self._read(file, place)
        ends = np.array([len(frame)], np.int64)
        return Chunk(self._targets[file], pa.py_buffer(frame), ends, place, start)

    def chunks(self, numbers: range, size: int = BLOCK) -> Iterator[tuple[range, Chunk]]:
        """Records by number, some at a time, of about `size` bytes together; the place of a chunk
        is that of its first record.
        """
        first = have = 0
        frames: list[bytes] = []
        for position, number in enumerate(numbers, 1):
            frames.append(self._read(*self._find(number))[0])
            have += len(frames[-1])
            if have >= size or position == len(numbers):
                some = numbers[first:position]
                yield some, self._chunk(some[0], frames)
                first, have, frames = position, 0, []

    def _chunk(self, number: int, frames: Sequence[bytes]) -> Chunk:
        file, place = self._find(number)
        ends = np.cumsum([len(frame) for frame in frames], dtype=np.int64)
        return Chunk(self._targets[file], pa.py_buffer(b"".join(frames)), ends, place, 0)

    def _find(self, number: SupportsIndex) -> tuple[int, int]:
        """The file that holds a record, and its number there. Raises IndexError, and TypeError for
        what is no whole number.
        """
        number = operator.index(number)
        place = number + len(self) if number < 0 else number
        if not 0 <= place < len(self):
            raise IndexError(f"record {number} of {len(self):,}")
        file = int(self._first.searchsorted(place, side="right")) - 1
        return file, int(place - self._first[file])

    def _read(self, file: int, number: int) -> tuple[bytes, int]:
        """The frame of a record, and where it begins."""
        stretch = self._stretch(file, number)
        place, ends = number - stretch.number, stretch.ends
        if place >= len(ends):
            raise self._damaged(file, number, stretch.start + (int(ends[-1]) if len(ends) else 0))
        first = int(ends[place - 1]) if place else 0
        start, size = stretch.start + first, int(ends[place]) - first
        frame = self._bytes(file, size, start)
        if len(frame) == size and is_frame(frame):
            return frame, start
        if self._places[file].index is None:
            raise self._damaged(file, number, start)
        self._confirm(file)
        return self._read(file, number)

    def _stretch(self, file: int, number: int) -> _Stretch:
        """The stretch of a file that holds a record."""
        latest = self._latest
        places = self._places[file]
        if latest is not None and latest.places is places and latest.holds(number):
            return latest
        place = places.stretch(number)
        (first, after), (start, end) = places.numbers[place:][:2], places.starts[place:][:2]
        count, size = int(after - first), int(end - start)
        data = b"" if count == 1 else self._bytes(file, size, int(start))
        ends = np.array([size], np.int64) if count == 1 else _ends(data, count, places)
        if ends is None:
            self._confirm(file)
            return self._stretch(file, number)
        found = _Stretch(places, int(first), int(after), int(start), ends)
        self._latest = found
        return found

    def _confirm(self, file: int) -> None:
        """Read the file whose index may be wrong, once."""
        path = self._targets[file].path
        with self._open.reading_all:
            if self._places[file].index is not None:
                self._places[file] = confirmed(path, self._places[file], self._size)

    def _bytes(self, file: int, size: int, start: int) -> bytes:
        path = self._targets[file].path
        try:
            return self._open.pread(path, size, start)
        except OSError as error:
            raise DatasetError(f"{path}: {error.strerror or error}.") from None

    def _damaged(self, file: int, number: int, start: int) -> DamageError:
        return DamageError(
            f"{self._targets[file].path}, record {number}, byte {start}: its bytes are not those "
            "that were written. `tfrec verify` lists all damage, `tfrec repair` saves what is "
            "intact."
        )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Records of a file that lie next to each other: from `number` up to `after`, from byte `start`
    on. places: of the file's records. ends: of each, counted from there; not of those behind a
    length that is damaged.
    """

    places: Places
    number: int
    after: int
    start: int
    ends: np.ndarray

    def holds(self, number: int) -> bool:
        """Whether a record is among them."""
        return self.number <= number < self.after


def _ends(data: bytes, count: int, places: Places) -> np.ndarray | None:
    """Of each record of a stretch, counted from its start; None where the index that tells their
    places may be wrong.
    """
    return split_stretch(data, count) if places.index is None else split_exactly(data, count)


class _OpenFiles:
    """Files that are read by position, the latest of them kept open; not pickled. Processes that
    are forked may share them. reading_all: held by the thread that reads a whole file.
    """

    def __init__(self) -> None:
        self._files: OrderedDict[str, _Handle] = OrderedDict()
        self._lock = threading.Lock()
        self.reading_all = threading.Lock()

    def __reduce__(self) -> tuple[type[_OpenFiles], tuple[()]]:
        return _OpenFiles, ()

    def pread(self, path: str, size: int, start: int) -> bytes:
        """`size` bytes of the file at `path` from `start` on, fewer at its end. Raises OSError."""
        # What is dropped meanwhile stays open while this name of it lasts.
        file = self._file(path)
        return os.pread(file.number, size, start)

    def _file(self, path: str) -> _Handle:
        with self._lock:
            file = self._files.pop(path, None) or self._opened(path)
            self._files[path] = file
            return file

    def _opened(self, path: str) -> _Handle:
        while len(self._files) >= OPEN_FILES:
            self._files.popitem(last=False)
        try:
            return _Handle(path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._files:
                raise
            # Few are allowed here, or others have them.
            self._files.clear()
            return _Handle(path)


class _Handle:
    """A descriptor of a file, closed when nobody holds it any more. Raises OSError."""

    def __init__(self, path: str) -> None:
        self.number = -1
        self.number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)
