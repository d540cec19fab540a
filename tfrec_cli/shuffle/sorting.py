"""Sort keys: one binary value a row, whose bytes compare as the values of its columns do.

For each column a byte that is 1 for a missing value (they come last), else 0 and then the value:

* integers, booleans, times: eight bytes, most significant first, the sign bit flipped;
* floats: the same of the bits of the float64, all bits flipped where it is negative; -0 is 0, NaN
  comes after all numbers;
* decimals: as integers, sixteen or thirty-two bytes;
* text and binary: the first LONGEST_VALUE bytes, 0 written as 0 and 255, then 0 and 0.

Text compares by its UTF-8 bytes, whatever the locale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import is_valid, scalar, to_numpy
from tfrec_cli.errors import UsageError
from tfrec_cli.kinds import is_binary, is_text
from tfrec_cli.schema.arrowtypes import unwrapped
from tfrec_cli.shuffle.identity import OrderColumn
from tfrec_cli.shuffle.keys import cell_values
from tfrec_cli.sources.base import SourceBatch
from tfrec_cli.words import in_own_unit, is_time

LONGEST_VALUE = 16 * 2**10
"""Bytes of a text that decide on its place; texts that begin with the same ones are equal."""

_SIGN = np.uint64(1 << 63)


def check_sortable(name: str, kind: pa.DataType) -> None:
    """Raise UsageError where values of the Arrow type `kind` have no order."""
    kind = unwrapped(kind)
    types = pa.types
    if types.is_nested(kind) or types.is_interval(kind):
        raise UsageError(
            f"--sort-by {name}: {kind} has no order. Choose a column of numbers, times or text."
        )


def sort_keys(
    batch: SourceBatch,
    columns: Sequence[str],
    sort_by: Sequence[OrderColumn],
    ties: Sequence[pa.Array] = (),
) -> pa.Array:
    """The sort key of each row, as large_binary. columns: the names of the batch's columns. ties:
    binary arrays of one width, by which equal rows are sorted.
    """
    parts = [
        part
        for column in sort_by
        for part in _parts(batch.data.column(columns.index(column.name)), column)
    ]
    return pc.binary_join_element_wise(*parts, *ties, _nothing())


def _parts(array: pa.Array, column: OrderColumn) -> Sequence[pa.Array | pa.Scalar]:
    """Whether each value is missing, and the value, as bytes that compare."""
    array = cell_values(array, column.text, column.kind)
    missing = _fixed((~is_valid(array)).astype(np.uint8).reshape(-1, 1))
    values = _bytes(array)
    if values.null_count:
        values = pc.fill_null(values, _nothing())
    return missing, values, *([_END] if _is_text(array.type) else [])


_END = scalar(b"\0\0", pa.large_binary())


def _is_text(kind: pa.DataType) -> bool:
    return is_text(kind) or is_binary(kind) or pa.types.is_fixed_size_binary(kind)


def _nothing() -> pa.Scalar:
    return scalar(b"", pa.large_binary())


def _bytes(array: pa.Array) -> pa.Array:
    """Values as large_binary that compares as they do; what stands at nulls is any value."""
    kind = array.type
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.large_binary())
    if pa.types.is_decimal(kind):
        return _decimals(array)
    if _is_text(kind):
        return _escaped(pc.cast(array, pa.large_binary()))
    if is_time(kind):
        array = in_own_unit(array)
    return _numbers(array)


def _numbers(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_floating(kind):
        values = to_numpy(pc.cast(array, pa.float64())) + 0.0
        values = np.where(np.isnan(values), np.nan, values)
        bits = np.ascontiguousarray(values).view(np.uint64)
        bits = np.where(bits & _SIGN, ~bits, bits | _SIGN)
    elif kind == pa.uint64():
        bits = to_numpy(array)
        return _fixed(np.column_stack([np.ones(len(bits), np.uint8), _big_endian(bits)]))
    else:
        bits = to_numpy(pc.cast(array, pa.int64())).view(np.uint64) ^ _SIGN
    return _fixed(_big_endian(bits))


def _big_endian(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(bits).astype(">u8").view(np.uint8).reshape(-1, 8)


def _decimals(array: pa.Array) -> pa.Array:
    width = array.type.bit_width // 8
    data = array.buffers()[1]
    values = np.frombuffer(data, np.uint8)[
        array.offset * width : (array.offset + len(array)) * width
    ]
    flipped = values.reshape(-1, width)[:, ::-1].copy()
    flipped[:, 0] ^= 0x80
    return _fixed(flipped)


def _escaped(array: pa.Array) -> pa.Array:
    if (pc.max(pc.binary_length(array)).as_py() or 0) > LONGEST_VALUE:
        array = pc.binary_slice(array, 0, LONGEST_VALUE)
    if not pc.any(pc.match_substring(array, b"\0")).as_py():
        return array
    return pc.replace_substring(array, b"\0", b"\0\xff")


def _fixed(values: npt.NDArray[Any]) -> pa.Array:
    """Rows of a matrix of bytes as large_binary."""
    count, width = values.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), count, [None, pa.py_buffer(offsets), data]
    )
