"""Shards of records that are put in order: map tasks leave sorted runs, shard tasks merge them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tfrec_cli.cluster.layout import Layout
from tfrec_cli.cluster.ledger import Ledger, Left
from tfrec_cli.cluster.output import Lot, Output, Written, lot_writer
from tfrec_cli.cluster.shared import Shared
from tfrec_cli.engines.calls import check_wanted
from tfrec_cli.ordering import MapWork, Portion, cut_piece, make_runs, merge_records
from tfrec_cli.shuffle.cuts import cuts
from tfrec_cli.shuffle.merge import segment_rows
from tfrec_cli.shuffle.runs import Room, SegmentRows, run_path, write_run
from tfrec_cli.shuffle.segments import Segments
from tfrec_cli.shuffle.spills import Counts, leave_index, opened, segment_counts
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.stages import timed
from tfrec_cli.tasks import Piece


@dataclass(frozen=True, slots=True)
class OrderWork:
    """What the tasks share. key: the type of the keys. layout: how the run is cut. receipts: the
    folder for those of tasks that leave runs, None where none are kept.
    """

    mapping: MapWork
    output: Output
    key: pa.DataType
    layout: Layout
    receipts: str | None = None

    @property
    def ledger(self) -> Ledger:
        """Where tasks note the runs that they have made."""
        return Ledger(self.receipts, self.layout, self.output.sync)


@dataclass(frozen=True, slots=True)
class MapTask:
    """Consecutive pieces, whose records make about one run."""

    pieces: tuple[Piece, ...]

    @property
    def name(self) -> str:
        """Of its receipt."""
        return f"map-{self.pieces[0].start:015d}"

    def __str__(self) -> str:
        first, last = self.pieces[0], self.pieces[-1]
        file = first.partition.file
        return f"{file} and what follows (rows {first.start:,} to {last.start + last.rows:,})"


@dataclass(frozen=True, slots=True)
class Mapped:
    """What the map task `name` leaves: runs, by their paths, and the records of each segment in
    them; the files that cells named.
    """

    name: str
    paths: tuple[str, ...]
    counts: Counts
    fingerprints: tuple[Fingerprint, ...] = ()


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Runs to be made one, called `name`."""

    name: str
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return f"the merge of {len(self.paths)} sorted runs from {self.paths[0]}"


@dataclass(frozen=True, slots=True)
class OrderTask:
    """A lot, the segments that its records are in, and how many records of those stand before it.

    runs: the paths of all runs.
    """

    lot: Lot
    segments: range
    skip: int
    runs: Shared

    def __str__(self) -> str:
        return str(self.lot)


def map_rows(shared: Shared, task: MapTask) -> Mapped:
    """Leave the records of some pieces as sorted runs.

    Raises CellError for the first row at fault, DatasetError where a run cannot be written.
    """
    given: OrderWork = shared.load()
    receipt = make_runs(given.mapping, Room(0), _portions(given.mapping, task.pieces))
    counts: Counts = np.zeros(given.mapping.segments.total, np.int64)
    for run in receipt.runs:
        leave_index(run)
        counts += segment_counts(run)
    paths = tuple(run.path for run in receipt.runs)
    given.ledger.leave(task.name, paths, receipt.fingerprints)
    return Mapped(task.name, paths, counts, receipt.fingerprints)


def _portions(shared: MapWork, pieces: Iterable[Piece]) -> Iterator[Portion]:
    for piece in pieces:
        for portion in cut_piece(shared, piece):
            check_wanted()
            yield portion


def left_whole(shared: Shared, task: str) -> tuple[str, Left | None]:
    """A task's name, and what it left in an earlier run, where that is still what it was."""
    given: OrderWork = shared.load()
    return task, given.ledger.runs(task)


@timed("order", lambda _: 0)
def merge_runs(shared: Shared, task: MergeTask) -> tuple[str, str]:
    """Merge sorted runs into one; return the task's name and the path of the run."""
    given: OrderWork = shared.load()
    total = given.mapping.segments.total
    runs = opened(task.paths, range(total), given.key)
    path = run_path(given.mapping.folder, task.name)

    def merged() -> Iterator[SegmentRows]:
        for segment in range(total):
            check_wanted()
            yield segment_rows(runs, segment, given.mapping.run)

    leave_index(write_run(path, merged(), given.key))
    given.ledger.leave(task.name, [path])
    return task.name, path


def order_tasks(
    lots: Sequence[Lot], segments: Segments, counts: Counts, runs: Shared
) -> Iterator[OrderTask]:
    """A task for each lot. counts: records of each segment, of all splits. runs: all paths."""
    for lot in lots:
        own = segments.of(lot.split)
        if not lot.records:
            yield OrderTask(lot, range(own.start, own.start), 0, runs)
            continue
        ends = np.cumsum(counts[own.start : own.stop])
        first = int(np.searchsorted(ends, lot.skip, side="right"))
        last = int(np.searchsorted(ends[:-1], lot.skip + lot.records, side="left"))
        before = int(ends[first - 1]) if first else 0
        inside = range(own.start + first, own.start + last + 1)
        yield OrderTask(lot, inside, lot.skip - before, runs)


def write_ordered(shared: Shared, task: OrderTask) -> Written:
    """Write the shards of a task's lot from sorted runs.

    Raises DatasetError where a run cannot be read or a shard cannot be written.
    """
    given: OrderWork = shared.load()
    runs = opened(task.runs.load(), task.segments, given.key)
    skip, left = task.skip, task.lot.records
    with lot_writer(given.output, task.lot) as writer:
        for cut in cuts(runs, range(len(task.segments)), given.mapping.run):
            check_wanted()
            records = merge_records(runs, cut)
            count = len(records.ends)
            first = min(skip, count)
            last = min(count, first + left)
            skip, left = skip - first, left - (last - first)
            writer.add(records, first, last)
        split = writer.finish()
    return Written(split.shards)
