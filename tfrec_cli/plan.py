"""The plan: which rows go to which split, how many records and shards each has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tfrec_cli.checks import Checks
from tfrec_cli.dataset.naming import DEFAULT_SPLIT, shard_rows
from tfrec_cli.errors import Reject, RejectLimitError, SourceError
from tfrec_cli.options import DEFAULT_SHARD_SIZE, ConvertOptions
from tfrec_cli.sizing import Sizes, record_sizes
from tfrec_cli.tasks import Piece, Work, readers


@dataclass(frozen=True, slots=True)
class SplitPlan:
    """One split: its pieces in order, and the number of records of each of its shards.

    pieces: none where rows of a piece may belong to several splits. asked: the fraction of all
    records that was asked for it. classes: how many records of each class, where that was asked;
    None is the class of rows without a value.
    """

    name: str
    pieces: tuple[Piece, ...]
    shards: tuple[int, ...]
    asked: float | None = None
    classes: Mapping[str | None, int] | None = None

    @property
    def records(self) -> int:
        """Records of the split."""
        return sum(self.shards)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will write.

    pieces: all of the source. mean_size: the estimated bytes of a record, framing included (0
    where nothing depends on it). sample: sort keys in order, to divide a sort by. piece_records:
    the records that each piece gives. key_size: the estimated bytes of a sort key.
    """

    splits: tuple[SplitPlan, ...]
    rows: int
    rejected: int = 0
    pieces: tuple[Piece, ...] = ()
    mean_size: float = 0.0
    sample: tuple[bytes, ...] | None = None
    piece_records: tuple[int, ...] = ()
    key_size: float = 8.0

    @property
    def records(self) -> int:
        """Records of all splits."""
        return sum(split.records for split in self.splits)

    @property
    def records_of_pieces(self) -> dict[int, int]:
        """The records that each piece gives, by the number of its first row."""
        starts = (piece.start for piece in self.pieces)
        return dict(zip(starts, self.piece_records, strict=True))

    @property
    def size(self) -> float:
        """The estimated bytes of all records; 0 where nothing depended on it."""
        return self.records * self.mean_size


def make_plan(work: Work, checks: Checks, options: ConvertOptions) -> Plan:
    """Divide the records into splits and shards.

    Raises RejectLimitError past `max_errors`, SourceError where no record would be left.
    """
    _hold_limit(checks.rejects, options.max_errors)
    if not sum(checks.records):
        raise SourceError(_nothing_left(checks.rejects))
    sizes = _sizes(work, checks.pieces, options)
    rows = sum(piece.rows for piece in checks.pieces)
    planned = partial(_shards, options)
    if checks.splits:
        splits = [
            SplitPlan(
                split.name, (), planned(sizes.record, split.records), split.asked, split.classes
            )
            for split in checks.splits
        ]
    else:
        splits = []
        for name, members in _by_split(checks.pieces, options.split):
            total = sum(checks.records[member] for member in members)
            pieces = tuple(checks.pieces[member] for member in members)
            shards = planned(sizes.of(members, checks.records), total)
            splits.append(SplitPlan(name, pieces, shards))
    rejected = len(checks.rejects)
    return Plan(
        tuple(splits), rows, rejected, checks.pieces, sizes.record, checks.sample, checks.records,
        sizes.key,
    )  # fmt: skip


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
    found: dict[str, list[int]] = {}
    for position, piece in enumerate(pieces):
        # What has no split may lie beside what has: both may be of the default one.
        name = piece.partition.split or asked or DEFAULT_SPLIT
        found.setdefault(name, []).append(position)
    return list(found.items())


def _shards(options: ConvertOptions, mean_size: float, records: int) -> tuple[int, ...]:
    """The records of each shard of a split."""
    return tuple(shard_rows(records, _shard_count(options, mean_size, records)))


def _shard_count(options: ConvertOptions, mean_size: float, records: int) -> int:
    if options.shards is not None:
        return options.shards
    size = options.shard_size or DEFAULT_SHARD_SIZE
    return max(1, min(records, round(records * mean_size / size)))


def _sizes(work: Work, pieces: Sequence[Piece], options: ConvertOptions) -> Sizes:
    """Of the records, where anything depends on it."""
    if options.shards is not None and work.order is None:
        return Sizes(0.0)
    return record_sizes(work, pieces, readers(pieces, options.jobs, options.memory))
