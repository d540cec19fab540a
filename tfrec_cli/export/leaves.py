"""Single values of features as the Arrow types that their columns had.

It is the way back of the casts that a conversion does: numbers to narrow integers, booleans and
times, text to decimals. What was rounded stays rounded: decimals that became float are float.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_numpy, from_values, is_valid, to_numpy
from tfrec_cli.kinds import is_text

KINDS: Mapping[str, pa.DataType] = {
    "int64": pa.int64(), "float": pa.float32(), "bytes": pa.binary(),
}  # fmt: skip


class Misfit(Exception):
    """The value at `position` is none of the wanted type."""

    def __init__(self, position: int, text: str) -> None:
        super().__init__(position, text)
        self.position, self.text = position, text


def leaf_type(kind: str, wanted: pa.DataType | None, is_utf8: bool) -> pa.DataType:
    """The type to give values of a feature of `kind`, where the column was `wanted`, if known.

    is_utf8: whether bytes whose column is not known are all text.
    """
    obvious = (pa.string() if is_utf8 else pa.binary()) if kind == "bytes" else KINDS[kind]
    if wanted is None:
        return obvious
    from tfrec_cli.schema.arrowtypes import family, unwrapped

    wanted = _written(unwrapped(wanted))
    fits = {
        "int64": ("integer", "time", "duration", "float"),
        "float": ("float",),
        "bytes": ("text", "binary", "decimal"),
    }
    return wanted if family(wanted) in fits[kind] else obvious


def _written(kind: pa.DataType) -> pa.DataType:
    """The type in place of a view, which no format knows."""
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind


def takes(kind: str, values: Sequence[Any], wanted: pa.DataType) -> bool:
    """Whether `values` (int, float or bytes) can be `wanted`."""
    try:
        restore(from_values(values, KINDS[kind]), wanted)
    except Misfit:
        return False
    return True


def restore(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Values of a feature (int64, float32, binary), nulls kept, as a type that `leaf_type` chose.

    Raises Misfit for the first that is no value of it.
    """
    if array.type == wanted:
        return array
    if pa.types.is_floating(array.type):
        return _to_float(array, wanted)
    return (
        _from_bytes(array, wanted) if pa.types.is_binary(array.type) else _from_int(array, wanted)
    )


def _to_float(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if not pa.types.is_float16(wanted):
        return pc.cast(array, wanted)
    with np.errstate(over="ignore"):
        values = to_numpy(array).astype(np.float16)
    return from_numpy(values, ~is_valid(array) if array.null_count else None)


def _from_int(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(wanted):
        values = to_numpy(array)
        _refuse(array, (values != 0) & (values != 1), wanted)
        return from_numpy(values == 1, ~is_valid(array) if array.null_count else None)
    if pa.types.is_floating(wanted):
        return pc.cast(array, pa.float64()).cast(wanted, safe=False)
    from tfrec_cli.schema.arrowtypes import family

    if family(wanted) != "integer":
        narrow = pa.int32() if wanted.bit_width == 32 else pa.int64()
        return _narrow(array, narrow, wanted).view(wanted)
    return _narrow(array, wanted, wanted)


def _narrow(array: pa.Array, narrow: pa.DataType, wanted: pa.DataType) -> pa.Array:
    if narrow != pa.int64():
        values, limits = to_numpy(array), np.iinfo(str(narrow))
        high = min(int(limits.max), 2**63 - 1)
        _refuse(array, (values < int(limits.min)) | (values > high), wanted)
    return pc.cast(array, narrow)


def _refuse(array: pa.Array, wrong: npt.NDArray[np.bool_], wanted: pa.DataType) -> None:
    """Raise Misfit for the first value that is `wrong`; what stands in the place of null is not."""
    places = np.flatnonzero(wrong & is_valid(array) if array.null_count else wrong)
    if len(places):
        raise _misfit(array, int(places[0]), wanted)


def _misfit(array: pa.Array, place: int, wanted: pa.DataType) -> Misfit:
    value = array[place].as_py()
    shown = f"{len(value):,} bytes" if isinstance(value, bytes) else str(value)
    return Misfit(place, f"{shown} cannot be {wanted}, which its column was by schema.yaml")


def _from_bytes(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_fixed_size_binary(wanted) and not pa.types.is_decimal(wanted):
        lengths = to_numpy(pc.binary_length(array))
        _refuse(array, lengths != wanted.byte_width, wanted)
    if is_text(wanted) or pa.types.is_decimal(wanted):
        texts = _or_first(array, lambda some: pc.cast(some, pa.string()), wanted)
        if texts.type == wanted:
            return texts
        return _or_first(texts, lambda some: pc.cast(some, wanted), wanted)
    return pc.cast(array, wanted)


def _or_first(
    array: pa.Array, make: Callable[[pa.Array], pa.Array], wanted: pa.DataType
) -> pa.Array:
    """What `make` gives; where it refuses, Misfit for the first value that it does not take."""
    try:
        return make(array)
    except MemoryError:
        raise
    except pa.ArrowException:
        low, high = 0, len(array)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                make(array.slice(low, middle - low))
                low = middle
            except pa.ArrowException:
                high = middle
        raise _misfit(array, low, wanted) from None
