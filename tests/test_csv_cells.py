"""pyarrow divides rows as the kernel's own rules do, or is not asked."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfrec_cli._kernel import CsvDialect, split_csv
from tfrec_cli.sources import csv_cells
from tfrec_cli.sources.csv_cells import read_cells
from tfrec_cli.sources.csv_layout import Layout
from tfrec_cli.sources.csv_stream import Framing

DIALECTS = [
    CsvDialect(b",", b'"'),
    CsvDialect(b";", b"'", b"\\"),
    CsvDialect(b",", None, b"\\"),
    CsvDialect(b"\t", None),
]


@st.composite
def blocks(draw):
    dialect = draw(st.sampled_from(DIALECTS))
    width = draw(st.integers(1, 3))
    quote = dialect.quote or b'"'
    bare = st.sampled_from(
        [b"", b"a", b"\0", b"\xef\xbb\xbf", b"\xe9", quote, b"\\", b" 5", b"a" + quote]
    )
    inner = st.lists(
        st.sampled_from([b"x", b"\n", b"\r\n", b"\r", dialect.delimiter, quote * 2, quote])
    )
    quoted = inner.map(lambda parts: quote + b"".join(parts) + quote)
    cell = st.one_of(bare, bare, quoted)
    rows = draw(st.lists(st.lists(cell, min_size=1, max_size=4), min_size=1, max_size=6))
    rows = [(row + [b"z"] * 4)[:width] if draw(st.booleans()) else row for row in rows]
    ends = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n"])
    data = b"".join(dialect.delimiter.join(row) + draw(ends) for row in rows)
    dialect = replace(dialect, single=width == 1)
    return data, dialect, width


@given(blocks(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_both_ways_divide_rows_alike(block, quoted_empty):
    data, dialect, width = block
    names = tuple(f"c{i}" for i in range(width))
    layout = Layout("x.csv", Framing(), dialect, names)
    rows = split_csv(data, dialect, final=True)
    if rows.open_quote >= 0 or not len(rows.starts):
        return
    data = data[: rows.consumed]
    fast = read_cells(data, rows, layout, names, quoted_empty)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_cells, "_by_arrow", lambda *_: None)
        slow = read_cells(data, rows, layout, names, quoted_empty)
    assert [c.to_pylist() for c in fast.columns] == [c.to_pylist() for c in slow.columns]
    assert fast.faults == slow.faults
    assert all(len(column) == len(rows.starts) for column in fast.columns)


def test_clean_data_goes_through_pyarrow():
    layout = Layout("x.csv", Framing(), CsvDialect(), ("a", "b"))
    raw = csv_cells._by_arrow(b'1,"x ""y"""\n2\n3,\n', 3, layout, [1], False)
    assert raw is not None
    assert raw.columns[0].to_pylist() == [b'x "y"', None, None]
    assert raw.ragged == {1: 1}


def test_a_wrong_row_stays_in_its_place():
    layout = Layout("x.csv", Framing(), CsvDialect(), ("a", "b"))
    data = b'1,2\n"x"y",2\n3,4,5\n6,\xe9\n7,8\n'
    table = read_cells(data, split_csv(data, CsvDialect(), True), layout, ("b", "a"), False)
    assert table.columns[0].to_pylist() == ["2", None, None, "\\xe9", "8"]
    assert table.columns[1].to_pylist() == ["1", None, None, "6", "7"]
    assert [(f.row, f.column) for f in table.faults] == [(1, None), (2, None), (3, "b")]
    assert "quote" in table.faults[0].reason
    assert table.faults[1].reason == "found 3 cells, expected 2"
    assert "0xe9" in table.faults[2].reason


def test_the_empty_cell_at_the_end_of_rows_must_be_empty():
    layout = Layout("x.csv", Framing(), CsvDialect(), ("a", "b"), tail=True)
    data = b"1,2,\n3,4,5\n6,7\n"
    table = read_cells(data, 3, layout, ("a",), False)
    assert [(f.row, f.reason.split(",")[0]) for f in table.faults] == [
        (1, "found 3 cells"),
        (2, "found 2 cells"),
    ]
    assert table.columns[0].to_pylist()[0] == "1"
