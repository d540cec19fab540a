"""Where the records of a plain file are, in memory that does not grow with their number."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tfrec_cli import _kernel
from tfrec_cli.dataset.manifest import INDEXES, SideFile, manifest_path
from tfrec_cli.errors import DatasetError
from tfrec_cli.reading.targets import Target
from tfrec_cli.records.blocks import Block, Damage, read_blocks
from tfrec_cli.records.framing import FOOTER, HEADER
from tfrec_cli.records.index import (
    INDEX_FORMATS,
    damaged_record,
    find_records,
    index_name,
    read_index,
)
from tfrec_cli.records.streams import ContentStream

_SMALLEST, _LARGEST = 1 << 12, 1 << 16
# As many stretches are kept as their size allows.
_STRETCHES = 1 << 20
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Places:
    """Stretches of a file: what is read to find a record among those around it.

    A stretch is one record, or several of at most some size that begin within as many bytes.
    numbers: int64, of the first record of each stretch, and behind them how many records there
    are. starts: int64, the byte at which each begins, and behind them where the last ends. index:
    the file that says so, where nobody has looked whether it is right.
    """

    numbers: np.ndarray
    starts: np.ndarray
    index: str | None = None

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


def find_places(target: Target, size: int, listed: Mapping[str, SideFile]) -> Places:
    """The places of the records of a file: by an index that fits, or by reading the file.

    An index fits where it ends as the file does, with as many records as the manifest says, if any.
    One that the manifest lists must be what was written; another must not be older than the file.

    size: of a stretch, in bytes. listed: the files beside the shards by name, of a manifest.

    Raises UsageError where it is compressed, DamageError where a record is damaged, DatasetError
    where it cannot be read.
    """
    path = target.path
    try:
        for index in _indexes(path):
            found = _indexed(index, target, size, listed) if index.is_file() else None
            if found is not None:
                return found
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror or error}.") from None
    return places_of(find_records(path), size)


def confirmed(path: str, places: Places, size: int) -> Places:
    """The places of the records of a file by reading it, where `places` of an index may be wrong.

    Those of the index are kept where the file agrees with them as far as it can be read; damaged
    data of a record do not matter to the others. Raises DamageError at what cannot be read past,
    where the index is wrong, DatasetError where it has another number of records than the file.
    """
    parts = _Told(path)
    found, damage = places_of(parts, size), parts.damage
    if damage is None and len(found) == len(places):
        return found
    if damage is None:
        raise DatasetError(
            f"{path} has {len(found):,} records, but its index {places.index} has "
            f"{len(places):,}: it is of other records. `tfrec index` writes it anew."
        )
    known = len(found.numbers) - 1
    agrees = np.array_equal(found.numbers[:known], places.numbers[:known]) and np.array_equal(
        found.starts[:known], places.starts[:known]
    )
    if agrees:
        return replace(places, index=None)
    raise damaged_record(path, damage)


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


def split_exactly(data: bytes, count: int) -> np.ndarray | None:
    """As `split_stretch`, where the stretch is `count` intact records, no more and no less; else
    None.
    """
    scanned = _kernel.scan(data)
    ends = scanned.ends
    fits = not scanned.damage and len(ends) == count and int(ends[-1]) == len(data)
    return ends if fits else None


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


class _Told:
    """The ends of the records of a plain file, in order, some at a time, as far as their lengths
    tell; then `damage` is what cannot be read past.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.damage: Damage | None = None

    def __iter__(self) -> Iterator[np.ndarray]:
        with open(self._path, "rb") as file:
            for part in read_blocks(ContentStream(file)):
                if isinstance(part, Block):
                    yield part.ends + part.offset
                elif part.size:
                    yield np.array([part.offset + part.size], np.int64)
                else:
                    self.damage = part


def _indexed(
    path: Path, target: Target, size: int, listed: Mapping[str, SideFile]
) -> Places | None:
    """What an index says; None where it does not fit."""
    shard = target.shard
    entry = listed.get(f"{INDEXES}/{path.name}") if shard is not None else None
    file = os.stat(target.path)
    # Whoever copies a dataset may give its files any times; the manifest knows the index better.
    if entry is None and path.stat().st_mtime_ns < file.st_mtime_ns:
        return None
    try:
        found = places_of(read_index(path, None if entry is None else entry.crc32c), size)
    except ValueError:
        return None
    fits = found.end == file.st_size and (shard is None or shard.records == len(found))
    return replace(found, index=os.fspath(path)) if fits else None


def _indexes(path: str) -> Iterator[Path]:
    """Where an index of a file may lie."""
    folder, name = os.path.split(path)
    for home in (Path(folder), manifest_path(path).parent):
        for kind in INDEX_FORMATS:
            yield home / INDEXES / index_name(name, kind)
