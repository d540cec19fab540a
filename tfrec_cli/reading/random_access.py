"""Records by number, in any order, of plain TFRecord files."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np
import pyarrow as pa

from tfrec_cli._kernel import masked_crc32c
from tfrec_cli.dataset.manifest import INDEXES, manifest_path
from tfrec_cli.errors import DamageError, DatasetError
from tfrec_cli.reading.chunks import Chunk
from tfrec_cli.reading.targets import Target
from tfrec_cli.records.framing import FOOTER, HEADER
from tfrec_cli.records.index import INDEX_FORMATS, find_records, index_name, read_index

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
    def __getitem__(self, number: int) -> bytes: ...

    @overload
    def __getitem__(self, number: slice) -> list[bytes]: ...

    def __getitem__(self, number: int | slice) -> bytes | list[bytes]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        frame = self._read(*self._find(number))
        return frame[HEADER : len(frame) - FOOTER]

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def chunk(self, number: int) -> Chunk:
        """One record, as those who decode want it."""
        file, place = self._find(number)
        frame = self._read(file, place)
        ends, start = np.array([len(frame)], np.int64), int(self._ends[file][place]) - len(frame)
        return Chunk(self._targets[file], pa.py_buffer(frame), ends, place, start)

    def _find(self, number: int) -> tuple[int, int]:
        """The file that holds a record, and its number there. Raises IndexError."""
        place = number + len(self) if number < 0 else number
        if not 0 <= place < len(self):
            raise IndexError(f"record {number} of {len(self):,}")
        file = int(self._first.searchsorted(place, side="right")) - 1
        return file, int(place - self._first[file])

    def _read(self, file: int, number: int) -> bytes:
        ends, path = self._ends[file], self._targets[file].path
        start = int(ends[number - 1]) if number else 0
        size = int(ends[number]) - start
        frame = os.pread(self._open.handle(path), size, start)
        data = memoryview(frame)[HEADER : size - FOOTER]
        if len(frame) < size or _CRC.unpack_from(frame, size - FOOTER)[0] != masked_crc32c(data):
            raise DamageError(
                f"{path}, record {number}, byte {start}: its {size} bytes are not those that were "
                "written. `tfrec verify` lists all damage, `tfrec repair` saves what is intact."
            )
        return frame


class _OpenFiles:
    """File handles, opened when they are needed and not pickled. Reading by position, processes
    that are forked may share them.
    """

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[_OpenFiles], tuple[()]]:
        return _OpenFiles, ()

    def handle(self, path: str) -> int:
        """The descriptor of the file at `path`."""
        with self._lock:
            if path not in self._files:
                self._files[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return self._files[path]

    def __del__(self) -> None:
        for handle in self._files.values():
            os.close(handle)


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
