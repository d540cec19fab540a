"""The tasks that all runs have: read a piece, encode its rows.

All arguments and results are picklable and small, except the encoded records themselves.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from tfrec_cli._kernel.model import MAX_RECORD_BYTES, Encoded, FeatureColumn
from tfrec_cli.arrangement import Order
from tfrec_cli.buffers import from_numpy
from tfrec_cli.casting import cast
from tfrec_cli.encoding import RecordTooLarge, encode_rows, oversized_rows
from tfrec_cli.errors import CellError, Reject
from tfrec_cli.schema.binding import BoundFeature
from tfrec_cli.sources.base import (
    Fault,
    Fingerprint,
    Origin,
    Partition,
    Source,
    SourceBatch,
    WholeRecords,
)
from tfrec_cli.stages import timed_items

if TYPE_CHECKING:
    from tfrec_cli.splitting.splitter import Splitter

# Bytes of a record from which on no reader takes it; protobuf's own limit.
RECORD_LIMIT = MAX_RECORD_BYTES

# Characters of a list or another value without one spelling that a message or reject shows.
MOST_VALUE = 1000

# Bytes of files named by cells (`load: file`) that one batch holds at most, beside its last one.
LOADED_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class Piece:
    """The first `rows` rows of a partition: all of it, unless a limit falls inside.

    start: the number of the first of them among all rows of the source.
    """

    partition: Partition
    rows: int
    start: int = 0

    def __str__(self) -> str:
        first = self.partition.first_row
        return f"{self.partition.file}, rows {first + 1:,} to {first + self.rows:,}"


@dataclass(frozen=True, slots=True)
class Work:
    """What the tasks of one run share.

    columns: the source's columns to read. on_error: `fail` raises CellError at the first row that
    cannot become a record, `skip` leaves such rows out. splitter: what divides rows into splits,
    where a row alone decides. order: of the records, None for the source's. records: where the
    records are the source's own, kept as they are; there are no features then.
    """

    source: Source
    features: tuple[BoundFeature, ...]
    columns: tuple[str, ...]
    on_error: Literal["fail", "skip"] = "fail"
    splitter: Splitter | None = None
    order: Order | None = None
    records: WholeRecords | None = None

    @property
    def skips(self) -> bool:
        """Whether rows that cannot become a record are left out."""
        return self.on_error == "skip"


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """The framed records of one batch, how many source rows they came from, and the files that
    the cells of those rows name. splits: where records go to several splits, how many of them
    each split gets; they then stand split by split.
    """

    records: Encoded
    rows: int
    fingerprints: tuple[Fingerprint, ...] = ()
    splits: tuple[int, ...] = ()


def limited_pieces(partitions: Iterable[Partition], limit: int | None) -> Iterator[Piece]:
    """The first `limit` rows of the partitions, in order; None is all of them."""
    left: float = math.inf if limit is None else limit
    start = 0
    for partition in partitions:
        if left <= 0:
            return
        rows = int(min(partition.rows, left))
        if rows:
            yield Piece(partition, rows, start)
        left -= rows
        start += rows


def read_piece(work: Work, piece: Piece, loaded: int = LOADED_BYTES) -> Iterator[SourceBatch]:
    """The batches of a piece, cut to its rows, and to what may be held of the files they name:
    `loaded` bytes, or one row.
    """
    left = piece.rows
    batches = work.source.read(piece.partition, work.columns)
    for batch in timed_items("read", batches, lambda batch: int(batch.data.nbytes)):
        yield from _by_load(work, part_of(batch, 0, left), loaded)
        left -= batch.data.num_rows
        if left <= 0:
            return


def readers(pieces: Iterable[Piece], jobs: int, memory: int) -> int:
    """How many pieces may be read at a time, up to `jobs`: of a large row group a reader may hold
    as much as all of it.
    """
    largest = max((piece.partition.size for piece in pieces), default=0)
    return max(1, min(jobs, memory // max(1, largest)))


def encode_batch(work: Work, batch: SourceBatch) -> EncodedBatch:
    """Cast and encode one batch.

    Raises CellError naming the batch's first row that cannot become a record, or leaves such
    rows out, as `work.on_error` says.
    """
    found = _passed(work, batch)
    rows = batch.data.num_rows
    records = encode_found(work, batch, found, _kept(rows, found.faults))
    return EncodedBatch(records, rows, found.fingerprints)


def encode_found(work: Work, batch: SourceBatch, found: Found, rows: np.ndarray | None) -> Encoded:
    """The records of these rows of a batch, in this order; None is all of them. found: the batch
    cast. Raises CellError for a record that would be too large.
    """
    if work.records is not None:
        return _as_they_are(batch.data.column(work.records.column), rows)
    try:
        return encode_rows(found.columns, rows, RECORD_LIMIT)
    except RecordTooLarge as error:
        raise CellError(reject_row(batch.origin, too_large(error.row))) from None


def _as_they_are(records: pa.Array, rows: np.ndarray | None) -> Encoded:
    """Framed records (large_binary) back to back."""
    if rows is not None:
        records = records.take(from_numpy(np.asarray(rows, np.int64)))
    _, bounds, data = records.buffers()
    ends = np.frombuffer(bounds, np.int64, len(records) + 1, records.offset * 8)
    return Encoded(data[int(ends[0]) : int(ends[-1])], ends[1:] - ends[0])


def feature_columns(work: Work, batch: SourceBatch) -> tuple[FeatureColumn, ...]:
    """The features of those rows of a batch that become records. Raises as `encode_batch` does."""
    found = _passed(work, batch)
    rows = _kept(batch.data.num_rows, found.faults)
    if rows is None:
        return found.columns
    return tuple(FeatureColumn(c.key, c.array.take(pa.array(rows))) for c in found.columns)


@dataclass(frozen=True, slots=True)
class Found:
    """A batch as feature columns, and one fault for each bad row, in row order."""

    columns: tuple[FeatureColumn, ...]
    faults: tuple[Fault, ...]
    fingerprints: tuple[Fingerprint, ...]


def _passed(work: Work, batch: SourceBatch) -> Found:
    """The batch cast. Raises CellError for its first faulty row, unless such rows are skipped."""
    found = cast_batch(work, batch)
    if found.faults and work.on_error == "fail":
        raise CellError(reject_row(batch.origin, found.faults[0]))
    return found


def cast_batch(work: Work, batch: SourceBatch) -> Found:
    """The features of a batch, and the rows that cannot become records."""
    data, loading, fingerprints = _load(work, batch)
    result = cast(data, tuple(_as_loaded(feature) for feature in work.features))
    first: dict[int, Fault] = {}
    plain = {_loaded_name(f): f.columns[0] for f in work.features if f.load}
    casting = (
        _with_value(replace(fault, column=plain.get(fault.column or "", fault.column)), batch)
        for fault in result.faults
    )
    oversized = oversized_rows(result.columns, RECORD_LIMIT).tolist()
    for fault in chain(batch.faults, loading, casting, map(too_large, oversized)):
        first.setdefault(fault.row, fault)
    faults = tuple(first[row] for row in sorted(first))
    return Found(result.columns, faults, fingerprints)


def _with_value(fault: Fault, batch: SourceBatch) -> Fault:
    """The fault with its cell as text, where casting could not tell it: a list, say."""
    if fault.value is not None or fault.column not in batch.data.schema.names:
        return fault
    value = batch.data.column(fault.column)[fault.row].as_py()
    if value is None or isinstance(value, bytes):
        return fault
    return replace(fault, value=str(value)[:MOST_VALUE])


def _load(
    work: Work, batch: SourceBatch
) -> tuple[pa.RecordBatch, list[Fault], tuple[Fingerprint, ...]]:
    """The batch with the bytes of the files that cells name, in columns of their own."""
    if not any(_loading(work)):
        return batch.data, [], batch.fingerprints
    from tfrec_cli.sources.loading import load_cells

    data = batch.data
    faults: list[Fault] = []
    fingerprints = [*batch.fingerprints]
    for position, feature in _loading(work):
        column = feature.columns[0]
        loaded = load_cells(batch.data.column(position), column, _table(feature, batch))
        data = data.append_column(_loaded_name(feature), loaded.data)
        faults += loaded.faults
        fingerprints += loaded.fingerprints
    return data, sorted(faults, key=lambda fault: fault.row), tuple(fingerprints)


def _by_load(work: Work, batch: SourceBatch, most: int) -> Iterator[SourceBatch]:
    """The batch in parts whose named files fit in `most` bytes, or hold one row."""
    if not any(_loading(work)):
        yield batch
        return
    from tfrec_cli.sources.loading import cell_sizes

    sizes = np.zeros(batch.data.num_rows, dtype=np.int64)
    for position, feature in _loading(work):
        sizes += cell_sizes(batch.data.column(position), _table(feature, batch))
    groups = np.cumsum(sizes) // most
    bounds = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), batch.data.num_rows]
    for start, stop in pairwise(bounds):
        yield part_of(batch, start, stop)


def _loading(work: Work) -> Iterator[tuple[int, BoundFeature]]:
    """The features whose cells name files, with the positions of their columns."""
    for feature in work.features:
        if feature.load:
            yield work.columns.index(feature.columns[0]), feature


def _table(feature: BoundFeature, batch: SourceBatch) -> str:
    """The path whose folder the names in a `load` column are relative to."""
    return batch.origin.file if feature.root is None else os.path.join(feature.root, "")


def _loaded_name(feature: BoundFeature) -> str:
    # The key of the feature tells it from other features that load the same column.
    return f"{feature.columns[0]}\0{feature.key}"


def _as_loaded(feature: BoundFeature) -> BoundFeature:
    if not feature.load:
        return feature
    return replace(feature, columns=(_loaded_name(feature),), source_type=pa.large_binary())


def reject_row(origin: Origin, fault: Fault) -> Reject:
    """A faulty row with its place."""
    where = origin.locate(fault.row, fault.column, fault.value)
    return Reject(where, fault.column, fault.value, fault.reason, fault.hint)


def _kept(rows: int, faults: tuple[Fault, ...]) -> np.ndarray | None:
    """The rows without a fault; None is all of them."""
    if not faults:
        return None
    keep = np.ones(rows, dtype=bool)
    keep[[fault.row for fault in faults]] = False
    return np.flatnonzero(keep)


def too_large(row: int) -> Fault:
    """The fault of a row whose record no reader would take."""
    reason = "the record would have 2 GiB or more, which no reader takes"
    return Fault(row, None, None, reason, "Split the row's values over several rows.")


def part_of(batch: SourceBatch, start: int, stop: int) -> SourceBatch:
    """Rows `start` to `stop` of a batch, as a batch of its own."""
    rows = batch.data.num_rows
    if start == 0 and stop >= rows:
        return batch
    inside = (fault for fault in batch.faults if start <= fault.row < stop)
    faults = tuple(replace(fault, row=fault.row - start) for fault in inside)
    origin = batch.origin.after(start)
    return SourceBatch(batch.data.slice(start, stop - start), origin, faults, batch.fingerprints)
