"""List features: nulls inside, shapes, ragged lists with their row lengths."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli._kernel.model import FeatureColumn
from tfrec_cli.buffers import from_numpy
from tfrec_cli.casting.arrays import Mask, Nested, Offsets, composed, fill, listed, valid
from tfrec_cli.casting.literals import leaf_of, nested_of
from tfrec_cli.casting.values import SKIP
from tfrec_cli.errors import Fault
from tfrec_cli.schema.binding import BoundFeature
from tfrec_cli.wrappings import spread


@dataclass(frozen=True, slots=True)
class Built:
    """A feature's columns (a nested ragged list has several) and the faults of its rows, of which
    one row may have several.
    """

    columns: tuple[FeatureColumn, ...]
    faults: tuple[Fault, ...] = ()


def build(nested: Nested, feature: BoundFeature, column_at: Callable[[int], str | None]) -> Built:
    """The columns of a list feature.

    nested: the lists, their leaf already of the feature's type. column_at: the source column of a
    position in that leaf (-1: of the lists as such).
    """
    faults = _null_items(nested, feature, column_at)
    nested = _without_nulls(nested, feature)
    if feature.shape is not None:
        faults += _wrong_shapes(nested, feature, column_at(-1))
    elif not feature.ragged:
        filled = np.diff(nested.bounds) > 0
        nested = replace(nested, valid=nested.valid & filled)
    return Built(_columns(nested, feature), tuple(faults))


def missing(columns: tuple[FeatureColumn, ...], feature: BoundFeature) -> tuple[FeatureColumn, ...]:
    """The columns of a list feature with the default of `feature.missing` where rows are null."""
    if feature.missing.action != "default":
        return columns
    defaults = _columns(nested_of(feature, feature.missing.default), feature)
    pairs = zip(columns, defaults, strict=True)
    return tuple(FeatureColumn(c.key, fill(c.array, d.array)) for c, d in pairs)


def constant(feature: BoundFeature, rows: int) -> tuple[FeatureColumn, ...]:
    """The columns of a feature that is the same in all rows."""
    if feature.shape is None and not feature.ragged and not isinstance(feature.constant, list):
        one: tuple[FeatureColumn, ...] = (
            FeatureColumn(feature.key, leaf_of(feature, feature.constant)),
        )
    else:
        one = _columns(nested_of(feature, feature.constant), feature)
    places = from_numpy(np.zeros(rows, np.int64))
    return tuple(FeatureColumn(c.key, spread(c.array, places)) for c in one)


def _null_items(
    nested: Nested, feature: BoundFeature, column_at: Callable[[int], str | None]
) -> list[Fault]:
    if feature.null_item.action == "omit":
        return []
    hint = f"Set `null_item` for {feature.key} in the schema, {SKIP}"
    reason = "holds a null among its items"
    faults = [Fault(int(row), column_at(-1), None, reason, hint) for row in nested.holes]
    if feature.null_item.action == "error" and nested.leaf.null_count:
        places = np.flatnonzero(~valid(nested.leaf))
        rows = nested.rows_of(places)
        rows, first = np.unique(rows, return_index=True)
        named = zip(rows.tolist(), places[first].tolist(), strict=True)
        faults += [Fault(row, column_at(at), None, reason, hint) for row, at in named]
    return faults


def _without_nulls(nested: Nested, feature: BoundFeature) -> Nested:
    if not nested.leaf.null_count:
        return nested
    if feature.null_item.action == "default":
        return replace(nested, leaf=fill(nested.leaf, leaf_of(feature, feature.null_item.default)))
    return nested.keep(valid(nested.leaf))


def _wrong_shapes(nested: Nested, feature: BoundFeature, column: str | None) -> list[Fault]:
    shape = feature.shape or ()
    size, counts = math.prod(shape), np.diff(nested.bounds)
    spelled = f"shape [{', '.join(map(str, shape))}]"
    hint = f"Mend the list, give {feature.key} its shape in the schema or none, {SKIP}"
    faults = [
        Fault(row, column, None, f"has {counts[row]} values, not the {size} of {spelled}", hint)
        for row in np.flatnonzero(nested.valid & (counts != size)).tolist()
    ]
    uneven = _uneven(nested, shape)
    reason = f"holds lists of other lengths than {spelled}"
    return faults + [Fault(row, column, None, reason, hint) for row in uneven.tolist()]


def _uneven(nested: Nested, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Rows whose inner lists do not have the lengths of the shape, level by level."""
    if len(nested.offsets) != len(shape):
        return np.empty(0, np.int64)
    rows = [np.flatnonzero(nested.valid & (np.diff(nested.offsets[0]) != shape[0]))]
    for level in range(1, len(shape)):
        wrong = np.flatnonzero(np.diff(nested.offsets[level]) != shape[level])
        outer = composed(nested.offsets[:level])
        rows.append(np.searchsorted(outer, wrong, side="right") - 1)
    return np.unique(np.concatenate(rows))


def _columns(nested: Nested, feature: BoundFeature) -> tuple[FeatureColumn, ...]:
    values = FeatureColumn(feature.key, listed(nested.bounds, nested.leaf, nested.valid))
    if feature.shape is not None or feature.ragged < 2:
        return (values,)
    levels = _levels(nested.offsets, feature.ragged)
    lengths = []
    for level in range(1, len(levels)):
        name = "row_lengths" if len(levels) == 2 else f"row_lengths_{level - 1}"
        array = _lengths(levels, level, nested.valid)
        lengths.append(FeatureColumn(f"{feature.key}/{name}", array))
    return (values, *lengths)


def _levels(offsets: tuple[Offsets, ...], depth: int) -> tuple[Offsets, ...]:
    """The offsets as `depth` levels: the innermost joined, or each item a list of its own."""
    if len(offsets) > depth:
        return (*offsets[: depth - 1], composed(offsets[depth - 1 :]))
    items = np.arange(offsets[-1][-1] + 1)
    return (*offsets, *[items] * (depth - len(offsets)))


def _lengths(levels: tuple[Offsets, ...], level: int, has: Mask) -> pa.Array:
    """For each row the lengths of its lists at `level`."""
    return listed(composed(levels[:level]), from_numpy(np.diff(levels[level])), has)
