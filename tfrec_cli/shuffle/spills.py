"""Sorted runs that are read by others than who wrote them, each with its index in a file beside it.

The index holds int64 numbers in the machine's order: for each segment the records up to its end,
then the byte at which the first segment begins, and that at which each ends, then for each its
CRC32C (see `runfile`). A task reads the part
of it that belongs to its segments, so that no index need travel.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli.checksums import file_crc32c
from tfrec_cli.dataset.failures import writing
from tfrec_cli.errors import DatasetError
from tfrec_cli.shuffle.runs import Run

Counts = npt.NDArray[np.int64]
_WIDTH = 8


def leave_index(run: Run) -> None:
    """Write the index of a run that lies in a file. Raises DatasetError where that fails."""
    assert run.crcs is not None
    path = index_path(run.path)
    draft = f"{path}.{uuid.uuid4().hex}"
    with writing(path):
        np.concatenate([run.ends, run.offsets, run.crcs]).tofile(draft)
        os.replace(draft, path)


def segment_counts(run: Run) -> Counts:
    """The records of a run in each segment."""
    return np.diff(run.ends, prepend=0)


def counted(paths: Sequence[str], segments: int) -> Counts:
    """The records of several runs in each segment, by their indexes. Raises DatasetError."""
    counts = np.zeros(segments, np.int64)
    for path in paths:
        counts += segment_counts(run_at(path, range(segments), pa.null()))
    return counts


def opened(paths: Sequence[str], segments: range, key: pa.DataType) -> list[Run]:
    """Those of the runs at `paths` that have records in `segments`, with these segments alone.

    key: the type of their keys. Raises DatasetError where an index cannot be read.
    """
    if not segments:
        return []
    runs = (run_at(path, segments, key) for path in paths)
    return [run for run in runs if run.rows]


def run_at(path: str, segments: range, key: pa.DataType) -> Run:
    """The run at `path`, with these segments alone; arguments and errors as those of `opened`."""
    try:
        with open(index_path(path), "rb", buffering=0) as file:
            total = (os.fstat(file.fileno()).st_size // _WIDTH - 1) // 3
            begin = max(0, segments.start - 1)
            ends = _numbers(file.fileno(), begin, segments.stop)
            offsets = _numbers(file.fileno(), total + segments.start, total + segments.stop + 1)
            behind = 2 * total + 1
            crcs = _numbers(file.fileno(), behind + segments.start, behind + segments.stop)
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror}). Run again.") from error
    before = int(ends[0]) if segments.start else 0
    ends = ends[segments.start - begin :] - before
    return Run(ends=ends, offsets=offsets, path=path, key=key, crcs=crcs)


def run_content(path: str, crc: int | None = None) -> tuple[int, int]:
    """The bytes of a run and then its index, and their CRC32C. crc: that of the run alone, where it
    is known. Raises OSError.
    """
    size = sum(os.stat(name).st_size for name in (path, index_path(path)))
    return size, file_crc32c(index_path(path), file_crc32c(path) if crc is None else crc)


def is_run(path: str, size: int, crc: int) -> bool:
    """Whether a run and its index are there as `run_content` told of them."""
    try:
        sizes = [os.stat(name).st_size for name in (path, index_path(path))]
        return sum(sizes) == size and run_content(path) == (size, crc)
    except OSError:
        return False


def sync_run(path: str) -> None:
    """Have a run and its index on the disk. Raises OSError."""
    for name in (path, index_path(path)):
        with open(name, "rb") as file:
            os.fsync(file.fileno())


def remove(path: str) -> None:
    """Remove a run and its index, where they are there."""
    for file in (path, index_path(path)):
        try:
            os.unlink(file)
        except OSError:
            continue


def index_path(path: str) -> str:
    """Where the index of a run lies."""
    return f"{path}.index"


def _numbers(file: int, first: int, last: int) -> Counts:
    data = os.pread(file, (last - first) * _WIDTH, first * _WIDTH)
    if len(data) < (last - first) * _WIDTH:
        raise OSError(0, "it is cut short")
    return np.frombuffer(data, np.int64)
