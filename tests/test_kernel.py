"""Both bodies of the kernel: the same bytes, and the right ones."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import crc32c
import numpy as np
import pyarrow as pa
import pytest
from conftest import body_or_skip
from hypothesis import given, settings
from hypothesis import strategies as st

from tfrec_cli import _kernel as kernel
from tfrec_cli._kernel import CsvDialect, FeatureColumn, RecordSizeError
from tfrec_cli.errors import UsageError

ROOT = Path(__file__).parents[1]
BODIES = ("reference", "native")
ITEMS = (pa.int64(), pa.float32(), pa.binary(), pa.large_binary())


@pytest.fixture(params=BODIES)
def body(request, monkeypatch):
    """Each body in turn behind the door."""
    monkeypatch.setattr(kernel, "_body", body_or_skip(request.param))
    return request.param


def encode_with(name, columns, rows=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "_body", body_or_skip(name))
        return kernel.encode(columns, rows)


def payloads(encoded):
    """The records without their frames."""
    starts = [0, *encoded.ends][:-1]
    data = bytes(encoded.data)
    return [data[start + 12 : end - 4] for start, end in zip(starts, encoded.ends, strict=True)]


def encode_all(columns, rows=None):
    return payloads(kernel.encode(columns, rows))


def column(key, values, kind):
    return FeatureColumn(key, pa.array(values, kind))


def assert_bodies_agree(columns, rows=None):
    ours, twins = (encode_with(name, columns, rows) for name in BODIES)
    assert bytes(ours.data) == bytes(twins.data)
    assert ours.ends.dtype == twins.ends.dtype == np.int64
    assert ours.ends.tolist() == twins.ends.tolist()


# Tables of every type, sliced and shuffled

KEYS = st.one_of(
    st.sampled_from(["a", "aa", "a/b", "é", "k" * 118, "k" * 300]), st.text(max_size=9)
)
VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 200),
    pa.float32(): st.floats(width=32),
    pa.binary(): st.binary(max_size=40) | st.integers(90, 140).map(bytes),
    pa.large_binary(): st.binary(max_size=40),
}


@st.composite
def arrays(draw, length):
    item = draw(st.sampled_from(ITEMS))
    form = draw(st.sampled_from(["scalar", "list", "large_list", "fixed"]))
    value = VALUES[item]
    kind = item
    if form == "fixed":
        size = draw(st.integers(0, 3))
        kind, value = pa.list_(item, size), st.lists(value, min_size=size, max_size=size)
    elif form != "scalar":
        kind = pa.list_(item) if form == "list" else pa.large_list(item)
        value = st.lists(value, max_size=6)
    rows = draw(st.lists(value | st.none(), min_size=length + 9, max_size=length + 9))
    start = draw(st.integers(0, 9))
    return pa.array(rows, kind).slice(start, length)


@st.composite
def tables(draw):
    length = draw(st.integers(0, 5))
    keys = draw(st.lists(KEYS, max_size=4, unique=True))
    return [FeatureColumn(key, draw(arrays(length))) for key in keys], length


@settings(deadline=None)
@given(tables(), st.data())
def test_both_bodies_write_the_same_bytes(table, data):
    columns, length = table
    index = st.lists(st.integers(0, length - 1), max_size=8) if length else st.just([])
    start = data.draw(st.integers(0, length))
    rows = data.draw(
        st.sampled_from([range(length), range(start, length), range(length - 1, -1, -2)])
        | index.map(lambda i: np.array(i, np.int64))
    )
    assert_bodies_agree(columns, rows)
    assert_bodies_agree(columns)


def test_many_rows_and_many_columns_agree():
    rng = np.random.default_rng(5)
    columns = []
    for c in range(60):
        whole = rng.integers(-(2**63), 2**63 - 1, 5000) >> rng.integers(0, 63, 5000)
        mask = rng.random(5000) < 0.1 if c % 2 else None
        columns.append(FeatureColumn(f"i{c}", pa.array(whole, mask=mask)))
        columns.append(FeatureColumn(f"f{c}", pa.array(rng.random(5000, np.float32), mask=mask)))
    assert_bodies_agree(columns)
    assert_bodies_agree(columns, rng.permutation(5000)[:300])


def test_many_columns_in_any_order_agree():
    rng = np.random.default_rng(6)
    words = [rng.bytes(int(n)) for n in rng.integers(0, 30, 90)]
    mask = rng.random(90) < 0.2
    columns = [FeatureColumn(f"b{c}", pa.array(words, mask=mask)) for c in range(20)]
    columns += [column("big", words, pa.large_binary()), column("i", range(90), pa.int64())]
    assert_bodies_agree(columns, rng.integers(0, 90, 200))


# What the bytes are


def test_features_are_sorted_by_the_bytes_of_their_keys(body):
    keys = ["b", "aa", "é", "a", "z", "C10", "C1", "日", ""]
    (record,) = encode_all([column(key, [1], pa.int64()) for key in keys])
    places = [
        record.index(b"\x0a" + bytes([len(k)]) + k + b"\x12")
        for k in sorted(k.encode() for k in keys)
    ]
    assert places == sorted(places)


def test_missing_value_leaves_its_key_out_and_empty_list_does_not(body):
    columns = [column("x", [[], None, [7]], pa.list_(pa.int64()))]
    empty, missing, one = encode_all(columns)
    assert empty == b"\n\x07\n\x05\n\x01x\x12\x00".replace(b"\x07", b"\x09").replace(
        b"\x05", b"\x07"
    ).replace(b"\x12\x00", b"\x12\x02\x1a\x00")
    assert missing == b"\n\x00"
    assert one == b"\n\x0c\n\x0a\n\x01x\x12\x05\x1a\x03\n\x01\x07"


def test_rows_of_no_columns_are_empty_examples(body):
    assert encode_all([], range(3)) == [b"\n\x00"] * 3
    assert encode_all([]) == []


def test_rows_are_written_in_the_order_asked(body):
    columns = [column("x", list(range(50)), pa.int64()), column("y", [b"t"] * 50, pa.binary())]
    records = encode_all(columns)
    assert encode_all(columns, range(10, 20)) == records[10:20]
    assert encode_all(columns, np.array([40, 3, 3])) == [records[40], records[3], records[3]]
    assert encode_all(columns, range(9, 0, -4)) == [records[9], records[5], records[1]]


def test_bits_of_every_float_are_kept(body):
    bits = np.array([0x7FA00001, 0xFFC12345, 0x80000000, 1, 0x7F800000], np.uint32)
    scalars, lists = pa.array(bits.view(np.float32)), pa.array([0, 2, 5], pa.int32())
    for record, raw in zip(encode_all([FeatureColumn("x", scalars)]), bits, strict=True):
        assert record.endswith(raw.tobytes())
    ragged = pa.ListArray.from_arrays(lists, scalars)
    first, second = encode_all([FeatureColumn("x", ragged)])
    assert first.endswith(bits[:2].tobytes())
    assert second.endswith(bits[2:].tobytes())


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 31, 32, 33, 110, 127, 128, 16384, 5_000_000])
def test_values_of_any_size(body, size):
    value = np.random.default_rng(size).bytes(size)
    column_of = pa.array([b"", value, b"end"], pa.binary())
    records = encode_all([FeatureColumn("image/encoded", column_of)])
    assert records[1].endswith(value)
    assert kernel.scan(kernel.encode([FeatureColumn("x", column_of)]).data).damage == ""


@pytest.mark.parametrize("length", [0, 1, 2, 100, 109, 110, 111, 112, 113, 120, 128, 300])
def test_keys_of_any_length_agree(length):
    key = "k" * length
    for kind, values in (
        (pa.int64(), [-1, 0, 2**62]),
        (pa.float32(), [1, 2, 3]),
        (pa.binary(), [b"", b"abc", b"x" * 60]),
    ):
        assert_bodies_agree([column(key, values, kind)])


def test_lists_whose_items_begin_within_their_buffer(body):
    items = pa.array([b"no", b"a", b"", b"ccc", b"no"], pa.binary()).slice(1, 3)
    ragged = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), items)
    fixed = pa.FixedSizeListArray.from_arrays(pa.array([9, 1, 2, 3, 4]).slice(1, 4), 2)
    records = encode_all([FeatureColumn("x", ragged), FeatureColumn("y", fixed)])
    plain = [
        column("x", [[b"a", b""], [b"ccc"]], pa.list_(pa.binary())),
        column("y", [[1, 2], [3, 4]], pa.list_(pa.int64())),
    ]
    assert records == encode_all(plain)
    sliced = [FeatureColumn("x", ragged.slice(1)), FeatureColumn("y", fixed.slice(1))]
    assert encode_all(sliced) == records[1:]


def test_column_without_any_value_is_left_out(body):
    columns = [FeatureColumn("x", pa.nulls(2, pa.binary())), column("y", [1, 2], pa.int64())]
    assert encode_all(columns) == encode_all(columns[1:])


# What is refused


def test_record_beyond_the_limit_is_refused_with_its_place(body):
    values = [b"x", b"y" * 100, b"z" * 5000, b"w" * 6000]
    columns = [column("v", values, pa.binary())]
    sizes = [len(record) for record in encode_all(columns)]
    kernel.encode(columns, range(3), limit=sizes[2])
    with pytest.raises(RecordSizeError, match=str(sizes[2])) as caught:
        kernel.encode(columns, np.array([0, 2, 3]), limit=sizes[2] - 1)
    assert (caught.value.number, caught.value.size) == (1, sizes[2])
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("rows", [range(4), range(-1, 2), np.array([0, 3]), np.array([-1])])
def test_row_that_is_not_there_is_refused(body, rows):
    with pytest.raises(IndexError):
        kernel.encode([column("x", [1, 2, 3], pa.int64())], rows)


def test_what_is_no_feature_is_refused(body):
    for array in (pa.array(["text"]), pa.array([1], pa.int32()), pa.array([[[1]]])):
        with pytest.raises(TypeError, match="x"):
            kernel.encode([FeatureColumn("x", array)])
    with pytest.raises(ValueError, match="null inside a list"):
        kernel.encode([column("x", [[1, None]], pa.list_(pa.int64()))])
    with pytest.raises(ValueError, match="twice"):
        kernel.encode([column("x", [1], pa.int64())] * 2)
    with pytest.raises(ValueError, match="lengths"):
        kernel.encode([column("x", [1], pa.int64()), column("y", [], pa.int64())])


@pytest.mark.parametrize("offsets", [[0, 7, 3], [0, -1, 3], [2, 1, 3]])
def test_native_follows_no_offset_out_of_its_buffers(monkeypatch, offsets):
    monkeypatch.setattr(kernel, "_body", body_or_skip("native"))
    buffer = pa.py_buffer(np.array(offsets, np.int32).tobytes())
    texts = pa.Array.from_buffers(pa.binary(), 2, [None, buffer, pa.py_buffer(b"abc")])
    items = pa.array([1, 2, 3])
    lists = pa.Array.from_buffers(pa.list_(pa.int64()), 2, [None, buffer], children=[items])
    for broken in (texts, lists):
        with pytest.raises(ValueError, match="outside its buffers"):
            kernel.encode([FeatureColumn("x", broken)])


SOUND = {
    "key": b"\n\x01x\x12",
    "kind": 3,
    "nesting": 0,
    "validity": None,
    "offset": 0,
    "length": 8,
    "list_offsets": None,
    "list_width": 4,
    "list_size": 0,
    "item_offset": 0,
    "item_length": 8,
    "value_offsets": None,
    "value_width": 4,
    "values": bytes(64),
}


@pytest.mark.parametrize(
    "change",
    [
        {"length": 9},
        {"offset": 1},
        {"offset": 2**63 - 1},
        {"length": -1},
        {"validity": b""},
        {"kind": 1},
        {"kind": 4},
        {"nesting": 1},
        {"nesting": 1, "list_offsets": bytes(32)},
        {"nesting": 1, "list_offsets": bytes(36), "item_offset": 1},
        {"nesting": 1, "list_offsets": bytes(36), "item_offset": 2**62, "item_length": 2**62},
        {"nesting": 2, "list_size": 2**62},
        {"nesting": 2, "list_size": -1},
        {"kind": 1, "value_offsets": bytes(32)},
        {"value_width": 3},
        {"values": None},
    ],
    ids=str,
)
def test_native_refuses_lengths_beyond_its_buffers(change):
    native = body_or_skip("native")._native
    ends, allocate = np.zeros(8, np.int64), pa.allocate_buffer
    native.encode([tuple(SOUND.values())], 0, None, ends, 2**31, allocate)
    with pytest.raises(ValueError, match="too small"):
        native.encode([tuple((SOUND | change).values())], 0, None, ends, 2**31, allocate)


# TensorFlow's word


def test_tensorflow_reads_what_was_written_and_would_write_the_same(body, tmp_path):
    import tensorflow as tf

    features = {
        "int": [3, -(2**63), None],
        "float": [0.1, None, float("inf")],
        "bytes": [b"", "日本".encode(), None],
        "ints": [[1, 2, 300], [], None],
        "floats": [[1.5], None, []],
        "texts": [[b"a", b""], [b"x" * 200], []],
        "a": [1, 2, 3],
        "aa": [1, 2, 3],
    }
    kinds = [pa.int64(), pa.float32(), pa.binary()]
    kinds += [pa.list_(kind) for kind in kinds] + [pa.int64()] * 2
    columns = [column(k, v, kind) for (k, v), kind in zip(features.items(), kinds, strict=True)]
    encoded = kernel.encode(columns)
    (tmp_path / "x.tfrecord").write_bytes(bytes(encoded.data))
    records = [r.numpy() for r in tf.data.TFRecordDataset(str(tmp_path / "x.tfrecord"))]
    assert records == payloads(encoded)
    for row, record in enumerate(records):
        example = tf.train.Example.FromString(record)
        single = [
            tf.train.Features(feature={k: example.features.feature[k]}).SerializeToString()
            for k in sorted(example.features.feature)
        ]
        assert record.endswith(b"".join(single))
        assert set(example.features.feature) == {
            k for k, v in features.items() if v[row] is not None
        }
        for key, feature in example.features.feature.items():
            found = getattr(feature, feature.WhichOneof("kind")).value
            expected = features[key][row]
            expected = expected if isinstance(expected, list) else [expected]
            assert list(found) == [np.float32(v) if isinstance(v, float) else v for v in expected]


# Scanning records


@pytest.fixture
def framed(body):
    columns = [column("x", [b"a" * n for n in (0, 1, 40, 500)], pa.binary())]
    return kernel.encode(columns)


def test_scan_finds_every_record(framed):
    found = kernel.scan(framed.data)
    assert found.damage == ""
    assert found.ends.tolist() == framed.ends.tolist()
    assert kernel.scan(b"").ends.tolist() == []


def test_scan_stops_where_the_buffer_is_cut(framed):
    data = bytes(framed.data)
    for cut in range(len(data)):
        found = kernel.scan(memoryview(data)[:cut])
        assert found.ends.tolist() == [end for end in framed.ends if end <= cut]
        assert found.damage == ("" if cut in (0, *framed.ends) else "truncated")


def test_scan_names_the_damage_of_any_byte(framed):
    data = bytes(framed.data)
    start = int(framed.ends[1])
    for place in range(start, int(framed.ends[2])):
        broken = bytearray(data)
        broken[place] ^= 0x10
        found = kernel.scan(broken)
        assert found.ends.tolist() == framed.ends[:2].tolist()
        assert found.damage == ("length checksum" if place < start + 12 else "data checksum")


def test_scan_refuses_a_length_that_no_file_can_have(body):
    header = (2**64 - 20).to_bytes(8, "little")
    data = header + kernel.masked_crc32c(header).to_bytes(4, "little") + bytes(64)
    assert kernel.scan(data).damage == "length"
    header = (2**63 - 1).to_bytes(8, "little")
    data = header + kernel.masked_crc32c(header).to_bytes(4, "little") + bytes(64)
    assert kernel.scan(data).damage == "truncated"


# Checksums


def test_checksum_is_that_of_the_crc32c_package_by_instruction_and_by_table():
    bridge, reference = body_or_skip("native"), body_or_skip("reference")
    data = np.random.default_rng(1).bytes(40_000)
    for size in [*range(600), 1023, 1024, 1025, 3071, 3072, 3073, 3456, 9999, 39_990]:
        part = memoryview(data)[size % 9 : size % 9 + size]
        expected = reference.masked_crc32c(part)
        assert bridge.masked_crc32c(part) == expected
        assert bridge._native.masked_crc32c(part, True) == expected


def test_checksums_go_on_from_what_came_before(body):
    data = np.random.default_rng(2).bytes(10_000)
    whole = kernel.crc32c(data)
    assert whole == crc32c.crc32c(data)
    for cut in (0, 1, 4000, 9999, 10_000):
        assert kernel.crc32c(data[cut:], kernel.crc32c(data[:cut])) == whole


def test_checksum_is_masked_as_tensorflow_wants(body):
    crc = 0xE3069283  # crc32c of these digits, from RFC 3720's polynomial
    expected = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert kernel.masked_crc32c(b"123456789") == expected


# CSV rows

CSV_BYTES = st.lists(
    st.sampled_from([b'"', b'""', b",", b"\n", b"\r", b"\r\n", b"\\", b"a", b"\xff", b"\0" * 70])
).map(b"".join)
DIALECTS = st.builds(
    CsvDialect,
    delimiter=st.sampled_from([b",", b";", b"\t"]),
    quote=st.sampled_from([b'"', b"a", None]),
    escape=st.sampled_from([None, b"\\"]),
    single=st.booleans(),
)


@settings(deadline=None)
@given(CSV_BYTES, DIALECTS, st.booleans())
def test_both_bodies_find_the_same_csv_rows(data, dialect, final):
    ours, twins = (
        dataclasses.asdict(body_or_skip(name).split_csv(data, dialect, final)) for name in BODIES
    )
    for name, value in ours.items():
        np.testing.assert_array_equal(twins[name], value, err_msg=name, strict=True)


def test_csv_lines_before_the_end_count_those_in_a_last_row_without_line_end(body):
    found = kernel.split_csv(b'a\n"b\n\nc"', CsvDialect(), True)
    assert (found.consumed, found.consumed_lines) == (8, 3)


def test_csv_rows_of_a_long_buffer(body):
    rows = [b'%d,"a\n""b""",c' % n for n in range(5000)]
    found = kernel.split_csv(memoryview(b"\r\n".join(rows)), CsvDialect(), True)
    assert [r - s for s, r in zip(found.starts, found.ends, strict=True)] == [len(r) for r in rows]
    assert found.lines.tolist() == [2 * n for n in range(5000)]
    assert found.open_quote == -1


# The door


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_environment_chooses_the_body():
    code = "from tfrec_cli import _kernel; print(_kernel.BODY)"
    assert run_python(code, TFREC_KERNEL="reference").stdout == "reference\n"
    assert "native or reference" in run_python(code, TFREC_KERNEL="rust").stderr


def test_missing_native_body_is_an_error_only_where_it_was_asked_for():
    hide = "import sys; sys.modules['tfrec_cli._kernel._native'] = None; "
    code = hide + "from tfrec_cli import _kernel; print(_kernel.BODY)"
    assert run_python(code, TFREC_KERNEL="").stdout == "reference\n"
    assert "C compiler" in run_python(code, TFREC_KERNEL="native").stderr


@pytest.mark.parametrize("wanted", ["", "native"])
@pytest.mark.parametrize("source", ["raise ImportError('undefined symbol: x')", "import no_such"])
def test_broken_native_body_is_an_error_and_no_reason_to_go_on_without(tmp_path, wanted, source):
    (tmp_path / "_native.py").write_text(source)
    code = (
        "import sys, tfrec_cli, importlib.util as u\n"
        "class Broken:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'tfrec_cli._kernel._native':\n"
        f"            return u.spec_from_file_location(name, {str(tmp_path / '_native.py')!r})\n"
        "sys.meta_path.insert(0, Broken())\n"
        "from tfrec_cli import _kernel; print(_kernel.BODY)"
    )
    run = run_python(code, TFREC_KERNEL=wanted)
    assert (run.returncode, run.stdout) == (1, "")
    assert "is there but cannot be loaded" in run.stderr


def test_native_body_that_is_expected_is_not_skipped(monkeypatch):
    def missing(name):
        raise UsageError("not built")

    monkeypatch.setattr(kernel, "_load", missing)
    monkeypatch.setenv("TFREC_EXPECT_NATIVE", "1")
    with pytest.raises(UsageError):
        body_or_skip("native")
    monkeypatch.delenv("TFREC_EXPECT_NATIVE")
    with pytest.raises(pytest.skip.Exception):
        body_or_skip("native")


@pytest.mark.slow
@pytest.mark.parametrize(("compiler", "is_built"), [(None, True), ("/bin/false", False)])
def test_wheel_holds_the_native_body_where_there_is_a_compiler(tmp_path, compiler, is_built):
    source = tmp_path / "source"
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    for name in names.decode().split("\0")[:-1]:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    environment = os.environ | ({"CC": compiler} if compiler else {})
    subprocess.run([*command, "-w", tmp_path, source], env=environment, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    built = [n for n in zipfile.ZipFile(wheel).namelist() if n.endswith("_native.abi3.so")]
    assert bool(built) == is_built
