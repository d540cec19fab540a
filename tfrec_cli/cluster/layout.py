"""How a run is cut into tasks: large enough to be worth their overhead, small enough for a worker's
memory, and so that runs times segments, which is the number of reads, stays under a million.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tfrec_cli.cluster.output import Lot
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.plan import Plan
from tfrec_cli.shuffle.budget import spilling
from tfrec_cli.shuffle.merge import MOST_ENTRIES
from tfrec_cli.tasks import Piece

# Bytes of records that a task handles, where memory and the number of workers allow it.
MOST_PER_TASK = 256 * 2**20
LEAST_PER_TASK = 4 * 2**20
# Tasks that each thread should have at least, so that none waits long for the last one.
TASKS_EACH = 4
# Segments of a shard: a shard reads those at its ends whole, so that few would be read twice.
SEGMENTS_EACH = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """Bytes of records: of a lot of shards, of a sorted run, and of a segment of keys. most: runs
    that are merged at a time.
    """

    lot: int
    run: int
    segment: int
    most: int


def lay_out(plan: Plan, memory: int, threads: tuple[int, int], size: float) -> Layout:
    """How to handle `size` bytes of records. threads: of all workers together, and of one process,
    which has `memory` bytes.

    Memory is shared among threads as in `tfrec_cli.ordering`.
    """
    everyone, each = threads
    spread = max(LEAST_PER_TASK, int(size / (TASKS_EACH * everyone)))
    budget = spilling(memory, each)
    run = min(spread, budget.run)
    shards = sum(len(split.shards) for split in plan.splits)
    needed = size / budget.segment
    reads = MOST_ENTRIES / max(1.0, size / run)
    segments = max(needed, min(SEGMENTS_EACH * shards, reads), 1.0)
    most = max(2, int(MOST_ENTRIES / segments))
    return Layout(min(MOST_PER_TASK, spread), run, max(1, int(size / segments)), most)


def cut_lots(plan: Plan, dest: Dest, layout: Layout) -> Iterator[Lot]:
    """The shards of all splits in lots of about `layout.lot` bytes, or of one shard."""
    most, before = layout.lot / max(1.0, _record_size(plan)), 0
    for number, split in enumerate(plan.splits):
        names = dest.shards(split.name, len(split.shards))
        skips = [0, *accumulate(split.shards)]
        for first, last in pairwise(_bounds(split.shards, most)):
            counts = split.shards[first:last]
            yield Lot(number, before + first, names[first:last], counts, skips[first])
        before += len(split.shards)


def _bounds(counts: Sequence[int], most: float) -> list[int]:
    """Places that cut `counts` into parts whose sum is up to `most`, or that are one of them."""
    bounds, held = [0], 0
    for place, count in enumerate(counts):
        if place > bounds[-1] and held + count > most:
            bounds.append(place)
            held = 0
        held += count
    return [*bounds, len(counts)]


def cut_maps(pieces: Sequence[Piece], plan: Plan, layout: Layout) -> Iterator[tuple[Piece, ...]]:
    """All pieces in order, in groups whose records are about one run."""
    most = layout.run / max(1.0, _record_size(plan))
    for first, last in pairwise(_bounds([piece.rows for piece in pieces], most)):
        yield tuple(pieces[first:last])


def _record_size(plan: Plan) -> float:
    """Bytes of a record: those of the plan, else of the source's rows."""
    if plan.mean_size:
        return plan.mean_size
    return sum(piece.partition.size for piece in plan.pieces) / max(1, plan.rows)
