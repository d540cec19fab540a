"""Shuffling and sorting within a memory budget: map tasks leave sorted runs, which are merged.

A map task encodes some rows and leaves them as sorted runs: in memory while that lasts, then in
files. Then each segment of the range of keys is merged from all runs, and the segments in their
order are the records of the splits. What is written depends neither on how rows were cut into runs
nor on how keys were cut into segments.

How much goes into a run, how many segments there are and whether files are needed is planned by a
sample. None of it is relied on: runs, the memory that holds them and what is merged at a time go
by the bytes that were really encoded.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import numpy as np
import pyarrow as pa

from tfrec_cli._kernel.model import Encoded
from tfrec_cli.buffers import byte_size, from_numpy
from tfrec_cli.engines.threads import ordered_flat_map, ordered_map
from tfrec_cli.options import ConvertOptions
from tfrec_cli.placing import Placed, place_batch
from tfrec_cli.plan import Plan
from tfrec_cli.progress import Reporter
from tfrec_cli.runlog import RunLog, gaps
from tfrec_cli.shuffle.budget import RUN_IN_MEMORY, plan_memory, spilling
from tfrec_cli.shuffle.cuts import Cut, cuts
from tfrec_cli.shuffle.merge import MOST_ENTRIES, RunStack, Sorted, encoded, merge_cut
from tfrec_cli.shuffle.runs import Room, Run, hold_run, run_path, run_schema, spill_run
from tfrec_cli.shuffle.segments import Segments, sorted_rows
from tfrec_cli.sources.base import Fingerprint, SourceBatch
from tfrec_cli.sources.fingerprints import gather
from tfrec_cli.stages import timed
from tfrec_cli.tasks import LOADED_BYTES, Piece, Work, part_of, read_piece, readers

# Runs of one level are merged where more of them would make reads smaller than this.
LEAST_READ = 32 * 2**10
LEAST_RUNS = 64


Wanted = Callable[[int, int], bool]
Check = Callable[[float, float], None]
"""Raises where there is no room: for so many bytes of runs, and for records that have so many with
their keys.
"""


def ordered_bytes(plan: Plan) -> float:
    """The size of all records with what stands beside each in a run: its key, and where it ends."""
    places = 8 if plan.sample is None else 16
    return plan.records * (plan.mean_size + plan.key_size + places)


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
class Portion:
    """What one map task handles: batches one after the other.

    start: the number of the first row among all rows. folder: the split that the source names.
    """

    start: int
    folder: str | None
    batches: tuple[SourceBatch, ...]


def plan_segments(plan: Plan, segment: int, sample: tuple[bytes, ...] | None) -> Segments:
    """How the keys of each split are cut into segments of about `segment` bytes."""
    if sample == ():
        return Segments((1,) * len(plan.splits), sample)
    most = max(1, MOST_ENTRIES // len(plan.splits))
    record = ordered_bytes(plan) / plan.records
    sizes = (split.records * record for split in plan.splits)
    # A few too many: segments that are small are merged together, large ones must be cut.
    counts = (max(1, min(split.records, most, round(1.25 * size / segment + 0.5)))
              for split, size in zip(plan.splits, sizes, strict=True))  # fmt: skip
    return Segments(tuple(counts), sample)


def cut_piece(
    shared: MapWork, piece: Piece, gaps: Sequence[range] | None = None
) -> Iterator[Portion]:
    """The rows of a piece in portions whose records should be about one run.

    gaps: the numbers of those rows that are wanted, in order; None is all.
    """
    gaps = [range(piece.start, piece.start + piece.rows)] if gaps is None else gaps
    held: list[SourceBatch] = []
    start, end, size = piece.start, piece.start, 0.0
    for first, batch in _within(_sliced(shared, piece), piece.start, gaps):
        weight = _weight(shared, batch)
        if held and (first > end or size + weight > shared.run):
            yield Portion(start, piece.partition.split, tuple(held))
            held, size = [], 0.0
        start = start if held else first
        end = first + batch.data.num_rows
        held.append(batch)
        size += weight
    if held:
        yield Portion(start, piece.partition.split, tuple(held))


def _within(
    batches: Iterable[SourceBatch], start: int, gaps: Sequence[range]
) -> Iterator[tuple[int, SourceBatch]]:
    """What of the batches is in the gaps, with the number of its first row. start: of the first."""
    for batch in batches:
        stop = start + batch.data.num_rows
        for gap in gaps:
            first, last = max(start, gap.start), min(stop, gap.stop)
            if first < last:
                yield first, part_of(batch, first - start, last - start)
        start = stop
        if start >= gaps[-1].stop:
            return


def _sliced(shared: MapWork, piece: Piece) -> Iterator[SourceBatch]:
    """Batches none of which is more than a run, unless it is one row."""
    for batch in read_piece(shared.work, piece, min(LOADED_BYTES, shared.run)):
        rows = batch.data.num_rows
        pieces = max(1, min(rows, -int(-_weight(shared, batch) // shared.run)))
        bounds = [rows * number // pieces for number in range(pieces + 1)]
        for begin, end in pairwise(bounds):
            yield part_of(batch, begin, end)


def _weight(shared: MapWork, batch: SourceBatch) -> float:
    """The bytes that a batch is, or will be."""
    return float(max(batch.data.num_rows * shared.record, byte_size(batch.data)))


@timed("order", lambda _: 0)
def make_runs(shared: MapWork, room: Room, portions: Iterable[Portion]) -> Sorted:
    """Encode portions that follow each other, and leave them as sorted runs: one, or as many as
    their real size asks for; each in `room`, or in a file. portions: at least one.

    Raises CellError for the first row at fault, DatasetError where a run cannot be written.
    """
    runs: list[Run] = []
    prints: dict[str, Fingerprint] = {}
    held: list[Placed] = []
    first, rows, size = -1, 0, 0
    for start, folder, batch in _batches(portions):
        first = start if first < 0 else first
        # Twice a run: what the records take at most is more than what they take.
        for placed in place_batch(shared.work, batch, (folder, start), 2 * shared.run):
            gather(prints, placed.fingerprints)
            weight = byte_size(placed.records)
            if held and size + weight > 1.5 * shared.run:
                runs.append(_leave(shared, room, held, f"{first:015d}-{len(runs)}"))
                size = 0
            held.append(placed)
            size += weight
            del placed
        rows += batch.data.num_rows
    runs.append(_leave(shared, room, held, f"{first:015d}-{len(runs)}"))
    return Sorted(first, rows, tuple(runs), tuple(prints.values()))


def _batches(portions: Iterable[Portion]) -> Iterator[tuple[int, str | None, SourceBatch]]:
    """The batches of portions, with the number of their first row and the split of the source's."""
    for portion in portions:
        start = portion.start
        for batch in portion.batches:
            yield start, portion.folder, batch
            start += batch.data.num_rows


def _leave(shared: MapWork, room: Room, placed: list[Placed], name: str) -> Run:
    """Sorted batches as one run, taken out of the list."""
    splits, batch = _as_one(placed)
    counts = np.bincount(splits, minlength=len(shared.segments.counts)).tolist()
    ends = shared.segments.ends(counts, batch.column(0))
    if room.take(byte_size(batch)):
        return hold_run(batch, ends)
    return spill_run(run_path(shared.folder, name), batch, ends)


def _as_one(placed: list[Placed]) -> tuple[np.ndarray, pa.RecordBatch]:
    """Sorted batches as one."""
    if len(placed) == 1:
        only = placed.pop()
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
def merge_records(runs: Sequence[Run], cut: Cut) -> Encoded:
    """The records of a cut in order, framed. Raises DatasetError where a run is unreadable."""
    return encoded(merge_cut(runs, cut))


class Ordered:
    """The records of a run, put in order.

    folder: where runs are spilled when they do not fit in memory. log: of those that are there.
    size: the bytes of all runs, as planned. kept: the rows that an earlier run has sorted.
    """

    def __init__(
        self, work: Work, plan: Plan, options: ConvertOptions, folder: str, log: RunLog
    ) -> None:
        self.size = size = ordered_bytes(plan)
        self._budget = plan_memory(options.memory, options.jobs, size)
        self._spilling = spilling(options.memory, self._budget.workers)
        wanted = plan_segments(plan, self._budget.segment, plan.sample)
        self._segments, self.kept = log.begin(wanted, self._budget.workers)
        self._log = log
        self._shared = MapWork(work, self._segments, folder, self._budget.run, size / plan.records)
        self._pieces, self._tally = plan.pieces, Tally(plan.records, size)
        # Portions that are being made into runs, and those that wait for it.
        self._portions = threading.Semaphore(2 * self._budget.workers)
        self._room = Room(self._budget.held, max(1, self._budget.run // 2) if self.spills else None)
        self._readers = readers(plan.pieces, self._budget.workers, options.memory)
        self._runs: list[Run] = []

    @property
    def spills(self) -> bool:
        """Whether files are needed, as far as is known."""
        return not self._budget.held

    def map(self, reporter: Reporter, check: Check = lambda *_: None) -> dict[str, Fingerprint]:
        """Encode all rows into sorted runs. Returns the files that cells named, by path.

        check: called where files are needed that were not planned for.
        """
        loaded: dict[str, Fingerprint] = {}
        stack = self._stack()
        jobs = self._budget.workers, self._readers
        sorts = ordered_flat_map(self._cut, self._make, self._pieces, *jobs)
        # Ended on an error too: no task may write into the folder while it is removed.
        with closing(cast(Generator[Sorted, None, None], sorts)):
            for found in sorts:
                self._tally.add(found)
                stack.add(found)
                if self._tally.grown if self.spills else self._room.full:
                    self._tally.check(check, self.spills)
                if self._room.full:
                    self._spill(stack)
                gather(loaded, found.fingerprints)
                reporter.advance(found.records, 0)
        self._runs = stack.runs
        return loaded

    def split(self, number: int, wanted: Wanted = lambda *_: True) -> Iterator[tuple[int, Encoded]]:
        """The records of a split in order, some at a time, with the number of the first.

        wanted: whether any of the records from one number to before another is.
        """

        def counted() -> Iterator[tuple[int, Cut]]:
            first = 0
            for cut in cuts(self._runs, self._segments.of(number), self._budget.segment):
                last = first + cut.rows(self._runs)
                if wanted(first, last):
                    yield first, cut
                first = last

        def merge(each: tuple[int, Cut]) -> tuple[int, Encoded]:
            return each[0], merge_records(self._runs, each[1])

        return ordered_map(merge, counted(), self._budget.workers)

    def _stack(self) -> RunStack:
        fit = max(LEAST_RUNS, self._spilling.segment // LEAST_READ)
        most = min(fit, MOST_ENTRIES // self._segments.total)
        piece = min(self._spilling.segment, RUN_IN_MEMORY)
        return RunStack(self._shared.folder, most, piece, self._log.merged)

    def _spill(self, stack: RunStack) -> None:
        """Put what is held into a file, and go on with files."""
        self._budget = self._spilling
        self._shared = replace(self._shared, run=self._budget.run)
        stack.spill()
        self._room.empty(self._budget.small, max(1, self._budget.run // 2))

    def _cut(self, piece: Piece) -> Iterator[Portion | Sorted]:
        """The rows of a piece that are to be sorted, and among them those that are."""
        rows = range(piece.start, piece.start + piece.rows)
        missing = gaps(rows, self.kept)
        done = deque(each for each in self.kept if each.start in rows)
        for portion in cut_piece(self._shared, piece, missing) if missing else ():
            while done and done[0].start < portion.start:
                yield done.popleft()
            self._portions.acquire()
            yield portion
        yield from done

    def _make(self, portion: Portion | Sorted) -> Sorted:
        if isinstance(portion, Sorted):
            return portion
        try:
            found = make_runs(self._shared, self._room, (portion,))
            self._log.note(found)
            return found
        finally:
            self._portions.release()


class Tally:
    """What was planned of the records, and what was found. size: their bytes, with their keys."""

    def __init__(self, records: int, size: float) -> None:
        self._records, self._size = records, size
        self._left, self._found = records, 0

    def add(self, found: Sorted) -> None:
        """Take what a task has left."""
        self._left -= found.records
        self._found += found.size

    @property
    def total(self) -> float:
        """The bytes of all records: of those found as they are, of the others as planned."""
        return self._found + self._left * self._size / self._records

    @property
    def grown(self) -> bool:
        """Whether much more was found than was planned."""
        return self._found > 1.25 * self._size

    def check(self, check: Check, spilled: bool) -> None:
        """Have the room checked for what is still to come. spilled: whether the rest is written."""
        check(self.total - (self._found if spilled else 0), self.total)
        self._size = max(self._size, self.total)
