"""One Arrow type for a column that several files or tables spell differently.

    null with anything              the other one
    integers                        the widest that holds both; with uint64, int64 if one is signed
    integer or bool with float      float64
    floats, decimals, times         the wider, larger or finer one (times both with or both
                                    without a zone)
    text, binary                    the widest form; text with binary is binary
    lists, structs, maps            as their values; a struct has the children of both
    anything else                   none: the files do not belong together

Dictionaries and run-end encoded arrays count as their values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.kinds import is_packed, is_viewless_list
from tfrec_cli.sources.base import Fault
from tfrec_cli.wrappings import values_and_places

_UNITS = ("s", "ms", "us", "ns")


@dataclass(frozen=True, slots=True)
class Conformed:
    """An array of the type that was asked, and the positions of the values it cannot hold."""

    array: pa.Array
    misfits: tuple[int, ...] = ()


def value_type(kind: pa.DataType) -> pa.DataType:
    """`kind` with every dictionary in it, at any depth, replaced by the type of its values, and
    run-end encoding taken off.
    """
    if is_packed(kind):
        return value_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(value_type(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(value_type(kind.key_type), value_type(kind.item_type))
    if is_viewless_list(kind):
        return _list_like(kind, kind.value_field.with_type(value_type(kind.value_type)))
    return kind


def common_type(one: pa.DataType, two: pa.DataType) -> pa.DataType | None:
    """The type that holds the values of both, by the table above, or None."""
    one, two = value_type(one), value_type(two)
    if one.equals(two) or pa.types.is_null(two):
        return one
    if pa.types.is_null(one):
        return two
    for belongs, merge in _FAMILIES:
        if belongs(one) and belongs(two):
            return merge(one, two)
    return None


def _is_integer(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(_is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_text(kind: pa.DataType) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(check(kind) for check in checks)


def _is_bytes(kind: pa.DataType) -> bool:
    checks = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    )
    return _is_text(kind) or any(check(kind) for check in checks)


def _list_like(kind: pa.DataType, field: pa.Field) -> pa.DataType:
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(field, kind.list_size)
    return pa.large_list(field) if pa.types.is_large_list(kind) else pa.list_(field)


def _numbers(one: pa.DataType, two: pa.DataType) -> pa.DataType | None:
    if _is_integer(one) and _is_integer(two):
        return _integers(one, two)
    if pa.types.is_decimal(one) and pa.types.is_decimal(two):
        return _decimals((one.precision, one.scale), (two.precision, two.scale))
    if pa.types.is_floating(one) and pa.types.is_floating(two):
        return one if one.bit_width > two.bit_width else two
    if pa.types.is_floating(one) or pa.types.is_floating(two):
        return pa.float64()
    decimal, integer = (one, two) if pa.types.is_decimal(one) else (two, one)
    digits = 1 if pa.types.is_boolean(integer) else len(str(2**integer.bit_width))
    return _decimals((decimal.precision, decimal.scale), (digits, 0))


def _integers(one: pa.DataType, two: pa.DataType) -> pa.DataType:
    if pa.types.is_boolean(one) or pa.types.is_boolean(two):
        return two if pa.types.is_boolean(one) else one
    unsigned = [pa.types.is_unsigned_integer(kind) for kind in (one, two)]
    if unsigned[0] == unsigned[1]:
        return one if one.bit_width > two.bit_width else two
    widths = [k.bit_width * (2 if u else 1) for k, u in zip((one, two), unsigned, strict=True)]
    return {8: pa.int8(), 16: pa.int16(), 32: pa.int32()}.get(max(widths), pa.int64())


def _decimals(one: tuple[int, int], two: tuple[int, int]) -> pa.DataType | None:
    scale = max(one[1], two[1])
    precision = max(one[0] - one[1], two[0] - two[1]) + scale
    if precision > 76:
        return None
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def _bytes(one: pa.DataType, two: pa.DataType) -> pa.DataType:
    large = any(pa.types.is_large_string(k) or pa.types.is_large_binary(k) for k in (one, two))
    if _is_text(one) and _is_text(two):
        return pa.large_string() if large else pa.string()
    return pa.large_binary() if large else pa.binary()


def _timestamps(one: pa.DataType, two: pa.DataType) -> pa.DataType | None:
    if (one.tz is None) != (two.tz is None):
        return None
    return pa.timestamp(_finest(one, two), one.tz)


def _finest(one: pa.DataType, two: pa.DataType) -> str:
    return max(str(one.unit), str(two.unit), key=_UNITS.index)


def _times(one: pa.DataType, two: pa.DataType) -> pa.DataType:
    unit = _finest(one, two)
    return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)


def _durations(one: pa.DataType, two: pa.DataType) -> pa.DataType:
    return pa.duration(_finest(one, two))


def _dates(_one: pa.DataType, _two: pa.DataType) -> pa.DataType:
    return pa.date64()


def _lists(one: pa.DataType, two: pa.DataType) -> pa.DataType | None:
    child = common_type(one.value_type, two.value_type)
    if child is None or not _castable(one.value_type, two.value_type):
        return None
    field = one.value_field.with_type(child).with_nullable(True)
    same_size = pa.types.is_fixed_size_list(one) and pa.types.is_fixed_size_list(two)
    if same_size and one.list_size == two.list_size:
        return pa.list_(field, one.list_size)
    large = pa.types.is_large_list(one) or pa.types.is_large_list(two)
    return pa.large_list(field) if large else pa.list_(field)


def _castable(one: pa.DataType, two: pa.DataType) -> bool:
    """Whether structs inside lists have the same children, which a cast does not sort out."""
    if pa.types.is_struct(one) and pa.types.is_struct(two):
        return [f.name for f in one] == [f.name for f in two]
    if is_viewless_list(one) and is_viewless_list(two):
        return _castable(one.value_type, two.value_type)
    return True


def _structs(one: pa.DataType, two: pa.DataType) -> pa.DataType | None:
    children: dict[str, pa.DataType] = {field.name: field.type for field in one}
    for field in two:
        merged = common_type(children.get(field.name, field.type), field.type)
        if merged is None:
            return None
        children[field.name] = merged
    return pa.struct(list(children.items()))


def _maps(one: pa.DataType, two: pa.DataType) -> pa.DataType | None:
    key = common_type(one.key_type, two.key_type)
    item = common_type(one.item_type, two.item_type)
    return None if key is None or item is None else pa.map_(key, item)


_FAMILIES: tuple[tuple[Callable[[Any], bool], Callable[[Any, Any], Any]], ...] = (
    (_is_number, _numbers),
    (_is_bytes, _bytes),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_date, _dates),
    (pa.types.is_time, _times),
    (pa.types.is_duration, _durations),
    (is_viewless_list, _lists),
    (pa.types.is_struct, _structs),
    (pa.types.is_map, _maps),
)


def conform(array: pa.Array, kind: pa.DataType) -> Conformed:
    """`array` as `kind`, which is `common_type` of its type and others.

    Integers become floats with rounding. A value that does not fit otherwise (an uint64 past
    int64, a time out of the finer unit's range) is null in the result and named in `misfits`.
    Raises ArrowInvalid for text and bytes that are more than one array of `kind` holds: cut them
    by `cut_decoded` first.
    """
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if array.type.equals(kind):
        return Conformed(array)
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        return _conform_struct(array, kind)
    options = pc.CastOptions(kind, allow_float_truncate=True)
    try:
        return Conformed(array.cast(options=options))
    except pa.ArrowInvalid:
        # Every value of text and bytes fits; all of them together may not.
        if _is_bytes(kind):
            raise
        return _conform_each(array, kind)


def _conform_each(array: pa.Array, kind: pa.DataType) -> Conformed:
    """Halve the array until the values that do not fit stand alone."""
    if len(array) == 1:
        return Conformed(pa.nulls(1, kind), (0,))
    middle = len(array) // 2
    halves = conform(array.slice(0, middle), kind), conform(array.slice(middle), kind)
    misfits = halves[0].misfits + tuple(row + middle for row in halves[1].misfits)
    return Conformed(pa.concat_arrays([half.array for half in halves]), misfits)


def _conform_struct(array: pa.StructArray, kind: pa.DataType) -> Conformed:
    parts = []
    for field in kind:
        at = array.type.get_field_index(field.name)
        found = pa.nulls(len(array), field.type) if at < 0 else array.field(at)
        parts.append(conform(found, field.type))
    mask = array.is_null() if array.null_count else None
    built = pa.StructArray.from_arrays([p.array for p in parts], fields=list(kind), mask=mask)
    return Conformed(built, tuple(sorted({row for p in parts for row in p.misfits})))


def misfit_faults(column: str, array: pa.Array, conformed: Conformed) -> tuple[Fault, ...]:
    """A fault for each value of `array` (the column as its file has it) that did not fit."""
    return tuple(
        Fault(
            row,
            column,
            str(array[row]),
            f"is {array.type} and does not fit {conformed.array.type}, the type of this column "
            "over all files",
            "Write the files with one type.",
        )
        for row in conformed.misfits
    )


def null_count(array: pa.Array | pa.ChunkedArray) -> int:
    """The rows without a value, those of a null in a dictionary included."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    return sum(map(_null_count, chunks))


def _null_count(array: pa.Array) -> int:
    if not is_packed(array.type):
        return int(array.null_count)
    # Counted by places: the values spread out could be more than an array holds.
    values, places = values_and_places(array)
    return len(array) - int(pc.sum(pc.is_valid(values).take(places)).as_py() or 0)
