"""The shapes of Arrow arrays: wrappings taken off, structs followed, lists laid flat."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfrec_cli.buffers import from_numpy, is_valid, to_numpy

Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_INT32_MAX = 2**31 - 1


def is_list(kind: pa.DataType) -> bool:
    """Whether arrays of this type hold lists, of any form (maps are not lists here)."""
    types = pa.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether arrays of this type hold text (views are gone after `plain`)."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether arrays of this type hold bytes of any length."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def valid(array: pa.Array) -> Mask:
    """Which slots hold a value."""
    return is_valid(array)


def plain(array: pa.Array) -> pa.Array:
    """The array's values without extension, dictionary, run-end and view forms.

    Lists keep their items as they are; `unnest` makes those plain in turn.
    """
    while True:
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_dictionary(kind):
            array = spread(plain(array.dictionary), array.indices)
        elif pa.types.is_run_end_encoded(kind):
            array = _decoded_runs(array)
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


def _decoded_runs(array: pa.Array) -> pa.Array:
    # Arrow decodes runs of few types only, but positions are one of them.
    positions = from_numpy(np.arange(len(array.values)))
    runs = pa.RunEndEncodedArray.from_arrays(array.run_ends, positions)
    sliced = runs.slice(array.offset, len(array))
    return spread(plain(array.values), pc.run_end_decode(sliced))


def follow(array: pa.Array, path: Sequence[str]) -> pa.Array:
    """The child at `path` of a struct column, null where any parent is; inside lists too."""
    array = plain(array)
    if not path:
        return array
    if is_list(array.type):
        nested = _one_level(array)
        child = follow(nested.leaf, path)
        return listed(nested.offsets[0], child, nested.valid)
    if pa.types.is_null(array.type):
        return array
    return follow(array.flatten()[array.type.get_field_index(path[0])], path[1:])


@dataclass(frozen=True, slots=True)
class Nested:
    """Lists laid flat.

    valid: which rows have a list. offsets: one array for each level, outermost first, each one
    longer than the lists of its level; list i of a level holds items `[offsets[i], offsets[i+1])`
    of the next. Rows and lists that are null hold no items. leaf: the items of the last level.
    holes: rows with a null list inside.
    """

    valid: Mask
    offsets: tuple[Offsets, ...]
    leaf: pa.Array
    holes: npt.NDArray[np.int64]

    @property
    def bounds(self) -> Offsets:
        """Row i holds the leaf's items `[bounds[i], bounds[i+1])`."""
        return composed(self.offsets)

    def rows_of(self, positions: Any) -> npt.NDArray[np.int64]:
        """The rows in which positions of the leaf lie."""
        rows: npt.NDArray[np.int64] = np.searchsorted(self.bounds, positions, side="right") - 1
        return rows

    def keep(self, mask: Mask) -> Nested:
        """The same lists with only those leaf items that `mask` holds."""
        before = np.concatenate([[0], np.cumsum(mask)])
        offsets = (*self.offsets[:-1], before[self.offsets[-1]])
        return replace(self, offsets=offsets, leaf=self.leaf.filter(from_numpy(mask)))


def composed(offsets: Sequence[Offsets]) -> Offsets:
    """Offsets of several levels as one: from the outermost lists to the innermost items."""
    bounds = offsets[0]
    for level in offsets[1:]:
        bounds = level[bounds]
    return bounds


def unnest(array: pa.Array, drop_nulls: bool = False) -> Nested:
    """All list levels of a plain array laid flat. A scalar counts as a list of itself.

    drop_nulls: lists that are null inside others are dropped, instead of empty and named as holes.
    """
    if not is_list(array.type):
        has = valid(array)
        leaf = array.filter(from_numpy(has)) if array.null_count else array
        return Nested(has, (_offsets(has),), leaf, np.empty(0, np.int64))
    nested = _one_level(array)
    holes = [nested.holes]
    while is_list(nested.leaf.type):
        if nested.leaf.null_count:
            has = valid(nested.leaf)
            if drop_nulls:
                nested = nested.keep(has)
            else:
                holes.append(nested.rows_of(np.flatnonzero(~has)))
        inner = _one_level(nested.leaf)
        nested = replace(nested, offsets=(*nested.offsets, *inner.offsets), leaf=inner.leaf)
    return replace(nested, holes=np.unique(np.concatenate(holes)))


def _one_level(array: pa.Array) -> Nested:
    lengths = to_numpy(pc.list_value_length(array))
    return Nested(valid(array), (_offsets(lengths),), plain(array.flatten()), np.empty(0, np.int64))


def _offsets(lengths: Any) -> Offsets:
    offsets: Offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def listed(offsets: Offsets, leaf: pa.Array, has: Mask) -> pa.Array:
    """A list array (large_list past 2^31 items); rows not in `has` are null."""
    large = offsets[-1] > _INT32_MAX
    kind = pa.LargeListArray if large else pa.ListArray
    bounds = from_numpy(offsets if large else offsets.astype(np.int32))
    mask = None if has.all() else from_numpy(~has)
    return kind.from_arrays(bounds, leaf, mask=mask)


def fill(array: pa.Array, default: pa.Array) -> pa.Array:
    """The array with its nulls replaced by the one value of `default`, of the same type."""
    if not array.null_count:
        return array
    places = np.where(valid(array), np.arange(len(array)), len(array))
    if _longest(array, default) * len(array) > _INT32_MAX:
        array = _widened(array)
    return pa.concat_arrays([array, pc.cast(default, array.type)]).take(from_numpy(places))


def spread(values: pa.Array, places: pa.Array) -> pa.Array:
    """The values at `places` (integers, null for null), many times over where asked.

    Text and bytes get wide offsets where 2 GiB of them could come together.
    """
    if _longest(values) * len(places) > _INT32_MAX:
        values = _widened(values)
    return values.take(places)


def _longest(*arrays: pa.Array) -> int:
    """The most bytes of one value of text or bytes; 0 for other types."""
    sized = [a for a in arrays if is_text(a.type) or is_binary(a.type)]
    return max((pc.max(pc.binary_length(a)).as_py() or 0 for a in sized), default=0)


def _widened(array: pa.Array) -> pa.Array:
    return pc.cast(array, pa.large_string() if is_text(array.type) else pa.large_binary())
