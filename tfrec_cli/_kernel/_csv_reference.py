r"""Where the rows of CSV lie: the scanner in Python, the twin of a native one.

The rules, after RFC 4180 and with an answer for what it leaves open:

* A row ends at `\n`, `\r\n` or `\r`, in any mix, outside quotes.
* A quote opens a quoted field only at the field's start; elsewhere in a bare field it is text.
* In a quoted field a doubled quote is one quote; a quote before a delimiter, a line end or the end
  of the data closes the field; any other is *stray*: it is text and marks its row as faulty. Such a
  row ends with its line: a field whose quotes are in doubt must not swallow the rows behind it.
* An escape byte, where the dialect has one, makes the next byte text.
* A line without any byte is blank and no row, unless rows have one column.

Two bodies answer: numpy where every quote is proven to open, close or double, and a state machine
that steps from one byte of interest to the next for the rest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tfrec_cli._kernel.model import CsvDialect, CsvRows

_LF, _CR = 10, 13
_Offsets = NDArray[np.int64]


def split_csv(buffer: bytes, dialect: CsvDialect, final: bool) -> CsvRows:
    r"""The complete rows of `buffer`, which begins at a row's start.

    final: nothing follows `buffer`, so that its end also ends a row. Where it is False, a row
    without a line end, or whose line end might be the first half of `\r\n`, is incomplete.
    """
    has_quotes = dialect.quote is not None and dialect.quote in buffer
    if dialect.escape is not None and dialect.escape in buffer:
        return _step(buffer, dialect, final, has_quotes)
    if not has_quotes:
        return _rows(buffer, dialect, final, None)
    quotes = _proven_quotes(buffer, dialect, final)
    if quotes is None:
        return _step(buffer, dialect, final, has_quotes)
    return _rows(buffer, dialect, final, quotes)


def _proven_quotes(buffer: bytes, dialect: CsvDialect, final: bool) -> _Offsets | None:
    """Offsets of all quotes if they alternate between opening and closing, else None.

    A doubled quote counts as a closing and an opening one next to each other. By induction from
    the buffer's start, quotes with the right neighbours mean just this to the state machine.
    """
    assert dialect.quote is not None
    data = np.frombuffer(buffer, np.uint8)
    quotes = np.flatnonzero(data == ord(dialect.quote))
    if final and len(quotes) % 2:
        return None
    breaks = np.zeros(256, bool)
    breaks[[_LF, _CR, ord(dialect.delimiter)]] = True
    opening, closing = quotes[0::2], quotes[1::2]
    before = breaks[data[opening - 1]]
    before[0] |= opening[0] == 0
    before[1:] |= opening[1:] - 1 == closing[: len(opening) - 1]
    inner = closing[:-1] if len(closing) and closing[-1] == len(data) - 1 else closing
    after = breaks[data[inner + 1]] | (data[inner + 1] == ord(dialect.quote))
    return quotes if before.all() and after.all() else None


def _line_ends(buffer: bytes, final: bool) -> tuple[_Offsets, _Offsets]:
    """Offsets of all line ends, and the offsets just past them."""
    data = np.frombuffer(buffer, np.uint8)
    if b"\r" not in buffer:
        ends = np.flatnonzero(data == _LF)
        return ends, ends + 1
    ends = np.flatnonzero((data == _LF) | (data == _CR))
    second = (data[ends] == _LF) & (ends > 0) & (data[ends - 1] == _CR)
    ends = ends[~second]
    if not final and len(ends) and ends[-1] == len(data) - 1 and data[-1] == _CR:
        ends = ends[:-1]
    following = np.minimum(ends + 1, len(data) - 1)
    pair = (data[ends] == _CR) & (following > ends) & (data[following] == _LF)
    return ends, ends + 1 + pair


def _rows(buffer: bytes, dialect: CsvDialect, final: bool, quotes: _Offsets | None) -> CsvRows:
    """Rows by the line ends that lie outside the proven quotes."""
    ends, after = _line_ends(buffer, final)
    all_lines = len(ends)
    lines = np.arange(all_lines + 1, dtype=np.int64)
    if quotes is not None:
        outside = np.searchsorted(quotes, ends) % 2 == 0
        lines = np.concatenate([[0], lines[1:][outside]])
        ends, after = ends[outside], after[outside]
    starts = np.concatenate([np.zeros(1, np.int64), after])
    consumed, consumed_lines = int(starts[-1]), int(lines[-1])
    if final and consumed < len(buffer):
        ends = np.append(ends, len(buffer))
        consumed, consumed_lines = len(buffer), all_lines
    starts, lines = starts[: len(ends)], lines[: len(ends)]
    keep = np.ones(len(ends), bool) if dialect.single else starts < ends
    return CsvRows(
        starts=starts[keep],
        ends=ends[keep],
        lines=lines[keep],
        stray=np.zeros(0, np.int64),
        quoted=quotes is not None,
        consumed=consumed,
        consumed_lines=consumed_lines,
        blank=int(len(keep) - keep.sum()),
    )


@lru_cache(maxsize=64)
def _patterns(dialect: CsvDialect) -> tuple[re.Pattern[bytes], ...]:
    """What matters in a bare field (after its first byte), inside a quoted one, and inside a
    quoted one behind a stray quote.
    """
    delimiter, never = re.escape(dialect.delimiter), rb"(?!)"
    quote = re.escape(dialect.quote) if dialect.quote else never
    escaped = re.escape(dialect.escape) + rb"(?s:.)?" if dialect.escape else never
    bare = rb"(?P<escape>%b)|(?P<end>\r\n?|\n)|(?<=%b)(?P<quote>%b)"
    quoted = rb"(?P<escape>%b)|%b%b|(?P<close>%b)(?=[\r\n]|%b|\Z)|(?P<stray>%b)"
    inside = quoted % (escaped, quote, quote, quote, delimiter, quote)
    return (
        re.compile(bare % (escaped, delimiter, quote)),
        re.compile(inside),
        re.compile(rb"(?P<end>[\r\n])|" + inside),
    )


@dataclass(slots=True)
class _Walk:
    """The rows that the state machine has found, and what it knows of the one it is in."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    stray: list[int] = field(default_factory=list)
    blank: int = 0
    start: int = 0
    line: int = 0
    is_stray: bool = False

    def row(self, buffer: bytes, end: int, following: int, single: bool) -> None:
        """The row that began at `start` ends at `end`; the next begins at `following`."""
        if end > self.start or single:
            if self.is_stray:
                self.stray.append(len(self.starts))
            self.starts.append(self.start)
            self.ends.append(end)
            self.lines.append(self.line)
        else:
            self.blank += 1
        self.line += _count_line_ends(buffer[self.start : following])
        self.start, self.is_stray = following, False


def _count_line_ends(data: bytes) -> int:
    """How many lines end in `data`."""
    if b"\r" not in data:
        return data.count(b"\n")
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def _step(buffer: bytes, dialect: CsvDialect, final: bool, has_quotes: bool) -> CsvRows:
    """Rows by walking from one quote, escape or line end to the next."""
    walk, open_quote = _Walk(), -1
    while walk.start < len(buffer):
        end, following, open_quote = _walk_row(buffer, dialect, walk)
        ended = following > end and (final or buffer[end:] != b"\r")
        if open_quote >= 0 or not (ended or final):
            break
        walk.row(buffer, end, following, dialect.single)
    return CsvRows(
        starts=np.array(walk.starts, np.int64),
        ends=np.array(walk.ends, np.int64),
        lines=np.array(walk.lines, np.int64),
        stray=np.array(walk.stray, np.int64),
        quoted=has_quotes,
        consumed=walk.start,
        consumed_lines=walk.line,
        open_quote=open_quote if final else -1,
        blank=walk.blank,
    )


def _walk_row(buffer: bytes, dialect: CsvDialect, walk: _Walk) -> tuple[int, int, int]:
    """End of the row at `walk.start`, where the next begins, and a quote left open or -1.

    Both offsets are the buffer's length where no line end follows.
    """
    bare = _patterns(dialect)[0]
    at, literal = walk.start, -1
    if dialect.quote is not None and buffer.startswith(dialect.quote, at):
        opened, at = at, _walk_quoted(buffer, dialect, walk, at + 1)
        if at < 0:
            return len(buffer), len(buffer), opened
    while event := bare.search(buffer, at):
        at = event.end()
        if event.lastgroup == "end":
            return event.start(), at, -1
        if event.lastgroup == "escape":
            literal = at
        elif event.start() != literal:  # an escaped delimiter starts no field
            at = _walk_quoted(buffer, dialect, walk, at)
            if at < 0:
                return len(buffer), len(buffer), event.start()
    return len(buffer), len(buffer), -1


def _walk_quoted(buffer: bytes, dialect: CsvDialect, walk: _Walk, at: int) -> int:
    """Offset just past the quote that closes the field which opened before `at`, or -1.

    Behind a stray quote the line's end closes it too.
    """
    _, pattern, loose = _patterns(dialect)
    inside = False
    while event := pattern.search(buffer, at):
        if event.lastgroup == "close":
            return event.end()
        if event.lastgroup == "end":
            return event.start()
        if event.lastgroup == "stray":
            walk.is_stray = inside = True
            pattern = loose
        at = event.end()
    return len(buffer) if inside else -1
