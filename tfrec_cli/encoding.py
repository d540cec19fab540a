"""From feature columns to framed records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfrec_cli import _kernel
from tfrec_cli._kernel.model import MAX_RECORD_BYTES, Encoded, FeatureColumn, RecordSizeError
from tfrec_cli.buffers import byte_size, to_numpy


class RecordTooLarge(Exception):
    """The record of `row`, a row of the columns, would have 2 GiB or more."""

    def __init__(self, row: int) -> None:
        super().__init__(f"the record of row {row} would have 2 GiB or more")
        self.row = row


def encode_rows(
    columns: Sequence[FeatureColumn],
    rows: np.ndarray | range | None = None,
    limit: int = MAX_RECORD_BYTES,
) -> Encoded:
    """The framed records of `rows` of the columns, in that order; None is all of them.

    Raises RecordTooLarge for the first of these rows whose record would exceed `limit` bytes
    (framing not counted). `oversized_rows` finds most such rows without building any record.
    """
    try:
        return _kernel.encode(columns, rows, limit)
    except RecordSizeError as error:
        raise RecordTooLarge(error.number if rows is None else int(rows[error.number])) from None


def oversized_rows(
    columns: Sequence[FeatureColumn], limit: int = MAX_RECORD_BYTES
) -> npt.NDArray[np.int64]:
    """The rows whose values alone are beyond `limit` bytes, in ascending order.

    Looks at rows only where the columns together are that large.
    """
    if sum(byte_size(column.array) for column in columns) <= limit:
        return np.zeros(0, np.int64)
    sizes = np.sum([_least_bytes(column.array) for column in columns], axis=0)
    return np.flatnonzero(sizes > limit)


def _least_bytes(array: pa.Array) -> npt.NDArray[np.int64]:
    """For each row the bytes that its values take at least."""
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return to_numpy(pc.binary_length(array)).astype(np.int64)
    if pa.types.is_int64(kind) or pa.types.is_float32(kind):
        return np.full(len(array), 1 if pa.types.is_int64(kind) else 4, np.int64)
    lengths = to_numpy(pc.list_value_length(array))
    bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    before = np.concatenate([[0], np.cumsum(_least_bytes(array.flatten()))])
    return np.asarray(np.diff(before[bounds]), np.int64)
