"""Merging sorted runs, segment by segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tfrec_cli._kernel.model import Encoded
from tfrec_cli.buffers import from_numpy
from tfrec_cli.shuffle.runs import Run, run_path, write_run
from tfrec_cli.shuffle.segments import sorted_rows

# The most entries that the indexes of all runs of one level may have together.
MOST_ENTRIES = 1_000_000


def merge_segment(runs: Sequence[Run], segment: int) -> pa.RecordBatch | None:
    """The records of a segment in all runs, sorted; those with equal keys in the order of runs.

    None where there is none. Raises DatasetError where a run cannot be read.
    """
    parts = [part for run in runs if (part := run.read(segment)) is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    keys = pa.concat_arrays([part.column(0) for part in parts])
    records = pa.concat_arrays([part.column(1) for part in parts])
    parts.clear()
    order = from_numpy(sorted_rows(keys))
    return pa.RecordBatch.from_arrays([keys.take(order), records.take(order)], ["key", "record"])


def encoded(batch: pa.RecordBatch | None) -> Encoded:
    """The records of a merged segment, back to back."""
    if batch is None:
        return Encoded(b"", np.zeros(0, np.int64))
    records = batch.column(1)
    _, bounds, data = records.buffers()
    ends = np.frombuffer(bounds, np.int64)[records.offset : records.offset + len(records) + 1]
    return Encoded(data[int(ends[0]) : int(ends[-1])], ends[1:] - ends[0])


def records_of(encoded: Encoded) -> pa.Array:
    """Framed records as large_binary, without a copy."""
    ends: Any = np.concatenate([np.zeros(1, np.int64), encoded.ends])
    data = encoded.data if isinstance(encoded.data, pa.Buffer) else pa.py_buffer(encoded.data)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(ends) - 1, [None, pa.py_buffer(ends), data]
    )


class RunStack:
    """The runs of a shuffle in the order of the source.

    Where they would become so many that their indexes fill memory, the oldest of a level are merged
    into one run of the next.
    """

    def __init__(self, folder: str, key: pa.DataType, most: int) -> None:
        """folder: where merged runs go. most: runs of one level, at least two."""
        self._folder, self._key, self._most = folder, key, max(2, most)
        self._levels: list[list[Run]] = [[]]
        self._merged = 0

    @property
    def runs(self) -> list[Run]:
        """All of them; earlier records are in earlier runs."""
        return [run for level in reversed(self._levels) for run in level]

    def add(self, run: Run, level: int = 0) -> None:
        """Take the next run."""
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(run)
        if len(self._levels[level]) > self._most:
            full, self._levels[level] = self._levels[level], []
            self.add(self._merge(full), level + 1)

    def _merge(self, runs: Sequence[Run]) -> Run:
        self._merged += 1
        path = run_path(self._folder, f"merged-{self._merged:06d}")
        merged = write_run(
            path, (merge_segment(runs, at) for at in range(len(runs[0].ends))), self._key
        )
        for run in runs:
            run.drop()
        return merged
