"""Taking Examples apart: both bodies of the kernel find the same, and what protobuf finds."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from conftest import body_or_skip
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli import _kernel as kernel
from tfrec_cli._kernel import FeatureColumn, Wanted
from tfrec_cli._kernel._reference import _messages
from tfrec_cli.decoding import decode_entry, decode_example

BODIES = ("reference", "native")


@pytest.fixture(params=BODIES)
def body(request, monkeypatch):
    """Each body in turn behind the door."""
    monkeypatch.setattr(kernel, "_body", body_or_skip(request.param))
    return request.param


def frames(records):
    """Framed records with no checksums to speak of, and their ends."""
    parts = [len(r).to_bytes(8, "little") + bytes(4) + r + bytes(4) for r in records]
    return b"".join(parts), np.cumsum([len(part) for part in parts], dtype=np.int64)


def agreed(records):
    """What both bodies say of `records`."""
    data, ends = frames(records)
    ours, twins = (body_or_skip(name) for name in BODIES)
    found, other = ours.survey_examples(data, ends), twins.survey_examples(data, ends)
    assert found.keys == other.keys
    assert found.facts.tobytes() == other.facts.tobytes()
    assert found.invalid.tolist() == other.invalid.tolist()
    assert (found.sequences, found.sequence) == (other.sequences, other.sequence)
    for key in [*found.keys, b"no such key"]:
        places = ours.find_feature(data, ends, key)
        assert places.tolist() == twins.find_feature(data, ends, key).tolist()
    return found


def varint(value):
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def entry(key, feature):
    return field(1, field(1, key) + field(2, feature))


def example(*entries):
    return field(1, b"".join(entries))


def ints(*values):
    return field(3, field(1, b"".join(map(varint, values))))


def floats(*values):
    return field(2, field(1, np.array(values, "<f4").tobytes()))


def texts(*values):
    return field(1, b"".join(field(1, value) for value in values))


# Messages of any make: odd order, merged parts, unknown fields, broken bytes

LISTS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300), max_size=12).map(
        lambda v: ints(*v)
    ),
    st.lists(st.floats(width=32), max_size=5).map(lambda v: floats(*v)),
    st.lists(st.binary(max_size=20), max_size=5).map(lambda v: texts(*v)),
    st.integers(-(2**63), 2**63 - 1).map(lambda v: field(3, b"\x08" + varint(v))),
    st.just(field(2, b"\x0d\x00\x00\x80\x3f")),
)
STRAY = st.sampled_from(
    [b"", b"\x20\x05", field(9, b"zz"), b"\x49" + bytes(8), b"\x0d" + bytes(4), b"\x08\x01"]
)
FEATURES = st.lists(LISTS | STRAY, max_size=3).map(b"".join)
ENTRIES = st.builds(entry, st.sampled_from([b"a", b"b", b"image/encoded", b"\xff", b""]), FEATURES)
ODD_ENTRIES = st.builds(
    lambda parts: field(1, b"".join(parts)),
    st.lists(FEATURES.map(lambda f: field(2, f)) | st.just(field(1, b"b")) | STRAY, max_size=4),
)
MESSAGES = st.lists(
    st.lists(ENTRIES | ODD_ENTRIES | STRAY, max_size=5).map(lambda e: example(*e)) | STRAY,
    max_size=2,
).map(b"".join)


@given(st.lists(MESSAGES, max_size=6))
def test_both_bodies_find_the_same(records):
    agreed(records)


@given(st.lists(MESSAGES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_both_bodies_find_the_same_in_broken_messages(records, chance):
    broken = []
    for record in records:
        changed = bytearray(record)
        for _ in range(chance.randrange(4)):
            if changed:
                changed[chance.randrange(len(changed))] = chance.choice(
                    [0, 1, 8, 10, 18, 26, 0x7F, 0x80, 0xFF, chance.randrange(256)]
                )
        broken.append(bytes(changed[: chance.randrange(len(changed) + 1) or None]))
    agreed(broken)


@given(st.dictionaries(st.sampled_from(["a", "b", "é", "image/encoded"]), FEATURES))
def test_protobuf_finds_the_same(features):
    record = example(*(entry(key.encode(), feature) for key, feature in features.items()))
    message = _messages()["Example"].FromString(record)
    parsed = _messages()["Features"].FromString(message.features).feature
    found = decode_example(record)
    assert found.keys() == parsed.keys()
    for key, feature in parsed.items():
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value) if kind else []
        ours = found[key].values
        if kind == "float_list":  # as bits, for the sake of NaN
            ours, values = np.array(ours, "<f4").tobytes(), np.array(values, "<u4").tobytes()
        assert found[key].kind == (kind or "no kind").removesuffix("_list")
        assert list(ours) == list(values)


# What is found, by hand


def test_facts_of_features(body):
    records = [
        example(entry(b"x", ints(5)), entry(b"y", texts(b"ab", b""))),
        example(entry(b"x", ints(-3, 300))),
        example(entry(b"y", floats()), entry(b"x", floats(1.0))),
    ]
    data, ends = frames(records)
    survey = kernel.survey_examples(data, ends)
    assert survey.keys == [b"x", b"y"]
    x, y = survey.facts
    assert (x["present"], x["absent"], x["repeated"]) == (3, -1, -1)
    assert x["kind_records"].tolist() == [0, 0, 1, 2]
    assert x["kind_first"].tolist() == [-1, -1, 2, 0]
    assert (x["fewest"], x["most"], x["values"]) == (1, 2, 4)
    assert (x["low"], x["high"]) == (-3, 300)
    assert (y["present"], y["absent"]) == (2, 1)
    assert (y["fewest"], y["most"], y["values"]) == (0, 2, 2)
    assert survey.invalid.tolist() == []
    # Each entry: tag, length, tag, length, key, tag, length, tag, length and the list.
    assert (x["bytes"], x["payload"]) == (3 * 9 + (2 + 1) + (2 + 12) + (2 + 4), 1 + 12 + 4)
    assert (y["bytes"], y["payload"]) == (2 * 9 + (2 + 2 + 2) + 2, 2)


def test_what_is_no_example(body):
    cut = example(entry(b"x", ints(1)))
    records = [
        b"",  # a message without fields is one
        b"\xff",
        cut[:-1],
        b"\x0b\x0c",  # a group
        b"\x00\x00",  # field number 0
        example(entry(b"x", field(2, field(1, b"123")))),  # packed floats of odd length
        example(entry(b"x", field(3, field(1, b"\xff" * 11)))),
        b"\x0e",
        example(entry(b"x", ints(2))),
    ]
    data, ends = frames(records)
    survey = kernel.survey_examples(data, ends)
    assert survey.invalid.tolist() == [1, 2, 3, 4, 5, 6, 7]
    (x,) = survey.facts
    assert (x["present"], x["absent"], x["kind_first"][3]) == (1, 0, 8)


STRAYS = [b"\x18\x05", field(3, b"x"), b"\x08\x05", b"\x10\x05", b"\x3d" + bytes(4)]


@pytest.mark.parametrize("stray", STRAYS)
def test_a_map_entry_has_a_key_and_a_feature_and_nothing_else(body, stray):
    good, value = example(entry(b"x", ints(1))), field(2, ints(5))
    key = field(1, b"x")
    parts = [stray + key + value, key + stray + value, key + value + stray]
    records = [good, *(example(field(1, part)) for part in parts), good]
    data, ends = frames(records)
    assert kernel.survey_examples(data, ends).invalid.tolist() == [1, 2, 3]
    for wanted in (b"x", b"other"):
        decoded = kernel.decode_examples(data, ends, [Wanted(wanted, "int64", False)])
        assert decoded.invalid.tolist() == [1, 2, 3]


@pytest.mark.parametrize("bytes_", [2, 5, 6, 10])
def test_lengths_have_five_bytes_at_most(body, bytes_):
    """At each level: Features, map entry, key, Feature, list, and packed values."""
    records = [example(entry(b"x", ints(5)))] + [padded(level, bytes_) for level in range(6)]
    data, ends = frames([*records, field(15, bytes(300))])
    invalid = [] if bytes_ <= 5 else [1, 2, 3, 4, 5, 6]
    assert kernel.survey_examples(data, ends).invalid.tolist() == invalid
    decoded = kernel.decode_examples(data, ends, [Wanted(b"x", "int64", False)])
    assert decoded.invalid.tolist() == invalid
    cells = decoded.columns[0].to_pylist()
    assert cells == [5, *([None if invalid else 5] * 6), None]


def padded(level, size):
    """An Example with the int64 feature x, a length of which has so many bytes."""

    def part(number, content, own):
        return long_field(number, content, size) if own == level else field(number, content)

    feature = part(2, part(3, part(1, b"\x05", 5), 4), 3)
    return part(1, part(1, part(1, b"x", 2) + feature, 1), 0)


def long_field(number, content, size):
    length = bytes([len(content) | 0x80, *[0x80] * (size - 2), 0])
    return bytes([number << 3 | 2]) + length + content


def test_the_last_of_two_features_counts(body):
    record = example(entry(b"x", ints(1, 2)), entry(b"x", texts(b"a")))
    data, ends = frames([example(entry(b"x", ints(7))), record])
    (facts,) = kernel.survey_examples(data, ends).facts
    assert (facts["repeated"], facts["present"]) == (1, 2)
    assert facts["kind_records"].tolist() == [0, 1, 0, 1]
    start, end, count = kernel.find_feature(data, ends, b"x")[1]
    assert decode_entry(memoryview(data), start, end).values == (b"a",)
    assert count == 1


def test_integers_of_every_length(body):
    values = [v for bits in range(64) for v in (1 << bits, (1 << bits) - 1, -(1 << bits))]
    random.Random(1).shuffle(values)
    signed = [v - 2**64 if v >= 2**63 else v for v in values]
    data, ends = frames([example(entry(b"x", ints(*values)))])
    (facts,) = kernel.survey_examples(data, ends).facts
    assert (facts["values"], facts["low"], facts["high"]) == (len(values), -(2**63), 2**63 - 1)
    start, end, _ = kernel.find_feature(data, ends, b"x")[0]
    assert list(decode_entry(memoryview(data), start, end).values) == signed


def test_thousands_of_features(body):
    keys = [f"feature/{number}".encode() for number in range(3000)]
    data, ends = frames([example(*(entry(key, ints(1)) for key in keys))] * 2)
    survey = kernel.survey_examples(data, ends)
    assert survey.keys == keys
    assert (survey.facts["present"] == 2).all()


def test_what_the_kernel_writes_is_read_back(body):
    columns = [
        FeatureColumn("i", pa.array([1, None, -(2**63)])),
        FeatureColumn("f", pa.array([[1.5], [], None], pa.list_(pa.float32()))),
        FeatureColumn("b", pa.array([b"", b"x" * 300, None])),
    ]
    encoded = kernel.encode(columns)
    survey = kernel.survey_examples(encoded.data, encoded.ends)
    assert dict(zip(survey.keys, survey.facts["present"].tolist(), strict=True)) == {
        b"b": 2, b"f": 2, b"i": 2,
    }  # fmt: skip
    data = bytes(encoded.data)
    starts = [0, *encoded.ends.tolist()]
    decoded = [decode_example(data[a + 12 : b - 4]) for a, b in itertools.pairwise(starts)]
    assert [sorted(d) for d in decoded] == [["b", "f", "i"], ["b", "f"], ["i"]]
    assert decoded[0]["f"].values == (1.5,)
    assert decoded[2]["i"].values == (-(2**63),)


@pytest.mark.parametrize("ends", [[15], [16, 20], [40, 20], [33], [-1]])
def test_ends_outside_the_buffer_are_refused(body, ends):
    for call in (kernel.survey_examples, lambda d, e: kernel.find_feature(d, e, b"x")):
        with pytest.raises(ValueError, match="fit"):
            call(bytes(32), np.array(ends, np.int64))


def test_no_records(body):
    survey = kernel.survey_examples(b"", np.zeros(0, np.int64))
    assert (survey.keys, len(survey.facts), len(survey.invalid)) == ([], 0, 0)
    assert kernel.find_feature(b"", np.zeros(0, np.int64), b"x").shape == (0, 3)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 63, 64, 65, 200, 5000])
def test_long_lists_of_integers(body, size):
    chance = random.Random(size)
    values = [chance.getrandbits(chance.choice([3, 7, 8, 14, 21, 35, 63])) for _ in range(size)]
    record = example(entry(b"x", ints(*values)))
    data, ends = frames([record])
    (facts,) = kernel.survey_examples(data, ends).facts
    assert (facts["values"], facts["low"], facts["high"]) == (size, min(values), max(values))


@pytest.mark.parametrize("at", [0, 300, 511])
def test_integers_too_long_among_many(body, at):
    for bad in (b"\x80" * 10 + b"\x01", b"\xff" * 40):
        packed = bytearray(b"\x05" * 512)
        packed[at:at] = bad
        data, ends = frames([example(entry(b"x", field(3, field(1, bytes(packed)))))])
        assert kernel.survey_examples(data, ends).invalid.tolist() == [0]
