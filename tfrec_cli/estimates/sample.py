"""Rows of all parts of a source, read and encoded as the conversion would."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa

from tfrec_cli._kernel.model import Encoded, FeatureColumn
from tfrec_cli.buffers import byte_size, from_numpy
from tfrec_cli.encoding import encode_rows
from tfrec_cli.engines.threads import ordered_flat_map, ordered_map
from tfrec_cli.estimates.excerpt import Part, in_order, shuffled
from tfrec_cli.estimates.spread import SORTED_ROWS, picked, single_rows, sorted_rows
from tfrec_cli.schema.infer import row_lengths
from tfrec_cli.shuffle.sorting import sort_keys
from tfrec_cli.sources.base import Partition, SourceBatch
from tfrec_cli.tasks import (
    Piece,
    Work,
    encode_batch,
    feature_columns,
    limited_pieces,
    part_of,
    read_piece,
)

SOURCE_BYTES = 16 * 2**20
"""A source of fewer bytes is its own sample; of a larger one about as many are taken."""

PIECES = 8
"""Places of a large source that a sample is taken from, spread evenly."""

LOADED_ROWS = 256
RUN = 4
"""Rows that are sampled where cells name files, in short runs all over the source."""

EXCERPT_BYTES = 8 * 2**20
"""Encoded bytes that are kept to try compression on, and that the footprint is taken of."""

AIMED = 0.875
"""The share of that which is aimed at, so that it holds rows that are larger than those met."""

STRETCHES = 128, 48
"""Stretches of rows that are kept, from all over the source; fewer of a source of many places."""

STRETCH_BYTES = 64 * 2**10
"""Encoded bytes of each, about, where there is so much: twice what a compressor looks back."""

FEW_PIECES = 16
"""Of more places fewer stretches are kept: each may mean another place that is read for it."""

GOLDEN = (5**0.5 - 1) / 2
"""The golden ratio: of its multiples, the parts behind the point spread evenly."""

LOOKED_BYTES = 48 * 2**20
"""Bytes of rows of a place that are read for that, at most, where there are PIECES of them or more;
of fewer as much more. What comes behind is not seen.
"""


Taken = tuple[str | None, SourceBatch]
"""A batch, and the split that the source's layout puts it in."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read.

    rows: of the source. whole: these are all. seconds: the wall time of reading and encoding.
    sizes: records and their framed bytes, of each split that the source names, and of all (None).
    parts: an excerpt of the source. unseen: the share of the rows that it says nothing of, as they
    lie behind what was read, or are too large to take several. order: what the dataset has instead
    of the source's. thin: whether the rows of a sorted one are nearer to each other than in parts.
    """

    rows: int
    whole: bool
    seconds: float
    sizes: dict[str | None, tuple[int, int]]
    parts: tuple[Part, ...]
    unseen: float = 0.0
    order: Literal["shuffle", "sort"] | None = None
    thin: bool = False

    @property
    def records(self) -> int:
        """Records of the sample."""
        return self.sizes[None][0]

    def excerpt(self) -> bytes:
        """The framed records of the excerpt, in the dataset's order: EXCERPT_BYTES at the most, or
        one record beyond.
        """
        if self.order == "shuffle":
            return shuffled(self.parts)
        return in_order(self.parts) if self.order else b"".join(p.data for p in self.parts)

    def stretches(self, excerpt: bytes) -> list[bytes]:
        """Neighbours in the excerpt, to see how records differ from place to place."""
        if self.order is None:
            return [part.data for part in self.parts]
        size = max(1, math.ceil(len(excerpt) / STRETCHES[0]))
        return [excerpt[at : at + size] for at in range(0, len(excerpt), size)]

    def mean(self, split: str | None = None) -> float:
        """Framed bytes of a record, on average; of all where the split was not met."""
        records, size = self.sizes.get(split) or self.sizes[None]
        return size / records if records else 0.0


def take_sample(
    work: Work, partitions: Sequence[Partition], limit: int | None, jobs: int
) -> Sample:
    """A sample of the first `limit` rows (None: all). Raises CellError as a conversion does."""
    pieces = list(limited_pieces(partitions, limit))
    rows, sizes, began = 0, dict[str | None, tuple[int, int]](), time.perf_counter()
    chosen, read = _reading(work, pieces)
    encode = partial(_encoded, work)
    for split, taken, records, size in ordered_flat_map(read, encode, chosen, jobs):
        rows += taken
        for name in {None, split}:
            before = sizes.get(name, (0, 0))
            sizes[name] = before[0] + records, before[1] + size
    seconds = time.perf_counter() - began
    parts, unseen, thin = _excerpt(work, pieces, chosen, sizes[None], jobs)
    whole = rows == sum(piece.rows for piece in pieces)
    return Sample(rows, whole, seconds, sizes, parts, unseen, _order(work), thin)


def _order(work: Work) -> Literal["shuffle", "sort"] | None:
    """The order of the dataset, where it is not that of the source."""
    kind = "source" if work.order is None else work.order.kind
    return None if kind == "source" else kind


def _reading(
    work: Work, pieces: list[Piece]
) -> tuple[list[Piece], Callable[[Piece], Iterator[Taken]]]:
    """The pieces to sample, and how: whole, their start, or short runs all over them."""
    whole = sum(_source_bytes(piece) for piece in pieces) <= SOURCE_BYTES
    chosen = pieces if whole else _spread(pieces, PIECES)
    if _loads(work):
        return chosen, partial(_runs, work, _distance(chosen, LOADED_ROWS))
    return chosen, partial(_start, work, None if whole else SOURCE_BYTES / len(chosen))


def _loads(work: Work) -> bool:
    """Whether cells name files, so that the size of the source says nothing of the records'."""
    return any(feature.load for feature in work.features)


def _source_bytes(piece: Piece) -> float:
    return piece.partition.size * piece.rows / piece.partition.rows


def _spread(pieces: list[Piece], most: int) -> list[Piece]:
    """Up to so many of them: the first, the last, and others at even distances."""
    if len(pieces) <= most:
        return pieces
    return [pieces[i * (len(pieces) - 1) // (most - 1)] for i in range(most)]


def _distance(pieces: list[Piece], rows: int) -> int:
    """From the start of one run of RUN rows to the next, where `rows` of all are wanted."""
    return max(RUN, math.ceil(sum(piece.rows for piece in pieces) * RUN / max(RUN, rows)))


def _runs(work: Work, distance: int, piece: Piece) -> Iterator[Taken]:
    """Runs of RUN rows, a run each `distance` rows."""
    base = start = 0
    for batch in work.source.read(piece.partition, work.columns):
        end = min(base + batch.data.num_rows, piece.rows)
        while start < end:
            stop = min(start + RUN, end)
            yield piece.partition.split, part_of(batch, start - base, stop - base)
            start += distance
        base = end
        if base == piece.rows:
            return


def _start(work: Work, size: float | None, piece: Piece) -> Iterator[Taken]:
    """The first batches of a piece, until they stand for `size` bytes of the source (None: all)."""
    left = None if size is None else size * piece.rows / max(1.0, _source_bytes(piece))
    for batch in read_piece(work, piece):
        yield piece.partition.split, batch
        if left is not None:
            left -= batch.data.num_rows
            if left <= 0:
                return


def _encoded(work: Work, item: Taken) -> tuple[str | None, int, int, int]:
    """The split of a batch, its rows, its records, and their framed bytes."""
    split, batch = item
    done = encode_batch(work, batch)
    ends = done.records.ends
    return split, done.rows, len(ends), int(ends[-1]) if len(ends) else 0


def _excerpt(
    work: Work, pieces: list[Piece], chosen: list[Piece], seen: tuple[int, int], jobs: int
) -> tuple[tuple[Part, ...], float, bool]:
    """A share of all rows: stretches of them, or where cells name files, runs of a few rows of each
    of the `chosen` pieces. And the share of what was wanted that was not read, and whether sorted
    rows are nearer to each other.
    """
    records, size = seen
    mean = size / max(1, records)
    total = mean * sum(piece.rows for piece in pieces)
    share = 1.0 if total <= EXCERPT_BYTES else AIMED * EXCERPT_BYTES / total
    work = _described(work)
    if _loads(work):
        rows = sum(piece.rows for piece in chosen)
        distance = _distance(chosen, min(LOADED_ROWS, int(share * rows)))
        parts, _ = _kept(partial(_parts, work, partial(_runs, work, distance)), chosen, jobs)
        return parts, 0.0, share < 1
    if _order(work) is not None:
        return _rearranged(work, pieces, share, mean, jobs)
    wanted = _stretches(pieces, share, mean)
    chosen = [piece for piece in pieces if piece.start in wanted]
    most = _looked(chosen)
    read = partial(_parts, work, lambda piece: _taken(work, wanted[piece.start], most, piece))
    parts, met = _kept(read, chosen, jobs)
    asked = sum(len(rows) for place in met for rows in wanted[chosen[place].start])
    if share < 1 and len(parts) < 2:
        return parts, 1 - share, False
    return parts, 1 - sum(met.values()) / max(1, asked), False


def _rearranged(
    work: Work, pieces: list[Piece], share: float, mean: float, jobs: int
) -> tuple[tuple[Part, ...], float, bool]:
    """The same of a dataset that is shuffled or sorted. mean: the bytes of a record."""
    rows = sum(piece.rows for piece in pieces)
    readable = sum(map(_source_bytes, pieces)) <= PIECES * LOOKED_BYTES and rows <= SORTED_ROWS
    stretched = _order(work) == "sort" and share < 1 and readable
    if stretched:
        wanted = sorted_rows(work, pieces, share, _number(STRETCHES[0], mean), jobs)
    else:
        pieces = _spread(pieces, STRETCHES[1])
        share = min(1.0, share * rows / sum(piece.rows for piece in pieces))
        wanted = single_rows(pieces, share)
    read = partial(_parts, work, partial(picked, work, wanted, _looked(pieces)))
    parts, met = _kept(read, pieces, jobs)
    asked = sum(len(wanted[pieces[place].start]) for place in met)
    thin = _order(work) == "sort" and share < 1 and not stretched
    return parts, 1 - sum(met.values()) / max(1, asked), thin


def _looked(pieces: Sequence[Piece]) -> int:
    """Bytes of the rows of each of some pieces that are read at most."""
    return LOOKED_BYTES * max(1, PIECES // max(1, len(pieces)))


Met = tuple[list[Part], int]
"""What was kept of a piece, and how many rows were read for it."""


def _kept(
    read: Callable[[Piece], Met], pieces: Sequence[Piece], jobs: int
) -> tuple[tuple[Part, ...], dict[int, int]]:
    """What is read of the pieces, in their order, until EXCERPT_BYTES are held; and the rows that
    were read of those that it is from, by their places.
    """
    # Records may be larger than those that were met before. Then what is kept is to be from all
    # over the source nevertheless, so the pieces are not read from the first to the last.
    order = sorted(range(len(pieces)), key=lambda place: place * GOLDEN % 1)
    found, rows, left = dict[int, list[Part]](), dict[int, int](), EXCERPT_BYTES
    met = ordered_map(read, [pieces[place] for place in order], jobs)
    for place, (parts, count) in zip(order, met, strict=False):
        kept, rows[place] = found.setdefault(place, []), count
        for part in parts:
            if left > 0:
                kept.append(part.within(left))
                left -= len(kept[-1].data)
        if left <= 0:
            break
    return tuple(part for place in sorted(found) for part in found[place]), rows


def _parts(work: Work, read: Callable[[Piece], Iterator[Taken]], piece: Piece) -> Met:
    """What is read of a piece, encoded, until there are EXCERPT_BYTES."""
    found, count, left = list[Part](), 0, EXCERPT_BYTES
    for _, batch in read(piece):
        columns, encoded = _shown(work, batch)
        whole = Part(columns, bytes(encoded.data), encoded.ends, _sort_keys(work, batch))
        part = whole.within(left)
        # Values of their own, lest all of the batch be kept for a few of its rows.
        rows = from_numpy(np.arange(len(part.ends)))
        own = tuple(FeatureColumn(c.key, c.array.take(rows)) for c in part.columns)
        found.append(replace(part, columns=own))
        count += batch.data.num_rows if part is whole else len(part.ends)
        left -= len(part.data)
        if left <= 0:
            break
    return found, count


def _number(most: int, mean: float) -> int:
    """How many stretches are kept, at most so many. mean: the bytes of a record."""
    count = max(PIECES, min(most, EXCERPT_BYTES // STRETCH_BYTES))
    # Of large records not so many fit.
    return max(1, min(count, math.ceil(EXCERPT_BYTES / max(1.0, mean))))


def _sort_keys(work: Work, batch: SourceBatch) -> pa.Array | None:
    order = work.order
    if order is None or order.kind != "sort":
        return None
    return sort_keys(batch, work.columns, order.sort_by)


def _stretches(pieces: Sequence[Piece], share: float, mean: float) -> dict[int, list[range]]:
    """About this share of all rows in stretches of one length from all over: for the first row of
    each piece, the rows that are wanted of it, counted from there, in order and each once.

    mean: the bytes of a record.
    """
    if share == 1:
        return {piece.start: [range(piece.rows)] for piece in pieces}
    ends = np.cumsum([piece.rows for piece in pieces])
    count = _number(STRETCHES[len(pieces) > FEW_PIECES], mean)
    step = int(ends[-1]) / count
    length = max(1, int(step * share))
    found: dict[int, list[range]] = {}
    for number in range(count):
        # In each of equal parts elsewhere, so that no rhythm of the source is met by one of these.
        row = int(number * step + number * GOLDEN % 1 * (step - length))
        piece = pieces[int(np.searchsorted(ends, row, side="right"))]
        stretches = found.setdefault(piece.start, [])
        first = min(row - piece.start, max(0, piece.rows - length))
        first = max(first, stretches[-1].stop if stretches else 0)
        if first < piece.rows:
            stretches.append(range(first, min(first + length, piece.rows)))
    return found


def _taken(work: Work, wanted: Sequence[range], most: int, piece: Piece) -> Iterator[Taken]:
    """The rows of a piece that are wanted, as far as `most` bytes of its rows go."""
    base = looked = 0
    for batch in read_piece(work, piece):
        end = base + batch.data.num_rows
        for rows in wanted:
            first, last = max(rows.start, base), min(rows.stop, end)
            if first < last:
                yield piece.partition.split, part_of(batch, first - base, last - base)
        base, looked = end, looked + byte_size(batch.data)
        if base >= wanted[-1].stop or looked >= most:
            return


def _described(work: Work) -> Work:
    """The work; of whole records it reads the features too."""
    if work.records is None:
        return work
    keys = (c for f in work.records.features for c in (f.key, *row_lengths(f.key, f.ragged)))
    return replace(work, columns=tuple(dict.fromkeys((*work.columns, *keys))))


def _shown(work: Work, batch: SourceBatch) -> tuple[tuple[FeatureColumn, ...], Encoded]:
    """The features of a batch, and its records."""
    if work.records is None:
        columns = feature_columns(work, batch)
        return columns, encode_rows(columns)
    names = zip(work.columns, batch.data.columns, strict=True)
    columns = tuple(FeatureColumn(n, array) for n, array in names if n != work.records.column)
    # A record whose features are not as in others is written all the same.
    return columns, encode_batch(work, replace(batch, faults=())).records
