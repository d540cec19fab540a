"""Sorted runs: records sorted by split and key, held in memory or left in a file.

The file of a run is an Arrow IPC stream (https://arrow.apache.org/docs/format/Columnar.html), one
record batch for each segment that has records, with the columns `key` and `record`. The index says
where each batch lies, so that a merge reads its segment alone, by position.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli.errors import DatasetError
from tfrec_cli.shuffle.segments import Ends


@dataclass(frozen=True, slots=True)
class Run:
    """Sorted records.

    ends: for each segment the number of records up to its end. held: the records, where they are
    in memory. path, offsets: else the file, and the bytes up to the end of each segment in it,
    after those before the first. key: the type of the keys.
    """

    ends: Ends
    held: pa.RecordBatch | None = None
    path: str = ""
    offsets: npt.NDArray[np.int64] | None = None
    key: pa.DataType = field(default_factory=pa.uint64)

    @property
    def rows(self) -> int:
        """All records."""
        return int(self.ends[-1])

    def read(self, segment: int) -> pa.RecordBatch | None:
        """The records of a segment (`key`, `record`), None where it has none.

        Raises DatasetError where the file cannot be read.
        """
        begin = int(self.ends[segment - 1]) if segment else 0
        if begin == self.ends[segment]:
            return None
        if self.held is not None:
            return self.held.slice(begin, int(self.ends[segment]) - begin)
        assert self.offsets is not None
        first, last = int(self.offsets[segment]), int(self.offsets[segment + 1])
        with _spilling(self.path), open(self.path, "rb", buffering=0) as file:
            data = os.pread(file.fileno(), last - first, first)
            if len(data) < last - first:
                raise DatasetError(f"{self.path}: cut short by another program. Run again.")
        return pa.ipc.read_record_batch(pa.py_buffer(data), run_schema(self.key))

    def drop(self) -> None:
        """Remove the file, if there is one."""
        if self.path:
            with suppress(FileNotFoundError):
                os.unlink(self.path)


class Room:
    """Memory that runs may be held in: `free` bytes, given away to whoever asks first."""

    def __init__(self, free: int) -> None:
        self._free, self._lock = free, threading.Lock()

    def take(self, size: int) -> bool:
        """Whether `size` bytes were free; they are then taken."""
        with self._lock:
            fits = size <= self._free
            self._free -= size if fits else 0
        return fits


def hold_run(batch: pa.RecordBatch, ends: Ends) -> Run:
    """A run in memory: `batch` (`key`, `record`) sorted, cut into segments at `ends`."""
    return Run(ends, held=batch)


def spill_run(path: str, batch: pa.RecordBatch, ends: Ends) -> Run:
    """A run in a new file at `path`; the arguments are those of `hold_run`."""
    bounds = [0, *ends.tolist()]
    cut = (batch.slice(a, b - a) for a, b in pairwise(bounds))
    return write_run(path, cut, batch.schema.field(0).type)


def write_run(path: str, segments: Iterable[pa.RecordBatch | None], key: pa.DataType) -> Run:
    """A run in a new file at `path`, which is there whole or not at all.

    segments: the sorted records of each, None or an empty batch where it has none. key: the type
    of their keys. Raises
    DatasetError where the file cannot be written.
    """
    offsets, ends = [], [0]
    # A name of its own: on a cluster the same run may be written twice at the same moment.
    part = f"{path}.{secrets.token_hex(8)}.part"
    with _spilling(path, part):
        with pa.OSFile(part, "wb") as file, pa.ipc.new_stream(file, run_schema(key)) as stream:
            # The schema is written with the first batch, which is therefore an empty one.
            stream.write_batch(_empty(key))
            offsets.append(file.tell())
            for batch in segments:
                rows = 0 if batch is None else batch.num_rows
                if rows:
                    stream.write_batch(batch)
                offsets.append(file.tell())
                ends.append(ends[-1] + rows)
        os.replace(part, path)
    return Run(np.array(ends[1:], np.int64), None, path, np.array(offsets, np.int64), key)


def run_schema(key: pa.DataType) -> pa.Schema:
    """The columns of a run."""
    return pa.schema([("key", key), ("record", pa.large_binary())])


def _empty(key: pa.DataType) -> pa.RecordBatch:
    columns = [pa.nulls(0, key), pa.nulls(0, pa.large_binary())]
    return pa.RecordBatch.from_arrays(columns, schema=run_schema(key))


def run_path(folder: str, number: str) -> str:
    """Where a run lies."""
    return os.path.join(folder, f"run-{number}.arrows")


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
