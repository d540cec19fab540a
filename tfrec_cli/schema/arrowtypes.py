"""Arrow types seen from TFRecord: what feature a column can become, and how a schema spells it.

    Arrow type                                   feature by default   on request
    bool, int8…int64, uint8…uint64               int64                float, bytes (its digits)
    float16, float32, float64                    float                int64 (whole numbers only),
                                                                      bytes (shortest digits)
    decimal                                      float                bytes (exact digits), int64
    string                                       bytes                int64, float (by the grammar)
    binary                                       bytes                as of string, in UTF-8
    timestamp, date, time                        int64 (own unit)     bytes with `time: iso8601`
    duration                                     int64 (own unit)     bytes with `time: iso8601`
    struct                                       its children         bytes (as JSON)
    map, lists of structs or maps                an error             bytes (as JSON)
    null                                         left out             any

Dictionaries and run-end encoded arrays count as their values, extension types as their storage.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tfrec_cli.kinds import is_list, is_packed
from tfrec_cli.schema.binding import FeatureType

DEFAULT_TYPES: dict[str, FeatureType] = {
    "integer": "int64",
    "float": "float",
    "decimal": "float",
    "text": "bytes",
    "binary": "bytes",
    "time": "int64",
    "duration": "int64",
}

POSSIBLE_TYPES: dict[str, tuple[FeatureType, ...]] = {
    "integer": ("int64", "float", "bytes"),
    "float": ("float", "int64", "bytes"),
    "decimal": ("float", "bytes", "int64"),
    "text": ("bytes", "int64", "float"),
    "binary": ("bytes", "int64", "float"),
    "time": ("int64", "bytes"),
    "duration": ("int64", "bytes"),
    "struct": ("bytes",),
    "map": ("bytes",),
    "null": ("int64", "float", "bytes"),
}

# The Arrow type that a feature is given back as when the schema says nothing of it.
OBVIOUS_TYPES = {"int64": pa.int64(), "float": pa.float32(), "bytes": pa.string()}


@dataclass(frozen=True, slots=True)
class Anatomy:
    """What an Arrow type is made of.

    leaf: type of one value. sizes: for each list level, outermost first, its fixed length or
    None. shape: the fixed shape where every level has a length, None for scalars and ragged lists.
    """

    leaf: pa.DataType
    sizes: tuple[int | None, ...] = ()
    shape: tuple[int, ...] | None = None

    @property
    def family(self) -> str:
        """The family of `leaf`: see `family`."""
        return family(self.leaf)


def anatomy(kind: pa.DataType) -> Anatomy:
    """Take list levels and wrappings off `kind`."""
    tensor = _tensor_shape(kind)
    sizes: list[int | None] = []
    kind = unwrapped(kind)
    while is_list(kind):
        sizes.append((kind.list_size or None) if pa.types.is_fixed_size_list(kind) else None)
        kind = unwrapped(kind.value_type)
    fixed = tuple(size for size in sizes if size is not None)
    shape = fixed if sizes and len(fixed) == len(sizes) else None
    return Anatomy(kind, tuple(sizes), tensor or shape)


def unwrapped(kind: pa.DataType) -> pa.DataType:
    """`kind` without its dictionary, run-end and extension layers."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif is_packed(kind):
            kind = kind.value_type
        else:
            return kind


def _tensor_shape(kind: pa.DataType) -> tuple[int, ...] | None:
    if isinstance(kind, pa.FixedShapeTensorType) and math.prod(kind.shape) > 0:
        return tuple(kind.shape) or None
    return None


_FAMILIES = {
    "integer": ("is_boolean", "is_integer"),
    "float": ("is_floating",),
    "decimal": ("is_decimal",),
    "text": ("is_string", "is_large_string", "is_string_view"),
    "binary": ("is_binary", "is_large_binary", "is_fixed_size_binary", "is_binary_view"),
    "time": ("is_timestamp", "is_date", "is_time"),
    "duration": ("is_duration",),
    "map": ("is_map",),
    "struct": ("is_struct",),
    "null": ("is_null",),
}


def family(leaf: pa.DataType) -> str:
    """`integer`, `float`, `decimal`, `text`, `binary`, `time`, `duration`, `map`, `struct`, `null`
    or `other`.
    """
    for name, checks in _FAMILIES.items():
        if any(getattr(pa.types, check)(leaf) for check in checks):
            return name
    return "other"


def spell_type(kind: pa.DataType) -> str:
    """The schema's spelling of `kind`, such as `timestamp[us, tz=UTC]` or `list<double>`.

    Lists lose the name of their item, dictionaries the width of their codes.
    """
    kind = _outermost(kind)
    if pa.types.is_dictionary(kind):
        return f"dictionary<{spell_type(kind.value_type)}>"
    if pa.types.is_fixed_size_list(kind):
        return f"fixed_size_list<{spell_type(kind.value_type)}, {kind.list_size}>"
    if is_list(kind):
        large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
        return f"{'large_' if large else ''}list<{spell_type(kind.value_type)}>"
    return str(kind)


def _outermost(kind: pa.DataType) -> pa.DataType:
    while isinstance(kind, pa.BaseExtensionType) or pa.types.is_run_end_encoded(kind):
        is_extension = isinstance(kind, pa.BaseExtensionType)
        kind = kind.storage_type if is_extension else kind.value_type
    return kind


def parse_type(text: str) -> pa.DataType:
    """The Arrow type that `spell_type` wrote as `text`. Raises ValueError for anything else."""
    for pattern, build in _SPELLINGS:
        if match := pattern.fullmatch(text.strip()):
            try:
                return build(*match.groups())
            except (ValueError, pa.ArrowException, AttributeError, RecursionError):
                break
    raise ValueError(f'"{text[:80]}" is not an Arrow type')


def _decimal(bits: str, precision: str, scale: str) -> pa.DataType:
    return getattr(pa, f"decimal{bits}")(int(precision), int(scale))


def _alias(text: str) -> pa.DataType:
    views: dict[str, Any] = {"string_view": pa.string_view, "binary_view": pa.binary_view}
    return views[text]() if text in views else pa.type_for_alias(text)


_SPELLINGS: tuple[tuple[re.Pattern[str], Any], ...] = (
    (re.compile(r"list<(.+)>"), lambda item: pa.list_(parse_type(item))),
    (re.compile(r"large_list<(.+)>"), lambda item: pa.large_list(parse_type(item))),
    (
        re.compile(r"fixed_size_list<(.+), (\d{1,9})>"),
        lambda item, size: pa.list_(parse_type(item), int(size)),
    ),
    (
        re.compile(r"dictionary<(.+)>"),
        lambda values: pa.dictionary(pa.int32(), parse_type(values)),
    ),
    (re.compile(r"timestamp\[(s|ms|us|ns), tz=([^\]]+)\]"), pa.timestamp),
    (re.compile(r"decimal(32|64|128|256)\((\d{1,3}), (-?\d{1,3})\)"), _decimal),
    (re.compile(r"fixed_size_binary\[(\d{1,9})\]"), lambda size: pa.binary(int(size))),
    (re.compile(r"([a-z0-9_]+(?:\[[a-z]+\])?)"), _alias),
)
