"""The kernel in plain Python: the specification, and what runs where nothing could be compiled.

A record is a serialized `tf.train.Example`, framed as TensorFlow's `record_writer` does:

    uint64 length (little endian)
    uint32 masked crc32c of those eight bytes
    byte   data[length]
    uint32 masked crc32c of the data

An Example holds its features in a protobuf map, which a serializer may put in any order. Here
they are sorted by the UTF-8 bytes of their keys: every feature is serialized as a `Features`
message of its own, and the messages are concatenated, which protobuf reads as one.
"""

from __future__ import annotations

import errno
import functools
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import crc32c as package
import numpy as np
import pyarrow as pa

from tfrec_cli._kernel import _csv_reference, _decode_reference, _examples_reference
from tfrec_cli._kernel.model import (
    OTHER_SIZE,
    CsvDialect,
    CsvRows,
    Decoded,
    Encoded,
    ExampleSurvey,
    FeatureColumn,
    RecordSizeError,
    Scan,
    Wanted,
)
from tfrec_cli.buffers import from_numpy
from tfrec_cli.kinds import is_viewless_list

_BATCH_ROWS = 1024
_MASK_DELTA = 0xA282EAD8
_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_MAX_LENGTH = 2**63 - 1


def crc32c(data: Any, value: int) -> int:
    """The crc32c (Castagnoli) of bytes-like `data` behind what has the crc32c `value`."""
    return int(package.crc32c(data, value))


def read_files(
    paths: tuple[bytes, ...], sizes: np.ndarray, whole: bool, data: Any, facts: np.ndarray
) -> None:
    """Read the first `sizes` bytes of each file into `data`, one after the other, and fill `facts`
    (FILE_FACTS); with `whole`, a file of another size is not read.
    """
    view, start = memoryview(data), 0
    for number, (path, size) in enumerate(zip(paths, sizes.tolist(), strict=True)):
        facts[number] = _read_file(path, view[start : start + size], whole)
        start += size


def _read_file(path: bytes, into: memoryview, whole: bool) -> tuple[int, int, int, int]:
    size = mtime_ns = 0
    try:
        # A named pipe would wait for a writer; regular files do not mind the flag.
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            size, mtime_ns = status.st_size, status.st_mtime_ns
            if size < len(into) or (whole and size != len(into)):
                return size, mtime_ns, 0, OTHER_SIZE
            done = 0
            while done < len(into) and (got := file.readinto(into[done:])):
                done += got
    except OSError as error:
        return size, mtime_ns, 0, error.errno or errno.EIO
    return size, mtime_ns, crc32c(into[:done], 0), 0 if done == len(into) else OTHER_SIZE


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def text_facts(_cells: pa.Array) -> np.ndarray | None:
    """None: there is no shortcut here."""
    return None


def text_to_int64(_cells: pa.Array) -> pa.Array | None:
    """None: there is no shortcut here."""
    return None


def text_to_float64(_cells: pa.Array) -> pa.Array | None:
    """None: there is no shortcut here."""
    return None


def masked_crc32c(data: Any) -> int:
    """The crc32c (Castagnoli) of bytes-like `data`, rotated and shifted as TFRecord wants it."""
    crc = crc32c(data, 0)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def encode(columns: Sequence[FeatureColumn], rows: range | np.ndarray, limit: int) -> Encoded:
    """The records of `rows`, framed, in that order.

    columns: checked and sorted by key. rows: int64 row numbers, all within the columns. limit:
    the longest record allowed, in bytes without framing; a longer one raises RecordSizeError.
    """
    parts: list[bytes] = []
    ends = np.zeros(len(rows), np.int64)
    end = 0
    for number, record in enumerate(_records(columns, rows)):
        if len(record) > limit:
            raise RecordSizeError(number, len(record), limit)
        parts += (_header(len(record)), record, _CHECKSUM.pack(masked_crc32c(record)))
        end += len(record) + _HEADER.size + _CHECKSUM.size
        ends[number] = end
    return Encoded(b"".join(parts), ends)


def scan(buffer: Any) -> Scan:
    """The intact records at the start of bytes-like `buffer`, and what is wrong after them."""
    view = memoryview(buffer).cast("B")
    ends: list[int] = []
    position = 0
    while position < len(view):
        position, damage = _check_record(view, position)
        if damage:
            return Scan(np.array(ends, np.int64), damage)
        ends.append(position)
    return Scan(np.array(ends, np.int64))


def survey_examples(buffer: Any, ends: np.ndarray) -> ExampleSurvey:
    """The features of framed records: see `_examples_reference`."""
    return _examples_reference.survey_examples(buffer, ends)


def find_feature(buffer: Any, ends: np.ndarray, key: bytes) -> np.ndarray:
    """Where one feature is in framed records: see `_examples_reference`."""
    return _examples_reference.find_feature(buffer, ends, key)


def decode_examples(buffer: Any, ends: np.ndarray, wanted: Sequence[Wanted]) -> Decoded:
    """The values of features in framed records: see `_decode_reference`."""
    return _decode_reference.decode_examples(buffer, ends, wanted)


def split_csv(buffer: Any, dialect: CsvDialect, final: bool) -> CsvRows:
    """The rows of bytes-like `buffer`: see `_csv_reference`."""
    data = buffer if isinstance(buffer, bytes) else bytes(buffer)
    return _csv_reference.split_csv(data, dialect, final)


def _check_record(view: memoryview, start: int) -> tuple[int, str]:
    """The end of the record that begins at `start`, and its damage or an empty string."""
    body = start + _HEADER.size
    if body > len(view):
        return start, "truncated"
    length, length_crc = _HEADER.unpack_from(view, start)
    if masked_crc32c(view[start : start + 8]) != length_crc:
        return start, "length checksum"
    if length > _MAX_LENGTH:
        return start, "length"
    end = body + length
    if end + _CHECKSUM.size > len(view):
        return start, "truncated"
    if masked_crc32c(view[body:end]) != _CHECKSUM.unpack_from(view, end)[0]:
        return start, "data checksum"
    return end + _CHECKSUM.size, ""


def _header(length: int) -> bytes:
    packed = length.to_bytes(8, "little")
    return packed + _CHECKSUM.pack(masked_crc32c(packed))


def _records(columns: Sequence[FeatureColumn], rows: range | np.ndarray) -> Iterator[bytes]:
    """One serialized Example for each of `rows`; a batch at a time, to bound memory."""
    for first in range(0, len(rows), _BATCH_ROWS):
        batch = rows[first : first + _BATCH_ROWS]
        pieces: list[list[bytes]] = [[] for _ in batch]
        for column in columns:
            _append_feature(pieces, column, batch)
        for features in pieces:
            yield _messages()["Example"](features=b"".join(features)).SerializeToString()


def _append_feature(
    pieces: list[list[bytes]], column: FeatureColumn, rows: range | np.ndarray
) -> None:
    """Append to each record's pieces the column's feature, where it has one."""
    new = _messages()["Features"]
    kind, values = _values(column.array, rows)
    listed = is_viewless_list(column.array.type)
    for piece, value in zip(pieces, values, strict=True):
        if value is None:
            continue
        features = new()
        items = getattr(features.feature[column.key], kind)
        items.SetInParent()
        items.value.extend(value if listed else (value,))
        piece.append(features.SerializeToString())


def _values(array: pa.Array, rows: range | np.ndarray) -> tuple[str, list[Any]]:
    """The kind of list `array` becomes, and its values at `rows` as Python objects."""
    item = array.type.value_type if is_viewless_list(array.type) else array.type
    if pa.types.is_int64(item):
        kind, plain = "int64_list", pa.int64()
    elif pa.types.is_float32(item):
        kind, plain = "float_list", pa.float32()
    else:
        # Large offsets: a selection may be bigger than what it is selected from.
        kind, plain = "bytes_list", pa.large_binary()
    array = array.cast(pa.large_list(plain) if is_viewless_list(array.type) else plain)
    chosen = array.take(from_numpy(np.asarray(rows, np.int64)))
    return kind, _float_bits(chosen) if kind == "float_list" else chosen.to_pylist()


def _float_bits(array: pa.Array) -> list[Any]:
    """The bit patterns of float32 values: a Python float would alter signalling NaNs."""
    if not is_viewless_list(array.type):
        return list(array.view(pa.uint32()).to_pylist())
    bits = array.values.view(pa.uint32())
    return list(
        pa.LargeListArray.from_arrays(array.offsets, bits, mask=array.is_null()).to_pylist()
    )


@functools.cache
def _messages() -> dict[str, Any]:
    """The message classes, by name, from a pool of their own.

    They follow TensorFlow's `example.proto` and `feature.proto`, and are built at run time: so
    no generated file ties the protobuf version, and none meets TensorFlow's own registration.
    Two fields have another type with the same bytes on the wire: `Example.features` holds the
    serialized message, and `FloatList.value` the bits of its numbers.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name="tfrec_example.proto", package="tfrec", syntax="proto2"
    )
    _add_field(file.message_type.add(name="BytesList"), "value", 1, "BYTES", repeated=True)
    _add_field(file.message_type.add(name="FloatList"), "value", 1, "FIXED32", repeated=True)
    _add_field(file.message_type.add(name="Int64List"), "value", 1, "INT64", repeated=True)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("bytes_list", "float_list", "int64_list"), start=1):
        kind = "".join(word.capitalize() for word in name.split("_"))
        _add_field(feature, name, number, kind).oneof_index = 0
    features = file.message_type.add(name="Features")
    _add_field(features, "feature", 1, "Features.FeatureEntry", repeated=True)
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    _add_field(entry, "key", 1, "STRING")
    _add_field(entry, "value", 2, "Feature")
    _add_field(file.message_type.add(name="Example"), "features", 1, "BYTES")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tfrec.{name}"))
        for name in ("Example", "Features")
    }


def _add_field(message: Any, name: str, number: int, kind: str, repeated: bool = False) -> Any:
    """Add a field to the descriptor `message`; `kind` is a scalar type or a message's name."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    if kind.isupper():
        field.type = Field.Type.Value(f"TYPE_{kind}")
    else:
        field.type, field.type_name = Field.TYPE_MESSAGE, f".tfrec.{kind}"
    if repeated and kind in ("FIXED32", "INT64"):
        field.options.packed = True
    return field
