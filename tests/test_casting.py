"""Casting against plain Python, one value at a time."""

import datetime as dt
import decimal
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli import wrappings
from tfrec_cli.casting import arrays, cast
from tfrec_cli.encoding import encode_rows
from tfrec_cli.schema.binding import BoundFeature, Missing
from tfrec_cli.schema.grammar import TextRules
from tfrec_cli.schema.labels import count_values, sort_labels

OMIT = Missing("omit")
TEXT = TextRules()


def default(value):
    return Missing("default", value)


def feature(kind, column="c", **more):
    more.setdefault("missing", OMIT)
    columns = (column,) if isinstance(column, str) else column
    return BoundFeature("key", kind, columns, **more)


def cast_one(array, bound):
    """The cast of one column `c`."""
    return cast(pa.record_batch({"c": array}), [bound])


def values(array, bound):
    """The values of a column that has no faults."""
    result = cast_one(array, bound)
    assert result.faults == ()
    assert encode_rows(result.columns).ends is not None  # the kernel takes what casting makes
    return result.columns[0].array.to_pylist()


def bits(value):
    return None if value is None else np.float32(value).tobytes()


# Every Arrow type: how to make values of it, and what they are as a feature.


def of(integers, kind):
    """Values of a type that counts units, from the counts."""
    wide = pa.array(integers, pa.int64() if kind.bit_width == 64 else pa.int32())
    return wide.view(kind)


def ints(low, high):
    return st.integers(low, high)


INTEGERS = {
    pa.int8(): ints(-128, 127),
    pa.int16(): ints(-(2**15), 2**15 - 1),
    pa.int32(): ints(-(2**31), 2**31 - 1),
    pa.int64(): ints(-(2**63), 2**63 - 1),
    pa.uint8(): ints(0, 255),
    pa.uint16(): ints(0, 2**16 - 1),
    pa.uint32(): ints(0, 2**32 - 1),
    pa.uint64(): ints(0, 2**63 - 1),
    pa.bool_(): st.booleans(),
}
FLOATS = {
    pa.float16(): st.floats(width=16, allow_nan=False),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(-3e38, 3e38) | st.sampled_from([math.inf, -math.inf, -0.0, 5e-324]),
}
VIEW = pa.string_view()
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BINARIES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3)]
TIMES = [
    *(pa.timestamp(unit, tz) for unit in ("s", "ms", "us", "ns") for tz in (None, "Asia/Tokyo")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
]


@st.composite
def columns(draw):
    """(array, feature type, expected values) of a random type, with nulls."""
    family = draw(st.sampled_from(["int", "float", "text", "binary", "time", "decimal"]))
    if family == "int":
        kind = draw(st.sampled_from(list(INTEGERS)))
        cells = draw(st.lists(st.none() | INTEGERS[kind], max_size=6))
        return pa.array(cells, kind), "int64", [None if c is None else int(c) for c in cells]
    if family == "float":
        kind = draw(st.sampled_from(list(FLOATS)))
        cells = draw(st.lists(st.none() | FLOATS[kind], max_size=6))
        as_numpy = np.array([0 if c is None else c for c in cells], kind.to_pandas_dtype())
        array = pa.array(as_numpy, mask=np.array([c is None for c in cells], bool))
        return array, "float", list(map(bits, cells))
    if family == "text":
        cells = draw(st.lists(st.none() | st.text(max_size=14), max_size=6))
        expected = [None if c is None else c.encode() for c in cells]
        return pa.array(cells, draw(st.sampled_from(TEXTS))), "bytes", expected
    if family == "binary":
        kind = draw(st.sampled_from(BINARIES))
        size = 3 if pa.types.is_fixed_size_binary(kind) else None
        one = st.binary(min_size=size or 0, max_size=size or 14)
        cells = draw(st.lists(st.none() | one, max_size=6))
        return pa.array(cells, kind), "bytes", cells
    if family == "time":
        kind = draw(st.sampled_from(TIMES))
        cells = draw(st.lists(st.none() | counts(kind), max_size=6))
        return of(cells, kind), "int64", cells
    bits_of = draw(st.sampled_from([18, 38, 60]))
    scale = draw(ints(-3, bits_of))
    digits = st.integers(-(10**bits_of) + 1, 10**bits_of - 1)
    numbers = draw(st.lists(st.none() | digits, max_size=6))
    cells = [None if n is None else scaled(n, scale) for n in numbers]
    make = pa.decimal128 if bits_of < 39 else pa.decimal256
    # The digits alone: some releases of Arrow refuse values with a scale below 0.
    whole = pa.array([None if n is None else decimal.Decimal(n) for n in numbers], make(bits_of, 0))
    array = pa.Array.from_buffers(make(bits_of, scale), len(whole), whole.buffers())
    if draw(st.booleans()):
        return array, "bytes", [None if c is None else format(c, "f").encode() for c in cells]
    if any(c is not None and abs(c) > 3e38 for c in cells):
        return array[:0], "float", []
    return array, "float", [None if c is None else bits(float(c)) for c in cells]


def counts(kind):
    """The counts of units that a type of time allows."""
    if pa.types.is_date64(kind):
        day = 86_400_000
        return ints(-(2**63) // day + 1, 2**63 // day - 1).map(lambda days: days * day)
    if pa.types.is_time(kind):
        return ints(0, 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit] - 1)
    span = 2 ** (kind.bit_width - 1)
    return ints(-span, span - 1)


def scaled(number, scale):
    with decimal.localcontext(decimal.Context(prec=80)):
        return decimal.Decimal(number).scaleb(-scale)


def plain_result(found, kind):
    return list(map(bits, found)) if kind == "float" else found


@given(columns())
def test_every_type_by_value(case):
    array, kind, expected = case
    assert plain_result(values(array, feature(kind)), kind) == expected


@given(columns(), st.data())
def test_every_type_in_every_wrapping(case, data):
    array, kind, expected = case
    cut = data.draw(ints(0, len(array)))
    codes = data.draw(st.lists(st.none() | ints(0, max(len(array) - 1, 0)), max_size=6))
    codes = codes if len(array) else [None] * len(codes)
    chosen = [None if code is None else expected[code] for code in codes]
    indices = pa.array(codes, pa.int32())
    dictionary = pa.DictionaryArray.from_arrays(indices, array)
    assert plain_result(values(dictionary, feature(kind)), kind) == chosen
    runs = pa.RunEndEncodedArray.from_arrays(
        pa.array(np.arange(2, 2 * len(array) + 2, 2), pa.int32()), array
    )
    twice = [value for value in expected for _ in "ab"]
    sliced = runs[cut:] if len(array) else runs
    assert plain_result(values(sliced, feature(kind)), kind) == twice[cut:]
    parents = data.draw(st.lists(st.booleans(), min_size=len(array), max_size=len(array)))
    struct = pa.StructArray.from_arrays([array], ["x"], mask=pa.array(parents, pa.bool_()))
    hidden = [None if gone else value for value, gone in zip(expected, parents, strict=True)]
    found = values(struct[cut:], feature(kind, path=("x",)))
    assert plain_result(found, kind) == hidden[cut:]


LISTS = {
    "list": lambda k: pa.list_(k),
    "large": lambda k: pa.large_list(k),
    "view": lambda k: pa.list_view(k),
    "large view": lambda k: pa.large_list_view(k),
}
int_lists = st.none() | st.lists(st.none() | ints(-9, 9), max_size=4)


@pytest.mark.parametrize("form", LISTS)
@given(rows=st.lists(int_lists, max_size=6), cut=ints(0, 3))
def test_ragged_lists(form, rows, cut):
    array = pa.array(rows, LISTS[form](pa.int16()))[cut:]
    expected = [None if row is None else [v for v in row if v is not None] for row in rows[cut:]]
    dropping = feature("int64", ragged=1, null_item=OMIT)
    assert values(array, dropping) == expected
    filling = feature("int64", ragged=1, null_item=default(5), missing=default([1, 2]))
    filled = [[1, 2] if r is None else [5 if v is None else v for v in r] for r in rows[cut:]]
    assert values(array, filling) == filled
    strict = cast_one(array, feature("int64", ragged=1))
    assert [f.row for f in strict.faults] == [
        i for i, row in enumerate(rows[cut:]) if row is not None and None in row
    ]


nested_rows = st.none() | st.lists(
    st.none() | st.lists(st.lists(ints(0, 9), max_size=3), max_size=3), max_size=3
)


@pytest.mark.parametrize("form", LISTS)
@given(rows=st.lists(nested_rows, max_size=5), cut=ints(0, 2))
def test_nested_lists_keep_their_row_lengths(form, rows, cut):
    make = LISTS[form]
    array = pa.array(rows, make(pa.list_(make(pa.int64()))))[cut:]
    result = cast_one(array, feature("int64", ragged=3, null_item=OMIT))
    assert result.faults == ()
    assert [c.key for c in result.columns] == ["key", "key/row_lengths_0", "key/row_lengths_1"]
    found = zip(*(c.array.to_pylist() for c in result.columns), strict=True)
    for row, (flat, outer, inner) in zip(rows[cut:], found, strict=True):
        if row is None:
            assert (flat, outer, inner) == (None, None, None)
            continue
        kept = [level for level in row if level is not None]
        assert outer == [len(level) for level in kept]
        assert inner == [len(items) for level in kept for items in level]
        assert flat == [item for level in kept for items in level for item in items]


def test_two_levels_name_their_row_lengths():
    array = pa.array([[[1.5], [2, 3]], [], None, [[]]], pa.list_(pa.list_(pa.float64())))
    result = cast_one(array, feature("float", ragged=2, missing=default([[7], []])))
    found = {c.key: c.array.to_pylist() for c in result.columns}
    assert found == {
        "key": [[1.5, 2, 3], [], [7], []],
        "key/row_lengths": [[1, 2], [], [1, 0], [0]],
    }


@pytest.mark.parametrize("form", LISTS)
@given(rows=st.lists(st.none() | st.lists(st.text(max_size=14), max_size=3), max_size=5))
def test_lists_of_text_views(form, rows):
    array = pa.array([None if r is None else [r] for r in rows], LISTS[form](LISTS[form](VIEW)))
    expected = [None if row is None else [text.encode() for text in row] for row in rows]
    runs = pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(rows) + 1), pa.int32()), array)
    for lists in (array, runs):
        assert values(lists, feature("bytes", ragged=1)) == expected


def test_a_null_list_inside_a_list_is_a_fault():
    array = pa.array([[[1], None], [[2]]])
    assert [f.row for f in cast_one(array, feature("int64", ragged=2)).faults] == [0]


@given(st.lists(st.none() | st.lists(ints(0, 9), max_size=5), max_size=6))
def test_shapes_refuse_other_lengths(rows):
    result = cast_one(pa.array(rows, pa.list_(pa.int8())), feature("int64", shape=(2, 2)))
    wrong = [i for i, row in enumerate(rows) if row is not None and len(row) != 4]
    assert [f.row for f in result.faults] == wrong
    for fault in result.faults:
        assert fault.reason == f"has {len(rows[fault.row])} values, not the 4 of shape [2, 2]"
    for i, row in enumerate(rows):
        if i not in wrong:
            assert result.columns[0].array[i].as_py() == row


def test_nested_shapes_are_rectangular():
    kind = pa.list_(pa.list_(pa.int64(), 2))
    array = pa.array([[[1, 2], [3, 4], [5, 6]], [[1, 2]], None], kind)
    result = cast_one(array, feature("int64", shape=(3, 2), missing=default(0)))
    assert [f.row for f in result.faults] == [1]
    assert result.columns[0].array.to_pylist()[::2] == [[1, 2, 3, 4, 5, 6], [0] * 6]
    loose = pa.array([[[1, 2, 3], [4]], [[1, 2], [3, 4]]])
    result = cast_one(loose, feature("int64", shape=(2, 2)))
    assert [(f.row, f.reason) for f in result.faults] == [
        (0, "holds lists of other lengths than shape [2, 2]")
    ]


def test_fixed_size_lists_with_null_rows():
    array = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.float32(), 2))
    assert values(array[1:], feature("float", shape=(2,))) == [None, [3, 4]]
    tensor = pa.fixed_shape_tensor(pa.float32(), [2])
    wrapped = pa.ExtensionArray.from_storage(tensor, array)
    assert values(wrapped, feature("float", shape=(2,))) == [[1, 2], None, [3, 4]]


def test_an_empty_list_of_a_feature_that_is_not_ragged_is_missing():
    assert values(pa.array([[1], []]), feature("int64")) == [[1], None]


def test_list_of_structs_by_path():
    boxes = pa.array([[{"x": 1.5, "y": 2}, {"x": 2.5, "y": 3}], None, [None]])
    bound = feature("float", path=("x",), ragged=1, null_item=OMIT)
    assert values(boxes, bound) == [[1.5, 2.5], None, []]


def test_scalars_as_lists_of_one():
    assert values(pa.array([1, None]), feature("int64", shape=(1,))) == [[1], None]
    array = pa.array(["1", "", None, "3"])
    assert values(array, feature("int64", ragged=1, text=TEXT)) == [[1], None, None, [3]]


# Values that do not fit.


def faults(array, bound):
    return [(f.row, f.column, f.value, f.reason) for f in cast_one(array, bound).faults]


def test_uint64_beyond_int64_names_the_value():
    array = pa.array([7, 2**63 - 1, 2**63, None], pa.uint64())
    reason = "is beyond int64 (-2^63 to 2^63-1)"
    assert faults(array, feature("int64")) == [(2, "c", str(2**63), reason)]
    assert cast_one(array, feature("int64")).columns[0].array[1].as_py() == 2**63 - 1
    assert values(array, feature("bytes")) == [b"7", b"9223372036854775807", b"%d" % 2**63, None]


def test_a_finite_float_never_becomes_infinite():
    array = pa.array([1e39, math.inf, math.nan, None, -3.5e38, 0.1])
    result = cast_one(array, feature("float"))
    assert [(f.row, f.value) for f in result.faults] == [(0, "1e+39"), (4, "-3.5e+38")]
    found = result.columns[0].array.to_pylist()
    assert found[1] == math.inf
    assert math.isnan(found[2])
    assert found[3] is None
    text = pa.array(["1.5", "1e39", "-3.5e38", "1e-50", "inf", "1e400"])
    reason = "is beyond float32 (about 3.4e38) and would become infinite"
    assert faults(text, feature("float", text=TEXT)) == [
        (row, "c", value, reason) for row, value in ((1, "1e39"), (2, "-3.5e38"), (5, "1e400"))
    ]


@given(st.lists(st.floats(width=64, allow_nan=False), min_size=1, max_size=20))
def test_float32_is_rounded_as_numpy_does(numbers):
    result = cast_one(pa.array(numbers), feature("float"))
    with np.errstate(over="ignore"):
        rounded = np.array(numbers).astype(np.float32)
    bad = np.isinf(rounded) & np.isfinite(numbers)
    assert [f.row for f in result.faults] == np.flatnonzero(bad).tolist()
    found = result.columns[0].array
    for place in np.flatnonzero(~bad).tolist():
        assert bits(found[place].as_py()) == rounded[place].tobytes()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_integers_as_floats_are_rounded_once(numbers):
    expected = np.array(numbers, np.int64).astype(np.float32).tolist()
    assert values(pa.array(numbers), feature("float")) == expected


def test_floats_and_decimals_asked_as_int64():
    reason = "is not an int64"
    array = pa.array([12.0, 12.5, math.nan, None, -0.0, 1e300])
    assert [(row, why) for row, _, _, why in faults(array, feature("int64"))] == [
        (1, reason),
        (2, reason),
        (5, "is beyond int64 (-2^63 to 2^63-1)"),
    ]
    money = pa.array([decimal.Decimal("12.00"), decimal.Decimal("12.50"), None])
    assert faults(money, feature("int64")) == [(1, "c", "12.50", reason)]


def test_hints_lead_to_the_way_out():
    result = cast_one(pa.array(["12.5", "five", None]), feature("int64", text=TEXT))
    assert [f.hint for f in result.faults] == [
        "Make it a float in the schema (key: float), or use --on-error skip.",
        "Make it bytes in the schema (key: bytes), or use --on-error skip.",
    ]


def test_a_type_that_cannot_be_read_is_a_fault_not_a_crash():
    pairs = pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))
    for array in (pairs, pa.array([b"\xff", None]), pa.array([{"a": 1}, None])):
        for kind in ("int64", "float"):
            assert [row for row, *_ in faults(array, feature(kind))] == [0]


def test_at_most_one_fault_a_row_that_of_the_first_feature():
    batch = pa.record_batch({"a": ["x", "1", "w"], "b": ["1", "z", "z"]})
    bound = [BoundFeature(name, "int64", (name,), text=TEXT) for name in "ab"]
    assert [(f.row, f.column) for f in cast(batch, bound).faults] == [(0, "a"), (1, "b"), (2, "a")]


# Missing values.


def test_missing_error_omit_default():
    array = pa.array([1, None])
    strict = feature("int64", missing=Missing())
    assert faults(array, strict) == [(1, "c", None, "has no value")]
    assert values(array, feature("int64")) == [1, None]
    assert values(array, feature("int64", missing=default(-1))) == [1, -1]
    assert values(pa.array(["", None]), feature("bytes", missing=default("?"))) == [b"", b"?"]
    assert values(pa.array([1.5, None]), feature("float", missing=default(0))) == [1.5, 0]


def test_a_column_without_any_value():
    assert values(pa.nulls(2), feature("bytes")) == [None, None]
    assert values(pa.nulls(2), feature("float", shape=(2,), missing=default(1))) == [[1, 1]] * 2
    nested = cast_one(pa.nulls(2), feature("int64", ragged=2))
    assert [c.array.to_pylist() for c in nested.columns] == [[None, None], [None, None]]


def test_empty_text_is_a_value_and_empty_numbers_are_missing():
    array = pa.array(["", "NA", " ", "7"])
    assert values(array, feature("bytes", text=TEXT)) == [b"", b"NA", b" ", b"7"]
    assert values(array, feature("int64", text=TEXT)) == [None, None, None, 7]
    declared = TextRules(null_words=("NA",))
    assert values(array, feature("bytes", text=declared)) == [b"", None, b" ", b"7"]


# Labels, separators, vectors, constants.


def test_labels_by_text():
    names = ("cat", "dog", "2")
    array = pa.array(["dog", None, "cat"]).dictionary_encode()
    assert values(array, feature("int64", labels=names)) == [1, None, 0]
    assert values(pa.array([2, None]), feature("int64", labels=names)) == [2, None]
    odd = pa.array(["dgo", "cat", None, "wombat"])
    result = cast_one(odd, feature("int64", labels=names))
    assert [(f.row, f.value, f.hint) for f in result.faults] == [
        (0, "dgo", 'Did you mean "dog"?'),
        (3, "wombat", "Add it to the labels of key, set `unknown` there, or use --on-error skip."),
    ]
    other = feature("int64", labels=names, unknown=default(-1), missing=default("dog"))
    assert values(odd, other) == [-1, 0, 1, -1]
    left_out = feature("int64", labels=names, unknown=OMIT, missing=Missing())
    result = cast_one(odd, left_out)
    assert [f.row for f in result.faults] == [2]
    assert result.columns[0].array.to_pylist() == [None, 0, None, None]
    many = feature("int64", labels=names, unknown=OMIT, ragged=1)
    assert values(pa.array([["dog", "owl", "cat"], []]), many) == [[1, 0], []]


VIEWS = pa.array(["a", None, "b"], pa.string_view())
DIGITS = [decimal.Decimal("0.0000001"), None, decimal.Decimal("12000000")]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([3, None, 1, 3]),
        pa.array([1.5, 1e20, float("inf"), None]),
        pa.array([True, None, False]),
        pa.array(DIGITS, pa.decimal128(30, 7)),
        pa.array([b"a", b"\xff"]),
        pa.array([0, 10**9, None], pa.timestamp("ms", "UTC")),
        pa.array([0, 1], pa.date32()),
        pa.array([1500, None], pa.duration("ms")),
        pa.array(["a", None, "b"]).dictionary_encode(),
        pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), ["x", "y"]),
        VIEWS,
        pa.array([None, None]),
    ],
    ids=lambda array: str(array.type),
)
def test_values_that_are_counted_as_labels_are_found_as_labels(array):
    names = sort_labels(count_values(array))
    result = cast_one(array, feature("int64", labels=names))
    assert result.faults == ()
    numbers = result.columns[0].array
    assert numbers.null_count == sum(value is None for value in array.to_pylist())
    assert set(numbers.drop_null().to_pylist()) == set(range(len(names)))


def test_separators():
    array = pa.array(["1 2  3", "", " ", None, " 4 ", "NA"])
    bound = feature("int64", text=TEXT, separator=" ", ragged=1)
    assert values(array, bound) == [[1, 2, 3], None, None, None, [4], None]
    words = feature("bytes", text=TEXT, separator="|", ragged=1)
    assert values(pa.array(["a|b", "a||b", "NA"]), words) == [
        [b"a", b"b"],
        [b"a", b"", b"b"],
        [b"NA"],
    ]
    gaps = pa.array(["1;;2", "1; x;3"])
    bound = feature("float", text=TEXT, separator=";", shape=(3,))
    assert faults(gaps, bound) == [
        (0, "c", None, "holds a null among its items"),
        (1, "c", " x", "is not a float"),
    ]


@given(rows=st.lists(st.tuples(*[st.none() | ints(0, 255)] * 3), max_size=6), text=st.booleans())
def test_vectors_from_many_columns(rows, text):
    table = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    arrays = [pa.array(column, pa.int64()) for column in table]
    arrays = [a.cast(pa.string()) for a in arrays] if text else arrays
    batch = pa.record_batch(arrays, ["p0", "p1", "p2"])
    rules = TEXT if text else None
    names = ("p0", "p1", "p2")
    expected = [None if row == (None,) * 3 else list(row) for row in rows]
    for kind in ("int64", "float", "bytes"):
        bound = feature(kind, names, text=rules, shape=(3,), null_item=default(9))
        found = cast(batch, [bound])
        assert found.faults == ()
        as_kind = (lambda v: str(v).encode()) if kind == "bytes" else int
        assert found.columns[0].array.to_pylist() == [
            row and [as_kind(9 if v is None else v) for v in row] for row in expected
        ]
        strict = cast(batch, [feature(kind, names, text=rules, shape=(3,))])
        assert [(f.row, f.column) for f in strict.faults] == [
            (i, names[row.index(None)]) for i, row in enumerate(expected) if row and None in row
        ]


def test_vectors_name_the_column_of_a_bad_cell():
    batch = pa.record_batch({"p0": ["1", "2"], "p1": ["x", "3"]})
    found = cast(batch, [feature("float", ("p0", "p1"), text=TEXT, shape=(2,))])
    assert [(f.row, f.column, f.value) for f in found.faults] == [(0, "p1", "x")]


def test_constants():
    batch = pa.record_batch({"c": [1, 2]})
    bound = [
        BoundFeature("a", "bytes", constant="x"),
        BoundFeature("b", "float", constant=1, shape=(2,)),
        BoundFeature("c", "int64", constant=[1, 2], ragged=1),
    ]
    found = [c.array.to_pylist() for c in cast(batch, bound).columns]
    assert found == [[b"x"] * 2, [[1, 1]] * 2, [[1, 2]] * 2]


# Text forms.


def test_iso_8601():
    stamps = pa.array(
        [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None],
        pa.timestamp("us"),
    )
    bound = feature("bytes", time="iso8601")
    assert values(stamps, bound) == [
        b"0001-01-01T00:00:00.000000",
        b"9999-12-31T23:59:59.999999",
        None,
    ]
    assert values(of([-1], pa.timestamp("ns", "Asia/Tokyo")), bound) == [
        b"1969-12-31T23:59:59.999999999Z"
    ]
    assert values(of([0], pa.timestamp("s")), bound) == [b"1970-01-01T00:00:00"]
    assert values(of([-719162, 2932896], pa.date32()), bound) == [b"0001-01-01", b"9999-12-31"]
    assert values(of([86399], pa.time32("s")), bound) == [b"23:59:59"]
    assert values(of([-1500], pa.duration("ms")), bound) == [b"-PT1.500S"]
    far = of([2**60], pa.timestamp("s"))
    assert [f[:3] for f in faults(far, bound)] == [(0, "c", str(2**60))]


def test_maps_and_structs_as_json():
    kind = pa.map_(pa.string(), pa.struct([("when", pa.date32()), ("raw", pa.binary())]))
    rows = [[("ä", {"when": dt.date(2024, 1, 1), "raw": b"\xff"})], [], None]
    found = values(pa.array(rows, kind), feature("bytes"))
    assert json.loads(found[0]) == {"ä": {"when": "2024-01-01", "raw": "/w=="}}
    assert found[1:] == [b"{}", None]
    by_number = pa.array([[(1, math.nan)]], pa.map_(pa.int64(), pa.float64()))
    assert values(by_number, feature("bytes")) == [b"[[1, null]]"]


def test_dictionary_with_null_among_its_values():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0]), pa.array(["a", None]))
    assert values(array, feature("bytes")) == [b"a", None, None, b"a"]


def test_text_beyond_the_narrow_offsets_gets_wide_ones(monkeypatch):
    for module in (arrays, wrappings):
        monkeypatch.setattr(module, "_INT32_MAX", 10)  # in place of 2 GiB
    spread = wrappings.spread(pa.array(["abcdef", None]), pa.array([0, 0, 1, None]))
    assert (spread.type, spread.to_pylist()) == (pa.large_string(), ["abcdef"] * 2 + [None] * 2)
    filled = arrays.fill(pa.array([b"x", None]), pa.array([b"123456"]))
    assert (filled.type, filled.to_pylist()) == (pa.large_binary(), [b"x", b"123456"])


def test_no_rows():
    batch = pa.record_batch({"c": pa.array([], pa.string())})
    bound = [
        BoundFeature("a", "int64", ("c",), text=TEXT),
        BoundFeature("b", "bytes", ("c",), labels=("x",)),
        BoundFeature("d", "float", ("c", "c"), text=TEXT, shape=(2,)),
        BoundFeature("e", "int64", ("c",), text=TEXT, separator=" ", ragged=1),
        BoundFeature("f", "int64", constant=1),
    ]
    found = cast(batch, bound)
    assert found.faults == ()
    assert [len(c.array) for c in found.columns] == [0] * 5
    assert len(encode_rows(found.columns).ends) == 0
