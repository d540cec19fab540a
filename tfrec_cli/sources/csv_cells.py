"""From rows of CSV to Arrow columns of text.

pyarrow divides the rows into cells. It follows the scanner's rules for every row without a stray
quote, which a property test holds; rows with one are taken out before and put back as faulty. Where
the two disagree on the number of rows, each row is divided by the kernel's own rules.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from tfrec_cli._kernel import CsvDialect, CsvRows, split_csv
from tfrec_cli.buffers import from_numpy, from_values, is_valid
from tfrec_cli.errors import shorten
from tfrec_cli.sources.base import Fault
from tfrec_cli.sources.csv_layout import Layout
from tfrec_cli.sources.csv_rows import split_row

# Characters of one column of a block that surely fit its array; `\\xe9` is longer than its byte.
_TEXT_LIMIT = 2**29
_DELIMITER_HINT = "Put cells that hold the delimiter in quotes, or use --on-error skip."


@dataclass(frozen=True, slots=True)
class CellTable:
    r"""The cells of some rows: an Arrow string array per column asked for, and the faulty rows.

    A faulty row is in place: null in all columns where its cells cannot be told apart, and with
    `\xe9` for each byte that is not UTF-8.
    """

    columns: tuple[pa.Array, ...]
    faults: tuple[Fault, ...]


@dataclass(slots=True)
class _Raw:
    """Cells as bytes, and what is wrong with rows: their number of cells (`ragged`)."""

    columns: list[pa.Array]
    ragged: dict[int, int] = field(default_factory=dict)


def read_cells(
    data: bytes, rows: CsvRows | int, layout: Layout, wanted: Sequence[str], quoted_empty: bool
) -> CellTable:
    """Divide the complete rows in `data`.

    rows: the scan of `data`, or their number where it is known that no row has a stray quote.
    wanted: names among `layout.names`, in the order of the columns returned. quoted_empty: whether
    an empty cell in quotes is an empty text and not null.
    """
    indices = [layout.places[name] for name in wanted]
    if layout.tail:
        indices.append(layout.width - 1)
    raw, stray = _divide(data, rows, layout, indices, quoted_empty)
    faults = {row: _stray_fault() for row in stray}
    faults |= {row: _ragged_fault(count, layout) for row, count in raw.ragged.items()}
    if layout.tail:
        tail = raw.columns.pop()
        for row in np.flatnonzero(is_valid(tail)).tolist():
            faults.setdefault(row, _ragged_fault(layout.width, layout))
    columns = []
    for name, column in zip(wanted, raw.columns, strict=True):
        text, wrong = _as_text(column, name)
        columns.append(text)
        for row, fault in wrong.items():
            faults.setdefault(row, fault)
    found = [
        Fault(row, fault.column, fault.value, fault.reason, fault.hint)
        for row, fault in sorted(faults.items())
    ]
    return CellTable(tuple(columns), tuple(found))


def _divide(
    data: bytes, rows: CsvRows | int, layout: Layout, indices: list[int], quoted_empty: bool
) -> tuple[_Raw, list[int]]:
    """The cells of columns `indices`, and the rows with stray quotes, which are null."""
    count = rows if isinstance(rows, int) else len(rows.starts)
    stray = [] if isinstance(rows, int) else rows.stray.tolist()
    sound = data
    if stray and not isinstance(rows, int):
        keep = np.delete(np.arange(count), stray)
        places = zip(rows.starts[keep].tolist(), rows.ends[keep].tolist(), strict=True)
        sound = b"".join(data[start:end] + b"\n" for start, end in places)
    raw = _by_arrow(sound, count - len(stray), layout, indices, quoted_empty)
    if raw is None:
        scan = split_csv(data, layout.dialect, True) if isinstance(rows, int) else rows
        return _by_rule(data, scan, layout, indices, quoted_empty), stray
    if not stray:
        return raw, stray
    place = np.delete(np.arange(count), stray)
    columns = _spread(raw.columns, place, count)
    return _Raw(columns, {int(place[row]): cells for row, cells in raw.ragged.items()}), stray


def _spread(columns: list[pa.Array], place: np.ndarray, count: int) -> list[pa.Array]:
    """The columns' items at `place` among `count` rows that are null elsewhere."""
    source = np.zeros(count, np.int64)
    lost = np.ones(count, bool)
    source[place], lost[place] = np.arange(len(place)), False
    indices = from_numpy(source, lost)
    return [column.take(indices) for column in columns]


def _by_arrow(
    data: bytes, count: int, layout: Layout, indices: list[int], quoted_empty: bool
) -> _Raw | None:
    """Cells divided by pyarrow; None where it does not see `count` rows."""
    if not _arrow_agrees(data, layout.dialect):
        return None
    convert = _convert_options(layout.width, indices, quoted_empty)
    ragged = _RaggedRows()
    try:
        table = _read_table(data, layout, convert, None)
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError):
        if not _is_utf8(data):  # pyarrow shows ragged rows as text, and cannot show these
            return None
        try:
            table = _read_table(data, layout, convert, ragged)
        except MemoryError:
            raise
        except (pa.ArrowException, ValueError):
            return None
    if table.num_rows + len(ragged.found) != count or any(row >= count for row in ragged.found):
        return None
    columns = [_whole(table.column(i)) for i in range(len(indices))]
    if ragged.found:
        columns = _spread(columns, np.delete(np.arange(count), list(ragged.found)), count)
    return _Raw(columns, ragged.found)


class _RaggedRows:
    """Tells pyarrow to leave out rows with too few or too many cells, and notes their cells."""

    def __init__(self) -> None:
        self.found: dict[int, int] = {}

    def __call__(self, row: pa_csv.InvalidRow) -> str:
        self.found[row.number - 1] = row.actual_columns
        return "skip"


def _read_table(
    data: bytes, layout: Layout, convert: pa_csv.ConvertOptions, handler: _RaggedRows | None
) -> pa.Table:
    names = [str(i) for i in range(layout.width)]
    # Arrow's parser ends the process where it gets no memory for the cells; this raises.
    pa.allocate_buffer(4 * len(data))
    return pa_csv.read_csv(
        pa.BufferReader(data),
        read_options=pa_csv.ReadOptions(
            column_names=names, use_threads=False, block_size=len(data) + 1
        ),
        parse_options=_parse_options(layout.dialect, handler),
        convert_options=convert,
    )


def _convert_options(width: int, indices: list[int], quoted_empty: bool) -> pa_csv.ConvertOptions:
    names = [str(i) for i in range(width)]
    return pa_csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.binary()),
        include_columns=[names[i] for i in indices] or names[:1],
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=not quoted_empty,
    )


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _arrow_agrees(data: bytes, dialect: CsvDialect) -> bool:
    """Whether nothing in `data` is read by pyarrow in a way of its own.

    It takes a byte order mark off any data, loses an escape without a byte after it, and counts
    its blocks in 32 bits.
    """
    loose = dialect.escape is not None and data.rstrip(b"\r\n").endswith(dialect.escape)
    return 0 < len(data) < 2**31 - 1 and not loose and not data.startswith(codecs.BOM_UTF8)


def _parse_options(dialect: CsvDialect, handler: _RaggedRows | None) -> pa_csv.ParseOptions:
    return pa_csv.ParseOptions(
        delimiter=dialect.delimiter.decode(),
        quote_char=dialect.quote.decode() if dialect.quote else False,
        double_quote=dialect.quote is not None,
        escape_char=dialect.escape.decode() if dialect.escape else False,
        newlines_in_values=dialect.quote is not None or dialect.escape is not None,
        ignore_empty_lines=not dialect.single,
        invalid_row_handler=handler,
    )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else from_values([], column.type)


def _by_rule(
    data: bytes, rows: CsvRows, layout: Layout, indices: list[int], quoted_empty: bool
) -> _Raw:
    """Cells divided row by row."""
    ragged: dict[int, int] = {}
    stray = set(rows.stray.tolist())
    values: list[list[bytes | None]] = [[] for _ in indices]
    for row, (start, end) in enumerate(zip(rows.starts.tolist(), rows.ends.tolist(), strict=True)):
        cells = split_row(data[start:end], layout.dialect)
        if len(cells) != layout.width and row not in stray:
            ragged[row] = len(cells)
        sound = len(cells) == layout.width and row not in stray
        for column, index in zip(values, indices, strict=True):
            column.append(_value(cells[index], quoted_empty) if sound else None)
    return _Raw([from_values(column, pa.binary()) for column in values], ragged)


def _value(cell: tuple[bytes, bool], quoted_empty: bool) -> bytes | None:
    text, quoted = cell
    return text if text or (quoted and quoted_empty) else None


def _as_text(column: pa.Array, name: str) -> tuple[pa.Array, dict[int, Fault]]:
    """The column as strings, and the rows whose cell is not UTF-8."""
    try:
        text = column.view(pa.string())
        text.validate(full=True)
    except pa.ArrowInvalid:
        return _with_escapes(column, name)
    return text, {}


def _with_escapes(column: pa.Array, name: str) -> tuple[pa.Array, dict[int, Fault]]:
    """The column as strings, what is not UTF-8 escaped, and the rows of such cells."""
    faults: dict[int, Fault] = {}
    texts: list[str | None] = []
    for row, cell in enumerate(column.to_pylist()):
        try:
            texts.append(None if cell is None else cell.decode())
        except UnicodeDecodeError as error:
            escaped = cell.decode("utf-8", "backslashreplace")
            faults[row] = _encoding_fault(name, escaped, cell[error.start], error.start + 1)
            texts.append(escaped)
    if sum(len(text) for text in texts if text) > _TEXT_LIMIT:
        texts = [None if row in faults else text for row, text in enumerate(texts)]
    return from_values(texts, pa.string()), faults


def _encoding_fault(name: str, escaped: str, byte: int, place: int) -> Fault:
    return Fault(
        row=0,
        column=name,
        value=escaped,
        reason=f"is not UTF-8: byte {place} of the cell is 0x{byte:02x}",
        hint="Give the file's encoding, such as -O encoding=cp1252.",
    )


def _ragged_fault(found: int, layout: Layout) -> Fault:
    expected = f"{len(layout.names)}"
    if layout.tail and found == len(layout.names):
        expected += " and a delimiter at the end, like the other rows"
    cells = "1 cell" if found == 1 else f"{found} cells"
    return Fault(0, None, None, f"found {cells}, expected {expected}", _DELIMITER_HINT)


def broken_hint(row: bytes, fault: Fault, layout: Layout) -> str:
    """What to do where no row of a source is sound, the first being `row`, or its beginning."""
    dialect = layout.dialect
    if dialect.quote and re.search(re.escape(dialect.delimiter) + b" +" + dialect.quote, row):
        return "A quote opens a cell only as its first character: take away the blanks before it."
    if fault.reason.startswith(f"found {layout.width + 1} cells"):
        return (
            "If the first cell of each row is its name, give all names: "
            f"-O header=true -O names=row,{shorten(layout.names[0])},…"
        )
    return fault.hint


def _stray_fault() -> Fault:
    return Fault(
        row=0,
        column=None,
        value=None,
        reason="found a quote inside a quoted cell, expected it doubled or at the cell's end",
        hint="Double it, or give -O escape=\\ if a backslash stands before quotes.",
    )
