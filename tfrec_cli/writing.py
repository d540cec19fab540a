"""Records into shards: cut where the plan says, written in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from tfrec_cli._kernel.model import Encoded
from tfrec_cli.dataset.manifest import Shard, Split
from tfrec_cli.errors import SourceError
from tfrec_cli.plan import SplitPlan
from tfrec_cli.receipts import Receipts
from tfrec_cli.shardlog import Files, ShardLog
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.sources.fingerprints import gather
from tfrec_cli.tasks import EncodedBatch, Piece

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from tfrec_cli.dataset.indexes import IndexDraft


class Writer(Protocol):
    """What writes one shard, as ShardWriter does."""

    def write(self, data: Buffer, records: int) -> None:
        """Append the frames of `records` records."""

    def close(self) -> Shard:
        """Finish the shard, and say what is in it."""

    def abort(self) -> None:
        """Give it up."""


class SplitWriter:
    """Writes the records of one split, in order, into its shards; those that the log has as done
    are passed over.

    names: of the shards. make: their writer, made when its turn comes. As a context manager it
    gives up the shard it is writing on an error.
    """

    def __init__(
        self,
        plan: SplitPlan,
        names: Sequence[str],
        make: Callable[[str], Writer],
        log: ShardLog | None = None,
    ) -> None:
        log = log or ShardLog(Receipts(None))
        self.done = tuple(log.done(name) is not None for name in names)
        self._plan, self._make, self._log = plan, make, log
        self._ends = list(accumulate(plan.shards))
        self._planned, self._names = iter(plan.shards), iter(names)
        # None while the records of a shard that is done pass by.
        self._shard: Writer | None = None
        self._index: IndexDraft | None = None
        self._left = self._position = 0
        self._files: dict[str, Fingerprint] = {}
        self._shards: list[Shard] = []

    def wants(self, first: int, last: int) -> bool:
        """Whether a record from number `first` to before `last` is of a shard that is not done."""
        return not all(self.done[_shards_of(self._ends, first, last)])

    def seek(self, record: int) -> None:
        """Pass over the records up to the one of this number, all in shards that are done."""
        while skipped := record - self._position:
            self._take(skipped)

    def add(
        self, records: Encoded, first: int = 0, last: int | None = None, files: Files = ()
    ) -> None:
        """Write the records `first` to `last` (all of them). files: those that their rows named.

        Raises SourceError where they are more than planned.
        """
        data, ends = memoryview(records.data), records.ends
        last = len(ends) if last is None else last
        begin = int(ends[first - 1]) if first else 0
        # Also those of rows that became no record.
        gather(self._files, files)
        while first < last:
            count = self._take(last - first)
            end = int(ends[first + count - 1])
            gather(self._files, files)
            if self._shard is not None:
                self._shard.write(data[begin:end], count)
            if self._index is not None:
                self._index.add(ends[first : first + count] - begin)
            first, begin = first + count, end

    def finish(self) -> Split:
        """Close the last shard; return what all of them hold.

        Raises SourceError where records are missing: the source has changed since the survey.
        """
        if self._left and self._shard is not None:
            raise SourceError("the source has fewer rows than when it was surveyed. Run again.")
        self._close()
        for records in self._planned:
            self._open()
            if records and self._shard is not None:
                raise SourceError("the source has fewer rows than when it was surveyed. Run again.")
            self._close()
        return split_of(self._plan, self._shards)

    def _take(self, most: int) -> int:
        """The next records, up to `most`, all in the shard that is now open; returns how many."""
        while not self._left:
            self._close()
            left = next(self._planned, None)
            if left is None:
                raise SourceError("the source has more rows than when it was surveyed. Run again.")
            self._open()
            self._left = left
        count = min(self._left, most)
        self._left -= count
        self._position += count
        return count

    def _open(self) -> None:
        name = next(self._names)
        done = self._log.done(name)
        if done is not None:
            self._shards.append(done)
        self._shard = None if done is not None else self._make(name)
        self._index = None if done is not None else self._log.index(name)

    def _close(self) -> None:
        if self._shard is not None:
            shard = self._shard.close()
            if self._index is not None:
                self._index.close()
            self._shards.append(shard)
            self._log.note(shard, self._files.values())
            self._files = {}
        self._shard = self._index = None

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
        if self._index is not None:
            self._index.abort()


def split_of(plan: SplitPlan, shards: Iterable[Shard]) -> Split:
    """A split as the manifest has it, with the shards that were written of it."""
    if plan.classes is None:
        return Split(plan.name, tuple(shards), plan.asked)
    named = {name: count for name, count in plan.classes.items() if name is not None}
    return Split(plan.name, tuple(shards), plan.asked, named, plan.classes.get(None))


Stretch = tuple[int, Iterable[EncodedBatch]]
"""The number of a record, and batches from it on."""


def write_split(writer: SplitWriter, stretches: Iterable[Stretch]) -> Split:
    """Write the records of one split; return what its shards hold."""
    with writer:
        for first, batches in stretches:
            writer.seek(first)
            for batch in batches:
                writer.add(batch.records, files=batch.fingerprints)
        return writer.finish()


def route(writers: Iterable[SplitWriter], batches: Iterable[EncodedBatch]) -> tuple[Split, ...]:
    """Write batches whose records stand split by split; return what each split's shards hold."""
    with ExitStack() as after:
        opened = [after.enter_context(writer) for writer in writers]
        for batch in batches:
            first = 0
            for writer, count in zip(opened, batch.splits, strict=True):
                writer.add(batch.records, first, first + count, batch.fingerprints)
                first += count
        return tuple(writer.finish() for writer in opened)


def missing_pieces(
    plan: SplitPlan, records: Mapping[int, int], done: Sequence[bool]
) -> Iterator[tuple[int, tuple[Piece, ...]]]:
    """The pieces with records of shards that are not done, neighbours together; for each such
    stretch also the number of its first record.

    records: of each piece, by its first row's number. done: of each shard.
    """
    if not any(done):
        yield 0, plan.pieces
        return
    stretch: list[Piece] = []
    ends = list(accumulate(plan.shards))
    begin = start = 0
    for piece in plan.pieces:
        count = records[piece.start]
        if count and not all(done[_shards_of(ends, start, start + count)]):
            begin = begin if stretch else start
            stretch.append(piece)
        elif stretch:
            yield begin, tuple(stretch)
            stretch = []
        start += count
    if stretch:
        yield begin, tuple(stretch)


def _shards_of(ends: Sequence[int], first: int, last: int) -> slice:
    """The shards of the records `first` to `last`, `last` excluded. ends: of all shards."""
    return slice(bisect_right(ends, first), bisect_left(ends, last) + 1)
