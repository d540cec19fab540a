"""Rows with their splits and places: what a batch holds, and its records in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli._kernel.model import FeatureColumn
from tfrec_cli.buffers import from_numpy
from tfrec_cli.encoding import row_bounds
from tfrec_cli.errors import CellError, Reject
from tfrec_cli.shuffle.keys import keyed
from tfrec_cli.shuffle.merge import records_of
from tfrec_cli.shuffle.segments import sorted_rows
from tfrec_cli.shuffle.sorting import sort_keys
from tfrec_cli.sources.base import Fault, Fingerprint, SourceBatch
from tfrec_cli.splitting.splitter import Measured, Splits
from tfrec_cli.tasks import EncodedBatch, Found, Work, cast_batch, encode_found, reject_row

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Seen:
    """A batch as its records' features, splits and keys.

    splits: of each row; all 0 where `measured` says what is to be known first. keys: None where
    the order is the source's. faults: one for each row that cannot become a record, in row order.
    kept: the other rows.
    """

    found: Found
    splits: Splits
    keys: pa.Array | None
    faults: tuple[Fault, ...]
    kept: Rows
    measured: Measured | None = None

    def rejects(self, batch: SourceBatch) -> tuple[Reject, ...]:
        """The faults with their places. batch: the one that was examined."""
        return tuple(reject_row(batch.origin, fault) for fault in self.faults)


@dataclass(frozen=True, slots=True)
class Placed:
    """The framed records of a batch, sorted by split, then key, which stand beside each."""

    splits: Splits
    keys: pa.Array
    records: pa.Array
    fingerprints: tuple[Fingerprint, ...] = ()


def examine(work: Work, batch: SourceBatch, folder: str | None, start: int) -> Seen:
    """Cast a batch, and find the split and the key of each row.

    folder: the split that the source names. start: the number of the first row among all rows.
    With `on_error="fail"`, raises CellError for the first row at fault.
    """
    found = cast_batch(work, batch)
    rows = batch.data.num_rows
    splits, measured, faulty = np.zeros(rows, np.uint8), None, list[Fault]()
    if work.splitter is not None and work.splitter.measures:
        measured = work.splitter.measure(batch, work.columns)
        faulty += measured.faults
    elif work.splitter is not None:
        splits, more = work.splitter.assign(batch, work.columns, folder)
        faulty += more
    keys = None
    if work.order is not None:
        keys, more = order_keys(work, batch, start)
        faulty += more
    faults = _first_each(found.faults, faulty)
    if faults and work.on_error == "fail":
        raise CellError(reject_row(batch.origin, faults[0]))
    kept = np.delete(np.arange(rows), [fault.row for fault in faults])
    return Seen(found, splits, keys, faults, kept, measured)


def order_keys(work: Work, batch: SourceBatch, start: int) -> tuple[pa.Array, list[Fault]]:
    """What each row is sorted by: uint64, or large_binary for a sort; no two are equal but in a
    shuffle. Also the rows that lack a value of a key column.
    """
    order = work.order
    assert order is not None
    if order.kind == "shuffle":
        digests, faults = order.identity.digests(batch, work.columns)
        return from_numpy(keyed(digests, "shuffle", order.seed)), faults
    numbers = np.arange(start, start + batch.data.num_rows, dtype=">u8")
    if order.kind == "source":
        return from_numpy(numbers.astype(np.uint64) * np.uint64(order.step)), []
    kind = pa.binary(8)
    ties = pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])
    ties = pc.cast(ties, pa.large_binary())
    return sort_keys(batch, work.columns, order.sort_by, (ties,)), []


def place_batch(
    work: Work, batch: SourceBatch, part: tuple[str | None, int], most: int
) -> Iterator[Placed]:
    """Encode a batch in the order of its splits and keys: as one, or where its records are more
    than `most` bytes, rows of it one after the other.

    part: the split that the source names, and the number of the first row among all rows. Raises
    as `examine` does.
    """
    seen = examine(work, batch, *part)
    assert seen.keys is not None
    kept, keys, splits = seen.kept, seen.keys, seen.splits
    if len(kept) < batch.data.num_rows:
        keys, splits = keys.take(from_numpy(kept)), splits[kept]
    columns = seen.found.columns
    if work.records is not None:
        columns = (FeatureColumn("", batch.data.column(work.records.column)),)
    bounds = row_bounds(columns, kept, most) if len(kept) else [0, 0]
    for first, last in pairwise(bounds):
        some, own = keys.slice(first, last - first), splits[first:last]
        order = sorted_rows(some, own if own.any() else None)
        encoded = _encoded(work, seen, batch, kept[first:last][order])
        records = records_of(encoded.records)
        yield Placed(own[order], some.take(from_numpy(order)), records, encoded.fingerprints)


def route_batch(work: Work, batch: SourceBatch) -> EncodedBatch:
    """Encode a batch with its records sorted by split, and within one in the source's order.

    Raises CellError as `encode_batch` does.
    """
    seen = examine(work, batch, None, 0)
    splits = seen.splits[seen.kept]
    order = np.argsort(splits, kind="stable")
    assert work.splitter is not None
    counts = np.bincount(splits, minlength=len(work.splitter.names))
    encoded = _encoded(work, seen, batch, seen.kept[order])
    return EncodedBatch(encoded.records, encoded.rows, encoded.fingerprints, tuple(counts.tolist()))


def _encoded(work: Work, seen: Seen, batch: SourceBatch, rows: Rows) -> EncodedBatch:
    """These rows of the batch, in this order."""
    records = encode_found(work, batch, seen.found, rows)
    return EncodedBatch(records, batch.data.num_rows, seen.found.fingerprints)


def _first_each(casting: tuple[Fault, ...], others: list[Fault]) -> tuple[Fault, ...]:
    """One fault for each row, in row order."""
    first: dict[int, Fault] = {}
    for fault in chain(casting, others):
        first.setdefault(fault.row, fault)
    return tuple(first[row] for row in sorted(first))
