"""Arrow arrays without their wrappings: extension types, dictionaries, runs and views taken off."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_numpy
from tfrec_cli.kinds import is_binary, is_list, is_packed, is_text

_INT32_MAX = 2**31 - 1


def plain(array: pa.Array) -> pa.Array:
    """The array's values without extension, dictionary, run-end and view forms.

    Lists keep their items as they are; `unnest` makes those plain in turn.
    """
    while True:
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            array = array.storage
        elif is_packed(kind):
            values, places = values_and_places(array)
            array = spread(plain(values), places)
        elif (viewless := _without_views(kind)) != kind:
            array = _unviewed(array, viewless)
        elif pa.types.is_fixed_size_binary(kind):
            array = pc.cast(array, pa.binary())
        else:
            return array


def _without_views(kind: pa.DataType) -> pa.DataType:
    """The type with text and bytes in place of their views, inside lists too."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if is_list(kind) and (item := _without_views(kind.value_type)) != kind.value_type:
        return pa.large_list(item)
    return kind


def _unviewed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    # Arrow casts list views to lists whose last offset is missing, and before 18 no views at all.
    if not _has_list_view(array.type):
        with contextlib.suppress(pa.ArrowNotImplementedError):
            return pc.cast(array, kind)
    return pa.array(array.to_pylist(), kind)


def _has_list_view(kind: pa.DataType) -> bool:
    if not is_list(kind):
        return False
    is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    return is_view or _has_list_view(kind.value_type)


def values_and_places(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The values of a dictionary or run-end encoded array, and for each slot its place among them,
    null where the slot is null.
    """
    if pa.types.is_dictionary(array.type):
        return array.dictionary, array.indices
    # Arrow decodes runs of few types only, but positions are one of them.
    positions = from_numpy(np.arange(len(array.values)))
    runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, positions)
    return array.values, pc.run_end_decode(runs.slice(array.offset, len(array)))


def spread(values: pa.Array, places: pa.Array) -> pa.Array:
    """The values at `places` (integers, null for null), many times over where asked.

    Text and bytes get wide offsets where 2 GiB of them could come together.
    """
    if longest(values) * len(places) > _INT32_MAX:
        values = widened(values)
    return values.take(places)


def longest(*arrays: pa.Array) -> int:
    """The most bytes of one value of text or bytes; 0 for other types."""
    sized = [a for a in arrays if is_text(a.type) or is_binary(a.type)]
    return max((pc.max(pc.binary_length(a)).as_py() or 0 for a in sized), default=0)


def widened(array: pa.Array) -> pa.Array:
    """Text or bytes with wide offsets."""
    return pc.cast(array, pa.large_string() if is_text(array.type) else pa.large_binary())
