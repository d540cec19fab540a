"""The way to the compiled body: Arrow arrays taken apart into buffers, results put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import tfrec_cli._kernel._native as _native
from tfrec_cli._kernel.model import (
    DECODE_FAULTS,
    EXAMPLE_FACTS,
    CsvDialect,
    CsvRows,
    Decoded,
    Encoded,
    ExampleSurvey,
    FeatureColumn,
    Scan,
    Wanted,
)
from tfrec_cli.buffers import from_numpy, is_valid
from tfrec_cli.kinds import is_viewless_list

_MANY_COLUMNS = 16
_SMALL_BYTES = 64
_MEANINGS = 9
_BYTES, _FLOAT, _INT64 = 1, 2, 3
_KINDS = {"bytes": _BYTES, "float": _FLOAT, "int64": _INT64}
_ARROW = {"bytes": pa.binary(), "float": pa.float32(), "int64": pa.int64()}
_SCALAR, _LIST_OF_OFFSETS, _LIST_OF_FIXED_SIZE = 0, 1, 2


def encode(columns: Sequence[FeatureColumn], rows: range | np.ndarray, limit: int) -> Encoded:
    """The twin of `_reference.encode`."""
    if not isinstance(rows, range) and _is_scattered(columns):
        columns, rows = _gather(columns, rows), range(len(rows))
    parts = [_take_apart(c) for c in columns if c.array.null_count < len(c.array)]
    ends = np.empty(len(rows), np.int64)
    start, index = (rows.start, None) if isinstance(rows, range) else (0, rows)
    buffer, size = _native.encode(parts, start, index, ends, limit, pa.allocate_buffer)
    return Encoded(buffer.slice(0, size), ends)


def scan(buffer: Any) -> Scan:
    """The twin of `_reference.scan`."""
    ends, damage = _native.scan(buffer)
    return Scan(np.frombuffer(ends, np.int64), damage)


def survey_examples(buffer: Any, ends: np.ndarray) -> ExampleSurvey:
    """The twin of `_examples_reference.survey_examples`."""
    found = _native.survey_examples(buffer, np.ascontiguousarray(ends, np.int64))
    keys, facts, invalid, sequences, sequence = found
    table = np.frombuffer(facts, EXAMPLE_FACTS)
    return ExampleSurvey(keys, table, np.frombuffer(invalid, np.int64), sequences, sequence)


def find_feature(buffer: Any, ends: np.ndarray, key: bytes) -> np.ndarray:
    """The twin of `_examples_reference.find_feature`."""
    found = _native.find_feature(buffer, np.ascontiguousarray(ends, np.int64), key)
    return np.frombuffer(found, np.int64).reshape(-1, 3)


def decode_examples(buffer: Any, ends: np.ndarray, wanted: Sequence[Wanted]) -> Decoded:
    """The twin of `_decode_reference.decode_examples`."""
    rows = len(ends)
    parts = [
        (w.key, _KINDS[w.kind], w.is_list, pa.allocate_buffer(rows // 8 + 1), _table(w, rows))
        for w in wanted
    ]
    columns, faults, unknown, invalid, sequences, sequence = _native.decode_examples(
        buffer, np.ascontiguousarray(ends, np.int64), parts, pa.allocate_buffer
    )
    arrays = tuple(
        _column(one, rows, part[3:], column)
        for one, part, column in zip(wanted, parts, columns, strict=True)
    )
    table = np.frombuffer(faults, DECODE_FAULTS)
    return Decoded(
        arrays, table, sorted(unknown), np.frombuffer(invalid, np.int64), sequences, sequence
    )


def _table(wanted: Wanted, rows: int) -> pa.Buffer:
    """Room for the values of a scalar, or for offsets where they have no fixed size."""
    if wanted.is_list or wanted.kind == "bytes":
        return pa.allocate_buffer(4 * (rows + 1))
    return pa.allocate_buffer((8 if wanted.kind == "int64" else 4) * rows + 1)


def _column(
    wanted: Wanted, rows: int, buffers: tuple[pa.Buffer, pa.Buffer], found: tuple[int, int, Any]
) -> pa.Array:
    """A column from its validity, its table, and what the kernel found: how many rows have a value,
    how many items there are, and the buffers whose size was not known beforehand.
    """
    (validity, table), (valid, count, rest) = buffers, found
    nulls, kind = rows - valid, _ARROW[wanted.kind]
    head = [validity if nulls else None, table]
    if not wanted.is_list:
        tail = [rest] if wanted.kind == "bytes" else []
        return pa.Array.from_buffers(kind, rows, head + tail, nulls)
    items = pa.Array.from_buffers(
        kind, count, [None, *rest] if wanted.kind == "bytes" else [None, rest], 0
    )
    return pa.Array.from_buffers(pa.list_(kind), rows, head, nulls, children=[items])


def split_csv(buffer: Any, dialect: CsvDialect, final: bool) -> CsvRows:
    """The twin of `_csv_reference.split_csv`."""
    structure = (_byte(dialect.delimiter), _byte(dialect.quote), _byte(dialect.escape))
    memory, room, count, stray, quoted, consumed, line, open_quote, blank = _native.split_csv(
        buffer, *structure, dialect.single, final, pa.allocate_buffer
    )
    starts, ends, lines = np.frombuffer(memory, np.int64).reshape(3, room)[:, :count]
    rows = (starts, ends, lines, np.frombuffer(stray, np.int64))
    return CsvRows(*rows, quoted, consumed, line, open_quote, blank)


def masked_crc32c(data: Any) -> int:
    """The twin of `_reference.masked_crc32c`."""
    return _native.masked_crc32c(data, False)


def crc32c(data: Any, value: int) -> int:
    """The twin of `_reference.crc32c`."""
    return _native.crc32c(data, value)


def read_files(
    paths: tuple[bytes, ...], sizes: np.ndarray, whole: bool, data: Any, facts: np.ndarray
) -> None:
    """The twin of `_reference.read_files`."""
    _native.read_files(paths, sizes, whole, data, facts)


def text_facts(cells: pa.Array) -> np.ndarray | None:
    """What each cell means, counted; see the kernel's door."""
    facts = np.empty((2, _MEANINGS), np.int64)
    _native.text_facts(*_cells_apart(cells), facts)
    return facts


def text_to_int64(cells: pa.Array) -> pa.Array | None:
    """Bare integers as int64, None where there is anything else."""
    return _numbers(_native.text_to_int64, cells, np.empty(len(cells), np.int64))


def text_to_float64(cells: pa.Array) -> pa.Array | None:
    """Plain numbers as float64, None where there is anything else."""
    return _numbers(_native.text_to_float64, cells, np.empty(len(cells), np.float64))


def _numbers(parse: Any, cells: pa.Array, values: np.ndarray) -> pa.Array | None:
    if not parse(*_cells_apart(cells), values):
        return None
    return from_numpy(values, ~is_valid(cells) if cells.null_count else None)


def _cells_apart(cells: pa.Array) -> tuple[Any, Any, int, Any, int, int]:
    """What the functions on text want to know of an array, in the order of their arguments."""
    validity, offsets, data = cells.buffers()
    width = 8 if pa.types.is_large_string(cells.type) else 4
    has_nulls = validity if cells.null_count else None
    return (has_nulls, offsets, width, data, cells.offset, len(cells))


def _is_scattered(columns: Sequence[FeatureColumn]) -> bool:
    """Whether a row in any order touches so many places that gathering columns first is faster.

    Reading small values here and there in many columns costs a page look-up for each of them.
    """
    return len(columns) >= _MANY_COLUMNS and not any(
        is_viewless_list(c.array.type) or c.array.nbytes > _SMALL_BYTES * len(c.array)
        for c in columns
    )


def _gather(columns: Sequence[FeatureColumn], rows: np.ndarray) -> list[FeatureColumn]:
    """The columns with just these rows, one after the other."""
    index = from_numpy(rows)
    return [FeatureColumn(c.key, _large(c.array).take(index)) for c in columns]


def _large(array: pa.Array) -> pa.Array:
    """`array` with large offsets: a selection may be bigger than what it is selected from."""
    return array.cast(pa.large_binary()) if pa.types.is_binary(array.type) else array


def _byte(value: bytes | None) -> int:
    """The only byte of `value`, or -1."""
    return -1 if value is None else ord(value)


def _take_apart(column: FeatureColumn) -> tuple[Any, ...]:
    """What `_native.encode` wants to know of a column, in the order of its arguments.

    Buffers are handed over whole, with the offset that a slice has in them.
    """
    array, items = column.array, column.array
    nesting, list_offsets, list_width, list_size = _SCALAR, None, 8, 0
    if pa.types.is_fixed_size_list(array.type):
        items, nesting, list_size = array.values, _LIST_OF_FIXED_SIZE, array.type.list_size
    elif isinstance(array, pa.ListArray | pa.LargeListArray):
        items, nesting, list_offsets = array.values, _LIST_OF_OFFSETS, array.buffers()[1]
        list_width = 8 if pa.types.is_large_list(array.type) else 4
    kind, value_offsets, value_width, values = _take_items_apart(items)
    return (
        _entry_start(column.key),
        kind,
        nesting,
        array.buffers()[0] if array.null_count else None,
        array.offset,
        len(array),
        list_offsets,
        list_width,
        list_size,
        items.offset,
        len(items),
        value_offsets,
        value_width,
        values,
    )


def _take_items_apart(items: pa.Array) -> tuple[int, pa.Buffer | None, int, pa.Buffer | None]:
    """Kind, offsets, bytes of one offset, and values."""
    buffers = items.buffers()
    if pa.types.is_int64(items.type):
        return _INT64, None, 8, buffers[1]
    if pa.types.is_float32(items.type):
        return _FLOAT, None, 8, buffers[1]
    return _BYTES, buffers[1], 8 if pa.types.is_large_binary(items.type) else 4, buffers[2]


def _entry_start(key: str) -> bytes:
    """How a map entry begins: tag, length and bytes of its key, then the tag of its value."""
    name = key.encode()
    length, size = bytearray(), len(name)
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return b"\n" + bytes([*length, size]) + name + b"\x12"
