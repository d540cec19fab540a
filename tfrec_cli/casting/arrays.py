"""The shapes of Arrow arrays: wrappings taken off, structs followed, lists laid flat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_numpy, is_valid, items, lengths
from tfrec_cli.kinds import is_list
from tfrec_cli.wrappings import longest, plain, widened

Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_INT32_MAX = 2**31 - 1


def valid(array: pa.Array) -> Mask:
    """Which slots hold a value."""
    return is_valid(array)


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
    bounds = _offsets(lengths(array))
    return Nested(valid(array), (bounds,), plain(items(array)), np.empty(0, np.int64))


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
    if longest(array, default) * len(array) > _INT32_MAX:
        array = widened(array)
    return pa.concat_arrays([array, pc.cast(default, array.type)]).take(from_numpy(places))
