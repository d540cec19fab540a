"""Where the bytes of records go, feature by feature, and what would make them fewer.

A record is a `tf.train.Example` in a frame of 16 bytes. In it, each feature that has a value is an
entry: the value itself, the name of the feature, and the tags and lengths of protobuf around both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from glob import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli._kernel import encode
from tfrec_cli._kernel.model import FeatureColumn
from tfrec_cli.estimates.excerpt import Part
from tfrec_cli.kinds import is_viewless_list
from tfrec_cli.sources.imageheader import image_format

FRAME = 16
"""Bytes around each record: length, two checksums."""

VECTOR_COLUMNS = 4
"""Numbered columns of one type from which a vector is worth a word."""

_VARINT_STEPS = np.array([1 << 7 * n for n in range(1, 9)], np.int64)
_NOT_COMPRESSED = ("bmp", "tiff")


@dataclass(frozen=True, slots=True)
class FeatureBytes:
    """The bytes of one feature: of its values, its names, and protobuf's around them."""

    key: str
    values: float
    names: float
    other: float

    @property
    def total(self) -> float:
        """All three."""
        return self.values + self.names + self.other

    def __add__(self, more: FeatureBytes) -> FeatureBytes:
        return FeatureBytes(
            self.key, self.values + more.values, self.names + more.names, self.other + more.other
        )


@dataclass(frozen=True, slots=True)
class Saving:
    """What would make the records smaller: what to do, and the bytes that are saved."""

    kind: str
    text: str
    bytes: float


@dataclass(frozen=True, slots=True)
class Footprint:
    """Where the bytes go. features: in the order of the schema. framing: around the records.
    other: protobuf's bytes around all features of a record. images: values that are encoded images.
    """

    records: float
    features: tuple[FeatureBytes, ...]
    framing: float
    other: float
    images: float

    @property
    def groups(self) -> tuple[FeatureBytes, ...]:
        """The features, those called alike but for a number together, largest first."""
        alike: dict[str, list[FeatureBytes]] = {}
        for feature in self.features:
            stem = feature.key.rstrip("0123456789")
            alike.setdefault(stem if stem != feature.key else f"{stem}\0", []).append(feature)
        found = []
        for members in alike.values():
            enough = len(members) >= VECTOR_COLUMNS
            found += [_group(members)] if enough else members
        return tuple(sorted(found, key=lambda group: -group.total))

    @property
    def values(self) -> float:
        """The bytes of all values."""
        return sum(feature.values for feature in self.features)

    @property
    def names(self) -> float:
        """The bytes of all feature names."""
        return sum(feature.names for feature in self.features)

    @property
    def protobuf(self) -> float:
        """The bytes of tags and lengths, inside the features and around them."""
        return self.other + sum(feature.other for feature in self.features)

    @property
    def total(self) -> float:
        """All bytes, before compression."""
        return self.values + self.names + self.protobuf + self.framing


def footprint(parts: Sequence[Part], scale: float) -> Footprint:
    """Where the bytes of `parts` go, times `scale`."""
    keys = list(dict.fromkeys(column.key for part in parts for column in part.columns))
    columns = {key: [c.array for p in parts for c in p.columns if c.key == key] for key in keys}
    features = tuple(_feature(key, columns[key], scale) for key in keys)
    records = sum(_records(part) for part in parts)
    total = sum(len(part.data) for part in parts)
    framing = FRAME * records
    other = total * scale - framing * scale - sum(feature.total for feature in features)
    images = scale * sum(_image_bytes(array) for arrays in columns.values() for array in arrays)
    return Footprint(records * scale, features, framing * scale, other, images)


def savings(parts: Sequence[Part], scale: float) -> list[Saving]:
    """What shorter names and vectors would save of `parts`, times `scale`, largest first."""
    found = [_shorter_names(parts, scale)]
    found += [_as_vector(parts, scale, keys) for keys in _numbered(parts)]
    return sorted((s for s in found if s.bytes >= 1), key=lambda s: -s.bytes)


def _group(members: Sequence[FeatureBytes]) -> FeatureBytes:
    """Numbered features as one, `first … last (count)`."""
    ordered = sorted(members, key=lambda feature: _number(feature.key))
    key = f"{ordered[0].key} … {ordered[-1].key} ({len(ordered)})"
    return sum(ordered, FeatureBytes(key, 0, 0, 0))


def _feature(key: str, arrays: Sequence[pa.Array], scale: float) -> FeatureBytes:
    present = sum(len(array) - array.null_count for array in arrays)
    values = sum(_value_bytes(array) for array in arrays)
    names = present * len(key.encode())
    other = sum(_entry_bytes(FeatureColumn(key, array)) for array in arrays) - values - names
    return FeatureBytes(key, values * scale, names * scale, other * scale)


def _records(part: Part) -> int:
    return len(part.columns[0].array) if part.columns else 0


def _entry_bytes(column: FeatureColumn) -> int:
    """The bytes of a feature's entries: a record of it alone, less the frame and the Example."""
    array = column.array.drop_null()
    if not len(array):
        return 0
    sizes = np.diff(encode([FeatureColumn(column.key, array)]).ends, prepend=0) - FRAME
    # A record is a tag, the length of what follows as a varint, and what follows.
    lengths = np.ones(len(sizes), np.int64)
    for more, step in enumerate(_VARINT_STEPS.tolist(), start=1):
        lengths += sizes > step + more
    return int((sizes - 1 - lengths).sum())


def _value_bytes(array: pa.Array) -> int:
    values = array.flatten() if is_viewless_list(array.type) else array.drop_null()
    if pa.types.is_float32(values.type):
        return 4 * len(values)
    if pa.types.is_int64(values.type):
        return int(_varint_sizes(values.to_numpy(zero_copy_only=False)).sum())
    return int(pc.sum(pc.binary_length(values)).as_py() or 0)


def _varint_sizes(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Bytes of each number as protobuf writes it: seven bits a byte, ten where it is negative."""
    sizes = np.searchsorted(_VARINT_STEPS, values, side="right") + 1
    return np.where(values < 0, 10, sizes)


def _image_bytes(array: pa.Array) -> int:
    """The bytes of the values that start as the image formats do that compress already."""
    if not (pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)):
        return 0
    heads = pc.binary_slice(array, 0, 12)
    images = [bool(head) and _is_image(head) for head in heads.to_pylist()]
    return int(pc.sum(pc.binary_length(array.filter(pa.array(images)))).as_py() or 0)


def _is_image(head: bytes) -> bool:
    return image_format(head) not in (None, *_NOT_COMPRESSED)


def _encoded_size(columns: Sequence[FeatureColumn]) -> int:
    ends = encode(columns).ends
    return int(ends[-1]) if len(ends) else 0


def _shorter_names(parts: Sequence[Part], scale: float) -> Saving:
    """Names of one or two letters for all features."""
    saved = 0
    for part in parts:
        short = [FeatureColumn(_short(i), c.array) for i, c in enumerate(part.columns)]
        saved += len(part.data) - _encoded_size(short)
    count = len(parts[0].columns) if parts else 0
    letters = "one letter" if count <= 26 else "one or two letters"
    return Saving("names", f"feature names of {letters}", saved * scale)


def _short(number: int) -> str:
    """`a` to `z`, then `aa` and on."""
    letter = chr(ord("a") + number % 26)
    return letter if number < 26 else _short(number // 26 - 1) + letter


def _numbered(parts: Sequence[Part]) -> Iterable[tuple[str, ...]]:
    """Features of numbers that are called alike but for a number, and never missing."""
    groups: dict[tuple[str, str], list[str]] = {}
    for column in parts[0].columns if parts else ():
        match = re.fullmatch(r"(.*?)[0-9]+", column.key, re.DOTALL)
        kind = column.array.type
        if match and (pa.types.is_int64(kind) or pa.types.is_float32(kind)):
            groups.setdefault((match[1], str(kind)), []).append(column.key)
    gaps = {c.key for part in parts for c in part.columns if c.array.null_count}
    for keys in groups.values():
        whole = tuple(sorted((key for key in keys if key not in gaps), key=_number))
        if len(whole) >= VECTOR_COLUMNS:
            yield whole


def _number(key: str) -> int:
    """The number that `key` ends with."""
    return int(key[len(key.rstrip("0123456789")) :])


def _as_vector(parts: Sequence[Part], scale: float, keys: tuple[str, ...]) -> Saving:
    saved, merged = 0, frozenset(keys)
    prefix = keys[0].rstrip("0123456789")
    name = prefix.rstrip("_-./ ") or "x"
    for part in parts:
        rest = [c for c in part.columns if c.key not in merged and c.key != name]
        chosen = [c.array for c in part.columns if c.key in merged]
        saved += _encoded_size([*rest, *(c for c in part.columns if c.key in merged)])
        saved -= _encoded_size([*rest, FeatureColumn(name, _together(chosen))])
    kind = "float" if pa.types.is_float32(chosen[0].type) else "int64"
    form = f'{name}: {{columns: "{escape(prefix)}[0-9]*", type: {kind}}}'
    text = f"{keys[0]} … {keys[-1]} ({len(keys)} features) as one vector, {form},"
    return Saving("vector", text, saved * scale)


def _together(arrays: Sequence[pa.Array]) -> Any:
    """The arrays' values as one list a row."""
    flat = np.stack([array.to_numpy(zero_copy_only=False) for array in arrays], axis=1).ravel()
    return pa.FixedSizeListArray.from_arrays(pa.array(flat, arrays[0].type), len(arrays))
