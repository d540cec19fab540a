"""Random tables of every type that has a place in a record, written and read back by TensorFlow."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import tensorflow as tf
from conftest import parse_examples, read_examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tfrec_cli

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


class Kind(NamedTuple):
    """An Arrow type, its values as Python objects, and what one value is in the record."""

    type: pa.DataType
    values: st.SearchStrategy[Any]
    feature: Callable[[Any], list[Any]]


def number(value: Any) -> list[Any]:
    return [int(value)]


def real(value: Any) -> list[Any]:
    return [float(np.float32(float(value)))]


def text(value: str) -> list[Any]:
    return [value.encode()]


def data(value: bytes) -> list[Any]:
    return [value]


def whole(bits: int, signed: bool) -> st.SearchStrategy[int]:
    # An unsigned 64-bit value past 2^63-1 is an error, tested elsewhere.
    top = 2 ** min(bits - signed, 63) - 1
    return st.integers(-(2 ** (bits - 1)) if signed else 0, top)


def ticks(value_type: pa.DataType, smallest: int, largest: int) -> Kind:
    """A type of time, its values given as integers in its own unit."""
    return Kind(value_type, st.integers(smallest, largest), number)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SINGLE = st.floats(width=32)
DOUBLE = st.floats(-LARGEST_FLOAT32, LARGEST_FLOAT32) | st.sampled_from([math.inf, math.nan, -0.0])
CENTS = st.decimals(-(10**7) + 1, 10**7 - 1, places=2, allow_nan=False, allow_infinity=False)

SCALARS = [
    Kind(pa.bool_(), st.booleans(), number),
    *(Kind(getattr(pa, f"int{n}")(), whole(n, True), number) for n in (8, 16, 32, 64)),
    *(Kind(getattr(pa, f"uint{n}")(), whole(n, False), number) for n in (8, 16, 32, 64)),
    Kind(pa.float16(), st.floats(width=16).map(np.float16), real),
    Kind(pa.float32(), SINGLE, real),
    Kind(pa.float64(), DOUBLE, real),
    Kind(pa.decimal128(9, 2), CENTS, real),
    Kind(pa.decimal256(40, 2), CENTS, real),
    Kind(pa.string(), TEXT, text),
    Kind(pa.large_string(), TEXT, text),
    Kind(pa.string_view(), TEXT, text),
    Kind(pa.binary(), st.binary(max_size=8), data),
    Kind(pa.large_binary(), st.binary(max_size=8), data),
    Kind(pa.binary_view(), st.binary(max_size=20), data),
    Kind(pa.binary(4), st.binary(min_size=4, max_size=4), data),
    Kind(pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b", ""]), text),
    Kind(pa.dictionary(pa.int32(), pa.int64()), st.sampled_from([7, -7, 0]), number),
]
TIMES = [
    *(ticks(pa.timestamp(unit), -(2**40), 2**40) for unit in ("s", "ms", "us", "ns")),
    ticks(pa.timestamp("us", tz="Europe/Berlin"), -(2**40), 2**40),
    ticks(pa.date32(), -100_000, 100_000),
    ticks(pa.time32("s"), 0, 86_399),
    ticks(pa.time32("ms"), 0, 86_399_999),
    ticks(pa.time64("us"), 0, 86_399_999_999),
    ticks(pa.time64("ns"), 0, 86_399_999_999_999),
    *(ticks(pa.duration(unit), -(2**62), 2**62) for unit in ("s", "ms", "us", "ns")),
]


def several(item: Kind, make: Callable[[pa.DataType], pa.DataType]) -> Kind:
    values = st.lists(item.values, max_size=4)
    return Kind(make(item.type), values, lambda v: [x for i in v for x in item.feature(i)])


def three(item: Kind) -> Kind:
    values = st.lists(item.values, min_size=3, max_size=3)
    return Kind(pa.list_(item.type, 3), values, lambda v: [x for i in v for x in item.feature(i)])


LISTS = [
    *(several(item, make) for item in SCALARS[:15] for make in (pa.list_, pa.large_list)),
    *(three(item) for item in (SCALARS[4], SCALARS[10], SCALARS[14])),
]
KINDS = st.sampled_from([*SCALARS, *TIMES, *LISTS])


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, list[dict[str, list[Any]]]]:
    """A table in random chunks, and the records it should become."""
    rows = draw(st.integers(1, 12))
    names = draw(st.lists(TEXT.filter(str.strip), min_size=1, max_size=4, unique=True))
    arrays: dict[str, pa.Array] = {}
    records: list[dict[str, list[Any]]] = [{} for _ in range(rows)]
    for name in names:
        kind = draw(KINDS)
        cells = draw(st.lists(st.none() | kind.values, min_size=rows, max_size=rows))
        if all(cell is None for cell in cells):
            continue
        arrays[name] = array(kind, cells)
        for record, cell in zip(records, cells, strict=True):
            record |= {} if cell is None else {name: kind.feature(cell)}
    arrays["row number"] = pa.array(range(rows))
    for position, record in enumerate(records):
        record["row number"] = [position]
    cut = draw(st.integers(0, rows))
    table = pa.table(arrays)
    return pa.concat_tables([table[:cut], table[cut:]]), records


def array(kind: Kind, cells: list[Any]) -> pa.Array:
    if pa.types.is_temporal(kind.type):
        width = pa.int32() if kind.type.bit_width == 32 else pa.int64()
        return pa.array(cells, width).cast(kind.type)
    if pa.types.is_dictionary(kind.type):
        return pa.array(cells, kind.type.value_type).dictionary_encode().cast(kind.type)
    return pa.array(cells, kind.type)


def same(found: list[Any], expected: list[Any]) -> bool:
    """Equal, the sign of zero and NaN included."""
    return len(found) == len(expected) and all(
        (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
        if isinstance(b, float)
        else a == b
        for a, b in zip(found, expected, strict=True)
    )


SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@SETTINGS
@given(tables(), st.integers(1, 4), st.sampled_from(["none", "gzip", "zlib"]))
def test_random_tables(
    made: tuple[pa.Table, list[dict[str, list[Any]]]], shards: int, compression: str
) -> None:
    table, expected = made
    with tempfile.TemporaryDirectory() as folder:
        dest = Path(folder) / "out"
        tfrec_cli.convert(table, dest, shards=shards, compression=compression)
        found, parsed = read_examples(dest), parse_examples(dest, spec_of(expected))
    for record, wanted in zip(found, expected, strict=True):
        assert record.keys() == wanted.keys()
        assert [name for name in wanted if not same(record[name], wanted[name])] == []
    for name, batch in parsed.items():
        wholes = [record.get(name, []) for record in expected]
        assert all(map(same, batch.to_list(), wholes)), name


def spec_of(records: list[dict[str, list[Any]]]) -> dict[str, Any]:
    """A ragged feature of the right type for each name that has a value somewhere."""
    types = {int: tf.int64, float: tf.float32, bytes: tf.string}
    kinds = {name: types[type(v[0])] for record in records for name, v in record.items() if v}
    return {name: tf.io.RaggedFeature(kind) for name, kind in kinds.items()}


def test_structs_are_flattened(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": {"c": ""}}, {"a": 4, "b": None}]
    type_ = pa.struct([("a", pa.int16()), ("b", pa.struct([("c", pa.string())]))])
    table = pa.table({"n": [0, 1, 2, 3], "s": pa.array(rows, type_)})
    tfrec_cli.convert(table, tmp_path / "out")
    assert read_examples(tmp_path / "out") == [
        {"n": [0], "s/a": [1], "s/b/c": [b"x"]},
        {"n": [1]},
        {"n": [2], "s/b/c": [b""]},
        {"n": [3], "s/a": [4]},
    ]


def test_lists_of_lists_come_with_row_lengths(tmp_path: Path) -> None:
    rows = [[[1, 2], [], [3]], None, [], [[4]]]
    table = pa.table({"n": [0, 1, 2, 3], "x": pa.array(rows, pa.list_(pa.list_(pa.int64())))})
    tfrec_cli.convert(table, tmp_path / "out")
    feature = tf.io.RaggedFeature(
        tf.int64, value_key="x", partitions=[tf.io.RaggedFeature.RowLengths("x/row_lengths")]
    )
    batch = parse_examples(tmp_path / "out", {"x": feature})
    assert batch["x"].to_list() == [row or [] for row in rows]
    assert "x" not in read_examples(tmp_path / "out")[1]


def test_columns_without_any_value_are_left_out(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2], "nothing": pa.nulls(2)})
    tfrec_cli.convert(table, tmp_path / "out")
    assert read_examples(tmp_path / "out") == [{"n": [1]}, {"n": [2]}]
