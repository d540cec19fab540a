"""Rows for an excerpt of a dataset whose order is not that of its source.

Neighbours in the source are none in such a dataset. Of a shuffled one single rows are taken from
all over; of a sorted one stretches of its own order, where the source can be read as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli.buffers import byte_size, to_numpy
from tfrec_cli.engines.threads import ordered_map
from tfrec_cli.estimates.excerpt import ranked
from tfrec_cli.shuffle.sorting import sort_keys
from tfrec_cli.sizing import taken
from tfrec_cli.sources.base import SourceBatch
from tfrec_cli.tasks import Piece, Work, read_piece

Rows = npt.NDArray[np.int64]

SORTED_ROWS = 4 * 2**20
"""Of more rows the keys are not held, to find stretches of their order."""


def single_rows(pieces: Sequence[Piece], share: float) -> dict[int, Rows]:
    """A share of the rows of each piece, one here and one there: their numbers in the piece, by the
    piece's first row.
    """
    return {piece.start: _single(piece, share) for piece in pieces}


def _single(piece: Piece, share: float) -> Rows:
    if share >= 1:
        return np.arange(piece.rows)
    # Anywhere in equal parts, so that no rhythm of the source is met.
    count = int(piece.rows * share)
    draws = np.random.default_rng(piece.start).random(count)
    return np.unique(((np.arange(count) + draws) / share).astype(np.int64))


def sorted_rows(
    work: Work, pieces: Sequence[Piece], share: float, stretches: int, jobs: int
) -> dict[int, Rows]:
    """About this share of all rows as stretches of the order that a sort gives them; as
    `single_rows` gives them.
    """
    keys = [key for found in ordered_map(partial(_keys, work), pieces, jobs) for key in found]
    order = to_numpy(ranked(pa.chunked_array(keys, pa.large_binary())))
    begins = np.linspace(0, len(order), stretches, endpoint=False).astype(np.int64)
    length = max(1, int(len(order) * share / stretches))
    wanted = np.unique(
        order[np.unique(begins[:, None] + np.arange(length)).clip(0, len(order) - 1)]
    )
    found, begin = dict[int, Rows](), 0
    for piece in pieces:
        mine = wanted[np.searchsorted(wanted, begin) : np.searchsorted(wanted, begin + piece.rows)]
        found[piece.start], begin = mine.astype(np.int64) - begin, begin + piece.rows
    return found


def _keys(work: Work, piece: Piece) -> list[pa.Array]:
    """The sort keys of a piece, read without other columns."""
    order = work.order
    assert order is not None
    names = tuple(dict.fromkeys(column.name for column in order.sort_by))
    looking = replace(work, features=(), columns=names)
    return [sort_keys(batch, names, order.sort_by) for batch in read_piece(looking, piece)]


def picked(
    work: Work, wanted: dict[int, Rows], most: int, piece: Piece
) -> Iterator[tuple[str | None, SourceBatch]]:
    """The wanted rows of a piece, and the split that the source puts them in, as far as `most`
    bytes of its rows go.
    """
    rows, base, looked = wanted[piece.start], 0, 0
    for batch in read_piece(work, piece):
        end = base + batch.data.num_rows
        mine = rows[np.searchsorted(rows, base) : np.searchsorted(rows, end)] - base
        if len(mine):
            yield piece.partition.split, _rows_of(batch, mine)
        base, looked = end, looked + byte_size(batch.data)
        if not len(rows) or base > rows[-1] or looked >= most:
            return


def _rows_of(batch: SourceBatch, rows: Rows) -> SourceBatch:
    """Some rows of a batch, without faults."""
    if len(rows) == batch.data.num_rows:
        return batch
    origin, files = batch.origin, batch.origin.files
    if files is not None:
        origin = replace(origin, files=[files[row] for row in rows.tolist()])
    return replace(batch, data=taken(batch.data, rows), origin=origin, faults=())
