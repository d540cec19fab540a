"""Records by number, in any order, of plain TFRecord files."""

from __future__ import annotations

import errno
import operator
import os
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import SupportsIndex, overload

import numpy as np
import pyarrow as pa

from tfrec_cli._kernel import masked_crc32c
from tfrec_cli.dataset.manifest import INDEXES, manifest_path
from tfrec_cli.errors import DamageError, DatasetError
from tfrec_cli.reading.chunks import Chunk
from tfrec_cli.reading.targets import Target
from tfrec_cli.records.framing import FOOTER, HEADER
from tfrec_cli.records.index import INDEX_FORMATS, find_records, index_name, read_index

OPEN_FILES = 64
"""Most files that stay open at a time, of however many the records are."""

_CRC = struct.Struct("<I")


class Records(Sequence[bytes]):
    """The serialized records of some files by number, `records[123_456]`, in the order
    of the files.

    Places come from index files where there are any that fit (see `tfrec index`); other files are
    read once, from end to end. Can be pickled and used in several threads and processes: files are
    opened where they are read. Each record's checksum is looked at.

    Raises UsageError for compressed files, DamageError for damaged records, DatasetError for files
    that cannot be read.
    """

    def __init__(self, files: Sequence[Target]) -> None:
        self._targets = tuple(files)
        self._ends = [_places(target.path) for target in self._targets]
        counts = [len(ends) for ends in self._ends]
        self._first = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)))
        self._open = _OpenFiles()

    def __len__(self) -> int:
        return int(self._first[-1])

    @overload
    def __getitem__(self, number: SupportsIndex) -> bytes: ...

    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...

    def __getitem__(self, number: SupportsIndex | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return [self[one] for one in self.numbers(number)]
        frame = self._read(*self._find(number))
        return frame[HEADER : len(frame) - FOOTER]

    def numbers(self, those: slice) -> range:
        """The numbers of the records that a slice names."""
        return range(*those.indices(len(self)))

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def chunk(self, number: SupportsIndex) -> Chunk:
        """One record, as those who decode want it."""
        file, place = self._find(number)
        frame = self._read(file, place)
        ends, start = np.array([len(frame)], np.int64), int(self._ends[file][place]) - len(frame)
        return Chunk(self._targets[file], pa.py_buffer(frame), ends, place, start)

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

    def _read(self, file: int, number: int) -> bytes:
        ends, path = self._ends[file], self._targets[file].path
        start = int(ends[number - 1]) if number else 0
        size = int(ends[number]) - start
        try:
            frame = self._open.pread(path, size, start)
        except OSError as error:
            raise DatasetError(f"{path}: {error.strerror or error}.") from None
        data = memoryview(frame)[HEADER : size - FOOTER]
        if len(frame) < size or _CRC.unpack_from(frame, size - FOOTER)[0] != masked_crc32c(data):
            raise DamageError(
                f"{path}, record {number}, byte {start}: its {size} bytes are not those that were "
                "written. `tfrec verify` lists all damage, `tfrec repair` saves what is intact."
            )
        return frame


class _OpenFiles:
    """Files that are read by position, the latest of them kept open; not pickled. Processes that
    are forked may share them.
    """

    def __init__(self) -> None:
        self._files: OrderedDict[str, _Handle] = OrderedDict()
        self._lock = threading.Lock()

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


def _places(path: str) -> np.ndarray:
    """The ends of the records of one file, by an index that fits, or by reading it."""
    try:
        size = os.path.getsize(path)
        for index in _indexes(path):
            ends = read_index(index) if index.is_file() else None
            if ends is not None and (int(ends[-1]) if len(ends) else 0) == size:
                return ends
        return find_records(path)
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror or error}.") from None


def _indexes(path: str) -> Iterator[Path]:
    """Where an index of a file may lie."""
    folder, name = os.path.split(path)
    for home in (Path(folder), manifest_path(path).parent):
        for kind in INDEX_FORMATS:
            yield home / INDEXES / index_name(name, kind)
