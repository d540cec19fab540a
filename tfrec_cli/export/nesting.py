"""Flat values of a feature as the lists that its column held."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli.buffers import from_numpy, is_valid, to_numpy

Offsets = npt.NDArray[np.int64]


class BrokenRow(Exception):
    """The values of `row` do not make the list that they should."""

    def __init__(self, row: int, text: str) -> None:
        super().__init__(row, text)
        self.row, self.text = row, text


@dataclass(frozen=True, slots=True)
class Level:
    """One level of lists. size: how many items each has, where that is fixed. is_fixed: whether
    the type says so. is_large: whether its offsets have 64 bits.
    """

    size: int | None = None
    is_fixed: bool = False
    is_large: bool = False

    def type_of(self, item: pa.DataType) -> pa.DataType:
        """The type of a list of `item`."""
        if self.is_fixed:
            return pa.list_(item, self.size)
        return pa.large_list(item) if self.is_large else pa.list_(item)


def levels_of(kind: pa.DataType) -> tuple[Level, ...]:
    """The levels of a list type, outermost first; none of any other."""
    found = []
    while (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        fixed = pa.types.is_fixed_size_list(kind)
        size = int(kind.list_size) if fixed else None
        found.append(Level(size, fixed, bool(pa.types.is_large_list(kind))))
        kind = kind.value_type
    return tuple(found)


def leaf_of(kind: pa.DataType) -> pa.DataType:
    """The type of one value in lists of any level; any other type itself."""
    while levels_of(kind):
        kind = kind.value_type
    return kind


def list_type(levels: Sequence[Level], item: pa.DataType) -> pa.DataType:
    """The type of lists of these levels."""
    for level in reversed(levels):
        item = level.type_of(item)
    return item


def row_offsets(array: pa.Array) -> Offsets:
    """Where the values of each row of a list array begin among its flattened values, and the end
    of the last. Null rows have none.
    """
    _, bounds, *_ = array.buffers()
    raw = np.frombuffer(bounds, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    counts = np.diff(raw)
    if array.null_count:
        counts = np.where(is_valid(array), counts, 0)
    return _ends(counts)


def nest(
    leaf: pa.Array, rows: pa.Array, levels: Sequence[Level], lengths: Sequence[pa.Array] = ()
) -> pa.Array:
    """The lists of all rows.

    leaf: all values, row by row. rows: the list array that they were flattened from, which tells
    how many there are in each row, and which are null. lengths: of the inner lists of each level
    but the last, outermost first, as list arrays of int64, where they are not fixed. Raises
    BrokenRow.
    """
    if lengths:
        offsets = _ragged(row_offsets(rows), lengths)
    else:
        offsets = _regular(row_offsets(rows), levels)
    array = leaf
    for level, bounds in zip(reversed(levels[1:]), reversed(offsets[1:]), strict=True):
        array = _listed(array, level, bounds, None)
    nulls = ~is_valid(rows) if rows.null_count else None
    return _listed(array, levels[0], offsets[0], nulls)


def _regular(rows: Offsets, levels: Sequence[Level]) -> list[Offsets]:
    """Offsets of each level, where all inner ones have a size."""
    found, sizes = [], [level.size for level in levels]
    for depth in range(len(levels)):
        inner = math.prod(size or 1 for size in sizes[depth + 1 :])
        if depth == 0:
            broken = np.flatnonzero(np.diff(rows) % inner)
            if len(broken):
                row = int(broken[0])
                text = f"{int(np.diff(rows)[row]):,} values are no lists of {inner:,}"
                raise BrokenRow(row, text)
            found.append(rows // inner)
        else:
            found.append(np.arange(found[-1][-1] + 1, dtype=np.int64) * (sizes[depth] or 1))
    return found


def _ragged(rows: Offsets, lengths: Sequence[pa.Array]) -> list[Offsets]:
    """Offsets of each level from the lengths that stand beside the values."""
    found = [row_offsets(lengths[0])]
    for depth, array in enumerate(lengths):
        counts = to_numpy(array.flatten())
        if (counts < 0).any():
            place = int(np.flatnonzero(counts < 0)[0])
            row = int(np.searchsorted(row_offsets(array), place, side="right")) - 1
            raise BrokenRow(row, "a list length is below 0")
        ends = _ends(counts)
        of_rows = row_offsets(lengths[depth + 1]) if depth + 1 < len(lengths) else rows
        told = ends[row_offsets(array)]
        if len(broken := np.flatnonzero(np.diff(told) != np.diff(of_rows))):
            row = int(broken[0])
            wanted, there = int(np.diff(told)[row]), int(np.diff(of_rows)[row])
            text = f"its list lengths add up to {wanted:,}, but there are {there:,} items"
            raise BrokenRow(row, text)
        found.append(ends)
    return found


def _ends(counts: npt.NDArray[np.int64]) -> Offsets:
    ends = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    return ends


def _listed(
    items: pa.Array, level: Level, bounds: Offsets, nulls: npt.NDArray[np.bool_] | None
) -> pa.Array:
    kind, count = level.type_of(items.type), len(bounds) - 1
    validity = None if nulls is None else from_numpy(~nulls).buffers()[1]
    if not level.is_fixed:
        width = np.int64 if level.is_large else np.int32
        buffers = [validity, pa.py_buffer(bounds.astype(width))]
        return pa.Array.from_buffers(kind, count, buffers, children=[items])
    size = level.size or 0
    wrong = np.diff(bounds) != size
    if nulls is not None:
        wrong &= ~nulls
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise BrokenRow(row, f"{int(np.diff(bounds)[row]):,} items where {size:,} are wanted")
    if nulls is not None:
        # A null row takes the room of its items as well.
        gone = np.repeat(nulls, size)
        places = np.where(gone, 0, np.cumsum(~gone) - 1)
        items = items.take(from_numpy(places.astype(np.int64), gone))
    return pa.Array.from_buffers(kind, count, [validity], children=[items])
