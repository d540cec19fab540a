"""Shuffling and sorting within a memory budget: map tasks leave sorted runs, which are merged.

A map task encodes some rows and leaves them as one sorted run: in memory while that lasts, then in
a file. Then each segment of the range of keys is merged from all runs, and the segments in their
order are the records of the splits. What is written depends neither on how rows were cut into runs
nor on how keys were cut into segments.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa

from tfrec_cli._kernel.model import Encoded
from tfrec_cli.buffers import byte_size, from_numpy
from tfrec_cli.engines.threads import ordered_flat_map, ordered_map
from tfrec_cli.errors import DatasetError
from tfrec_cli.options import ConvertOptions
from tfrec_cli.placing import Placed, place_batch
from tfrec_cli.plan import Plan
from tfrec_cli.progress import Reporter
from tfrec_cli.shuffle.merge import MOST_ENTRIES, RunStack, encoded, merge_segment
from tfrec_cli.shuffle.runs import Room, Run, hold_run, run_path, run_schema, spill_run
from tfrec_cli.shuffle.segments import Segments, sorted_rows
from tfrec_cli.sources.base import Fingerprint, SourceBatch
from tfrec_cli.stages import timed
from tfrec_cli.tasks import Piece, Work, part_of, read_piece

# What a worker needs at least; more workers than the budget has room for would make tiny runs.
LEAST_PER_WORKER = 16 * 2**20
# Each run is read once a segment; more workers mean smaller and thus more of both.
MOST_READS = 200_000
MOST_PER_RUN = 256 * 2**20
# Runs of data that fits in memory: large enough to sort well, small enough to keep all cores busy.
RUN_IN_MEMORY = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Budget:
    """How the memory of a run is used, in bytes.

    workers: threads. run: of one sorted run. segment: of one merged segment. held: of runs that
    stay in memory.
    """

    workers: int
    run: int
    segment: int
    held: int


def plan_memory(memory: int, jobs: int, size: float) -> Budget:
    """How to order `size` bytes of records in `memory` bytes with `jobs` threads.

    A worker holds up to four times the run it is making (source rows, features, records, sorted
    records) and up to five times the segment it is merging.
    """
    workers = max(1, min(jobs, memory // LEAST_PER_WORKER))
    if size > memory:
        # With `run` and `segment` as below there are 20 * (workers * size / memory)**2 reads.
        workers = min(workers, max(2, int((MOST_READS / 20) ** 0.5 * memory / size)))
    run = max(1, min(MOST_PER_RUN, memory // (4 * workers)))
    segment = max(1, min(MOST_PER_RUN, memory // (5 * workers)))
    if size > memory:
        return Budget(workers, run, segment, 0)
    return Budget(workers, min(run, RUN_IN_MEMORY), min(segment, RUN_IN_MEMORY), memory)


def ordered_bytes(plan: Plan) -> float:
    """The size of all records with what stands beside each in a run: its key, and where it ends."""
    key = 8.0 if plan.sample is None else 8 + sum(map(len, plan.sample)) / max(1, len(plan.sample))
    return plan.records * (plan.mean_size + key + 8)


@dataclass(frozen=True, slots=True)
class MapWork:
    """What the map tasks of a run share.

    folder: where runs are spilled. run: the bytes of one. record: the mean bytes of a record, with
    its key.
    """

    work: Work
    segments: Segments
    folder: str
    run: int
    record: float


@dataclass(frozen=True, slots=True)
class Part:
    """What one map task handles: batches one after the other.

    start: the number of the first row among all rows. folder: the split that the source names.
    """

    start: int
    folder: str | None
    batches: tuple[SourceBatch, ...]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a map task leaves: its run, the rows it read, the files that their cells named."""

    run: Run
    rows: int
    fingerprints: tuple[Fingerprint, ...] = ()


def plan_segments(plan: Plan, segment: int, sample: tuple[bytes, ...] | None) -> Segments:
    """How the keys of each split are cut into segments of about `segment` bytes."""
    if sample == ():
        return Segments((1,) * len(plan.splits), sample)
    most = max(1, MOST_ENTRIES // len(plan.splits))
    record = ordered_bytes(plan) / plan.records
    sizes = (split.records * record for split in plan.splits)
    counts = (max(1, min(split.records, most, round(size / segment + 0.5)))
              for split, size in zip(plan.splits, sizes, strict=True))  # fmt: skip
    return Segments(tuple(counts), sample)


def cut_piece(shared: MapWork, piece: Piece) -> Iterator[Part]:
    """The rows of a piece in parts whose records are about one run."""
    held: list[SourceBatch] = []
    start, size = piece.start, 0.0
    for batch in _sliced(shared, piece):
        weight = _weight(shared, batch)
        if held and size + weight > shared.run:
            yield Part(start, piece.partition.split, tuple(held))
            start += sum(b.data.num_rows for b in held)
            held, size = [], 0.0
        held.append(batch)
        size += weight
    if held:
        yield Part(start, piece.partition.split, tuple(held))


def _sliced(shared: MapWork, piece: Piece) -> Iterator[SourceBatch]:
    """Batches none of which is more than a run, unless it is one row."""
    for batch in read_piece(shared.work, piece):
        rows = batch.data.num_rows
        pieces = max(1, min(rows, -int(-_weight(shared, batch) // shared.run)))
        bounds = [rows * number // pieces for number in range(pieces + 1)]
        for begin, end in pairwise(bounds):
            yield part_of(batch, begin, end)


def _weight(shared: MapWork, batch: SourceBatch) -> float:
    """The bytes that a batch is, or will be."""
    return float(max(batch.data.num_rows * shared.record, byte_size(batch.data)))


@timed("order", lambda _: 0)
def make_run(shared: MapWork, room: Room, part: Part) -> Receipt:
    """Encode a part, and leave it as a sorted run: in `room`, or in a file.

    Raises CellError for the first row at fault, DatasetError where the run cannot be written.
    """
    placed, start = [], part.start
    for batch in part.batches:
        placed.append(place_batch(shared.work, batch, part.folder, start))
        start += batch.data.num_rows
    fingerprints = tuple(print for each in placed for print in each.fingerprints)
    rows = sum(each.rows for each in placed)
    splits, batch = _as_one(placed)
    counts = np.bincount(splits, minlength=len(shared.segments.counts)).tolist()
    ends = shared.segments.ends(counts, batch.column(0))
    if room.take(batch.nbytes):
        return Receipt(hold_run(batch, ends), rows, fingerprints)
    path = run_path(shared.folder, f"{part.start:015d}")
    return Receipt(spill_run(path, batch, ends), rows, fingerprints)


def _as_one(placed: list[Placed]) -> tuple[np.ndarray, pa.RecordBatch]:
    """Sorted batches as one."""
    if len(placed) == 1:
        only = placed[0]
        return only.splits, _batch(only.keys, only.records)
    splits = np.concatenate([each.splits for each in placed])
    keys = pa.concat_arrays([each.keys for each in placed])
    records = pa.concat_arrays([each.records for each in placed])
    placed.clear()
    order = sorted_rows(keys, splits if splits.any() else None)
    index = from_numpy(order)
    return splits[order], _batch(keys.take(index), records.take(index))


def _batch(keys: pa.Array, records: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([keys, records], schema=run_schema(keys.type))


@timed("order", lambda encoded: memoryview(encoded.data).nbytes)
def merge_records(runs: Sequence[Run], segment: int) -> Encoded:
    """The records of a segment in order, framed. Raises DatasetError where a run is unreadable."""
    return encoded(merge_segment(runs, segment))


class Ordered:
    """The records of a run, put in order.

    folder: where runs are spilled when they do not fit in memory.
    """

    def __init__(self, work: Work, plan: Plan, options: ConvertOptions, folder: str) -> None:
        self._budget = plan_memory(options.memory, options.jobs, ordered_bytes(plan))
        self._segments = plan_segments(plan, self._budget.segment, plan.sample)
        record = ordered_bytes(plan) / plan.records
        self._shared = MapWork(work, self._segments, folder, self._budget.run, record)
        self._pieces = plan.pieces
        self._runs: list[Run] = []

    @property
    def spills(self) -> bool:
        """Whether files will be needed, as far as the plan can tell."""
        return not self._budget.held

    def map(self, reporter: Reporter) -> dict[str, Fingerprint]:
        """Encode all rows into sorted runs. Returns the files that cells named, by path."""
        loaded: dict[str, Fingerprint] = {}
        key = pa.uint64() if self._segments.sample is None else pa.large_binary()
        stack = RunStack(self._shared.folder, key, MOST_ENTRIES // self._segments.total)
        make = partial(make_run, self._shared, Room(self._budget.held))
        cut = partial(cut_piece, self._shared)
        receipts = ordered_flat_map(cut, make, self._pieces, self._budget.workers)
        # Ended on an error too: no task may write into the folder while it is removed.
        with closing(cast(Generator[Receipt, None, None], receipts)):
            for receipt in receipts:
                stack.add(receipt.run)
                loaded.update((print.path, print) for print in receipt.fingerprints)
                reporter.advance(receipt.run.rows, 0)
        self._runs = stack.runs
        return loaded

    def split(self, number: int) -> Iterator[Encoded]:
        """The records of a split in order, some at a time."""
        merge = partial(merge_records, self._runs)
        return ordered_map(merge, self._segments.of(number), self._budget.workers)


@contextmanager
def spill_folder(options: ConvertOptions, work: Path | None) -> Iterator[str]:
    """A folder for runs, removed afterwards: in `--temp-dir`, else `work`, else the system's."""
    try:
        parent = options.temp_dir or (None if work is None else os.fspath(work))
        folder = tempfile.mkdtemp(prefix="runs-", dir=parent)
    except OSError as error:
        raise DatasetError(
            f"{options.temp_dir or work}: sorted records cannot be kept there "
            f"({error.strerror or error}). Choose another folder by --temp-dir."
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_space(options: ConvertOptions, spill: str, dest: Path | None, plan: Plan) -> None:
    """Raise DatasetError where the disk has no room for the runs, and for the dataset beside them.

    spill: the folder of the runs. dest: a folder on the dataset's disk; None where it needs none,
    or where compression makes its size unknown.
    """
    runs, dataset = 1.02 * ordered_bytes(plan) + 2**20, plan.records * plan.mean_size
    if dest is None or os.stat(dest).st_dev != os.stat(spill).st_dev:
        dataset = 0
    free = shutil.disk_usage(spill).free
    if runs + dataset <= free:
        return
    both = f" and {_gigabytes(dataset)} for the dataset" if dataset else ""
    raise DatasetError(
        f"{options.temp_dir or os.path.dirname(spill)}: {_gigabytes(runs)} are needed for sorted "
        f"records{both}, but {_gigabytes(free)} are free. Name a folder on another disk by "
        f"--temp-dir, or let the records fit in memory: --memory {int(runs / 2**20) + 1}MiB."
    )


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB"
