"""Examples to columns: both bodies of the kernel find the same, and what protobuf finds."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from conftest import body_or_skip
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_examples import (
    BODIES,
    FEATURES,
    MESSAGES,
    entry,
    example,
    field,
    floats,
    frames,
    ints,
    texts,
)

from tfrec_cli import _kernel as kernel
from tfrec_cli._kernel import FeatureColumn, Wanted
from tfrec_cli._kernel._reference import _messages

ARROW = {"int64": pa.int64(), "float": pa.float32(), "bytes": pa.binary()}
KEYS = [b"a", b"b", b"image/encoded", b"\xff", b"", b"not there"]
WANTED = st.lists(
    st.builds(Wanted, st.sampled_from(KEYS), st.sampled_from(sorted(ARROW)), st.booleans()),
    max_size=6,
    unique_by=lambda wanted: wanted.key,
)


@pytest.fixture(params=BODIES)
def body(request, monkeypatch):
    """Each body in turn behind the door."""
    monkeypatch.setattr(kernel, "_body", body_or_skip(request.param))
    return request.param


def decode(records, *wanted):
    return kernel.decode_examples(*frames(records), wanted)


def values(decoded):
    """The columns as Python values; floats as their bits, for the sake of NaN."""
    return [bits(column) for column in decoded.columns]


def bits(column):
    if pa.types.is_list(column.type) and pa.types.is_float32(column.type.value_type):
        return [None if c is None else np.array(c, "<f4").tobytes() for c in column.to_pylist()]
    if pa.types.is_float32(column.type):
        return [None if c is None else np.array(c, "<f4").tobytes() for c in column.to_pylist()]
    return column.to_pylist()


def agreed(records, wanted):
    """What both bodies say of `records`."""
    data, ends = frames(records)
    reference, native = (body_or_skip(name).decode_examples(data, ends, wanted) for name in BODIES)
    for column, one in zip(native.columns, wanted, strict=True):
        column.validate(full=True)
        assert len(column) == len(records)
        kind = ARROW[one.kind]
        assert column.type == (pa.list_(kind) if one.is_list else kind)
    assert values(native) == values(reference)
    assert native.faults.tolist() == reference.faults.tolist()
    assert native.unknown == reference.unknown
    assert native.invalid.tolist() == reference.invalid.tolist()
    assert (native.sequences, native.sequence) == (reference.sequences, reference.sequence)
    return native


# Messages of any make, sound and broken


@given(st.lists(MESSAGES, max_size=6), WANTED)
def test_both_bodies_decode_the_same(records, wanted):
    agreed(records, wanted)


@given(st.lists(MESSAGES, min_size=1, max_size=4), WANTED, st.randoms(use_true_random=False))
def test_both_bodies_decode_the_same_of_broken_messages(records, wanted, chance):
    broken = []
    for record in records:
        changed = bytearray(record)
        for _ in range(chance.randrange(4)):
            if changed:
                changed[chance.randrange(len(changed))] = chance.choice(
                    [0, 1, 8, 10, 18, 26, 0x7F, 0x80, 0xFF, chance.randrange(256)]
                )
        broken.append(bytes(changed[: chance.randrange(len(changed) + 1) or None]))
    agreed(broken, wanted)


PLAIN = st.fixed_dictionaries(
    {
        b"i": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40).map(lambda v: ints(*v)),
        b"f": st.lists(st.floats(width=32), max_size=5).map(lambda v: floats(*v)),
        b"t": st.lists(st.binary(max_size=40), max_size=4).map(lambda v: texts(*v)),
        b"one": st.integers(-(2**63), 2**63 - 1).map(lambda v: ints(v)),
        b"word": st.binary(max_size=200).map(lambda v: texts(v)),
    }
).map(lambda features: example(*(entry(k, f) for k, f in features.items())))
ALL = [
    Wanted(b"one", "int64"), Wanted(b"i", "int64", True), Wanted(b"f", "float", True),
    Wanted(b"t", "bytes", True), Wanted(b"word", "bytes"),
]  # fmt: skip


@given(st.lists(PLAIN, min_size=2, max_size=5), st.data())
def test_plain_records_with_a_byte_changed_or_cut_off(records, data):
    """What most records look like, so that the short way through the decoder is hit."""
    which = data.draw(st.integers(0, len(records) - 1))
    at = data.draw(st.integers(0, len(records[which]) - 1))
    changed = bytearray(records[which])
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    cut = bytes(changed[: at if data.draw(st.booleans()) else None])
    agreed([*records[:which], cut, *records[which + 1 :]], ALL)


@given(st.dictionaries(st.sampled_from(["a", "b", "é", "image/encoded"]), FEATURES), st.booleans())
def test_protobuf_decodes_the_same(features, is_list):
    record = example(*(entry(key.encode(), feature) for key, feature in features.items()))
    message = _messages()["Example"].FromString(record)
    parsed = _messages()["Features"].FromString(message.features).feature
    for key in features:
        kind = parsed[key].WhichOneof("kind")
        name = (kind or "bytes_list").removesuffix("_list")
        expected = list(getattr(parsed[key], kind).value) if kind else None
        decoded = agreed([record], [Wanted(key.encode(), name, is_list)])
        (cell,) = values(decoded)[0]
        if kind == "float_list":
            expected = np.array(expected, "<u4").tobytes()
            expected = expected if is_list or len(expected) == 4 else None
        elif not is_list and expected is not None:
            expected = expected[0] if len(expected) == 1 else None
        assert cell == expected


@given(st.data())
def test_what_the_kernel_encodes_is_decoded(data):
    rows = data.draw(st.integers(0, 12))
    columns, wanted = [], []
    for number, kind in enumerate(("int64", "float", "bytes")):
        items = {
            "int64": st.integers(-(2**63), 2**63 - 1),
            "float": st.floats(width=32, allow_nan=False),
            "bytes": st.binary(max_size=30),
        }[kind]
        for is_list in (False, True):
            cells = st.lists(items, max_size=20) if is_list else items
            drawn = data.draw(st.lists(st.none() | cells, min_size=rows, max_size=rows))
            arrow = pa.list_(ARROW[kind]) if is_list else ARROW[kind]
            columns.append(FeatureColumn(f"{number}{is_list}", pa.array(drawn, arrow)))
            wanted.append(Wanted(columns[-1].key.encode(), kind, is_list))
    encoded = kernel.encode(columns)
    for name in BODIES:
        decoded = body_or_skip(name).decode_examples(encoded.data, encoded.ends, wanted)
        assert [c.to_pylist() for c in decoded.columns] == [c.array.to_pylist() for c in columns]
        assert not decoded.unknown
        assert not len(decoded.invalid)
        assert (decoded.faults["kind_records"] == 0).all()


# What is decoded, by hand


def test_values_and_what_is_missing(body):
    records = [
        example(entry(b"x", ints(5)), entry(b"y", texts(b"ab"))),
        example(entry(b"y", texts(b""))),
        example(entry(b"x", b""), entry(b"y", texts(b"c"))),
        example(entry(b"x", ints(-(2**63)))),
    ]
    decoded = decode(records, Wanted(b"x", "int64"), Wanted(b"y", "bytes"), Wanted(b"z", "float"))
    x, y, z = (column.to_pylist() for column in decoded.columns)
    assert x == [5, None, None, -(2**63)]
    assert y == [b"ab", b"", b"c", None]
    assert z == [None] * 4
    assert decoded.faults.tolist() == [(0, -1, -1, 0, -1, -1)] * 3


def test_lists_and_empty_ones(body):
    records = [
        example(entry(b"x", ints(1, 300, -1)), entry(b"t", texts(b"a", b"", b"bc"))),
        example(entry(b"x", field(3, b"")), entry(b"f", floats(1.5, -0.0))),
        example(entry(b"f", floats()), entry(b"t", field(1, b""))),
    ]
    wanted = [Wanted(key, kind, True) for key, kind in ((b"x", "int64"), (b"f", "float"))]
    decoded = decode(records, *wanted, Wanted(b"t", "bytes", True))
    x, f, t = (column.to_pylist() for column in decoded.columns)
    assert x == [[1, 300, -1], [], None]
    assert f == [None, [1.5, -0.0], []]
    assert t == [[b"a", b"", b"bc"], None, []]


def test_features_that_are_not_as_wanted_are_told_and_null(body):
    records = [
        example(entry(b"x", ints(1))),
        example(entry(b"x", floats(1.0))),
        example(entry(b"x", ints(1, 2))),
        example(entry(b"x", texts(b"a"))),
        example(entry(b"x", field(3, b""))),
    ]
    decoded = decode(records, Wanted(b"x", "int64"))
    assert decoded.columns[0].to_pylist() == [1, None, None, None, None]
    assert decoded.faults.tolist() == [(2, 1, 2, 2, 2, 2)]


def test_keys_that_are_not_wanted_are_told_with_their_first_record(body):
    records = [example(entry(b"x", ints(1))), example(entry(b"z", ints(1)), entry(b"y", ints(1)))]
    decoded = decode([*records, *records], Wanted(b"x", "int64"))
    assert decoded.unknown == [(b"y", 1), (b"z", 1)]


def test_what_is_within_other_features_is_not_looked_at(body):
    broken = entry(b"y", field(3, field(1, b"\xff" * 11)))
    decoded = decode([example(entry(b"x", ints(1)), broken)], Wanted(b"x", "int64"))
    assert decoded.columns[0].to_pylist() == [1]
    assert not len(decoded.invalid)
    assert decode([example(broken)], Wanted(b"y", "int64")).invalid.tolist() == [0]


def test_records_that_are_no_example_are_null_and_told(body):
    good = example(entry(b"x", ints(1, 2)), entry(b"y", texts(b"abc")), entry(b"z", floats(1.0)))
    records = [good, good[:-1], b"\xff", good]
    wanted = [Wanted(b"x", "int64", True), Wanted(b"y", "bytes"), Wanted(b"z", "float")]
    decoded = decode(records, *wanted)
    assert decoded.invalid.tolist() == [1, 2]
    x, y, z = (column.to_pylist() for column in decoded.columns)
    assert x == [[1, 2], None, None, [1, 2]]
    assert y == [b"abc", None, None, b"abc"]
    assert z == [1.0, None, None, 1.0]


def test_records_that_are_no_example_have_no_faults_and_no_keys(body):
    odd = example(entry(b"x", floats(1.0)), entry(b"n", ints(1)), entry(b"u", ints(1))) + b"\xff"
    fine = example(entry(b"x", ints(1)), entry(b"n", ints(1, 2)), entry(b"u", ints(1)))
    decoded = decode([odd, fine], Wanted(b"x", "int64"), Wanted(b"n", "int64"))
    assert decoded.faults.tolist() == [(0, -1, -1, 0, -1, -1), (0, -1, -1, 1, 1, 2)]
    assert decoded.unknown == [(b"u", 1)]


def test_the_last_of_two_entries_counts(body):
    records = [
        example(entry(b"x", ints(1, 2)), entry(b"x", ints(3))),
        example(entry(b"x", floats(1.0)), entry(b"x", ints(4))),
        example(entry(b"x", ints(5)), entry(b"x", floats(1.0))),
        example(entry(b"x", ints(6)), entry(b"x", b"")),
    ]
    for is_list in (False, True):
        decoded = decode(records, Wanted(b"x", "int64", is_list))
        cells = [[3], [4], None, None] if is_list else [3, 4, None, None]
        assert decoded.columns[0].to_pylist() == cells
        assert decoded.faults.tolist() == [(1, 2, 2, 0, -1, -1)]


def test_parts_of_a_feature_are_merged_and_the_last_kind_counts(body):
    parts = [field(3, b"\x08\x01"), field(3, field(1, b"\x02\x03")), field(3, b"\x08\x04")]
    merged = entry(b"x", b"".join(parts))
    apart = field(1, field(1, b"x") + b"".join(field(2, part) for part in parts))
    turned = entry(b"x", ints(1) + floats(2.0) + ints(7))
    decoded = decode(
        [example(merged), example(apart), example(turned)], Wanted(b"x", "int64", True)
    )
    assert decoded.columns[0].to_pylist() == [[1, 2, 3, 4], [1, 2, 3, 4], [7]]


def test_fields_in_any_order_and_unknown_ones(body):
    value = field(2, STRAY_FIELDS + ints(9))
    record = example(field(1, value + field(1, b"x"))) + STRAY_FIELDS
    assert decode([record], Wanted(b"x", "int64")).columns[0].to_pylist() == [9]


STRAY_FIELDS = b"\x38\x05" + field(9, b"zz") + b"\x49" + bytes(8) + b"\x3d" + bytes(4)


def test_entries_in_an_order_that_changes(body):
    entries = [entry(f"key{n}".encode(), ints(n)) for n in range(20)]
    turned = [example(*entries[n:], *entries[:n]) for n in range(20)]
    wanted = [Wanted(f"key{n}".encode(), "int64") for n in range(20)]
    decoded = decode(turned, *wanted)
    assert [c.to_pylist() for c in decoded.columns] == [[n] * 20 for n in range(20)]


def test_sequence_examples_are_told(body):
    record = example(entry(b"x", ints(1)))
    decoded = decode([record, record + field(2, b""), record], Wanted(b"x", "int64"))
    assert (decoded.sequences, decoded.sequence) == (1, 1)


def test_long_keys_and_many_features(body):
    keys = [f"{'long/' * 40}{number}".encode() for number in range(1000)]
    record = example(*(entry(key, ints(number)) for number, key in enumerate(keys)))
    decoded = decode([record, record], *(Wanted(key, "int64") for key in keys))
    assert [c.to_pylist() for c in decoded.columns] == [[n, n] for n in range(1000)]
    decoded = decode([record, record], Wanted(keys[7], "int64"))
    assert decoded.columns[0].to_pylist() == [7, 7]
    assert len(decoded.unknown) == 999


def test_integers_of_every_length(body):
    numbers = [v for bit in range(64) for v in (1 << bit, (1 << bit) - 1, -(1 << bit))]
    numbers = [v - 2**64 if v >= 2**63 else v for v in numbers]
    single = decode([example(entry(b"x", ints(v))) for v in numbers], Wanted(b"x", "int64"))
    assert single.columns[0].to_pylist() == numbers
    listed = decode([example(entry(b"x", ints(*numbers)))], Wanted(b"x", "int64", True))
    assert listed.columns[0].to_pylist() == [numbers]


def test_integers_that_take_more_bytes_than_they_need(body):
    for number in (
        b"\x80\x00",
        b"\xff" * 9 + b"\x7f",
        b"\x80" * 8 + b"\x01",
        b"\x85" + b"\x80" * 8 + b"\x00",
    ):
        record = example(entry(b"x", field(3, field(1, number))))
        agreed([record] * 2, [Wanted(b"x", "int64")])
        agreed([record] * 2, [Wanted(b"x", "int64", True)])


def test_values_up_to_the_end_of_the_buffer(body):
    for size in range(40):
        record = example(entry(b"x", texts(b"a" * size)))
        decoded = decode([record] * 3, Wanted(b"x", "bytes"))
        assert decoded.columns[0].to_pylist() == [b"a" * size] * 3


@pytest.mark.parametrize("long_from", [0, 1, 511, 512, 513, 1299, 1300])
def test_text_short_and_long_in_many_records(long_from):
    sizes = [0, 1, 3, 15, 16, 17, 63, 64]
    records = []
    for number in range(1300):
        size = 65 + number % 9 if number >= long_from and number % 3 == 0 else sizes[number % 8]
        text = bytes([number % 251]) * size
        entries = [entry(b"x", texts(text)), entry(b"n", ints(number))]
        if number % 7 == 0:
            # Of two the last counts, whichever of them is long; and some are of another kind.
            entries.insert(number % 2 * 2, entry(b"x", texts(b"other" * (number % 40))))
        if number % 11 == 0:
            entries.append(entry(b"x", ints(1)))
        broken = b"\x0a\x7f" if number % 13 == 0 else b""
        records.append(example(*entries) + broken)
    wanted = [Wanted(b"x", "bytes"), Wanted(b"n", "int64")]
    found = agreed(records, wanted)
    assert len(found.invalid) == 100
    if long_from > 4:
        assert found.columns[0][4].as_py() == b"\x04" * 16
    agreed(records, [Wanted(b"x", "bytes", True), Wanted(b"n", "int64", True)])


def test_keys_of_every_size_that_differ_in_one_byte():
    for size in range(20):
        key = bytes(range(97, 97 + size))
        others = [key[:i] + b"!" + key[i + 1 :] for i in range(size)]
        records = [example(entry(name, ints(7))) for name in (key, *others, key)]
        found = agreed(records, [Wanted(key, "int64")])
        assert found.columns[0].to_pylist() == [7, *[None] * size, 7]
        assert len(found.unknown) == size


@pytest.mark.parametrize("ends", [[15], [16, 20], [40, 20], [33], [-1]])
def test_ends_outside_the_buffer_are_refused(body, ends):
    with pytest.raises(ValueError, match="fit"):
        kernel.decode_examples(bytes(32), np.array(ends, np.int64), [])


def test_a_key_wanted_twice_is_refused(body):
    with pytest.raises(ValueError, match="twice"):
        decode([], Wanted(b"x", "int64"), Wanted(b"x", "float"))


def test_no_records_and_no_features(body):
    wanted = [Wanted(b"x", "int64"), Wanted(b"y", "bytes"), Wanted(b"z", "float", True)]
    decoded = decode([], *wanted)
    assert [len(column) for column in decoded.columns] == [0, 0, 0]
    assert decode([example(entry(b"x", ints(1)))]).unknown == [(b"x", 0)]
