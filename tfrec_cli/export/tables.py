"""Tables as files: Parquet, CSV and JSON lines, written batch by batch."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from typing import IO, Any, Protocol

import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_values, is_valid, scalar
from tfrec_cli.export.jsontext import json_rows, json_text
from tfrec_cli.export.nesting import Level, leaf_of, levels_of, list_type
from tfrec_cli.export.options import Format
from tfrec_cli.kinds import is_text
from tfrec_cli.words import as_text
from tfrec_cli.wrappings import plain

Sink = str | os.PathLike[str] | IO[bytes]
Dress = Callable[[pa.RecordBatch], Any]
# Rows and bytes of a row group: a reader takes one of them at a time, and so does the writer.
GROUP_ROWS = 2**20
GROUP_BYTES = 64 * 2**20


class TableWriter(Protocol):
    """Writes one file. What `dress` makes of a batch is what `write` takes: the costly part of the
    work, which can be done on several threads.
    """

    def write(self, rows: Any) -> None:
        """Append rows."""

    def close(self) -> None:
        """Finish the file."""


def dress_of(to: Format) -> Dress:
    """What makes batches ready to be written in a format."""
    return {"parquet": _as_it_is, "csv": _csv_cells, "jsonl": _json_lines}[to]


def open_table(sink: Sink, to: Format, schema: pa.Schema, is_gzip: bool) -> TableWriter:
    """A writer of rows that `dress_of` has made ready. schema: of the columns before that."""
    if to == "parquet":
        return _ParquetWriter(sink, schema)
    stream = pa.output_stream(sink, compression="gzip" if is_gzip else None)
    return _CsvWriter(stream, schema.names) if to == "csv" else _LineWriter(stream)


def is_told_apart(to: Format, columns: Sequence[pa.Array]) -> bool:
    """Whether what is missing in columns is written otherwise than empty text."""
    if to != "csv" or len(columns) != 1:
        return True
    (column,) = columns
    return not column.null_count or not (is_text(column.type) or _is_bytes(column.type))


def is_lossless(to: Format, kind: pa.DataType) -> bool:
    """Whether bytes of a column are written as they are: text formats need base64."""
    return to == "parquet" or not _is_bytes(leaf_of(kind))


def _as_it_is(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


class _ParquetWriter:
    """Rows are gathered into row groups."""

    def __init__(self, sink: Sink, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._schema = schema
        self._writer = pq.ParquetWriter(sink, schema)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._waiting, self._schema)
        self._writer.write_table(table, row_group_size=max(1, self._rows))
        self._waiting, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:
        if self._waiting:
            self._flush()
        self._writer.close()


class _LineWriter:
    """Lines of text, as they are."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, rows: pa.Buffer) -> None:
        self._stream.write(rows)

    def close(self) -> None:
        self._stream.close()


class _CsvWriter:
    """Comma-separated values by RFC 4180, a header first; text is quoted, null is an empty cell, or
    `""` where it is alone in its line.
    """

    def __init__(self, stream: Any, names: Sequence[str]) -> None:
        self._stream = stream
        header = ",".join(_quoted(name) for name in names)
        self._stream.write(f"{header}\n".encode())

    def write(self, rows: pa.Buffer) -> None:
        self._stream.write(rows)

    def close(self) -> None:
        self._stream.close()


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace('"', '""'))


def _csv_cells(batch: pa.RecordBatch) -> Any:
    """The rows of a batch as CSV. Lists are JSON, bytes base64, times ISO 8601."""
    cells = [_cell(column) for column in batch.columns]
    if len(cells) > 1 or not any(column.null_count for column in cells):
        return _csv_text(cells)
    # An empty line is no row to most readers.
    (column,) = cells
    if is_text(column.type):
        return _csv_text([pc.fill_null(column, scalar("", column.type))])
    lines = iter(_csv_text([column.drop_null()]).to_pybytes().splitlines(keepends=True))
    return b"".join(next(lines) if is_there else b'""\n' for is_there in is_valid(column))


def _csv_text(cells: Sequence[pa.Array]) -> pa.Buffer:
    import pyarrow.csv

    sink = pa.BufferOutputStream()
    names = [str(number) for number in range(len(cells))]
    ready = pa.RecordBatch.from_arrays(cells, names)
    options = pyarrow.csv.WriteOptions(include_header=False, batch_size=8192)
    pyarrow.csv.write_csv(pa.Table.from_batches([ready]), sink, options)
    return sink.getvalue()


def _cell(column: pa.Array) -> pa.Array:
    kind = column.type
    if levels_of(kind):
        texts = json_text(in_base64(column))
        return pa.compute.if_else(column.is_valid(), texts, pa.nulls(len(texts), texts.type))
    if _is_bytes(kind):
        return in_base64(column)
    checks = ("boolean", "integer", "floating", "null")
    simple = is_text(kind) or any(getattr(pa.types, f"is_{name}")(kind) for name in checks)
    return column if simple else as_text(column)


def _json_lines(batch: pa.RecordBatch) -> pa.Buffer:
    """The rows of a batch as JSON objects, one a line. Bytes are base64."""
    columns = [in_base64(column) for column in batch.columns]
    rows = json_rows(pa.RecordBatch.from_arrays(columns, batch.schema.names))
    _, bounds, data = rows.buffers()
    view = memoryview(bounds).cast("q")
    return data[view[rows.offset] : view[rows.offset + len(rows)]]


def in_base64(column: pa.Array) -> pa.Array:
    """Bytes as their base64 text, within lists too; all else as it is."""
    kind = column.type
    if not _is_bytes(leaf_of(kind)):
        return column
    levels = levels_of(kind)
    if not levels:
        values = plain(column).to_pylist()
        texts = [None if value is None else base64.b64encode(value).decode() for value in values]
        return from_values(texts, pa.large_string())
    nested = column.to_pylist()
    loose = tuple(Level(is_large=True) for _ in levels)
    return pa.array([_encoded(row) for row in nested], list_type(loose, pa.large_string()))


def _encoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    return None if value is None else base64.b64encode(value).decode()


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        or (pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind))
    )  # fmt: skip
