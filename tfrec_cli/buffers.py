"""Arrow arrays from NumPy arrays and Python values, and back, through their buffers.

pyarrow's own ways (`pa.array`, `pa.scalar`, `Array.to_numpy`, Python numbers given to a compute
function, in older releases `DataType.to_pandas_dtype`) import pandas where it is installed, to see
whether they were given a part of it. That import takes longer than many a conversion. The layout of
buffers is that of https://arrow.apache.org/docs/format/Columnar.html.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc

_INT32_MAX = 2**31 - 1
_NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_DTYPES = {pa.from_numpy_dtype(name): np.dtype(name) for name in _NUMBERS}


def to_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """The values of an array of numbers or booleans, of any length and offset.

    Null becomes 0 or False. Numbers without a null are a read-only view of the array's buffer.
    """
    kind, count = array.type, len(array)
    is_bool, dtype = pa.types.is_boolean(kind), _DTYPES[kind]
    data = array.buffers()[1]
    if data is None or not count:
        return np.zeros(count, dtype)
    if is_bool:
        values = _unpacked(data, array.offset, count)
    else:
        values = np.frombuffer(data, dtype, count, array.offset * dtype.itemsize)
    return np.where(is_valid(array), values, dtype.type(0)) if array.null_count else values


def is_valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Which slots of an array hold a value: one bool for each."""
    count, bits = len(array), array.buffers()[0] if array.null_count else None
    if bits is not None:
        return _unpacked(bits, array.offset, count)
    return np.full(count, not array.null_count)


def from_numpy(values: npt.NDArray[Any], nulls: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """An array of numbers or booleans over one-dimensional `values`, which must not change later.

    nulls: where True, the slot is null.
    """
    kind = pa.from_numpy_dtype(values.dtype)
    if values.dtype == np.bool_:
        data = _packed(values)
    else:
        data = pa.py_buffer(np.ascontiguousarray(values))
    validity = None if nulls is None else _packed(~nulls)
    return pa.Array.from_buffers(kind, len(values), [validity, data])


def from_values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of Python values: numbers, or text and bytes (string, binary, their large forms).

    None is null. Raises OverflowError for an integer that `kind` cannot hold, and ArrowInvalid
    where text or bytes of 2 GiB or more do not have a large form.
    """
    gaps = np.fromiter((value is None for value in values), bool, len(values))
    nulls = gaps if gaps.any() else None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        filled = [0 if value is None else value for value in values]
        return from_numpy(np.array(filled, _DTYPES[kind]), nulls)
    parts = [value.encode() if isinstance(value, str) else value or b"" for value in values]
    return _joined(parts, kind, nulls)


def rows_without_columns(count: int) -> pa.RecordBatch:
    """A batch of `count` rows and no columns."""
    rows = pa.Array.from_buffers(pa.struct([]), count, [None])
    return pa.RecordBatch.from_struct_array(rows)


def scalar(value: Any, kind: pa.DataType) -> pa.Scalar:
    """One Python value, of a `kind` that `from_values` takes, as a scalar; None of any kind."""
    return pa.nulls(1, kind)[0] if value is None else from_values([value], kind)[0]


def lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    """Bytes of each value of an array of text or bytes, items of each list; 0 where it is null.

    array: of lists of any form, or of text or bytes with offsets.
    """
    count, kind = len(array), array.type
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return to_numpy(pc.list_value_length(array)).astype(np.int64, copy=False)
    if pa.types.is_fixed_size_list(kind):
        found = np.full(count, kind.list_size, np.int64)
    else:
        found = np.diff(offsets_of(array)).astype(np.int64, copy=False)
    return np.where(is_valid(array), found, 0) if array.null_count else found


def items(array: pa.Array) -> pa.Array:
    """The items of all lists of an array, those of null lists left out."""
    is_view = pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type)
    if array.null_count or is_view:
        return array.flatten()
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        return array.values.slice(array.offset * size, len(array) * size)
    bounds = offsets_of(array)
    first = int(bounds[0])
    return array.values.slice(first, int(bounds[-1]) - first)


def byte_size(data: pa.Array | pa.RecordBatch | pa.Table) -> int:
    """The bytes that the values of `data` take, or where this release of Arrow cannot tell (slices
    of a view type before pyarrow 22) those of the buffers that hold them.
    """
    try:
        return int(data.nbytes)
    except pa.ArrowTypeError:
        return int(data.get_total_buffer_size())


def nulled(array: pa.Array, gone: npt.NDArray[np.bool_]) -> pa.Array:
    """An array of numbers, text or bytes, null where `gone` is True as well, over the same buffers.

    `if_else` with a null cannot do it: before pyarrow 22 it reads beyond slices of text.
    """
    kept = is_valid(array) & ~gone
    ahead = np.zeros(array.offset % 8, np.bool_)
    bits = np.packbits(np.concatenate((ahead, kept)), bitorder="little").tobytes()
    validity = pa.py_buffer(bytes(array.offset // 8) + bits)
    buffers = [validity, *array.buffers()[1:]]
    return pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset)


def offsets_of(array: pa.Array) -> npt.NDArray[Any]:
    """Where the values of text, bytes or lists begin in their data, and where the last ends: int32,
    or int64 where they are large.
    """
    kind = array.type
    large = kind in (pa.large_string(), pa.large_binary()) or pa.types.is_large_list(kind)
    dtype = np.dtype(np.int64 if large else np.int32)
    data = array.buffers()[1]
    if data is None or not len(array):
        return np.zeros(1, dtype)
    return np.frombuffer(data, dtype, len(array) + 1, array.offset * dtype.itemsize)


def _joined(parts: list[bytes], kind: pa.DataType, nulls: npt.NDArray[np.bool_] | None) -> pa.Array:
    is_large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    ends = np.zeros(len(parts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)), out=ends[1:])
    if not is_large and ends[-1] > _INT32_MAX:
        raise pa.ArrowInvalid(f"{ends[-1]} bytes are more than an array of {kind} holds")
    offsets = pa.py_buffer(ends if is_large else ends.astype(np.int32))
    validity = None if nulls is None else _packed(~nulls)
    data = pa.py_buffer(b"".join(parts))
    return pa.Array.from_buffers(kind, len(parts), [validity, offsets, data])


def _packed(mask: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def _unpacked(bits: pa.Buffer, offset: int, count: int) -> npt.NDArray[np.bool_]:
    first = offset // 8
    held = np.frombuffer(bits, np.uint8, (offset + count + 7) // 8 - first, first)
    flags = np.unpackbits(held, count=offset % 8 + count, bitorder="little")
    return flags[offset % 8 :].view(np.bool_)
