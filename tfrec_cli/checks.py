"""What is known of all rows before the first record is written: how many each split gets.

The survey tells it of most sources. Where it does not, rows are read for it (see `scanning`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfrec_cli.arrangement import Arrangement
from tfrec_cli.dataset.naming import DEFAULT_SPLIT
from tfrec_cli.errors import Reject
from tfrec_cli.tasks import Piece, Work

if TYPE_CHECKING:
    from tfrec_cli.splitting.splitter import Splitter


@dataclass(frozen=True, slots=True)
class SplitCount:
    """What a split will get: how many records, and where classes were asked for, of each class.

    asked: the fraction of all records that it should have. The class None is that of rows without
    a value.
    """

    name: str
    records: int
    asked: float | None = None
    classes: Mapping[str | None, int] | None = None


@dataclass(frozen=True, slots=True)
class Checks:
    """The pieces of a run, the records each will give, and the rows that will be left out, in
    source order.

    splits: what each split gets, where the arrangement says so. splitter: the arrangement's, with
    all it needs. sample: keys of a sort in order, to cut it into segments.
    """

    pieces: tuple[Piece, ...]
    records: tuple[int, ...]
    rejects: tuple[Reject, ...] = ()
    splits: tuple[SplitCount, ...] = ()
    splitter: Splitter | None = None
    sample: tuple[bytes, ...] | None = None


def need_scan(work: Work, arrangement: Arrangement) -> bool:
    """Whether rows must be read to know: the survey does not tell."""
    splitter, order = arrangement.splitter, arrangement.order
    divides = splitter is not None and splitter.form not in ("one", "folders")
    sorts = order is not None and order.kind == "sort"
    return work.skips or divides or sorts or bool(arrangement.keys)


def surveyed(pieces: tuple[Piece, ...], splitter: Splitter | None) -> Checks:
    """The checks of a run whose every row becomes a record, piece by piece."""
    records = tuple(piece.rows for piece in pieces)
    return Checks(pieces, records, (), by_folder(splitter, pieces, records), splitter)


def by_folder(
    splitter: Splitter | None, pieces: Sequence[Piece], records: Sequence[int]
) -> tuple[SplitCount, ...]:
    """What each split gets where whole pieces belong to one."""
    if splitter is None:
        return ()
    counts = dict.fromkeys(splitter.names, 0)
    for piece, count in zip(pieces, records, strict=True):
        name = piece.partition.split or DEFAULT_SPLIT
        counts[name if name in counts else splitter.names[0]] += count
    return tuple(SplitCount(name, count) for name, count in counts.items())
