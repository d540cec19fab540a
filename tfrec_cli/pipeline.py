"""Writing with threads: records are read, encoded and cut into one shard after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tfrec_cli._kernel.model import Encoded
from tfrec_cli.dataset.manifest import Split
from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.engines.threads import ordered_flat_map
from tfrec_cli.errors import counted
from tfrec_cli.preparation import Run
from tfrec_cli.shardlog import ShardLog
from tfrec_cli.sizing import record_sizes
from tfrec_cli.sources.base import SourceBatch
from tfrec_cli.sources.fingerprints import gather
from tfrec_cli.spill import Disks, spill_folder
from tfrec_cli.tasks import EncodedBatch, Piece, encode_batch, read_piece
from tfrec_cli.writing import SplitWriter, Stretch, missing_pieces, route, write_split


def write_splits(
    run: Run, writer: Callable[..., ShardWriter], scratch: Path | None, log: ShardLog
) -> tuple[Split, ...]:
    """Write all splits.

    writer: makes that of a shard. scratch: a folder on DEST's disk. log: which shards are done.
    """
    with ThreadPoolExecutor(run.options.jobs, thread_name_prefix="tfrec-compress") as pool:
        executor = pool if run.options.jobs > 1 else None

        def make(name: str) -> ShardWriter:
            return writer(name, run.dest.compression, executor)

        writers = []
        for split in run.plan.splits:
            names = run.dest.shards(split.name, len(split.shards))
            writers.append(SplitWriter(split, names, make, log))
        if all(done for writer in writers for done in writer.done):
            return tuple(writer.finish() for writer in writers)
        if run.work.order is not None:
            return _write_ordered(run, scratch, writers, log)
        if run.resumes is None:
            disks = Disks.of(run.options, run.dest, None, scratch)
            disks.check(0.0, _size(run, disks))
        run.reporter.stage("convert", run.plan.records)
        if run.work.splitter is not None:
            from tfrec_cli.placing import route_batch

            encode = partial(route_batch, run.work)
            return route(writers, _batches(run, run.plan.pieces, encode, log))
        records = run.plan.records_of_pieces
        return tuple(
            write_split(writer, _stretches(run, missing_pieces(split, records, writer.done), log))
            for writer, split in zip(writers, run.plan.splits, strict=True)
        )


def _size(run: Run, disks: Disks) -> float:
    """The bytes of the dataset before compression; 0 where the plan did not need them and the disk
    has room for all that the sources may become.
    """
    plan = run.plan
    sources = sum(file.size for file in run.settled.survey.fingerprints)
    if plan.size or not disks.is_scarce(sources, plan.records):
        return plan.size
    return plan.records * record_sizes(run.work, plan.pieces, run.options.jobs).record


def _write_ordered(
    run: Run, scratch: Path | None, writers: list[SplitWriter], log: ShardLog
) -> tuple[Split, ...]:
    """Write splits whose records are shuffled or sorted."""
    from tfrec_cli.ordering import Ordered
    from tfrec_cli.runlog import RunLog

    with spill_folder(run.options, scratch, log.receipts) as folder:
        runs = RunLog(log.receipts, folder)
        ordered = Ordered(run.work, run.plan, run.options, folder, runs)
        disks = Disks.of(run.options, run.dest, folder, scratch)
        left = ordered.size - sum(each.size for each in ordered.kept)
        disks.check(max(0.0, left) if ordered.spills else 0.0, run.plan.size)
        if ordered.kept:
            rows, total = sum(each.rows for each in ordered.kept), counted(run.plan.rows, "row")
            run.reporter.notice(f"went on with sorted records: those of {rows:,} of {total}")
        run.reporter.stage(run.work.order.kind if run.work.order else "", run.plan.records)
        log.note_files(ordered.map(run.reporter, disks.check).values())
        run.reporter.stage("convert", run.plan.records)
        return tuple(
            write_split(writer, _ordered(run, ordered.split(number, writer.wants)))
            for number, writer in enumerate(writers)
        )


def _ordered(run: Run, batches: Iterator[tuple[int, Encoded]]) -> Iterator[Stretch]:
    for first, records in batches:
        rows = len(records.ends)
        run.reporter.advance(rows, memoryview(records.data).nbytes)
        yield first, (EncodedBatch(records, rows),)


def _stretches(
    run: Run,
    stretches: Iterable[tuple[int, tuple[Piece, ...]]],
    log: ShardLog,
) -> Iterator[Stretch]:
    encode = partial(encode_batch, run.work)
    for first, pieces in stretches:
        yield first, _batches(run, pieces, encode, log)


def _batches(
    run: Run,
    pieces: tuple[Piece, ...],
    encode: Callable[[SourceBatch], EncodedBatch],
    log: ShardLog,
) -> Iterator[EncodedBatch]:
    """The encoded batches of some pieces, in order."""
    read = partial(read_piece, run.work)
    for batch in ordered_flat_map(read, encode, pieces, run.options.jobs):
        gather(log.loaded, batch.fingerprints)
        ends = batch.records.ends
        run.reporter.advance(len(ends), int(ends[-1]) if len(ends) else 0)
        yield batch
