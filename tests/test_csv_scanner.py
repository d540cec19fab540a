"""The scanner against a state machine written byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfrec_cli._kernel import _csv_reference
from tfrec_cli._kernel.model import CsvDialect
from tfrec_cli.sources.csv_rows import split_row

split_csv = _csv_reference.split_csv

DIALECTS = [
    CsvDialect(b",", b'"'),
    CsvDialect(b",", b'"', single=True),
    CsvDialect(b";", b"'", b"\\"),
    CsvDialect(b",", b'"', b"\\", single=True),
    CsvDialect(b",", None, b"\\"),
    CsvDialect(b"\t", None),
]


def plain(buffer: bytes, dialect: CsvDialect, final: bool) -> dict:
    """One byte after the other; nothing clever."""
    rows, stray, blank = [], [], 0
    at = start = line = start_line = 0
    state, opened, is_stray, loose = "start", -1, False, False
    while at < len(buffer):
        byte, after = buffer[at : at + 1], buffer[at + 1 : at + 2]
        size = 2 if byte + after == b"\r\n" else 1
        if byte == dialect.escape:
            line += after in (b"\r", b"\n") and not (
                after == b"\r" and buffer[at + 2 : at + 3] == b"\n"
            )
            at += 2
            state = "bare" if state == "start" else state
            continue
        if state == "quoted" and loose and byte in (b"\r", b"\n"):
            state = "bare"
        if state == "quoted":
            if byte == dialect.quote and after == dialect.quote:
                at += 2
                continue
            if byte == dialect.quote:
                if after in (dialect.delimiter, b"\r", b"\n", b""):
                    state = "bare"
                else:
                    is_stray = loose = True
            line += byte in (b"\r", b"\n")
            at += size if byte in (b"\r", b"\n") else 1
            continue
        if byte in (b"\r", b"\n"):
            if byte == b"\r" and not after and not final:
                break
            if at > start or dialect.single:
                stray += [len(rows)] if is_stray else []
                rows.append((start, at, start_line))
            else:
                blank += 1
            at += size
            line += 1
            start, start_line, state, is_stray = at, line, "start", False
            continue
        if state == "start" and byte == dialect.quote:
            state, opened, loose = "quoted", at, False
        elif byte == dialect.delimiter:
            state = "start"
        else:
            state = "bare"
        at += 1
    still_open = state == "quoted" and final and not loose
    if final and not still_open and start < len(buffer):
        stray += [len(rows)] if is_stray else []
        rows.append((start, len(buffer), start_line))
        start = len(buffer)
    return {
        "rows": rows,
        "stray": stray,
        "blank": blank,
        "consumed": start,
        "open": opened if still_open else -1,
    }


def found(buffer: bytes, dialect: CsvDialect, final: bool) -> dict:
    rows = split_csv(buffer, dialect, final)
    return {
        "rows": list(
            zip(rows.starts.tolist(), rows.ends.tolist(), rows.lines.tolist(), strict=True)
        ),
        "stray": rows.stray.tolist(),
        "blank": rows.blank,
        "consumed": rows.consumed,
        "open": rows.open_quote,
    }


@st.composite
def documents(draw):
    dialect = draw(st.sampled_from(DIALECTS))
    special = [dialect.delimiter, b"\n", b"\r", b"\r\n", b"a", b"\0", b"\\"]
    quote = dialect.quote or b'"'
    pieces = st.sampled_from([*special, quote, quote, quote * 2])
    well_formed = st.lists(st.sampled_from([*special, quote * 2]), max_size=4).map(
        lambda inner: quote + b"".join(inner).replace(b"\\", b"x") + quote + dialect.delimiter
    )
    parts = draw(st.lists(st.one_of(pieces, well_formed), max_size=12))
    return b"".join(parts), dialect


@given(documents(), st.booleans())
@settings(max_examples=400, deadline=None)
def test_rows_are_those_of_the_plain_state_machine(document, final):
    buffer, dialect = document
    assert found(buffer, dialect, final) == plain(buffer, dialect, final)


@given(documents(), st.integers(0, 30))
@settings(max_examples=200, deadline=None)
def test_rows_do_not_depend_on_where_the_buffer_was_cut(document, cut):
    buffer, dialect = document
    whole = split_csv(buffer, dialect, final=True)
    head = split_csv(buffer[:cut], dialect, final=False)
    tail = split_csv(buffer[head.consumed :], dialect, final=True)
    starts = [*head.starts, *(tail.starts + head.consumed)]
    lines = [*head.lines, *(tail.lines + head.consumed_lines)]
    stray = [*head.stray, *(tail.stray + len(head.starts))]
    assert starts == whole.starts.tolist()
    assert lines == whole.lines.tolist()
    assert stray == whole.stray.tolist()
    assert head.blank + tail.blank == whole.blank


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        (b'5" pipe,x', [b'5" pipe', b"x"]),
        (b'"a ""b""",c', [b'a "b"', b"c"]),
        (b'a,""', [b"a", b""]),
        (b"a,", [b"a", b""]),
        (b",", [b"", b""]),
        (b'"a,\r\nb","c"', [b"a,\r\nb", b"c"]),
        (b'"x\\" seam"', [b'x\\" seam']),
        (b'"a\xff\0",', [b"a\xff\0", b""]),
    ],
)
def test_cells_of_a_row(row, cells):
    assert [cell for cell, _ in split_row(row, CsvDialect())] == cells


def test_escapes_in_cells():
    dialect = CsvDialect(escape=b"\\")
    cells = split_row(b'a\\,b,"c\\"d",\\"e,\\\\,"x""y"', dialect)
    assert cells == [
        (b"a,b", False),
        (b'c"d', True),
        (b'"e', False),
        (b"\\", False),
        (b'x"y', True),
    ]


def test_the_quote_that_stays_open_is_named():
    rows = split_csv(b'a,b\n1,"x ""y""\n2,3\n', CsvDialect(), final=True)
    assert rows.open_quote == 6
    assert (len(rows.starts), rows.consumed, rows.consumed_lines) == (1, 4, 1)


def test_a_stray_quote_does_not_swallow_the_rows_behind_it():
    buffer = b'1,"bad"x,y\n2,b\n3,"two\nlines"\n'
    rows = split_csv(buffer, CsvDialect(), final=True)
    assert [buffer[a:b] for a, b in zip(rows.starts, rows.ends, strict=True)] == [
        b'1,"bad"x,y',
        b"2,b",
        b'3,"two\nlines"',
    ]
    assert rows.stray.tolist() == [0]
    last = split_csv(b'a\n"x"y', CsvDialect(), final=True)
    assert (last.stray.tolist(), last.open_quote) == ([1], -1)
