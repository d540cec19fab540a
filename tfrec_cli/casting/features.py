"""From a batch of the source to the columns of its features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli._kernel.model import FeatureColumn
from tfrec_cli.buffers import from_numpy, nulled, to_numpy
from tfrec_cli.casting.arrays import Mask, Nested, fill, follow, unnest, valid
from tfrec_cli.casting.labels import look_up
from tfrec_cli.casting.lists import Built, build, constant, missing
from tfrec_cli.casting.literals import leaf_of
from tfrec_cli.casting.values import FEATURE_TYPES, SKIP, Values, convert
from tfrec_cli.errors import Fault
from tfrec_cli.kinds import is_list, is_text
from tfrec_cli.schema.binding import BoundFeature
from tfrec_cli.schema.grammar import TextRules
from tfrec_cli.schema.separators import split_cells
from tfrec_cli.stages import timed

_NOWHERE: npt.NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Cast:
    """A batch as features. Rows at fault stay in place, with any values.

    columns: in the order of the features; a nested ragged list adds its row lengths. faults: at
    most one a row, that of the first feature at fault, in row order.
    """

    columns: tuple[FeatureColumn, ...]
    faults: tuple[Fault, ...]


@timed("cast", lambda found: sum(column.array.nbytes for column in found.columns))
def cast(batch: pa.RecordBatch, features: Sequence[BoundFeature]) -> Cast:
    """Make the columns of `features` from a batch that holds all columns they name."""
    columns: list[FeatureColumn] = []
    faults: dict[int, Fault] = {}
    for feature in features:
        built = _feature(batch, feature)
        columns += built.columns
        for fault in built.faults:
            faults.setdefault(fault.row, fault)
    return Cast(tuple(columns), tuple(faults[row] for row in sorted(faults)))


def _feature(batch: pa.RecordBatch, feature: BoundFeature) -> Built:
    if not feature.columns:
        return Built(constant(feature, batch.num_rows))
    if len(feature.columns) > 1:
        return _vector(batch, feature)
    name = feature.columns[0]
    array = follow(_column(batch, name), feature.path)
    if feature.separator is not None and is_text(array.type):
        # Null words in place of numbers are missing.
        numbers = feature.type != "bytes" and feature.labels is None
        array = split_cells(array, feature.separator, feature.text or TextRules(), numbers)
    listed = is_list(array.type) or feature.shape is not None or feature.ragged
    return _list(array, feature) if listed else _scalar(array, feature)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_all_field_indices(name)[0])


def _values(array: pa.Array, feature: BoundFeature, column: str) -> Values:
    return (convert if feature.labels is None else look_up)(array, feature, column)


def _scalar(array: pa.Array, feature: BoundFeature) -> Built:
    values = _values(array, feature, _shown(feature))
    result = values.array
    if feature.missing.action == "default":
        result = fill(result, leaf_of(feature, feature.missing.default))
    if len(values.left_out):
        result = nulled(result, _mask(values.left_out, len(result)))
    faults = values.faults + _absent(result, feature, values.left_out)
    return Built((FeatureColumn(feature.key, result),), faults)


def _mask(positions: npt.NDArray[np.int64], length: int) -> Mask:
    mask = np.zeros(length, bool)
    mask[positions] = True
    return mask


def _shown(feature: BoundFeature) -> str:
    """The column as messages name it, with the path into a struct."""
    return "/".join((feature.columns[0], *feature.path))


def _absent(
    result: pa.Array, feature: BoundFeature, left_out: npt.NDArray[np.int64] = _NOWHERE
) -> tuple[Fault, ...]:
    """Faults for rows without a value; those at fault for other reasons are named before."""
    if feature.missing.action != "error" or not result.null_count:
        return ()
    key, places = feature.key, np.setdiff1d(np.flatnonzero(~valid(result)), left_out)
    hint = f"Set `missing: omit` or `missing: {{default: …}}` for {key} in the schema, {SKIP}"
    return tuple(Fault(row, _shown(feature), None, "has no value", hint) for row in places.tolist())


def _list(array: pa.Array, feature: BoundFeature) -> Built:
    name, nested = _shown(feature), unnest(array, feature.null_item.action == "omit")
    values = _values(nested.leaf, feature, name)
    faults = _at_rows(values.faults, nested)
    if is_list(array.type):
        nested = replace(nested, leaf=values.array)
        if len(values.left_out):
            nested = nested.keep(~_mask(values.left_out, len(nested.leaf)))
    else:
        nested = _again(nested, values.array)
    built = build(nested, feature, lambda _: name)
    columns = missing(built.columns, feature)
    return Built(columns, faults + built.faults + _absent(columns[0].array, feature))


def _again(nested: Nested, leaf: pa.Array) -> Nested:
    """Scalars as lists of one, when conversion found some of them to be missing."""
    has = nested.valid.copy()
    has[has] = valid(leaf)
    bounds = np.concatenate([[0], np.cumsum(has)])
    return replace(nested, valid=has, offsets=(bounds,), leaf=leaf.drop_null())


def _at_rows(faults: tuple[Fault, ...], nested: Nested) -> tuple[Fault, ...]:
    if not faults:
        return ()
    rows = nested.rows_of(np.array([fault.row for fault in faults])).tolist()
    return tuple(replace(fault, row=row) for fault, row in zip(faults, rows, strict=True))


def _vector(batch: pa.RecordBatch, feature: BoundFeature) -> Built:
    """Many columns as one list a row. A row without any value has none; a single gap is a null
    item.
    """
    parts: list[pa.Array] = []
    faults: list[Fault] = []
    for name in feature.columns:
        array = follow(_column(batch, name), feature.path)
        values = _one_of(array, feature, name)
        parts.append(values.array)
        faults += values.faults
    nested = _side_by_side(parts, batch.num_rows, feature)
    built = build(nested, feature, _column_at(feature))
    columns = missing(built.columns, feature)
    found = (*faults, *built.faults)
    named = replace(feature, columns=(f"{feature.columns[0]} … {feature.columns[-1]}",))
    return Built(columns, found + _absent(columns[0].array, named))


def _column_at(feature: BoundFeature) -> Callable[[int], str | None]:
    width, many = len(feature.columns), f"{feature.columns[0]} … {feature.columns[-1]}"
    return lambda position: many if position < 0 else feature.columns[position % width]


def _one_of(array: pa.Array, feature: BoundFeature, name: str) -> Values:
    if not is_list(array.type):
        return _values(array, feature, name)
    reason = f"is a list; {feature.key} takes single values from its columns"
    hint = "Give each list a feature of its own."
    places = np.flatnonzero(valid(array)).tolist()
    nulls = pa.nulls(len(array), FEATURE_TYPES[feature.type])
    return Values(nulls, tuple(Fault(row, name, None, reason, hint) for row in places))


def _side_by_side(parts: list[pa.Array], rows: int, feature: BoundFeature) -> Nested:
    width = len(parts)
    gaps = np.zeros((rows, width), bool)
    for place, part in enumerate(parts):
        if part.null_count:
            gaps[:, place] = ~valid(part)
    has: Mask = np.asarray(~gaps.all(axis=1))
    offsets = np.concatenate([[0], np.cumsum(np.where(has, width, 0))])
    leaf = _interleaved(parts, gaps, feature)
    if not has.all():
        leaf = leaf.filter(from_numpy(np.repeat(has, width)))
    return Nested(has, (offsets,), leaf, np.empty(0, np.int64))


def _interleaved(parts: list[pa.Array], gaps: Mask, feature: BoundFeature) -> pa.Array:
    rows, width = gaps.shape
    if feature.type == "bytes":
        # Wide offsets, so that many columns together cannot overflow them.
        joined = pa.concat_arrays([pc.cast(part, pa.large_binary()) for part in parts])
        order = np.arange(rows * width).reshape(width, rows).T.ravel()
        return joined.take(from_numpy(order))
    dtype = np.int64 if feature.type == "int64" else np.float32
    table = np.empty((rows, width), dtype)
    for place, part in enumerate(parts):
        table[:, place] = to_numpy(part)
    return from_numpy(table.ravel(), gaps.ravel() if gaps.any() else None)
