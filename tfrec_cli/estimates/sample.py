"""Rows of all parts of a source, read and encoded as the conversion would."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from random import Random

import numpy as np
import numpy.typing as npt

from tfrec_cli._kernel.model import Encoded, FeatureColumn
from tfrec_cli.buffers import byte_size
from tfrec_cli.encoding import encode_rows
from tfrec_cli.engines.threads import ordered_flat_map, ordered_map
from tfrec_cli.schema.infer import row_lengths
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

STRETCHES = 128, 48
"""Stretches of rows that are kept, from all over the source; fewer of a source of many places."""

STRETCH_BYTES = 64 * 2**10
"""Encoded bytes of each at least: twice what a compressor looks back."""

FEW_PIECES = 16
GOLDEN = (5**0.5 - 1) / 2
"""The golden ratio: of its multiples, the parts behind the point spread evenly."""

LOOKED_BYTES = 48 * 2**20
"""Bytes of rows of a place that are read for that, at most: what comes behind is not seen."""


Taken = tuple[str | None, SourceBatch]
"""A batch, and the split that the source's layout puts it in."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of one place: as features, and as framed records back to back.

    ends: where each record ends in `data`.
    """

    columns: tuple[FeatureColumn, ...]
    data: bytes
    ends: npt.NDArray[np.int64]

    @property
    def records(self) -> list[memoryview]:
        """The framed records one by one."""
        view, ends = memoryview(self.data), self.ends.tolist()
        return [view[start:end] for start, end in pairwise((0, *ends))]


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read.

    rows: of the source. whole: these are all. seconds: the wall time of reading and encoding.
    sizes: records and their framed bytes, of each split that the source names, and of all (None).
    parts: an excerpt of it.
    """

    rows: int
    whole: bool
    seconds: float
    sizes: dict[str | None, tuple[int, int]]
    parts: tuple[Part, ...]

    @property
    def records(self) -> int:
        """Records of the sample."""
        return self.sizes[None][0]

    def excerpt(self, shuffled: bool) -> bytes:
        """The framed records of the excerpt, about EXCERPT_BYTES at the most. A shuffled dataset
        compresses less well than one whose neighbours are alike.
        """
        if not shuffled:
            return b"".join(part.data for part in self.parts)
        records = [record for part in self.parts for record in part.records]
        Random(0).shuffle(records)
        return b"".join(records)

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
    parts = _excerpt(work, pieces, chosen, sizes[None], jobs)
    return Sample(rows, rows == sum(p.rows for p in pieces), seconds, sizes, parts)


def _reading(
    work: Work, pieces: list[Piece]
) -> tuple[list[Piece], Callable[[Piece], Iterator[Taken]]]:
    """The pieces to sample, and how: whole, their start, or short runs all over them."""
    whole = sum(_source_bytes(piece) for piece in pieces) <= SOURCE_BYTES
    chosen = pieces if whole else _spread(pieces)
    if _loads(work):
        return chosen, partial(_runs, work, _distance(chosen, LOADED_ROWS))
    return chosen, partial(_start, work, None if whole else SOURCE_BYTES / len(chosen))


def _loads(work: Work) -> bool:
    """Whether cells name files, so that the size of the source says nothing of the records'."""
    return any(feature.load for feature in work.features)


def _source_bytes(piece: Piece) -> float:
    return piece.partition.size * piece.rows / piece.partition.rows


def _spread(pieces: list[Piece]) -> list[Piece]:
    """PIECES of them: the first, the last, and others at even distances."""
    if len(pieces) <= PIECES:
        return pieces
    return [pieces[i * (len(pieces) - 1) // (PIECES - 1)] for i in range(PIECES)]


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
) -> tuple[Part, ...]:
    """A share of all rows: stretches of them, or where cells name files, runs of a few rows of each
    of the `chosen` pieces.
    """
    records, size = seen
    total = size / max(1, records) * sum(piece.rows for piece in pieces)
    share = min(1.0, EXCERPT_BYTES / max(1.0, total))
    work, loads = _described(work), _loads(work)
    if loads:
        rows = sum(piece.rows for piece in chosen)
        distance = _distance(chosen, min(LOADED_ROWS, int(share * rows)))
        read: Callable[[Piece], Iterator[Taken]] = partial(_runs, work, distance)
    else:
        wanted = _stretches(pieces, share)
        chosen = [piece for piece in pieces if piece.start in wanted]
        read = partial(_taken, work, wanted)

    def parts(piece: Piece) -> list[Part]:
        shown = (_shown(work, batch) for _, batch in read(piece))
        return [Part(columns, bytes(encoded.data), encoded.ends) for columns, encoded in shown]

    return tuple(part for found in ordered_map(parts, chosen, jobs) for part in found)


def _stretches(pieces: Sequence[Piece], share: float) -> dict[int, list[range]]:
    """About this share of all rows in stretches of one length from all over: for the first row of
    each piece, the rows that are wanted of it, counted from there.
    """
    if share == 1:
        return {piece.start: [range(piece.rows)] for piece in pieces}
    ends = np.cumsum([piece.rows for piece in pieces])
    most = STRETCHES[len(pieces) > FEW_PIECES]
    count = max(PIECES, min(most, EXCERPT_BYTES // STRETCH_BYTES))
    step = int(ends[-1]) / count
    length = max(1, int(step * share))
    found: dict[int, list[range]] = {}
    for number in range(count):
        # In each of equal parts elsewhere, so that no rhythm of the source is met by one of these.
        row = int(number * step + number * GOLDEN % 1 * (step - length))
        piece = pieces[int(np.searchsorted(ends, row, side="right"))]
        first = min(row - piece.start, max(0, piece.rows - length))
        found.setdefault(piece.start, []).append(range(first, min(first + length, piece.rows)))
    return found


def _taken(work: Work, stretches: Mapping[int, Sequence[range]], piece: Piece) -> Iterator[Taken]:
    """The rows of a piece that are wanted, as far as LOOKED_BYTES go."""
    wanted, base, looked = stretches[piece.start], 0, 0
    for batch in read_piece(work, piece):
        end = base + batch.data.num_rows
        for rows in wanted:
            first, last = max(rows.start, base), min(rows.stop, end)
            if first < last:
                yield piece.partition.split, part_of(batch, first - base, last - base)
        base, looked = end, looked + byte_size(batch.data)
        if base >= wanted[-1].stop or looked >= LOOKED_BYTES:
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
