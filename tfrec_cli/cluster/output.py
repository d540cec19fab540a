"""Shards that a worker writes into the driver's stage: each is there whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.manifest import Shard
from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.options import Compression
from tfrec_cli.plan import SplitPlan
from tfrec_cli.receipts import Receipts
from tfrec_cli.shardlog import ShardLog
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.writing import SplitWriter

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class Output:
    """Where shards are written. data: their folder; work: one on the same file system for drafts.

    receipts: the folder for those of finished tasks, None where none are kept. shown: DEST, for
    messages. sync: have each on the disk before its receipt. indexes: as ShardLog has it.
    """

    data: str
    work: str
    receipts: str | None
    compression: Compression
    shown: str
    sync: bool = True
    indexes: str | None = None


@dataclass(frozen=True, slots=True)
class Lot:
    """Consecutive shards of one split, which one task writes.

    split: its number. first: the number of the first shard among those of all splits. names: of the
    shards. counts: their records. skip: records of the split before them.
    """

    split: int
    first: int
    names: tuple[str, ...]
    counts: tuple[int, ...]
    skip: int

    @property
    def records(self) -> int:
        """Of all its shards."""
        return sum(self.counts)

    def missing(self, log: ShardLog) -> Iterator[Lot]:
        """The parts of it whose shards are not done."""
        done = [log.done(name) is not None for name in self.names]
        first = 0
        for is_done, group in groupby(done):
            last = first + len(list(group))
            if not is_done:
                skip = self.skip + sum(self.counts[:first])
                names, counts = self.names[first:last], self.counts[first:last]
                yield Lot(self.split, self.first + first, names, counts, skip)
            first = last

    def __str__(self) -> str:
        more = f" … {self.names[-1]}" if len(self.names) > 1 else ""
        return f"{self.names[0]}{more}"


@dataclass(frozen=True, slots=True)
class Written:
    """What a task that writes shards leaves: them, and the files that cells named."""

    shards: tuple[Shard, ...]
    fingerprints: tuple[Fingerprint, ...] = ()


class DraftShard:
    """A shard under a name of its own until it is closed, so that the same task may be at work
    twice: the last to end leaves the same bytes as the first. As ShardWriter otherwise.
    """

    def __init__(self, output: Output, name: str) -> None:
        self._name, self._path = name, os.path.join(output.data, name)
        self._shown = f"{output.shown}: {name}"
        self._draft = Path(output.work, f"draft-{uuid.uuid4().hex}")
        self._writer = ShardWriter(
            self._draft, output.compression, sync=output.sync, shown=self._shown
        )

    def write(self, data: Buffer, records: int) -> None:
        """As `ShardWriter.write`."""
        self._writer.write(data, records)

    def close(self) -> Shard:
        """Give the shard its name, and say what is in it."""
        shard = self._writer.close()
        with writing(self._shown):
            os.replace(self._draft, self._path)
        return replace(shard, name=self._name)

    def abort(self) -> None:
        """Give up; nothing is left."""
        self._writer.abort()
        with suppress(OSError):
            os.unlink(self._draft)


def lot_writer(output: Output, lot: Lot) -> SplitWriter:
    """Writes the records of a lot, in order, into its shards; leaves a receipt of each."""
    receipts = Receipts(None if output.receipts is None else Path(output.receipts))
    log = ShardLog(receipts, lot.names, lot.first)
    log.indexes = None if output.indexes is None else Path(output.indexes)
    return SplitWriter(SplitPlan("", (), lot.counts), lot.names, partial(DraftShard, output), log)
