"""Records into shards: cut where the plan says, written in order."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from tfrec_cli._kernel.model import Encoded
from tfrec_cli.dataset.manifest import Shard, Split
from tfrec_cli.errors import SourceError
from tfrec_cli.plan import SplitPlan
from tfrec_cli.tasks import EncodedBatch

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Writer(Protocol):
    """What writes one shard, as ShardWriter does."""

    def write(self, data: Buffer, records: int) -> None:
        """Append the frames of `records` records."""

    def close(self) -> Shard:
        """Finish the shard, and say what is in it."""

    def abort(self) -> None:
        """Give it up."""


class SplitWriter:
    """Writes the records of one split, in order, into its shards.

    shards: their writers, each made when its turn comes. As a context manager it gives up the
    shard it is writing on an error.
    """

    def __init__(self, plan: SplitPlan, shards: Iterable[Writer]) -> None:
        self._plan = plan
        self._planned, self._shards = iter(plan.shards), iter(shards)
        self._shard: Writer | None = None
        self._left = 0
        self._done: list[Shard] = []

    def add(self, records: Encoded, first: int = 0, last: int | None = None) -> None:
        """Write the records `first` to `last` (all of them).

        Raises SourceError where they are more than planned.
        """
        data, ends = memoryview(records.data), records.ends
        last = len(ends) if last is None else last
        begin = int(ends[first - 1]) if first else 0
        while first < last:
            shard = self._next()
            count = min(self._left, last - first)
            end = int(ends[first + count - 1])
            shard.write(data[begin:end], count)
            first, begin = first + count, end
            self._left -= count

    def finish(self) -> Split:
        """Close the last shard; return what all of them hold.

        Raises SourceError where records are missing: the source has changed since the survey.
        """
        if self._left:
            raise SourceError("the source has fewer rows than when it was surveyed. Run again.")
        self._close()
        for records in self._planned:
            if records:
                raise SourceError("the source has fewer rows than when it was surveyed. Run again.")
            self._shard = next(self._shards)
            self._close()
        return split_of(self._plan, self._done)

    def _next(self) -> Writer:
        """The shard that takes the next record."""
        while not self._left:
            self._close()
            left = next(self._planned, None)
            if left is None:
                raise SourceError("the source has more rows than when it was surveyed. Run again.")
            self._left, self._shard = left, next(self._shards)
        assert self._shard is not None
        return self._shard

    def _close(self) -> None:
        if self._shard is not None:
            self._done.append(self._shard.close())
            self._shard = None

    def __enter__(self) -> SplitWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shard is not None:
            self._shard.abort()


def split_of(plan: SplitPlan, shards: Iterable[Shard]) -> Split:
    """A split as the manifest has it, with the shards that were written of it."""
    if plan.classes is None:
        return Split(plan.name, tuple(shards), plan.asked)
    named = {name: count for name, count in plan.classes.items() if name is not None}
    return Split(plan.name, tuple(shards), plan.asked, named, plan.classes.get(None))


def write_split(writer: SplitWriter, batches: Iterable[Encoded]) -> Split:
    """Write all records of one split; return what its shards hold."""
    with writer:
        for records in batches:
            writer.add(records)
        return writer.finish()


def route(writers: Iterable[SplitWriter], batches: Iterable[EncodedBatch]) -> tuple[Split, ...]:
    """Write batches whose records stand split by split; return what each split's shards hold."""
    with ExitStack() as after:
        opened = [after.enter_context(writer) for writer in writers]
        for batch in batches:
            first = 0
            for writer, count in zip(opened, batch.splits, strict=True):
                writer.add(batch.records, first, first + count)
                first += count
        return tuple(writer.finish() for writer in opened)
