"""What lots are drawn by: the value of a row, whatever the type of its column becomes."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_splitting import found

import tfrec_cli
from tfrec_cli.errors import SourceError
from tfrec_cli.schema.grammar import TextRules, classify
from tfrec_cli.shuffle.keys import column_texts, text_digests
from tfrec_cli.shuffle.values import value_texts
from tfrec_cli.sources.common_type import common_type, conform

HALVES = "train=0.5,test=0.5"
BEGINNING = datetime(2024, 1, 1)

EXACT = st.integers(-(2**53), 2**53)
NUMBERS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.int64(): EXACT,
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.decimal128(12, 4): st.decimals(-(10**7), 10**7, places=4),
    pa.decimal128(9, 0): st.integers(-(10**8), 10**8).map(Decimal),
}
TIMES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.timestamp("s"): st.integers(-(10**9), 10**9),
    pa.timestamp("ms"): st.integers(-(10**12), 10**12),
    pa.timestamp("us"): st.integers(-(10**15), 10**15),
    pa.timestamp("ns"): st.integers(-(10**18), 10**18),
}
ZONED = {pa.timestamp(k.unit, "Europe/Rome"): values for k, values in TIMES.items()}
DURATIONS = {pa.duration(k.unit): values for k, values in TIMES.items()}
CLOCKS = {
    pa.time32("s"): st.integers(0, 86399),
    pa.time32("ms"): st.integers(0, 86399999),
    pa.time64("us"): st.integers(0, 86399999999),
    pa.time64("ns"): st.integers(0, 86399999999999),
}
DATES = {
    pa.date32(): st.integers(-40000, 40000),
    pa.date64(): st.integers(-40000, 40000).map(lambda day: day * 86400000),
}
TEXTS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=5),
    pa.large_string(): st.text(st.characters(codec="utf-8"), max_size=5),
    pa.binary(): st.binary(max_size=5),
}
FAMILIES = (NUMBERS, TIMES, ZONED, DURATIONS, CLOCKS, DATES, TEXTS)


def within(kind: pa.DataType, form: str) -> pa.DataType:
    """The type of values of `kind` in a list or another form."""
    forms = {
        "plain": kind,
        "list": pa.list_(kind),
        "lists": pa.large_list(pa.list_(kind)),
        "struct": pa.struct([("a", kind), ("b", pa.string())]),
        "map": pa.map_(pa.string(), kind),
    }
    return forms[form]


def shaped(value: Any, form: str) -> Any:
    """A value in a form of `within`."""
    forms = {
        "plain": value,
        "list": [value, None],
        "lists": [[value], [], None],
        "struct": {"a": value, "b": "x"},
        "map": [("a", value)],
    }
    return forms[form]


@given(st.data())
def test_a_value_has_one_text_in_all_types_that_files_come_together_in(data: st.DataObject) -> None:
    family = data.draw(st.sampled_from(FAMILIES))
    one, two = (data.draw(st.sampled_from(list(family))) for _ in range(2))
    form = data.draw(st.sampled_from(["plain", "list", "lists", "struct", "map"]))
    values = data.draw(st.lists(st.none() | family[one], max_size=8))
    old = pa.array([v if v is None else shaped(v, form) for v in values], within(one, form))
    common = common_type(old.type, within(two, form))
    assert common is not None
    texts = value_texts(old)
    conformed = conform(old, common)
    kept = [row for row in range(len(old)) if row not in conformed.misfits]
    after = value_texts(conformed.array).to_pylist()
    assert [after[row] for row in kept] == [texts.to_pylist()[row] for row in kept]
    assert value_texts(old.slice(len(old) // 2)).to_pylist() == texts.to_pylist()[len(old) // 2 :]


@given(st.data())
def test_different_values_have_different_texts(data: st.DataObject) -> None:
    family = data.draw(st.sampled_from(FAMILIES[:-1]))
    kind = data.draw(st.sampled_from(list(family)))
    array = pa.array(data.draw(st.lists(family[kind], max_size=20)), kind)
    for values in (array, pa.array([[v] for v in array.to_pylist()], pa.list_(kind))):
        known = {repr(v) for v in values.to_pylist()} - {"-0.0", "[-0.0]"}
        texts = set(value_texts(values).to_pylist())
        assert len(known) <= len(texts) <= len(known) + 1


def test_texts_are_those_of_json_and_iso_8601() -> None:
    times = pa.array([BEGINNING, BEGINNING + timedelta(milliseconds=1500)], pa.timestamp("ns"))
    assert value_texts(times).to_pylist() == ["2024-01-01T00:00:00", "2024-01-01T00:00:01.5"]
    floats = pa.array([2.0, 2.0**60, 1e19, 1e-7, 0.1], pa.float64())
    expected = ["2", str(2**60), "1" + "0" * 19, "0.0000001", "0.1"]
    assert value_texts(floats).to_pylist() == expected
    assert value_texts(pa.array([[1.0, None]])).to_pylist() == ["[1, null]"]
    assert value_texts(pa.array([{"a": 1.0, "b": "x"}])).to_pylist() == ['{"a": 1, "b": "x"}']


def test_a_time_beyond_the_years_of_the_calendar_is_the_same_in_all_units() -> None:
    old = pa.array([10**12], pa.timestamp("s"))
    assert value_texts(old).equals(value_texts(pa.array([10**18], pa.timestamp("us"))))


NUMBER_CELLS = st.one_of(
    EXACT.map(str),
    st.decimals(-(10**9), 10**9, places=3).map(str),
    st.floats(-1e30, 1e30).map(str),
    st.sampled_from(["5.", ".5", "+1.5", "1E+05", " 7 ", "-0", "0.0", "nan", "-Inf", "NA", ""]),
)


@given(st.lists(NUMBER_CELLS | st.sampled_from(["true", "FALSE"]), max_size=8))
def test_cells_that_are_numbers_have_the_lots_of_these_where_the_column_becomes_text(
    cells: list[str],
) -> None:
    rules, array = TextRules(), pa.array(cells, pa.string())
    kind = classify(array, rules).kind
    before = column_texts(array, rules, kind)
    after = column_texts(array, rules, "bytes")
    had = before.is_valid().to_pylist()
    old = text_digests(before, rules if kind == "bytes" else None)
    new = text_digests(after, rules)
    assert [a for a, lot in zip(new, had, strict=True) if lot] == [
        a for a, lot in zip(old, had, strict=True) if lot
    ]


def test_a_comma_makes_numbers_of_text_where_the_source_says_so() -> None:
    rules = TextRules(decimal=",", thousands=".")
    lots = text_digests(pa.array(["1.234,50", "7,0", "x"]), rules)
    assert lots.tolist() == text_digests(pa.array(["1234.5", "7", "x"])).tolist()


# Whole conversions -------------------------------------------------------------------------------

APPENDED = {
    "decimals": (pa.decimal128(10, 2), Decimal("0.25"), pa.decimal128(12, 3), Decimal("9999.125")),
    "times": (pa.timestamp("ms"), timedelta(hours=1), pa.timestamp("us"), timedelta(days=-1)),
    "integer and decimal": (pa.int64(), 1, pa.decimal128(12, 3), Decimal("9999.125")),
    "floats": (pa.float32(), 0.1, pa.float64(), 0.77),
    "lists": (pa.list_(pa.int32()), 1, pa.list_(pa.float64()), 0.5),
}


def convert(source: Any, dest: Path, **options: Any) -> dict[bytes, str]:
    """The split of each row, by its id."""
    tfrec_cli.convert(source, str(dest), split=HALVES, **options)
    pairs = ((record, name) for name, records in found(dest).items() for record in records)
    return {re.findall(rb"row[0-9]+;", record)[0]: name for record, name in pairs}


def values_of(kind: pa.DataType, step: Any, numbers: range) -> pa.Array:
    values = [number * step for number in numbers]
    if pa.types.is_timestamp(kind):
        values = [BEGINNING + value for value in values]
    return pa.array([[v] for v in values] if pa.types.is_list(kind) else values, kind)


@pytest.mark.parametrize("by", [{"split_by": "k"}, {"key": ("k",)}])
@pytest.mark.parametrize("case", list(APPENDED))
def test_a_file_of_another_type_moves_no_old_row(tmp_path: Path, case: str, by: Any) -> None:
    old, step, new, other = APPENDED[case]
    sources = [str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]
    for source, values, ids in (
        (sources[0], values_of(old, step, range(300)), range(300)),
        (sources[1], values_of(new, other, range(1, 2)), range(300, 301)),
    ):
        pq.write_table(pa.table({"id": [f"row{row};" for row in ids], "k": values}), source)
    before = convert(sources[:1], tmp_path / "before", **by)
    after = convert(sources, tmp_path / "after", **by)
    assert len(after) == 301
    assert {row: after[row] for row in before} == before


@pytest.mark.parametrize("step", [1, 0.5])
@pytest.mark.parametrize("by", [{"split_by": "k"}, {"key": ("k",)}])
def test_a_word_among_the_numbers_of_csv_moves_no_old_row(
    tmp_path: Path, step: float, by: Any
) -> None:
    old, new = tmp_path / "a.csv", tmp_path / "b.csv"
    old.write_text("id,k\n" + "".join(f"row{row};,{row * step}\n" for row in range(300)))
    new.write_text("id,k\nrow300;,abc\n")
    before = convert(str(old), tmp_path / "before", **by)
    after = convert([str(old), str(new)], tmp_path / "after", **by)
    assert {row: after[row] for row in before} == before


def test_texts_that_are_one_number_are_keys_and_classes_of_their_own(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    lines = (f"row{row};,{row // 2}{'.0' * (row % 2)}\n" for row in range(100))
    source.write_text("id,k\n" + "".join(lines) + "row100;,x")
    exact: Any = {"key": ("k",), "split_exact": True}
    splits = list(convert(str(source), tmp_path / "exact", **exact).values())
    assert sorted((splits.count("train"), splits.count("test"))) == [50, 51]
    source.write_text(source.read_text() + "\nrow101;,7.0")
    with pytest.raises(SourceError, match=r'"7.0" is there before'):
        convert(str(source), tmp_path / "twice", **exact)
