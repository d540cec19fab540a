"""The plan: which rows go to which split, how many records and shards each has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tfrec_cli.dataset.naming import shard_rows
from tfrec_cli.engines.threads import ordered_map
from tfrec_cli.errors import CellError, Reject, RejectLimitError, SourceError, UsageError
from tfrec_cli.options import ConvertOptions
from tfrec_cli.progress import Reporter
from tfrec_cli.sources.base import Partition, Survey
from tfrec_cli.tasks import Checked, Piece, Work, check_piece, encode_batch, read_piece

DEFAULT_SPLIT = "train"
# Batches whose encoded size stands for all, when the number of shards follows from their size.
SAMPLED_PIECES = 5
SAMPLED_ROWS = 500


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """One split: its pieces in order, and the number of records of each of its shards."""

    name: str
    pieces: tuple[Piece, ...]
    shards: tuple[int, ...]

    @property
    def records(self) -> int:
        """Records of the split."""
        return sum(self.shards)


@dataclass(frozen=True, slots=True)
class Checks:
    """The pieces of a run, the records each will give, and the rows that will be left out, in
    source order.
    """

    pieces: tuple[Piece, ...]
    records: tuple[int, ...]
    rejects: tuple[Reject, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will write."""

    splits: tuple[SplitPlan, ...]
    rows: int
    rejected: int = 0

    @property
    def records(self) -> int:
        """Records of all splits."""
        return sum(split.records for split in self.splits)


def check_rows(work: Work, survey: Survey, options: ConvertOptions, reporter: Reporter) -> Checks:
    """How many records each piece of the source will give.

    With `on_error="skip"` all rows are read and cast for it, so that shards will be exact.
    """
    pieces = tuple(_limited(survey.partitions, options.limit))
    if work.on_error == "fail":
        return Checks(pieces, tuple(piece.rows for piece in pieces))
    reporter.stage("check", sum(piece.rows for piece in pieces))
    results: list[Checked] = []
    for result in ordered_map(partial(check_piece, work), pieces, options.jobs):
        results.append(result)
        reporter.advance(result.records + len(result.rejects), 0)
    rejects = tuple(reject for result in results for reject in result.rejects)
    return Checks(pieces, tuple(result.records for result in results), rejects)


def make_plan(work: Work, checks: Checks, options: ConvertOptions) -> Plan:
    """Divide the records into splits and shards.

    Raises RejectLimitError past `max_errors`, SourceError where no record would be left,
    UsageError for a split name where the source has splits of its own.
    """
    _hold_limit(checks.rejects, options.max_errors)
    if not sum(checks.records):
        raise SourceError(_nothing_left(checks.rejects))
    mean_size = _mean_size(work, checks.pieces, options)
    splits = []
    for name, members in _by_split(checks.pieces, options.split):
        total = sum(checks.records[member] for member in members)
        shards = tuple(shard_rows(total, _shard_count(options, mean_size, total)))
        splits.append(SplitPlan(name, tuple(checks.pieces[member] for member in members), shards))
    return Plan(tuple(splits), sum(p.rows for p in checks.pieces), len(checks.rejects))


def _limited(partitions: Iterable[Partition], limit: int | None) -> Iterator[Piece]:
    left = math.inf if limit is None else limit
    for partition in partitions:
        if left <= 0:
            return
        rows = int(min(partition.rows, left))
        if rows:
            yield Piece(partition, rows)
        left -= rows


def _hold_limit(rejects: Sequence[Reject], limit: int | None) -> None:
    if limit is not None and len(rejects) > limit:
        raise RejectLimitError(
            f"{len(rejects):,} rows cannot become records, more than --max-errors {limit:,} "
            f"allows. The first: {rejects[0]}"
        )


def _nothing_left(rejects: Sequence[Reject]) -> str:
    if not rejects:
        return "the source has no rows, so there is nothing to write."
    return f"none of the {len(rejects):,} rows can become a record. The first: {rejects[0]}"


def _by_split(pieces: Sequence[Piece], asked: str | None) -> list[tuple[str, list[int]]]:
    """Positions of the pieces of each split, splits in the order in which the source shows them."""
    found: dict[str | None, list[int]] = {}
    for position, piece in enumerate(pieces):
        found.setdefault(piece.partition.split, []).append(position)
    if asked is not None and set(found) != {None}:
        names = ", ".join(name for name in found if name)
        raise UsageError(f"--split {asked}: the source's folders already name splits ({names}).")
    return [(name or asked or DEFAULT_SPLIT, members) for name, members in found.items()]


def _shard_count(options: ConvertOptions, mean_size: float, records: int) -> int:
    if options.shards is not None:
        return options.shards
    return max(1, min(records, round(records * mean_size / options.shard_size)))


def _mean_size(work: Work, pieces: Sequence[Piece], options: ConvertOptions) -> float:
    """Bytes of a record, framing included, from a sample that depends on the data alone."""
    if options.shards is not None:
        return 0.0
    step = max(1, math.ceil(len(pieces) / SAMPLED_PIECES))
    records = size = 0
    for piece in pieces[::step]:
        sampled_records, sampled_size = _sample(work, piece)
        records += sampled_records
        size += sampled_size
    return size / records if records else 0.0


def _sample(work: Work, piece: Piece) -> tuple[int, int]:
    """Records and bytes of the start of a piece; nothing where that holds a row in error."""
    sample = Piece(piece.partition, min(piece.rows, SAMPLED_ROWS))
    try:
        ends = encode_batch(work, next(read_piece(work, sample))).records.ends
    except CellError:
        return 0, 0
    return len(ends), int(ends[-1]) if len(ends) else 0
