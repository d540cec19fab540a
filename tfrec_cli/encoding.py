"""From feature columns to framed records."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import _kernel
from tfrec_cli._kernel.model import MAX_RECORD_BYTES, Encoded, FeatureColumn, RecordSizeError
from tfrec_cli.buffers import byte_size, items, lengths


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


def row_bounds(
    columns: Sequence[FeatureColumn], rows: npt.NDArray[np.int64], most: int
) -> list[int]:
    """Places that cut `rows` of the columns so that the records of each part have up to `most`
    bytes with their framing, or are one record: 0 first, the number of rows last.

    Goes by what the records take at most, which is exact but for integers.
    """
    total = len(columns[0].array) if columns else 0
    fixed = 32 + sum(len(column.key.encode()) + _FEATURE for column in columns)
    if sum(_most_bytes(column.array) for column in columns) + total * fixed <= most:
        return [0, len(rows)] if len(rows) else [0]
    values = np.sum([_value_bytes(column.array, _INTEGER) for column in columns], axis=0)
    ends, bounds = np.cumsum(values[rows] + fixed), [0]
    while bounds[-1] < len(rows):
        before = int(ends[bounds[-1] - 1]) if bounds[-1] else 0
        fits = int(np.searchsorted(ends, before + most, side="right"))
        bounds.append(max(fits, bounds[-1] + 1))
    return bounds


# Bytes of an integer at most; of a feature's tags and lengths; of tag and length of a text.
_INTEGER, _FEATURE, _TEXT = 10, 24, 6


def _most_bytes(array: pa.Array) -> int:
    """What all values take at most."""
    kind = array.type
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    size = byte_size(array)
    if pa.types.is_int64(kind):
        return size * _INTEGER // 8
    if pa.types.is_float32(kind):
        return size
    # Offsets are counted, four bytes of the six.
    return size + 2 * len(array) if kind == array.type else 2 * size + _TEXT * len(array)


def _least_bytes(array: pa.Array) -> npt.NDArray[np.int64]:
    """For each row the bytes that its values take at least."""
    return _value_bytes(array, 1, 0)


def _value_bytes(array: pa.Array, integer: int, text: int = _TEXT) -> npt.NDArray[np.int64]:
    """For each row the bytes of its values. integer: those of each integer. text: what comes on
    top of each text.
    """
    kind = array.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lengths(array) + text
    if pa.types.is_int64(kind) or pa.types.is_float32(kind):
        return np.full(len(array), integer if pa.types.is_int64(kind) else 4, np.int64)
    bounds = np.concatenate([[0], np.cumsum(lengths(array))])
    before = np.concatenate([[0], np.cumsum(_value_bytes(items(array), integer, text))])
    return np.asarray(np.diff(before[bounds]), np.int64)
