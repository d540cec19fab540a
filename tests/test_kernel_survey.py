"""Many records of one writer: both bodies of the kernel count the same, however records differ."""

from __future__ import annotations

import random

import pytest
from conftest import body_or_skip
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_examples import STRAYS, entry, example, field, floats, frames, ints, texts

# A record that holds no feature. With it behind them, the others are read as from a large buffer.
REST = field(15, bytes(300))
KEYS = [
    b"", b"k", b"four", b"five5", b"twelve bytes", b"thirteen byte", b"image/object/bbox/xmin",
    b"twenty-eight bytes of a key.", b"twenty-nine bytes of one key.", b"\xff\xfe", b"n" * 100,
    b"n" * 119, b"n" * 120, b"n" * 300,
]  # fmt: skip
INTEGERS = [
    0,
    1,
    127,
    128,
    2**14,
    2**49 - 1,
    2**49,
    2**56 - 1,
    2**56,
    2**62,
    2**63 - 1,
    -1,
    -(2**63),
]


def counted(records):
    """What both bodies count in `records`."""
    data, ends = frames(records)
    found, other = (body_or_skip(b).survey_examples(data, ends) for b in ("native", "reference"))
    assert found.keys == other.keys
    assert found.facts.tobytes() == other.facts.tobytes()
    assert found.invalid.tolist() == other.invalid.tolist()
    assert (found.sequences, found.sequence) == (other.sequences, other.sequence)
    return found


def lists(chance, kind):
    """A Feature of a kind: as most writers put it down, and now and then of another form."""
    if kind == 1:
        value = b"x" * chance.choice([0, 1, 8, 60, 119, 120, 130])
        return texts(*([value] * chance.choice([1, 1, 1, 0, 2])))
    if kind == 2:
        return floats(*range(chance.choice([1, 1, 1, 0, 4, 29, 30, 40])))
    count = chance.choice([1, 1, 1, 1, 0, 2, 10, 40, 200])
    few = chance.choice([INTEGERS, INTEGERS[:3]])
    return ints(*(chance.choice(few) for _ in range(count)))


ODD = [
    b"", b"\x0a\x00", b"\x1a\x00", field(3, b"\x08\x05"), field(2, b"\x0d" + bytes(4)),
    field(2, field(1, bytes(3))), field(3, field(1, b"\x80")), field(3, field(1, b"\xff" * 11)),
    field(3, field(1, b"\xff" * 9 + b"\x7f")), field(3, field(1, b"\x85\x80\x00")),
    ints(1) + floats(2.0), field(1, field(1, b"a") + field(1, b"b")), field(7, b"?"), b"\x0b\x0c",
    field(1, b"\x10\x05"), ints(5)[:-1] + b"\x80", field(3, b"\x0a\x81\x00\x05"),
    b"\x02\x03\x0a\x01x", b"\x22\x03\x0a\x01x", b"\x0b\x03\x0a\x01x", b"\x02\x02\x0a\x00",
]  # fmt: skip
USUAL = [texts(b"x"), texts(b""), floats(1.0), floats(), ints(1), ints(2**63 - 1), ints()]


def record(chance, kinds, odd):
    """A record of the features `kinds`; with the chance `odd` each thing about it is unusual."""
    keys = [key for key in kinds if chance.random() >= odd]
    if chance.random() < odd:
        chance.shuffle(keys)
    if keys and chance.random() < odd:
        keys.append(chance.choice(keys))
    entries = []
    for key in keys:
        kind = chance.choice([1, 2, 3]) if chance.random() < odd else kinds[key]
        feature = chance.choice(ODD) if chance.random() < odd / 4 else lists(chance, kind)
        one = entry(key, feature)
        if chance.random() < odd / 4:
            one = field(1, field(2, feature) + field(1, key))
        if chance.random() < odd / 8:
            one = field(1, field(1, key) + chance.choice(STRAYS) + field(2, feature))
        entries.append(one)
    if chance.random() < odd / 4:
        entries.insert(chance.randrange(len(entries) + 1), chance.choice([b"\x20\x05", b"\x07"]))
    if chance.random() < odd / 4:
        return example(*entries) + chance.choice([example(), field(2, b""), b"\x0a", b"\x10\x01"])
    return example(*entries)


@pytest.mark.parametrize("odd", [0, 0.01, 0.1, 0.5])
@pytest.mark.parametrize("seed", range(4))
def test_both_bodies_count_the_same(seed, odd):
    chance = random.Random(seed)
    keys = chance.sample(KEYS, chance.randrange(1, len(KEYS)))
    kinds = {key: chance.choice([1, 2, 3]) for key in keys}
    found = counted([*(record(chance, kinds, odd) for _ in range(200)), REST])
    assert odd or len(found.invalid) == 0


@given(st.lists(st.lists(st.sampled_from([*ODD, *USUAL]), max_size=3), max_size=8))
def test_features_of_any_form_behind_one_without_a_value(rows):
    """A key that is first seen without a kind: what its next entries hold is foreseen later."""
    keys = [b"a", b"b", b"c"]
    rows = [[b""] * 3, *rows]
    counted([*(example(*map(entry, keys, row)) for row in rows), REST])


@pytest.mark.parametrize("first", [b"", b"\x22\x03\x0a\x01x", *USUAL])
def test_a_tag_that_no_message_has(first):
    bad = example(entry(b"a", b"\x02\x06\x0a\x04abcd"))
    found = counted([example(entry(b"a", first)), bad, REST])
    assert found.invalid.tolist() == [1]


@pytest.mark.parametrize("rows", [1, 127, 128, 129, 256, 257])
@pytest.mark.parametrize("lacking", [0, 1, -2, -1, None])
def test_who_lacks_a_feature(rows, lacking):
    records = [example(entry(b"a", ints(i)), entry(b"b", texts(b"x"))) for i in range(rows)]
    if lacking is not None and -rows <= lacking < rows:
        records[lacking] = example(entry(b"a", ints(7)))
    found = counted([*records, REST])
    assert found.facts["present"][0] == rows


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=200), st.booleans())
def test_text_of_any_length(values, padded):
    counted([example(entry(b"t", texts(v))) for v in values] + [REST] * padded)


@given(
    st.lists(
        st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 200), max_size=100), max_size=20
    )
)
def test_integers_of_any_length(rows):
    found = counted([*(example(entry(b"i", ints(*row))) for row in rows), REST])
    numbers = [value for row in rows for value in row]
    if numbers:
        facts = found.facts[0]
        assert (facts["low"], facts["high"]) == (min(numbers), max(numbers))
        assert facts["values"] == len(numbers)


@given(st.integers(0, 3), st.data())
def test_a_flipped_byte_among_many_records(seed, data):
    chance = random.Random(seed)
    kinds = {key: chance.choice([1, 2, 3]) for key in KEYS[1:6]}
    records = [record(chance, kinds, 0) for _ in range(12)]
    place = data.draw(st.integers(0, len(records[9]) - 1))
    byte = data.draw(st.integers(0, 255))
    records[9] = records[9][:place] + bytes([byte]) + records[9][place + 1 :]
    counted([*records, REST])


def test_more_keys_than_there_is_room_to_foresee():
    wide = example(*(entry(b"wide%d" % i, ints(i)) for i in range(700)))
    rare = [example(entry(b"rare%d" % i, texts(b"x"))) for i in range(900)]
    for records in ([wide, *rare, wide, REST], [*rare, wide, *rare, REST]):
        found = counted(records)
        assert len(found.keys) == 1600


def test_more_keys_in_a_record_than_are_ever_foreseen():
    wide = example(*(entry(b"%d" % i, ints(i)) for i in range(8500)))
    found = counted([wide, wide, example(entry(b"8499", ints(7))), wide, REST])
    assert found.facts["present"].tolist() == [3] * 8499 + [4]


def test_a_key_that_is_new_late():
    few = [example(entry(b"a", ints(1)))] * 200
    more = [example(entry(b"a", ints(1)), *(entry(b"b%d" % i, ints(i)) for i in range(40)))] * 200
    found = counted([*few, *more, *few, REST])
    assert found.facts["absent"].tolist() == [400 + 200, *[0] * 40]


def test_what_no_example_holds_is_not_counted():
    good = example(entry(b"a", ints(1)), entry(b"b", texts(b"x")))
    bad = example(entry(b"a", ints(5)), entry(b"new", ints(1)), b"\x0a\x7f")
    found = counted([*[good] * 20, bad, *[good] * 20, REST])
    assert found.keys == [b"a", b"b"]
    assert found.facts["high"][0] == 1
    assert found.invalid.tolist() == [20]


@pytest.mark.parametrize("cut", range(1, 60))
def test_records_at_the_end_of_the_buffer(cut):
    """Their form is the usual one, but what lies behind them is not to be read."""
    one = example(entry(b"a", ints(1 << 60)), entry(b"b", texts(b"x" * 10)), entry(b"c", floats(1)))
    counted([one] * 10 + [example(entry(b"a", ints(1)))] * (cut % 4) + [one[:-cut]])


@pytest.mark.parametrize("size", [119, 120, 127, 128, 248, 255, 300])
def test_keys_too_long_for_the_usual_form(size):
    long = example(entry(b"n" * size, ints(1)))
    false = example(b"\x0a\x7f\x0a\xff" + b"n" * 123, b"\x12\x05\x1a\x03\x0a\x01\x05")
    counted([long, false, long, *[example(entry(b"a", ints(1)))] * 9, false])
    counted([long, false, long, false, REST])


def test_lengths_in_more_bytes_than_they_need():
    good = example(entry(b"abc", ints(1, 2)))
    size = len(good) - 2
    assert good[1] == size
    long = b"\x0a" + bytes([size | 0x80]) + b"\x00" + good[2:]
    inner = field(1, b"\x0a" + bytes([good[3] | 0x80]) + b"\x00" + good[4:])
    assert counted([*[good, long, inner] * 50, REST]).facts["present"].tolist() == [150]
