"""Values that a schema spells out: defaults and constants."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from tfrec_cli.buffers import from_values
from tfrec_cli.casting.arrays import Nested, unnest
from tfrec_cli.schema.binding import BoundFeature

_TYPES = {"int64": pa.int64(), "float": pa.float32(), "bytes": pa.binary()}


def leaf_of(feature: BoundFeature, value: Any) -> pa.Array:
    """One value of a feature, as an array of length one. Names of labels become numbers."""
    return from_values([_item(feature, value)], _TYPES[feature.type])


def nested_of(feature: BoundFeature, value: Any) -> Nested:
    """One row of a list feature: nested lists of values as they are, or a single value, which
    fills the shape, or stands alone in a ragged list.
    """
    if feature.shape is not None:
        items = _flat(value)
        value = items * math.prod(feature.shape) if len(items) == 1 else items
    depth = max(feature.ragged, 1)
    for _ in range(depth - _depth(value)):
        value = [value]
    kind = _TYPES[feature.type]
    for _ in range(depth):
        kind = pa.list_(kind)
    return unnest(pa.array([_items(feature, value)], kind))


def _item(feature: BoundFeature, value: Any) -> Any:
    if feature.labels is not None and isinstance(value, str) and feature.type != "bytes":
        value = feature.labels.index(value) + feature.first_label
    if feature.type == "int64":
        return int(value)
    if feature.type == "float":
        return float(value)
    return value if isinstance(value, bytes) else str(value).encode()


def _items(feature: BoundFeature, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_items(feature, item) for item in value]
    return _item(feature, value)


def _flat(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        return [value]
    return [item for part in value for item in _flat(part)]


def _depth(value: Any) -> int:
    if not isinstance(value, (list, tuple)):
        return 0
    return 1 + max(map(_depth, value), default=0)
