"""Arrow values as text: digits, ISO 8601 times, JSON."""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_values, scalar, to_numpy
from tfrec_cli.kinds import is_binary, is_list, is_text

_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def is_time(kind: pa.DataType) -> bool:
    """Whether the type counts units of time: timestamp, date, time or duration."""
    types = pa.types
    return bool(
        types.is_timestamp(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_duration(kind)
    )


def in_own_unit(array: pa.Array) -> pa.Array:
    """Times as int64 in the column's own unit (days for date32, ms for date64), since 1970."""
    if array.type.bit_width == 32:
        return pc.cast(array.view(pa.int32()), pa.int64())
    return array.view(pa.int64())


def per_second(kind: pa.DataType) -> int:
    """How many of the units of a timestamp, time or duration a second has."""
    return _TICKS[str(kind.unit)]


def as_text(array: pa.Array) -> pa.Array:
    """A plain array as string or large_string, nulls kept.

    Numbers as their shortest digits, decimals with all of theirs, times as ISO 8601 (instants
    end in `Z`), binary as UTF-8 with the rest replaced, lists, structs and maps as JSON.
    """
    kind = array.type
    if is_text(kind):
        return array
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if is_binary(kind):
        return _by_value(array, lambda value: value.decode("utf-8", "replace"))
    if pa.types.is_decimal(kind):
        return _decimal_text(array)
    if pa.types.is_timestamp(kind):
        return _timestamp_text(array)
    if pa.types.is_duration(kind):
        ticks = per_second(kind)
        return _by_value(in_own_unit(array), lambda value: _duration_text(value, ticks))
    if is_list(kind) or pa.types.is_nested(kind):
        return _by_value(array, lambda value: _json_text(value, kind))
    try:
        return pc.cast(array, pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return _by_value(array, str)


def _by_value(array: pa.Array, make: Any) -> pa.Array:
    texts = [None if value is None else make(value) for value in array.to_pylist()]
    return from_values(texts, pa.string())


def _decimal_text(array: pa.Array) -> pa.Array:
    texts = pc.cast(array, pa.string())
    # Arrow turns to exponents for some small and large numbers.
    if pc.any(pc.match_substring(texts, "E")).as_py():
        return _by_value(texts, lambda text: format(Decimal(text), "f"))
    return texts


def _timestamp_text(array: pa.Array) -> pa.Array:
    """`2024-03-01T12:00:00.500`, with as many digits of a second as the unit has."""
    naive = pc.cast(array.view(pa.timestamp(array.type.unit)), pa.string())
    texts = pc.replace_substring(naive, " ", "T", max_replacements=1)
    if array.type.tz is None:
        return texts
    return pc.binary_join_element_wise(texts, scalar("Z", pa.string()), "")


def out_of_years(texts: pa.Array) -> npt.NDArray[np.int64]:
    """Positions of timestamps that Arrow could not spell."""
    return np.flatnonzero(to_numpy(pc.starts_with(texts, "<")))


def _duration_text(value: int, ticks: int) -> str:
    seconds, rest = divmod(abs(value), ticks)
    fraction = f".{rest:0{len(str(ticks)) - 1}d}" if ticks > 1 else ""
    return f"{'-' if value < 0 else ''}PT{seconds}{fraction}S"


def _json_text(value: Any, kind: pa.DataType) -> str:
    return json.dumps(_jsonable(value, kind), ensure_ascii=False, allow_nan=False)


def _jsonable(value: Any, kind: pa.DataType) -> Any:
    """What JSON has for a value: maps with text keys are objects, other maps lists of pairs; NaN
    and infinities are null, bytes that are not UTF-8 base64, decimals and times text.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(kind, pa.BaseExtensionType):
        return _jsonable(value, kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _jsonable(value, kind.value_type)
    if pa.types.is_map(kind):
        pairs = [(_jsonable(k, kind.key_type), _jsonable(v, kind.item_type)) for k, v in value]
        return dict(pairs) if all(isinstance(k, str) for k, _ in pairs) else pairs
    if pa.types.is_struct(kind):
        return {field.name: _jsonable(value[field.name], field.type) for field in kind}
    if is_list(kind):
        return [_jsonable(item, kind.value_type) for item in value]
    return _json_leaf(value)


def _json_leaf(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
