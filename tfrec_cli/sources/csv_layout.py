"""How one CSV file is laid out: its delimiter, its columns' names and where its rows begin."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tfrec_cli._kernel import CsvDialect, CsvRows, split_csv
from tfrec_cli.errors import SourceError, UsageError, shorten
from tfrec_cli.sources.csv_options import CsvOptions
from tfrec_cli.sources.csv_rows import Cells, count_line_ends, split_row
from tfrec_cli.sources.csv_stream import ROW_LIMIT, Content, Framing, endless_row, sniff
from tfrec_cli.sources.files import display, has_suffix
from tfrec_cli.sources.magic import PARQUET
from tfrec_cli.sources.suffixes import TSV_SUFFIXES

_CANDIDATES = (b",", b";", b"\t", b"|")
_SEPARATOR_LINE = re.compile(rb"sep=([,;\t|])(?:\r\n|\r|\n)")
_SAMPLE = 2**16
_SAMPLE_MOST = 2**20
_SAMPLE_ROWS = 100
_NOT_CSV = (
    (PARQUET, "a Parquet file. Read it with --source parquet."),
    (b"PK\x03\x04", "a zip archive or an Excel workbook. Unpack it, or export it as CSV."),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook. Export it as CSV."),
)


@dataclass(frozen=True)
class Layout:
    """How one file is read.

    names: of the cells of a row, in their order. tail: every row ends in one more delimiter, so
    that it has an empty cell without a name at its end. start, line: offset in the text and line
    (from 1) where the rows begin. header: the line where the header does. nameless: names that
    tfrec made up. notices: what was detected.
    """

    path: str
    framing: Framing
    dialect: CsvDialect
    names: tuple[str, ...]
    start: int = 0
    line: int = 1
    header: int = 1
    tail: bool = False
    nameless: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many cells a row has."""
        return len(self.names) + self.tail

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The number, from 0, of the cell that each name is of."""
        return {name: place for place, name in enumerate(self.names)}


@dataclass(frozen=True, slots=True)
class _Sample:
    """The beginning of a file: its first two rows or more, all of it, or as much of longer rows as
    is enough to look at.

    skipped: length of the line `sep=;` before `text`, which some spreadsheets write, or 0.
    separator: the delimiter that this line names.
    """

    text: bytes
    final: bool
    skipped: int = 0
    separator: bytes = b""

    @classmethod
    def of(cls, text: bytes, final: bool) -> _Sample:
        """The sample that begins with `text`."""
        found = _SEPARATOR_LINE.match(text)
        return cls(text[found.end() :], final, found.end(), found[1]) if found else cls(text, final)

    def rows(self, dialect: CsvDialect) -> CsvRows:
        return split_csv(self.text, dialect, self.final)

    def cells(self, dialect: CsvDialect) -> list[Cells]:
        """The cells of the first complete rows; without any, those of the row as far as it goes."""
        rows = self.rows(dialect)
        if not len(rows.starts):
            return [split_row(self.text, dialect)]
        places = zip(rows.starts[:_SAMPLE_ROWS], rows.ends[:_SAMPLE_ROWS], strict=True)
        return [split_row(self.text[start:end], dialect) for start, end in places]


def find_layout(path: str, options: CsvOptions) -> Layout:
    """Look at the beginning of a file.

    Raises SourceError where it is missing, empty, no CSV, or has no usable header.
    """
    framing = sniff(path, options.encoding)
    dialect = _dialect(options, _default_delimiter(path))
    sample = _read_sample(path, framing, dialect, 0 if options.has_header else 2)
    dialect, notices = _settle_delimiter(sample, dialect, options)
    _refuse_clash(path, dialect)
    sample = _read_sample(path, framing, dialect, 1)
    _refuse_strange(path, sample, framing, dialect)
    line = 1 + bool(sample.skipped)
    layout = Layout(path, framing, dialect, (), sample.skipped, line, line)
    layout = _settle_names(layout, sample, options)
    if framing.found and framing.encoding and not options.encoding:
        notices.insert(0, f"{framing.encoding} by its byte order mark")
    dialect = replace(dialect, single=layout.width == 1)
    return replace(layout, dialect=dialect, notices=(*notices, *layout.notices))


def _dialect(options: CsvOptions, default: bytes) -> CsvDialect:
    def mark(text: str | None) -> bytes | None:
        return text.encode() if text else None

    return CsvDialect(mark(options.delimiter) or default, mark(options.quote), mark(options.escape))


def _default_delimiter(path: str) -> bytes:
    return b"\t" if has_suffix(path, TSV_SUFFIXES) else b","


def _read_sample(path: str, framing: Framing, dialect: CsvDialect, rows: int) -> _Sample:
    """Read on until two rows are complete; in a file of long rows, until `rows` are."""
    with Content(path, framing) as content:
        text, wanted = b"", _SAMPLE
        while data := content.read(wanted):
            text += data
            del data
            if len(text) >= _SAMPLE:
                complete = len(split_csv(text, dialect, False).starts)
                if complete >= (2 if len(text) < _SAMPLE_MOST else rows):
                    return _Sample.of(text, False)
            if len(text) > ROW_LIMIT:
                raise endless_row(path, text, dialect, 1)
            wanted = max(_SAMPLE, min(len(text), ROW_LIMIT + 1 - len(text)))
    return _Sample.of(text, True)


def _refuse_strange(path: str, sample: _Sample, framing: Framing, dialect: CsvDialect) -> None:
    """Raise SourceError for what is no text, or holds no row."""
    head = sample.text[:64]
    for magic, what in _NOT_CSV:
        if head.startswith(magic):
            raise SourceError(f"{display(path)} is {what}")
    rows = sample.rows(dialect)
    if rows.open_quote >= 0 and not len(rows.starts):
        raise endless_row(path, sample.text, dialect, 1)
    if not len(rows.starts):
        raise SourceError(
            f"{display(path)} is empty: expected a header and at least one row. "
            "Leave the file out, or write it again."
        )
    if not framing.encoding and len(head) >= 4:
        for order, zeros, others in (("le", head[1::2], head[::2]), ("be", head[::2], head[1::2])):
            if 4 * zeros.count(0) >= 3 * len(zeros) and not others.count(0):
                raise SourceError(
                    f"{display(path)}, line 1: every other byte is 0, as in UTF-16. "
                    f"Give the encoding: -O encoding=utf-16-{order}."
                )


def _settle_delimiter(
    sample: _Sample, dialect: CsvDialect, options: CsvOptions
) -> tuple[CsvDialect, list[str]]:
    """The dialect with the file's delimiter, and notices.

    The default is kept where it divides the first row and most others alike; else the one
    candidate that does is taken.
    """
    if options.delimiter is not None:
        return dialect, []
    if sample.separator:
        shown = _shown(sample.separator)
        return replace(dialect, delimiter=sample.separator), [f"delimiter {shown} by its line sep="]
    if _divides(sample, dialect):
        return dialect, []
    used = (dialect.quote, dialect.escape)
    others = [c for c in _CANDIDATES if c != dialect.delimiter and c not in used]
    fits = [c for c in others if _divides(sample, replace(dialect, delimiter=c))]
    if not fits:
        return dialect, []
    if len(fits) == 1:
        return replace(dialect, delimiter=fits[0]), [f"delimiter {_shown(fits[0])} detected"]
    shown = " or ".join(_shown(c) for c in fits)
    return dialect, [f"the delimiter may be {shown}: say which with -O delimiter="]


def _refuse_clash(path: str, dialect: CsvDialect) -> None:
    """Raise UsageError where the delimiter, given or found, has another meaning too."""
    for option, mark in (("quote", dialect.quote), ("escape", dialect.escape)):
        if mark == dialect.delimiter:
            shown = _shown(mark)
            raise UsageError(
                f"-O {option}={shown}: {shown} divides the cells of {display(path)}. Give another "
                f"{option}, or say which delimiter with -O delimiter=."
            )


def _shown(delimiter: bytes) -> str:
    return "tab" if delimiter == b"\t" else delimiter.decode()


def _divides(sample: _Sample, dialect: CsvDialect) -> bool:
    """Whether most rows have as many cells as the first, give or take an empty one at the end."""
    first, *rest = [len(cells) for cells in sample.cells(dialect)] or [0]
    alike = sum(abs(count - first) <= 1 and count > 1 for count in rest)
    return first > 1 and 2 * alike >= len(rest)


def _settle_names(layout: Layout, sample: _Sample, options: CsvOptions) -> Layout:
    """The layout with names, `tail`, and where the rows begin."""
    first, *rest = sample.cells(layout.dialect)
    if not options.has_header:
        count = len(options.names) if options.names else len(first)
        names = options.names or tuple(f"column_{i + 1}" for i in range(count))
        return _tailed(replace(layout, names=names), [first, *rest], dropped=False)
    after = _after_first_row(sample, layout.dialect)
    line = layout.line + count_line_ends(sample.text[:after])
    layout = replace(layout, start=layout.start + after, line=line)
    dropped = _names_too_many(first, rest)
    header = first[:-1] if dropped else first
    if options.names:
        _check_count(layout, options.names, len(header), rest)
        return _tailed(replace(layout, names=options.names), rest, dropped)
    return _tailed(_named(layout, header), rest, dropped)


def _after_first_row(sample: _Sample, dialect: CsvDialect) -> int:
    end = int(sample.rows(dialect).ends[0])
    return end + (2 if sample.text.startswith(b"\r\n", end) else end < len(sample.text))


def _names_too_many(header: Cells, rest: Sequence[Cells]) -> bool:
    """Whether the header ends in a delimiter that the rows do not have."""
    short = sum(len(cells) == len(header) - 1 for cells in rest)
    return len(header) > 1 and not header[-1][0] and 2 * short > len(rest)


def _tailed(layout: Layout, rest: Sequence[Cells], dropped: bool) -> Layout:
    """The layout with `tail` set where most rows end in a delimiter that the header lacks."""
    longer = sum(len(cells) == len(layout.names) + 1 and not cells[-1][0] for cells in rest)
    notices = list(layout.notices)
    if dropped:
        notices.append("the header ends in a delimiter and the rows do not; it is ignored")
    tail = 2 * longer > len(rest)
    if tail:
        notices.append("the rows end in a delimiter that the header lacks; it is ignored")
    return replace(layout, tail=tail, notices=tuple(notices))


def _check_count(layout: Layout, names: Sequence[str], found: int, rest: Sequence[Cells]) -> None:
    """Raise SourceError where the names are neither as many as the header's nor as a row's cells:
    a header may leave out the name of the first column.
    """
    fit = sum(len(cells) == len(names) for cells in rest)
    if len(names) != found and 2 * fit <= len(rest):
        raise SourceError(
            f"{display(layout.path)}, line {layout.header}: the header has {found} cells, "
            f"but -O names= gives {len(names)} names. Give one name for each."
        )


def _named(layout: Layout, header: Cells) -> Layout:
    """The layout with the names that the header holds; an empty one becomes `column_N`."""
    names = [_decode_name(layout, i, cell) for i, (cell, _) in enumerate(header)]
    nameless = tuple(f"column_{i + 1}" for i, name in enumerate(names) if not name)
    names = [name or f"column_{i + 1}" for i, name in enumerate(names)]
    _refuse_duplicates(layout, names)
    notices = list(layout.notices)
    padded = [name for name in names if name != name.strip()]
    if padded:
        notices.append(f'the name "{shorten(padded[0])}" begins or ends with a blank, and keeps it')
    if all(_is_number(name) for name in names):
        notices.append("the first row holds only numbers: give -O header=false if it is data")
    return replace(layout, names=tuple(names), nameless=nameless, notices=tuple(notices))


def _decode_name(layout: Layout, index: int, cell: bytes) -> str:
    try:
        return cell.decode()
    except UnicodeDecodeError as error:
        text = shorten(cell.decode("utf-8", "backslashreplace"))
        raise SourceError(
            f"{display(layout.path)}, line {layout.header}: the name of column {index + 1}, "
            f'"{text}", '
            f"is not UTF-8 (byte 0x{cell[error.start]:02x}). "
            "Give the encoding, such as -O encoding=cp1252."
        ) from error


def _refuse_duplicates(layout: Layout, names: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in first:
            raise SourceError(
                f'{display(layout.path)}, line {layout.header}: column "{shorten(name)}" appears '
                f"twice, as cell {first[name] + 1} and cell {index + 1}. Rename one of them, or "
                "give all names with -O header=true -O names=a,b,c."
            )
        first[name] = index


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
