"""Where the records of a plain file are, in memory that does not grow with their number."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfrec_cli import _kernel
from tfrec_cli.dataset.manifest import INDEXES, manifest_path
from tfrec_cli.errors import DatasetError
from tfrec_cli.records.framing import FOOTER, HEADER
from tfrec_cli.records.index import INDEX_FORMATS, find_records, index_name, read_index

_SMALLEST, _LARGEST = 1 << 12, 1 << 16
# As many stretches are kept as their size allows.
_STRETCHES = 1 << 20
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Places:
    """Stretches of a file: what is read to find a record among those around it.

    A stretch is one record, or several of at most some size that begin within as many bytes.
    numbers: int64, of the first record of each stretch, and behind them how many records there
    are. starts: int64, the byte at which each begins, and behind them where the last ends.
    """

    numbers: np.ndarray
    starts: np.ndarray

    def __len__(self) -> int:
        """How many records there are."""
        return int(self.numbers[-1])

    @property
    def end(self) -> int:
        """Where the last record ends."""
        return int(self.starts[-1])

    def stretch(self, number: int) -> int:
        """Which stretch holds a record."""
        return int(self.numbers.searchsorted(number, side="right")) - 1


def stretch_size(paths: Iterable[str]) -> int:
    """By how many bytes places are noted in files that are read together: such that they take 16
    MiB or less (16 bytes each), but by no more than 64 KiB. Raises DatasetError.
    """
    total = 0
    for path in paths:
        try:
            total += os.path.getsize(path)
        except OSError as error:
            raise DatasetError(f"{path}: {error.strerror or error}.") from None
    return min(max(_SMALLEST, total // _STRETCHES), _LARGEST)


def find_places(path: str, size: int) -> Places:
    """The places of the records of the file at `path`: by an index that fits, or by reading it.

    size: of a stretch, in bytes.

    Raises UsageError where it is compressed, DamageError where a record is damaged, DatasetError
    where it cannot be read.
    """
    try:
        end = os.path.getsize(path)
        for index in _indexes(path):
            found = _indexed(index, size) if index.is_file() else None
            if found is not None and found.end == end:
                return found
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror or error}.") from None
    return places_of(find_records(path), size)


def places_of(parts: Iterable[np.ndarray], size: int) -> Places:
    """The stretches of records, each of about `size` bytes. parts: int64, the end of each record of
    the file, in order, some at a time.
    """
    numbers, starts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    count = end = 0
    # Where the record before begins, and whether it is a large one.
    before, alone = 0, True
    for ends in parts:
        begins = np.concatenate((np.array([end], np.int64), ends[:-1]))
        large = ends - begins > size
        cells = begins // size
        is_first = large.copy()
        is_first[1:] |= large[:-1] | (cells[1:] != cells[:-1])
        is_first[0] |= alone or cells[0] != before // size
        firsts = np.flatnonzero(is_first)
        numbers.append(firsts + count)
        starts.append(begins[firsts])
        count, end = count + len(ends), int(ends[-1])
        before, alone = int(begins[-1]), bool(large[-1])
    numbers.append(np.array([count], np.int64))
    starts.append(np.array([end], np.int64))
    return Places(np.concatenate(numbers), np.concatenate(starts))


def split_stretch(data: bytes, count: int) -> np.ndarray:
    """The ends of the records of a stretch (int64), counted from its start, by the lengths that
    they tell; fewer than `count` where these do not fit. Damaged data of one do not matter to the
    others.
    """
    found = [np.zeros(0, np.int64)]
    start = have = 0
    view = memoryview(data)
    while have < count and start < len(data):
        scanned = _kernel.scan(view[start:])
        ends = scanned.ends + start
        if scanned.damage == "data checksum":
            start = int(ends[-1]) if len(ends) else start
            size = _LENGTH.unpack_from(data, start)[0] + HEADER + FOOTER
            ends = np.append(ends, start + size)
        elif not len(ends):
            break
        found.append(ends)
        have, start = have + len(ends), int(ends[-1])
    return np.concatenate(found)[:count]


def _indexed(path: Path, size: int) -> Places | None:
    """What an index says; None where it is none."""
    try:
        return places_of(read_index(path), size)
    except ValueError:
        return None


def _indexes(path: str) -> Iterator[Path]:
    """Where an index of a file may lie."""
    folder, name = os.path.split(path)
    for home in (Path(folder), manifest_path(path).parent):
        for kind in INDEX_FORMATS:
            yield home / INDEXES / index_name(name, kind)
