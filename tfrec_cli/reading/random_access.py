"""Records by number, in any order, of plain TFRecord files."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from tfrec_cli._kernel import masked_crc32c
from tfrec_cli.dataset.manifest import INDEXES, manifest_path
from tfrec_cli.decoding import NoExampleError, decode_example
from tfrec_cli.errors import DamageError, DatasetError, UsageError, did_you_mean, shorten
from tfrec_cli.reading.targets import Dataset, Target, find_datasets
from tfrec_cli.records.framing import FOOTER, HEADER
from tfrec_cli.records.index import INDEX_FORMATS, find_records, index_name, read_index

_CRC = struct.Struct("<I")


class Records(Sequence[bytes]):
    """The serialized records of a dataset by number, `records[123_456]`, in the order of its files.

    path: a dataset folder, a file, or a pattern of files, of any origin, not compressed. split:
    only the files of this split. Places come from index files where there are any that fit (see
    `tfrec index`); other files are read once, from end to end.

    Can be pickled and used in several threads and processes: files are opened where they are read.
    Each record's checksum is looked at. Raises DatasetError where nothing is at `path`, UsageError
    for compressed files and unknown splits, DamageError for damaged records.
    """

    def __init__(self, path: str | os.PathLike[str], split: str | None = None) -> None:
        targets = _targets(os.fspath(path), split)
        self.files = tuple(target.path for target in targets)
        self._ends = [_places(target.path) for target in targets]
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
        place = number + len(self) if number < 0 else number
        if not 0 <= place < len(self):
            raise IndexError(f"record {number} of {len(self):,}")
        file = int(self._first.searchsorted(place, side="right")) - 1
        return self._read(file, int(place - self._first[file]))

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def example(self, number: int) -> dict[str, list[Any]]:
        """The features of a record that is a tf.train.Example: key to values, int, float or bytes.

        Raises DamageError where it is none.
        """
        try:
            found = decode_example(self[number])
        except NoExampleError as error:
            raise DamageError(f"record {number} is no tf.train.Example: {error}.") from None
        return {key: list(values.values) for key, values in found.items()}

    def _read(self, file: int, number: int) -> bytes:
        ends = self._ends[file]
        start = int(ends[number - 1]) if number else 0
        size = int(ends[number]) - start
        frame = os.pread(self._open.handle(self.files[file]), size, start)
        data = frame[HEADER : size - FOOTER]
        if len(frame) < size or _CRC.unpack_from(frame, size - FOOTER)[0] != masked_crc32c(data):
            raise DamageError(
                f"{self.files[file]}, record {number}, byte {start}: its {size} bytes are not "
                "those that were written. See tfrec verify."
            )
        return data


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


def _targets(path: str, split: str | None) -> list[Target]:
    datasets = find_datasets([path])
    for finding in (f for dataset in datasets for f in dataset.findings):
        if finding.kind == "missing shard":
            raise DamageError(str(finding))
    targets = [target for dataset in datasets for target in _own(dataset)]
    if split is None:
        return targets
    known = {target.split for target in targets if target.split is not None}
    if split not in known:
        names = ", ".join(sorted(known)) or "none that is known"
        raise UsageError(
            f'{shorten(path, 1000)} has no split "{split}". Choose from: {names}.'
            f"{did_you_mean(split, known)}"
        )
    return [target for target in targets if target.split == split]


def _own(dataset: Dataset) -> list[Target]:
    """The files of the dataset, without those that its manifest does not know."""
    if dataset.manifest is None:
        return list(dataset.files)
    return [target for target in dataset.files if target.shard is not None]


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
