"""Encoded batches into shards: cut where the plan says, written in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from tfrec_cli.dataset.manifest import Shard, Split
from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.errors import SourceError
from tfrec_cli.plan import SplitPlan
from tfrec_cli.tasks import EncodedBatch


class RecordStream:
    """The records of encoded batches, taken in runs of any length."""

    def __init__(self, batches: Iterable[EncodedBatch]) -> None:
        self._batches = iter(batches)
        self._data = memoryview(b"")
        self._ends: np.ndarray[Any, np.dtype[np.int64]] = np.zeros(0, dtype=np.int64)
        self._taken = 0

    def take(self, count: int) -> Iterator[tuple[memoryview, int]]:
        """The next `count` records: runs of framed bytes, with the number of records in each.

        Raises SourceError where the batches end before: the source has changed since the survey.
        """
        while count:
            if self._taken == len(self._ends):
                self._next()
                continue
            last = min(self._taken + count, len(self._ends))
            yield self._data[self._offset(self._taken) : self._offset(last)], last - self._taken
            count -= last - self._taken
            self._taken = last

    def finish(self) -> None:
        """Raise SourceError where records are left."""
        while self._taken == len(self._ends):
            try:
                self._next()
            except SourceError:
                return
        raise SourceError("the source has more rows than when it was surveyed. Run again.")

    def _next(self) -> None:
        batch = next(self._batches, None)
        if batch is None:
            raise SourceError("the source has fewer rows than when it was surveyed. Run again.")
        self._data, self._ends = memoryview(batch.records.data), batch.records.ends
        self._taken = 0

    def _offset(self, record: int) -> int:
        return int(self._ends[record - 1]) if record else 0


def write_split(
    plan: SplitPlan, writers: Iterable[ShardWriter], batches: Iterable[EncodedBatch]
) -> Split:
    """Write the shards of one split, in order; return what they hold.

    writers: one a shard; each is opened when its turn comes.
    """
    stream = RecordStream(batches)
    shards: list[Shard] = []
    for records, writer in zip(plan.shards, writers, strict=True):
        with writer as shard:
            for data, count in stream.take(records):
                shard.write(data, count)
            shards.append(shard.close())
    stream.finish()
    return Split(plan.name, tuple(shards))
