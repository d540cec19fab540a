"""Shards straight from the source: records in the order of the rows, each shard a range of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfrec_cli.cluster.output import Lot, Output, Written, lot_writer
from tfrec_cli.cluster.shared import Shared
from tfrec_cli.engines.calls import check_wanted
from tfrec_cli.plan import SplitPlan
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.sources.fingerprints import gather
from tfrec_cli.tasks import EncodedBatch, Piece, Work, encode_batch, part_of, read_piece


@dataclass(frozen=True, slots=True)
class RowsWork:
    """What the tasks share."""

    work: Work
    output: Output


@dataclass(frozen=True, slots=True)
class RowsTask:
    """A lot, the pieces that its records are in, and how many records of those stand before it."""

    lot: Lot
    pieces: tuple[Piece, ...]
    skip: int

    def __str__(self) -> str:
        return str(self.lot)


def rows_tasks(
    lots: Sequence[Lot], splits: Sequence[SplitPlan], records: dict[int, int]
) -> Iterator[RowsTask]:
    """A task for each lot. records: of each piece, by its first row's number."""
    for number, split in enumerate(splits):
        at, before = 0, 0
        for lot in (lot for lot in lots if lot.split == number):
            while at < len(split.pieces) and before + records[split.pieces[at].start] <= lot.skip:
                before += records[split.pieces[at].start]
                at += 1
            last, end = at, before
            while last < len(split.pieces) and end < lot.skip + lot.records:
                end += records[split.pieces[last].start]
                last += 1
            yield RowsTask(lot, split.pieces[at:last], lot.skip - before)


def write_rows(shared: Shared, task: RowsTask) -> Written:
    """Write the shards of a task's lot.

    Raises CellError for the first of their rows that cannot become a record, SourceError where
    there are fewer than planned, DatasetError where a shard cannot be written.
    """
    given: RowsWork = shared.load()
    prints: dict[str, Fingerprint] = {}
    with lot_writer(given.output, task.lot) as writer:
        for batch, first, last in _encoded(given.work, task):
            check_wanted()
            writer.add(batch.records, first, last, batch.fingerprints)
            gather(prints, batch.fingerprints)
        split = writer.finish()
    return Written(split.shards, tuple(prints.values()))


def _encoded(work: Work, task: RowsTask) -> Iterator[tuple[EncodedBatch, int, int]]:
    """Batches with the records of a task's lot, and which of theirs they are: first, behind last.

    Where each row is a record, those of other lots are not encoded, and need not become one.
    """
    skip, left = task.skip, task.lot.records
    for piece in task.pieces:
        for batch in read_piece(work, piece):
            if not left:
                return
            rows = batch.data.num_rows
            if work.on_error == "fail":
                first = min(skip, rows)
                skip -= first
                if first == rows:
                    continue
                batch = part_of(batch, first, min(rows, first + left))
            found = encode_batch(work, batch)
            count = len(found.records.ends)
            first = min(skip, count)
            last = min(count, first + left)
            skip, left = skip - first, left - (last - first)
            yield found, first, last
