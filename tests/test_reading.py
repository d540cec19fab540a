"""Opening datasets: features, batches, dicts and bytes, of any origin; damage and odd payloads."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conftest import shard_paths
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_examples import entry, example, field, floats, ints, texts

import tfrec_cli
from tfrec_cli.errors import DamageError, DatasetError, SourceError, UsageError
from tfrec_cli.reading import RecordDataset, open_datasets
from tfrec_cli.reading.features import FeatureInfo
from tfrec_cli.records.framing import RecordDamage, frame

RECORDS = [example(entry(b"x", ints(n)), entry(b"t", texts(b"a" * (n % 3)))) for n in range(50)]


def write(path: Path, records, wrap=bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(wrap(b"".join(map(frame, records))))
    return path


@pytest.fixture
def table() -> pa.Table:
    words = ["alpha", None, "écho", ""] * 25
    return pa.table(
        {
            "n": pa.array(range(100)),
            "weight": pa.array(np.linspace(-1, 1, 100, dtype=np.float32)),
            "word": words,
            "vector": pa.array([[float(n)] * 4 for n in range(100)], pa.list_(pa.float32(), 4)),
            "ragged": [list(range(n % 4)) for n in range(100)],
        }
    )


@pytest.fixture
def dataset(table, tmp_path) -> Path:
    dest = tmp_path / "data"
    tfrec_cli.convert(table, dest, shards=3)
    return dest


def rows(opened: RecordDataset, **asked) -> list[dict]:
    return [row for batch in opened.batches(**asked) for row in batch.to_pylist()]


def test_a_dataset_with_a_manifest(dataset, table):
    opened = tfrec_cli.open_dataset(dataset)
    assert len(opened) == 100
    assert opened.features["n"] == FeatureInfo("n", "int64")
    assert opened.features["vector"] == FeatureInfo("vector", "float", (4,), 4, 4)
    assert opened.features["ragged"].shape is None
    assert opened.features["word"].optional
    found = pa.Table.from_batches(opened.batches(), opened.schema)
    assert found["n"].to_pylist() == list(range(100))
    assert found["weight"].equals(table["weight"])
    assert found["word"].cast(pa.string()).equals(table["word"])
    assert found["vector"].to_pylist() == table["vector"].to_pylist()
    assert found["ragged"].to_pylist() == table["ragged"].to_pylist()


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_without_its_manifest_the_records_tell_the_same(dataset, jobs):
    known = tfrec_cli.open_dataset(dataset)
    expected = rows(known)
    (dataset / "manifest.json").unlink()
    opened = tfrec_cli.open_dataset(dataset, jobs=jobs)
    assert len(opened) == 100
    assert {f.key: (f.kind, f.shape) for f in opened.features.values()} == {
        f.key: (f.kind, f.shape) for f in known.features.values()
    }
    assert opened.features["ragged"].most == 3
    assert opened.features["word"].optional
    assert not opened.features["n"].optional
    assert rows(opened) == expected


@pytest.mark.parametrize("wrap", [bytes, gzip.compress, zlib.compress])
def test_files_of_any_compression_whatever_they_are_called(tmp_path, wrap):
    path = write(tmp_path / "odd name.bin", RECORDS, wrap)
    opened = tfrec_cli.open_dataset(path)
    assert [row["x"] for row in opened] == list(range(50))
    assert list(opened.records()) == RECORDS
    assert len(opened) == 50


def test_a_glob_is_one_dataset_in_the_order_of_names(tmp_path):
    for number in (2, 0, 1):
        write(tmp_path / f"part-{number}.tfrecord", RECORDS[number * 10 : number * 10 + 10])
    opened = tfrec_cli.open_dataset(str(tmp_path / "part-*.tfrecord"))
    assert [row["x"] for row in opened] == list(range(30))
    several = tfrec_cli.open_dataset([tmp_path / "part-1.tfrecord", tmp_path / "part-0.tfrecord"])
    assert [row["x"] for row in several][:3] == [10, 11, 12]


def test_columns_and_splits(tmp_path, table):
    tfrec_cli.convert(table, tmp_path / "d", split="train=0.5,test=0.5", split_exact=True)
    opened = tfrec_cli.open_dataset(tmp_path / "d")
    assert set(opened.splits) == {"train", "test"}
    train, test = (rows(opened, columns=["weight", "n"], split=s) for s in ("train", "test"))
    assert len(train) == len(test) == 50
    assert sorted(r["n"] for r in train + test) == list(range(100))
    assert list(train[0]) == ["weight", "n"]
    assert len(opened.only("test")) == 50
    with pytest.raises(UsageError, match=r'"tset".*Did you mean "test"'):
        next(opened.batches(split="tset"))
    with pytest.raises(UsageError, match=r'"wieght".*Did you mean "weight"'):
        next(opened.batches(columns=["wieght"]))


def test_no_columns_still_count(dataset):
    assert sum(b.num_rows for b in tfrec_cli.open_dataset(dataset).batches(columns=[])) == 100


def test_blocks_are_read_in_order_by_several_threads(tmp_path):
    path = write(tmp_path / "a.tfrecord", RECORDS * 40)
    opened = tfrec_cli.open_dataset(path, jobs=4)
    parts = list(opened.parts(["x"], block=1 << 16))
    assert len(parts) > 1
    assert [v for p in parts for v in p.batch["x"].to_pylist()] == list(range(50)) * 40
    places = np.cumsum([0, *(p.batch.num_rows for p in parts)])
    assert [p.record for p in parts] == places[:-1].tolist()


# Damage


def test_damage_names_file_record_and_offset(tmp_path):
    data = bytearray(b"".join(map(frame, RECORDS)))
    offset = sum(len(frame(r)) for r in RECORDS[:7])
    data[offset + 14] ^= 1
    path = tmp_path / "a.tfrecord"
    path.write_bytes(data)
    opened = tfrec_cli.open_dataset(path)
    for read in (lambda: len(opened), lambda: rows(opened), lambda: list(opened.records())):
        with pytest.raises(RecordDamage) as caught:
            read()
        error = caught.value
        assert (error.file, error.record, error.offset) == (str(path), 7, offset)
        assert error.kind == "data checksum"


@pytest.mark.parametrize("keep", [5, 30])
def test_a_file_that_is_cut_is_damage(dataset, keep):
    shard = Path(shard_paths(dataset)[1])
    data = shard.read_bytes()
    shard.write_bytes(data[:-keep])
    with pytest.raises(DamageError, match=r"00001-of-00003, record 3., byte .*: truncated"):
        rows(tfrec_cli.open_dataset(dataset))


def test_a_shard_cut_between_two_records_is_damage(dataset):
    shard = Path(shard_paths(dataset)[1])
    records = list(tfrec_cli.open_dataset(dataset).records())[34:60]
    shard.write_bytes(b"".join(map(frame, records)))
    with pytest.raises(DamageError, match=r"record count: the file ends, but 33 records"):
        rows(tfrec_cli.open_dataset(dataset))


def test_a_missing_shard_is_damage(dataset):
    Path(shard_paths(dataset)[2]).unlink()
    opened = tfrec_cli.open_dataset(dataset)
    for read in (lambda: len(opened), lambda: rows(opened), lambda: list(opened.records())):
        with pytest.raises(DamageError, match="missing shard"):
            read()
    named = tfrec_cli.open_dataset(shard_paths(dataset))
    assert len(rows(named)) == 67


def test_bytes_behind_compressed_data_are_damage(tmp_path):
    path = write(tmp_path / "a.tfrecord.gz", RECORDS, lambda d: gzip.compress(d) + bytes(5))
    with pytest.raises(DamageError, match=r"record 50, byte .*trailing data"):
        len(tfrec_cli.open_dataset(path))


def test_records_that_differ_from_the_manifest_are_damage(dataset):
    shard = Path(shard_paths(dataset)[0])
    records = list(tfrec_cli.open_dataset(dataset).records())[:34]
    for key, feature in ((b"n", floats(1.0)), (b"n", ints(1, 2)), (b"new", ints(1))):
        changed = [*records[:5], records[5] + example(entry(key, feature)), *records[6:]]
        shard.write_bytes(b"".join(map(frame, changed)))
        place = rf"record 5, byte \d+, feature {key.decode()}: .*the manifest has"
        with pytest.raises(DamageError, match=place):
            rows(tfrec_cli.open_dataset(dataset))
        assert len(rows(tfrec_cli.open_dataset(dataset), columns=["weight"])) == 100


# Odd payloads


def test_a_feature_of_two_kinds_names_the_record_that_differs(tmp_path):
    other = example(entry(b"x", floats(1.0)))
    path = write(tmp_path / "a.tfrecord", [*RECORDS[:5], other, *RECORDS[5:]])
    opened = tfrec_cli.open_dataset(path)
    assert opened.features["x"].kind == "int64"
    with pytest.raises(DatasetError, match=r"record 5, .*feature x: it is float here.*int64"):
        rows(opened)
    assert len(rows(opened, columns=["t"])) == 51


def test_payloads_that_are_no_example_are_told(tmp_path):
    path = write(tmp_path / "a.tfrecord", [b"\xff\xd8\xff some picture", b"{}"])
    opened = tfrec_cli.open_dataset(path)
    assert len(opened) == 2
    with pytest.raises(DatasetError, match=r"no tf\.train\.Example"):
        opened.features  # noqa: B018
    assert list(opened.records())[1] == b"{}"


def test_one_payload_among_examples_is_named(tmp_path):
    path = write(tmp_path / "a.tfrecord", [*RECORDS, b"\xff", *RECORDS])
    with pytest.raises(DatasetError, match=r"record 50, byte \d+: not a tf.train.Example"):
        rows(tfrec_cli.open_dataset(path))


def test_features_without_a_kind_and_keys_that_are_not_utf8(tmp_path):
    record = example(entry(b"none", b""), entry(b"\xff", ints(1)), entry("é".encode(), texts(b"a")))
    opened = tfrec_cli.open_dataset(write(tmp_path / "a.tfrecord", [record, record]))
    assert opened.features["none"].kind == "no kind"
    assert opened.features["\udcff"].kind == "int64"
    (batch,) = opened.batches()
    assert batch.to_pylist() == [{"\\xff": 1, "none": None, "é": b"a"}] * 2


def test_records_by_number_are_those_of_the_files_whatever_is_left_out(tmp_path):
    odd = [b"no example", example(entry(b"x", texts(b"a")))]
    good = [example(entry(b"x", ints(n))) for n in range(6)]
    path = write(tmp_path / "a.tfrecord", [*good[:2], *odd, *good[2:]])
    opened = tfrec_cli.open_dataset(path, on_error="skip")
    assert [row["x"] for row in opened] == list(range(6))
    assert len(opened) == 8
    assert [opened[n]["x"] for n in (0, 1, 4, -1)] == [0, 1, 2, 5]
    assert opened[4:] == [{"x": n} for n in range(2, 6)]
    for number, asked in ((2, 2), (3, 3), (2, slice(0, 6)), (3, slice(7, None, -2))):
        with pytest.raises(DatasetError, match=f"record {number}, byte"):
            opened[asked]


def test_slices_are_decoded_in_few_goes(tmp_path):
    files = [[example(entry(b"x", ints(100 * f + n))) for n in range(100)] for f in range(3)]
    for number, records in enumerate(files):
        write(tmp_path / f"{number}.tfrecord", records)
    opened = tfrec_cli.open_dataset(tmp_path)
    everything = list(opened)
    for asked in (slice(None), slice(50, 250), slice(None, None, -7), slice(5, 5)):
        assert opened[asked] == everything[asked]
    numbers = opened.by_number()
    assert len(list(numbers.chunks(range(300)))) == 1
    size = len(files[0][0]) + 16
    found = list(numbers.chunks(range(0, 300, 2), 10 * size))
    assert [some for some, _ in found][:2] == [range(0, 20, 2), range(20, 40, 2)]
    assert [len(chunk.ends) for _, chunk in found] == [10] * 15


@pytest.mark.parametrize("jobs", [0, -1, 1.5, "2"])
def test_a_number_of_jobs_is_a_whole_number_from_one(dataset, jobs):
    with pytest.raises(UsageError, match=r"jobs is .*; give a whole number, 1 or more"):
        tfrec_cli.open_dataset(dataset, jobs=jobs)


def test_keys_of_one_name_are_refused(tmp_path):
    path = write(
        tmp_path / "a.tfrecord", [example(entry(b"\xff", ints(1)), entry(b"\\xff", ints(2)))]
    )
    opened = tfrec_cli.open_dataset(path)
    for read in (lambda: list(opened), lambda: opened.schema, lambda: opened[0]):
        with pytest.raises(DatasetError, match=r"are both written \\xff, so that no table"):
            read()
    assert len(list(opened.records())) == 1


def test_a_key_that_is_not_utf8_is_named_as_it_is_shown(tmp_path):
    path = write(
        tmp_path / "a.tfrecord", [example(entry(b"\xff\xfe", ints(1)), entry(b"", ints(2)))]
    )
    opened = tfrec_cli.open_dataset(path)
    for name in ("\\xff\\xfe", "\udcff\udcfe"):
        assert next(opened.batches([name])).to_pylist() == [{"\\xff\\xfe": 1}]
    with pytest.raises(UsageError, match=r'no feature is called "b". There are "", \\xff\\xfe\.'):
        next(opened.batches(["b"]))


def test_empty_files_and_folders(tmp_path):
    (tmp_path / "a.tfrecord").touch()
    opened = tfrec_cli.open_dataset(tmp_path)
    assert len(opened) == 0
    assert (list(opened.batches()), list(opened), dict(opened.features)) == ([], [], {})
    (tmp_path / "none").mkdir()
    for place in ("none", "nowhere", "*.nothing"):
        with pytest.raises(DatasetError):
            tfrec_cli.open_dataset(tmp_path / place)


def test_two_datasets_are_not_one(tmp_path, table):
    for name in ("a", "b"):
        tfrec_cli.convert(table, tmp_path / "all" / name)
    with pytest.raises(DatasetError, match="2 datasets are here"):
        tfrec_cli.open_dataset(tmp_path / "all")
    assert [len(found) for found in open_datasets(tmp_path / "all")] == [100, 100]


def test_a_broken_manifest_is_damage(dataset):
    text = (dataset / "manifest.json").read_text()
    (dataset / "manifest.json").write_text(text.replace('"splits"', '"spl"'))
    with pytest.raises(DamageError, match="manifest"):
        len(tfrec_cli.open_dataset(dataset))


def test_the_manifest_of_a_single_file(tmp_path, table):
    tfrec_cli.convert(table, tmp_path / "one.tfrecord.gz")
    opened = tfrec_cli.open_dataset(tmp_path / "one.tfrecord.gz")
    assert opened.manifest is not None
    assert [row["n"] for row in opened] == list(range(100))


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b", "c/d"]),
            st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=3),
        ),
        max_size=20,
    )
)
def test_dicts_are_what_was_written(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("d") / "a.tfrecord"
    write(path, [example(*(entry(k.encode(), ints(*v)) for k, v in r.items())) for r in records])
    opened = tfrec_cli.open_dataset(path)
    keys = sorted({key for record in records for key in record})
    assert list(opened.features) == keys
    for found, record in zip(opened, records, strict=True):
        for key in keys:
            value = found[key]
            listed = value if isinstance(value, list) or value is None else [value]
            assert listed == record.get(key)


@pytest.mark.parametrize("has_manifest", [False, True])
def test_reading_imports_neither_tensorflow_nor_pandas(tmp_path, has_manifest):
    import subprocess
    import sys

    path = write(tmp_path / "a.tfrecord", RECORDS)
    if has_manifest:
        tfrec_cli.convert(str(path), tmp_path / "d")
        path = tmp_path / "d"
    code = (
        "import sys, json, tfrec_cli; d = tfrec_cli.open_dataset(sys.argv[1]); "
        "n = sum(b.num_rows for b in d.batches()); "
        "heavy = ('tensorflow', 'pandas', 'fsspec', 'pydantic', 'yaml'); "
        "print(json.dumps([n, [name for name in heavy if name in sys.modules]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [50, []]


def test_sequence_examples_are_read_as_far_as_their_context(tmp_path):
    path = write(tmp_path / "a.tfrecord", [RECORDS[0] + field(2, b"")])
    opened = tfrec_cli.open_dataset(path)
    assert opened.survey().sequences == 1


def test_features_as_told_need_no_look_at_the_records(tmp_path, dataset):
    path = write(tmp_path / "a.tfrecord", RECORDS)
    told = {"t": ("bytes", (), True), "z": ("float", (2,), True), "x": ("int64", None, False)}
    opened = tfrec_cli.open_dataset(path, features=told)
    assert rows(opened, columns=list(told))[1] == {"t": b"a", "z": None, "x": [1]}
    assert opened._survey is None
    wrong = tfrec_cli.open_dataset(path, features={"x": ("float", (), False)})
    with pytest.raises(DatasetError, match=r"record 0, .*x: it is int64 here, but the reader"):
        rows(wrong, columns=["x"])
    for form in (("int", (), False), ("int64", ()), ("int64", ("1",), False), None):
        with pytest.raises(UsageError, match=r"'x': .* is no feature"):
            tfrec_cli.open_dataset(path, features={"x": form})
    # A manifest knows better.
    assert tfrec_cli.open_dataset(dataset, features=told).features["n"].kind == "int64"


def test_what_is_no_path_is_refused_in_words():
    with pytest.raises(UsageError, match="3 is no path"):
        tfrec_cli.open_dataset(3)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"PAR1\x15\x04", "a Parquet file"),
        (b"\x89PNG\r\n\x1a\n", "a PNG image"),
        (b"\xff\xd8\xff\xe0", "a JPEG image"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"a,b\n1,2\n", "text"),
        ("naïve,ü\n".encode() * 1000, "text"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "text inside GZIP"),
    ],
)
def test_what_is_plainly_something_else_is_named(tmp_path, head, kind):
    (tmp_path / "x").write_bytes(head)
    with pytest.raises(DatasetError, match=f"x: no TFRecord file: it is {kind}"):
        tfrec_cli.open_dataset(tmp_path / "x")
    with pytest.raises(SourceError, match=f"no TFRecord file: it is {kind}"):
        tfrec_cli.convert(str(tmp_path / "x"), str(tmp_path / "out"), adapter="tfrecord")


@given(st.binary(min_size=12, max_size=40), st.integers(0, 11))
def test_a_damaged_header_is_no_other_kind_of_file(tmp_path_factory, data, place):
    path = tmp_path_factory.mktemp("d") / "x.tfrecord"
    broken = bytearray(frame(data))
    broken[place] ^= 0x80
    path.write_bytes(broken)
    with pytest.raises(DamageError):
        len(tfrec_cli.open_dataset(path))
