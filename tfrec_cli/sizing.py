"""How large records will be, from rows read in a few places of the source and what it tells itself.

What is read depends on data and options alone, and so does the number of shards that follows from
it. A place is one of the pieces that a source is read in, and rows are taken all over the first
batch of it. What else a piece holds is told by the sizes that the source knows of its columns, or
by the bytes behind it: rows that grow within a file, or from file to file, are thus allowed for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli._kernel.model import FeatureColumn
from tfrec_cli.buffers import byte_size, from_numpy, is_valid, to_numpy
from tfrec_cli.encoding import RecordTooLarge, encode_rows
from tfrec_cli.engines.threads import ordered_map
from tfrec_cli.errors import CellError
from tfrec_cli.kinds import is_binary, is_text
from tfrec_cli.sources.base import SourceBatch
from tfrec_cli.stages import timed
from tfrec_cli.tasks import Piece, Work, feature_columns, part_of

PLACES = 8
"""Pieces that are looked at, spread evenly."""

ROWS = 512
LOADED_ROWS = 64
RUN = 4
"""Rows of a place, in short runs: fewer where each means a file to be read."""

MOST_BYTES = 16 * 2**20
"""Bytes of rows that a place is judged by, at most (or one row)."""

LEAST = 16
"""Bytes of a record's framing, which every one has."""

VALUE = 8
"""What a number in a list counts for in the size of a column."""


@dataclass(frozen=True, slots=True)
class Place:
    """What the rows of one place show.

    index: of the piece. record, key: the mean bytes of a record, and of the key it is sorted by.
    columns: of source columns of variable size whose sizes can be believed, the mean bytes in a
    row. ratios: how many bytes of
    record a byte in such a column makes.
    """

    index: int
    record: float
    key: float = 0.0
    columns: Mapping[str, float] = field(default_factory=dict)
    ratios: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a record with its framing, and of the key it is sorted by, on average; and of a
    record of each piece.
    """

    record: float
    key: float = 8.0
    pieces: tuple[float, ...] = ()

    def of(self, members: Sequence[int], records: Sequence[int]) -> float:
        """The mean size of the records of some pieces. members: their places. records: of all."""
        total = sum(records[member] for member in members)
        if not total or not self.pieces:
            return self.record
        return sum(self.pieces[member] * records[member] for member in members) / total


@timed("survey", lambda _: 0)
def record_sizes(work: Work, pieces: Sequence[Piece], jobs: int) -> Sizes:
    """The sizes of the records that these pieces give; 0 where no row that was read is sound."""
    levels = _levels(pieces)
    chosen = _with_unlike(spread(len(pieces), PLACES), levels)
    # A row in error is left out; where it ends the run, that is told later.
    work = replace(work, splitter=None, on_error="skip")
    look = partial(_look, work, pieces)
    places = [place for place in ordered_map(look, chosen, jobs) if place is not None]
    if not places:
        return Sizes(0.0)
    found = _each_piece(pieces, places, levels)
    rows = np.array([piece.rows for piece in pieces], np.float64)
    key = sum(place.key for place in places) / len(places)
    return Sizes(float(found @ rows / rows.sum()), key, tuple(found.tolist()))


def spread(count: int, most: int) -> list[int]:
    """`most` of `count` numbers: the first, the last, and others at even distances."""
    if count <= most:
        return list(range(count))
    return [number * (count - 1) // (most - 1) for number in range(most)]


def _levels(pieces: Sequence[Piece]) -> npt.NDArray[np.int64]:
    """For each piece what its rows are like: a step for each factor of 16 in their size; odd where
    sizes of columns are known.
    """
    steps = np.log2([max(1.0, _behind(piece)) for piece in pieces]) // 4
    known = [bool(piece.partition.sizes) for piece in pieces]
    return 2 * steps.astype(np.int64) + np.array(known, np.int64)


def _with_unlike(chosen: list[int], levels: npt.NDArray[np.int64]) -> list[int]:
    """The places, and one of each level that they leave out."""
    seen = set(levels[chosen].tolist())
    rest = {level for level in levels.tolist() if level not in seen}
    more = {int(np.flatnonzero(levels == level)[0]) for level in rest}
    return sorted({*chosen, *more})


def _each_piece(
    pieces: Sequence[Piece], places: Sequence[Place], levels: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """The mean size of the records of each piece, by its sizes and the nearest place like it."""
    indices = np.array([place.index for place in places])
    means = np.array([place.record for place in places])
    behind = np.array([_behind(piece) for piece in pieces])
    apart = np.abs(np.arange(len(pieces))[:, None] - indices)
    unlike = np.abs(levels[:, None] - levels[indices])
    nearest = (apart + len(pieces) * unlike).argmin(axis=1)
    slope = _slope(behind[indices], means)
    found = np.empty(len(pieces))
    for at, (piece, near) in enumerate(zip(pieces, nearest.tolist(), strict=True)):
        place = places[near]
        if piece.partition.sizes:
            found[at] = max(means[near] + _by_columns(piece, place), LEAST)
        else:
            # Far beyond what was seen nothing is certain but that records have a size.
            more = slope * (behind[at] - behind[place.index])
            found[at] = max(means[near] + more, 0.5 * means.min())
    return found


def _behind(piece: Piece) -> float:
    """Bytes of source behind a row."""
    return piece.partition.size / max(1, piece.partition.rows)


def _slope(behind: npt.NDArray[np.float64], means: npt.NDArray[np.float64]) -> float:
    """How many bytes a record gains with a byte of source, as far as places differ in them."""
    spread = behind - behind.mean()
    if len(behind) < 3 or np.abs(spread).max() < 0.02 * behind.mean():
        return 0.0
    return float(np.clip(spread @ (means - means.mean()) / (spread @ spread), 0.0, 4.0))


def _by_columns(piece: Piece, place: Place) -> float:
    """What the records of a piece have more than those of a place, by the sizes of columns."""
    return sum(
        place.ratios[column] * (size / piece.partition.rows - place.columns[column])
        for column, size in (piece.partition.sizes or {}).items()
        if column in place.columns
    )


def _look(work: Work, pieces: Sequence[Piece], index: int) -> Place | None:
    """Read the first batch of a piece, and encode some rows of it."""
    piece = pieces[index]
    loads = any(feature.load for feature in work.features)
    batch = next(iter(work.source.read(piece.partition, work.columns)), None)
    if batch is None or not batch.data.num_rows:
        return None
    batch = part_of(batch, 0, piece.rows)
    some = _some_rows(batch, LOADED_ROWS if loads else ROWS)
    try:
        columns = feature_columns(work, some)
        ends = encode_rows(columns).ends if columns else np.zeros(0, np.int64)
        keys = _order_keys(work, some, piece.start)
    except (CellError, RecordTooLarge):
        return None
    if not len(ends):
        return None
    seen, whole = _column_sizes(work, some), _column_sizes(work, batch)
    ratios = _ratios(work, columns, {name: seen[name] * len(ends) for name in seen})
    # The rows that were taken may be smaller or larger than those beside them.
    more = sum(ratios[name] * (whole[name] - seen[name]) for name in seen)
    # So may those of the first batch be, beside those of the whole piece.
    if first := piece.partition.first:
        texts = sum(ratios[name] * whole[name] for name in whole)
        more += texts * (_behind(piece) / first - 1)
    record = int(ends[-1]) / len(ends)
    key = 0.0 if keys is None else (_variable(keys) or VALUE * len(keys)) / len(keys)
    sound = _borne_out(piece, whole, batch.data.num_rows)
    return Place(index, max(record + more, LEAST), key, sound, ratios)


def _borne_out(piece: Piece, means: Mapping[str, float], rows: int) -> dict[str, float]:
    """The columns of a first batch that are not larger than the piece is told to be as a whole: a
    dictionary that was given up late holds many texts once that stand in many rows.
    """
    sizes = piece.partition.sizes or {}
    return {n: mean for n, mean in means.items() if mean * rows <= sizes.get(n, inf)}


def _order_keys(work: Work, batch: SourceBatch, start: int) -> pa.Array | None:
    if work.order is None:
        return None
    from tfrec_cli.placing import order_keys

    return order_keys(work, batch, start)[0]


def _column_sizes(work: Work, batch: SourceBatch) -> dict[str, float]:
    """The mean bytes in a row of each column of variable size."""
    columns = zip(work.columns, batch.data.columns, strict=True)
    sizes = ((name, _variable(column)) for name, column in columns)
    return {n: size / max(1, batch.data.num_rows) for n, size in sizes if size is not None}


def _some_rows(batch: SourceBatch, most: int) -> SourceBatch:
    """Short runs of rows from all over a batch; rows with faults are not taken."""
    rows = batch.data.num_rows
    mean = max(1.0, byte_size(batch.data) / rows)
    most = max(1, min(most, int(MOST_BYTES / mean)))
    runs = max(1, most // RUN)
    if rows > most:
        # By lot within equal parts, so that no rhythm of the source is met by one of the sample's.
        lots = np.random.default_rng(rows).integers(0, max(1, rows // runs - RUN + 1), runs)
        starts = np.arange(runs) * (rows // runs) + lots
    else:
        starts = np.arange(0, rows, RUN)
    found = (starts[:, None] + np.arange(min(RUN, most))).ravel()
    found = np.setdiff1d(found[found < rows], [fault.row for fault in batch.faults])
    return SourceBatch(taken(batch.data, found), batch.origin)


def taken(data: pa.RecordBatch, rows: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """The rows of these numbers."""
    try:
        return data.take(from_numpy(rows))
    except pa.ArrowNotImplementedError:
        # Arrow cannot take views, nor what holds them, but it can put slices together.
        parts = [data.slice(row, 1) for row in rows.tolist()] or [data.slice(0, 0)]
        return pa.concat_batches(parts)


def _ratios(
    work: Work, columns: Sequence[FeatureColumn], sizes: Mapping[str, float]
) -> dict[str, float]:
    """How many bytes of records a byte of each source column makes, in the features made of it
    alone.

    sizes: of the columns, as `_variable` gives them.
    """
    arrays = {column.key: column.array for column in columns}
    made: dict[str, list[int]] = {name: [] for name in sizes}
    for feature in work.features:
        if len(feature.columns) == 1 and feature.columns[0] in made and feature.labels is None:
            made[feature.columns[0]].append(_encoded(arrays[feature.key]))
    return {
        name: sum(made[name]) / size if size else float(len(made[name]))
        for name, size in sizes.items()
    }


def _encoded(array: pa.Array) -> int:
    """The bytes of values in records."""
    while hasattr(array, "flatten") and hasattr(array.type, "value_type"):
        array = array.flatten()
    if pa.types.is_int64(array.type):
        values = to_numpy(array)[is_valid(array)].view(np.uint64)
        bits = np.frexp(np.maximum(values, 1).astype(np.float64))[1]
        lengths: list[int] = ((bits + 6) // 7).tolist()
        return sum(lengths)
    if pa.types.is_float32(array.type):
        return 4 * int(len(array) - array.null_count)
    return _variable(array) or 0


def _variable(array: pa.Array) -> int | None:
    """The bytes of texts, or of the values of lists as `Partition.sizes` counts them; None of other
    values.
    """
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = array.flatten()
        inner = _variable(values)
        return VALUE * len(values) if inner is None else inner
    if is_text(kind) or is_binary(kind):
        return int(pc.sum(pc.binary_length(array)).as_py() or 0)
    return None
