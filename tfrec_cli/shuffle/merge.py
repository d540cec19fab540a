"""Merging sorted runs, some segments, or a part of one, at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from tfrec_cli._kernel.model import Encoded
from tfrec_cli.buffers import from_numpy
from tfrec_cli.shuffle.cuts import Cut, cuts
from tfrec_cli.shuffle.runs import Run, SegmentRows, run_path, write_run
from tfrec_cli.shuffle.segments import sorted_rows
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.sources.fingerprints import gather

# The most entries that the indexes of all runs of one level may have together.
MOST_ENTRIES = 1_000_000


@dataclass(frozen=True, slots=True)
class Sorted:
    """What became of consecutive rows: sorted runs, earlier rows in earlier ones.

    start: the number of the first row among all rows. rows: how many. fingerprints: of the files
    that their cells named.
    """

    start: int
    rows: int
    runs: tuple[Run, ...]
    fingerprints: tuple[Fingerprint, ...] = ()

    @property
    def stop(self) -> int:
        """The number of the row behind the last one."""
        return self.start + self.rows

    @property
    def records(self) -> int:
        """Records of all runs."""
        return sum(run.rows for run in self.runs)

    @property
    def size(self) -> int:
        """Bytes of all runs."""
        return sum(run.size for run in self.runs)

    @property
    def in_files(self) -> bool:
        """Whether no run is in memory."""
        return all(run.held is None for run in self.runs)


def merge_cut(runs: Sequence[Run], cut: Cut) -> pa.RecordBatch | None:
    """The records of a cut in all runs, sorted; those with equal keys in the order of runs.

    None where there is none. Raises DatasetError where a run cannot be read.
    """
    pile = cut.pile(runs)
    if not pile.load.rows:
        return None
    batch = pile.batch()
    several = pile.load.runs > 1
    del pile
    if not several:
        return batch
    keys, records = batch.columns
    del batch
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


def merge_runs(runs: Sequence[Run], path: str, most: int) -> Run:
    """Several runs as one in a new file at `path`, merging up to `most` bytes at a time.

    Raises DatasetError where a run cannot be read or written.
    """
    segments = (segment_rows(runs, segment, most) for segment in range(len(runs[0].ends)))
    return write_run(path, segments, runs[0].key)


def segment_rows(runs: Sequence[Run], segment: int, most: int) -> SegmentRows:
    """The records of a segment in all runs, sorted, merging up to `most` bytes at a time."""
    rows = sum(run.rows_of(segment) for run in runs)
    if not rows:
        return SegmentRows(0, 0, ())
    found = list(cuts(runs, range(segment, segment + 1), most))
    batches = (batch for cut in found if (batch := merge_cut(runs, cut)) is not None)
    if len(found) == 1:
        return SegmentRows.of(next(batches))
    binary = runs[0].key != pa.uint64()
    return SegmentRows(rows, sum(run.key_bytes(segment) for run in runs if binary), batches)


Merged = Callable[[Sorted, Sequence[Sorted]], None]
"""Told of rows whose runs were merged into one: what they are now, and what they were."""


def drop_old(_: Sorted, old: Sequence[Sorted]) -> None:
    """Remove the runs that were merged."""
    for each in old:
        for run in each.runs:
            run.drop()


class RunStack:
    """The sorted rows of a run in the order of the source.

    Where their runs become too many, the oldest of a level are merged into one run of the next;
    where memory becomes short, those that it holds go into files.
    """

    def __init__(self, folder: str, most: int, piece: int, merged: Merged = drop_old) -> None:
        """folder: where merged runs go. most: runs of one level, at least two. piece: bytes that
        are merged at a time. merged: told of each merge, and removes what was merged.
        """
        self._folder, self._most, self._piece = folder, max(2, most), piece
        self._levels: list[list[Sorted]] = [[]]
        self._merged = merged

    @property
    def runs(self) -> list[Run]:
        """All of them; earlier records are in earlier runs."""
        return [run for level in reversed(self._levels) for each in level for run in each.runs]

    def add(self, found: Sorted) -> None:
        """Take the next rows."""
        self._add(found, 0)

    def spill(self) -> None:
        """Put all runs that are in memory into files, neighbours into one."""
        after: list[Sorted] = []
        for in_files, neighbours in groupby(self._levels[0], lambda each: each.in_files):
            found = list(neighbours)
            after += found if in_files else [self._merge(found)]
        self._levels[0] = after

    def _add(self, found: Sorted, level: int) -> None:
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(found)
        if sum(len(each.runs) for each in self._levels[level]) > self._most:
            full, self._levels[level] = self._levels[level], []
            self._add(self._merge(full), level + 1)

    def _merge(self, old: Sequence[Sorted]) -> Sorted:
        start, stop = old[0].start, old[-1].stop
        path = run_path(self._folder, f"{start:015d}-to-{stop:015d}")
        runs = [run for each in old for run in each.runs]
        files: dict[str, Fingerprint] = {}
        gather(files, (file for each in old for file in each.fingerprints))
        run = merge_runs(runs, path, self._piece)
        merged = Sorted(start, stop - start, (run,), tuple(files.values()))
        self._merged(merged, old)
        return merged
