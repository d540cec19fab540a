"""One row of CSV to its cells, by the rules of the kernel's scanner, one cell after the other."""

from __future__ import annotations

import re
from functools import lru_cache

from tfrec_cli._kernel import CsvDialect

Cells = list[tuple[bytes, bool]]


def split_row(row: bytes, dialect: CsvDialect) -> Cells:
    """The cells of one row without its line end, each with whether it was quoted.

    Quotes around a cell are taken off, doubled quotes and escapes resolved.
    """
    cells: Cells = []
    at = 0
    while True:
        cell, quoted, at = _cell(row, dialect, at)
        cells.append((cell, quoted))
        if at >= len(row):
            return cells
        at += 1
        if at == len(row):
            return [*cells, (b"", False)]


def count_line_ends(text: bytes) -> int:
    """How many lines end in `text`, at any of the three line ends."""
    if b"\r" not in text:
        return text.count(b"\n")
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def _cell(row: bytes, dialect: CsvDialect, at: int) -> tuple[bytes, bool, int]:
    """The cell that starts at `at`, whether it is quoted, and the offset of its delimiter."""
    if dialect.quote is not None and row.startswith(dialect.quote, at):
        end = _closing_quote(row, dialect, at + 1)
        return _resolve(row[at + 1 : end], dialect, dialect.quote), True, end + 1
    if dialect.escape is None:
        end = row.find(dialect.delimiter, at)
        end = len(row) if end < 0 else end
        return row[at:end], False, end
    found = _bare_cell(dialect).match(row, at)
    assert found is not None
    return _resolve(found[0], dialect, None), False, found.end()


@lru_cache(maxsize=64)
def _bare_cell(dialect: CsvDialect) -> re.Pattern[bytes]:
    escape, delimiter = re.escape(dialect.escape or b""), re.escape(dialect.delimiter)
    return re.compile(b"(?:%b(?s:.)|[^%b])*" % (escape, delimiter))


@lru_cache(maxsize=64)
def _quoted_events(dialect: CsvDialect) -> re.Pattern[bytes]:
    """What matters inside quotes: escapes and doubled quotes, else the quote that closes."""
    quote, delimiter = re.escape(dialect.quote or b""), re.escape(dialect.delimiter)
    escape = re.escape(dialect.escape) + b"(?s:.)|" if dialect.escape else b""
    return re.compile(b"%b%b%b|(%b)(?=[\r\n]|%b|\\Z)" % (escape, quote, quote, quote, delimiter))


def _closing_quote(row: bytes, dialect: CsvDialect, at: int) -> int:
    """Offset of the quote that closes the cell whose text begins at `at`, or the row's end."""
    closing = (event for event in _quoted_events(dialect).finditer(row, at) if event[1])
    event = next(closing, None)
    return event.start() if event else len(row)


def _resolve(text: bytes, dialect: CsvDialect, quote: bytes | None) -> bytes:
    """`text` with doubled quotes and escapes resolved."""
    if dialect.escape is None:
        return text.replace(quote * 2, quote) if quote else text
    doubled = re.escape(quote) + b"(" + re.escape(quote) + b")" if quote else b"((?!))"
    pattern = re.escape(dialect.escape) + b"((?s:.))|" + doubled
    return re.sub(pattern, lambda found: found[1] if found[1] is not None else found[2], text)
