"""`tfrec inspect` tells what files hold, to the byte, whoever wrote them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conftest import shard_paths
from test_head_command import picture, tfrec
from test_kernel_examples import entry, example, field, floats, ints, texts

import tfrec_cli
from tfrec_cli.inspection.run import Inspection, inspect
from tfrec_cli.inspection.sample import PIECES, RecordSample
from tfrec_cli.reading.chunks import read_chunks
from tfrec_cli.reading.payloads import kind_of
from tfrec_cli.reading.targets import Target
from tfrec_cli.reading.values import is_text, text_of
from tfrec_cli.records.framing import frame


def look(path) -> Inspection:
    (found,) = inspect([str(path)], jobs=2)
    return found


def by_key(found: Inspection):
    return {report.info.key: report for report in found.features}


def write(path: Path, records) -> Path:
    path.write_bytes(b"".join(map(frame, records)))
    return path


@pytest.fixture
def dataset(tmp_path):
    table = pa.table(
        {
            "n": range(100),
            "w": pa.array([0.5, None] * 50, pa.float32()),
            "image": pa.array([[float(n)] * 6 for n in range(100)], pa.list_(pa.float32(), 6)),
            "tokens": [list(range(n % 4)) for n in range(100)],
        }
    )
    schema = {"version": 1, "features": {k: {"missing": "omit"} for k in table.column_names}}
    schema["features"]["image"] |= {"type": "float", "shape": [2, 3]}
    schema["features"]["w"] |= {"type": "float"}
    schema["features"]["n"] |= {"type": "int64"}
    schema["features"]["tokens"] |= {"type": "int64"}
    (tmp_path / "s.yaml").write_text(json.dumps(schema))
    tfrec_cli.convert(table, tmp_path / "d", schema=str(tmp_path / "s.yaml"), shards=3)
    return tmp_path / "d"


def test_features_files_and_records(dataset):
    found = look(dataset)
    assert (found.records, found.examples, len(found.files)) == (100, 100, 3)
    assert found.version == tfrec_cli.__version__
    assert (
        found.bytes
        == found.content_bytes
        == sum(Path(p).stat().st_size for p in shard_paths(dataset))
    )
    assert found.compression == {"none": 3}
    n, w, image, tokens = (by_key(found)[key] for key in ("n", "w", "image", "tokens"))
    assert (n.low, n.high, n.present) == (0, 99, 100)
    assert (w.present, w.info.optional) == (50, True)
    assert image.info.shape == (2, 3)
    assert (tokens.info.fewest, tokens.info.most, tokens.values) == (0, 3, 150)


def test_every_byte_is_accounted_for(dataset):
    found = look(dataset)
    sizes = {feature.key: feature for feature in found.footprint.features}
    assert found.footprint.total == found.content_bytes
    assert found.footprint.framing == 16 * 100
    assert sizes["w"].values == 4 * 50
    assert sizes["image"].values == 4 * 600
    assert sizes["image"].names == 5 * 100
    # A record of one feature: entry, its key and the tags and lengths around both.
    record = example(entry(b"abc", floats(1.0, 2.0)))
    alone = look(write(dataset.parent / "a.tfrecord", [record]))
    assert alone.footprint.other == 2
    assert alone.footprint.features[0].total == len(record) - 2


@pytest.mark.parametrize("keep_manifest", [True, False])
def test_gzip_vectors_and_names_are_advised_where_they_save(tmp_path, keep_manifest):
    columns = {f"x{n}": pa.array(np.zeros(200, np.int64)) for n in range(30)}
    tfrec_cli.convert(pa.table(columns), tmp_path / "d")
    if not keep_manifest:
        (tmp_path / "d" / "manifest.json").unlink()
    found = look(tmp_path / "d")
    kinds = {saving.kind: saving for saving in found.savings}
    assert set(kinds) == {"gzip", "vector", "names"}
    assert kinds["vector"].bytes > 0.7 * found.bytes
    assert found.parquet_bytes < 0.5 * found.bytes
    tfrec_cli.convert(pa.table(columns), tmp_path / "z", compression="gzip")
    assert "gzip" not in {saving.kind for saving in look(tmp_path / "z").savings}


def test_presence_is_the_same_in_inspect_and_stats(tmp_path):
    records = [
        example(entry(b"none", b""), entry(b"empty", ints()), entry(b"mixed", b"")),
        example(entry(b"none", b""), entry(b"empty", ints()), entry(b"mixed", ints(1))),
    ]
    path = write(tmp_path / "a.tfrecord", records)
    shown = json.loads(tfrec("inspect", path, "--json").stdout)["datasets"][0]["features"]
    assert {f["key"]: f["present"] for f in shown} == {"empty": 2, "mixed": 1, "none": 0}
    (split,) = json.loads(tfrec("stats", path, "--json").stdout)["splits"]
    lacking = {f["key"]: f["missing"] for f in split["features"]}
    assert lacking == {"empty": 0, "mixed": 1, "none": 2}
    features = tfrec_cli.open_dataset(path).features
    assert {key for key, one in features.items() if one.optional} == {"mixed", "none"}


def test_random_bytes_cannot_be_compressed(tmp_path):
    data = np.random.default_rng(1).bytes(200_000)
    found = look(write(tmp_path / "a.tfrecord", [example(entry(b"x", texts(data)))]))
    assert all(saving.bytes < 0.01 * found.bytes for saving in found.savings)


def test_files_of_several_compressions(tmp_path):
    data = frame(example(entry(b"x", ints(1))))
    (tmp_path / "a.tfrecord").write_bytes(data)
    (tmp_path / "b.tfrecord").write_bytes(gzip.compress(data))
    found = look(tmp_path)
    assert found.compression == {"none": 1, "gzip": 1}
    assert found.content_bytes == 2 * len(data)


def test_features_of_two_kinds_are_told(tmp_path):
    records = [example(entry(b"x", feature)) for feature in (ints(1), ints(2), floats(1.0), b"")]
    (x,) = look(write(tmp_path / "a.tfrecord", records)).features
    assert (x.info.kind, x.kinds) == ("int64", {"int64": 2, "float": 1, "no kind": 1})


def test_payloads_that_are_no_example(tmp_path):
    path = write(tmp_path / "a.tfrecord", [picture("PNG"), picture("PNG")])
    found = look(path)
    (payload,) = found.payloads
    assert (payload.records, payload.record, payload.kind) == (2, 0, "png images")
    assert (found.records, found.examples, found.features, found.footprint) == (2, 0, (), None)
    text = tfrec("inspect", path).stdout
    assert f"2 records in 1 file, {path.stat().st_size} bytes" in text
    assert "all records are no tf.train.Example, but png images (" in text


def test_payloads_of_several_kinds_are_counted(tmp_path):
    odd = [b"{}"] * 3 + [b"words"] * 2 + [b"\xff\xfe"] * 9
    records = [example(entry(b"x", ints(1))), *odd[:7], example(entry(b"x", ints(1))), *odd[7:]]
    path = write(tmp_path / "a.tfrecord", records)
    write(tmp_path / "b.tfrecord", [picture("PNG")])
    found = look(path)
    kinds = [(one.kind, one.records, one.record) for one in found.payloads]
    assert kinds == [("bytes of no known kind", 9, 6), ("JSON", 3, 1), ("text", 2, 4)]
    text = " ".join(tfrec("inspect", tmp_path).stdout.split())
    assert "9 records are no tf.train.Example, but bytes of no known kind (the first:" in text
    assert "1 record is no tf.train.Example, but png images (" in text
    told = "14 of 16 records are no tf.train.Example (bytes of no known kind 9, JSON 3, text 2)"
    assert told in tfrec("verify", path).stderr


@pytest.mark.parametrize("share", [2, 50])
def test_of_many_payloads_some_are_looked_at(tmp_path, share):
    count = 20_000
    records = [b"{}" if n % share == 0 else b"words" for n in range(count)]
    path = write(tmp_path / "a.tfrecord", records)
    found = {one.kind: one for one in look(path).payloads}
    assert sum(one.records for one in found.values()) == count
    assert found["JSON"].records == pytest.approx(count / share, rel=0.5)
    assert all(one.sampled for one in found.values())
    assert "records are no tf.train.Example, but JSON (by a sample; the first" in tfrec(
        "inspect", path
    ).stdout.replace("\n    ", " ")
    # All of one kind are exactly as many.
    (one,) = look(write(tmp_path / "b.tfrecord", [b"words"] * count)).payloads
    assert (one.records, one.sampled) == (count, False)


def test_sequence_examples_and_their_feature_lists(tmp_path):
    lists = entry(b"frames", field(1, ints(1)) + field(1, ints(2)))
    record = example(entry(b"id", ints(7))) + field(2, lists)
    path = write(tmp_path / "a.tfrecord", [example(entry(b"id", ints(1))), record])
    found = look(path)
    (payload,) = found.payloads
    assert (payload.records, payload.record) == (1, 1)
    assert (payload.kind, payload.keys) == ("tf.train.SequenceExample", ("frames",))
    assert [report.info.key for report in found.features] == ["id"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b'{"a": [1]}', "JSON"),
        (b"some words", "text"),
        (gzip.compress(b"a", mtime=0), "gzip data"),
        (b"\x08\x96\x01\x1a\x02\x81\xff", "another protobuf message (fields 1, 3)"),
        (b"\xff\xfe\xfd", "bytes of no known kind"),
        (b"\x93NUMPY\x01\x00", "NumPy array"),
    ],
)
def test_kinds_of_payloads(data, kind):
    assert kind_of(data) == kind


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, 3 << 20])
@pytest.mark.parametrize(("end", "kind"), [("", "text"), ("\0", "bytes of no known kind")])
def test_long_payloads_are_looked_at_in_pieces(size, end, kind):
    text = ("x" * (size - 1) + "é" * 10 + end).encode()
    assert is_text(memoryview(text)) == (text_of(text) is not None)
    assert kind_of(text) == kind
    assert kind_of(b'["' + text + b'"] ') == ("JSON" if kind == "text" else kind)
    assert not is_text(memoryview(text[: size + 2]))


def test_the_sample_is_small_and_from_everywhere(tmp_path):
    record = example(entry(b"x", texts(bytes(1000))))
    path = write(tmp_path / "a.tfrecord", [record] * 6000)
    sample = RecordSample()
    for chunk in read_chunks(Target(str(path)), 1 << 16):
        sample.add(chunk)
    assert PIECES / 2 <= len(sample.pieces) <= PIECES
    places = [piece.record for piece in sample.pieces]
    assert places[0] == 0
    assert places[-1] > 4500


def test_json_is_one_document(dataset):
    done = tfrec("inspect", dataset, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (document,) = json.loads(done.stdout)["datasets"]
    assert document["records"] == 100
    assert sum(f["bytes"] for f in document["features"]) < document["content_bytes"]
    assert document["splits"][0]["files"][1]["records"] == 33


def test_missing_shards_are_told_and_the_rest_is_shown(dataset):
    Path(shard_paths(dataset)[1]).unlink()
    done = tfrec("inspect", dataset)
    assert done.returncode == 3
    assert "67 records in 2 files" in done.stdout
    assert "missing shard" in done.stderr


def test_damage_is_one_line(dataset):
    shard = Path(shard_paths(dataset)[1])
    shard.write_bytes(shard.read_bytes()[:-3])
    done = tfrec("inspect", dataset)
    assert done.returncode == 3
    assert done.stderr.startswith(f"tfrec: {shard}, record 32, byte")
    assert done.stderr.count("\n") == 1


def test_keys_and_values_do_not_reach_the_terminal_as_commands(tmp_path):
    keys = [b"\x1b[31m%d" % n for n in range(9)]
    record = example(entry(b"\x1b[2Jx", texts(b"\x1b[31mred")), *(entry(k, ints(1)) for k in keys))
    path = write(tmp_path / "a.tfrecord", [record] * 3)
    for command in ("inspect", "stats", "head"):
        done = tfrec(command, path)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout


def test_several_datasets_and_empty_ones(dataset, tmp_path):
    (tmp_path / "empty.tfrecord").touch()
    done = tfrec("inspect", dataset, tmp_path / "empty.tfrecord")
    assert done.returncode == 0
    assert f"{dataset}: 100 records" in done.stdout
    assert "empty.tfrecord: 0 records in 1 file, 0 bytes" in done.stdout
    assert tfrec("inspect", tmp_path / "nothing").returncode == 1


def test_feature_lists_are_no_overhead_and_nothing_follows_from_the_context(tmp_path):
    lists = field(2, field(1, field(1, b"t") + field(2, field(1, floats(*range(200))))))
    write(tmp_path / "a.tfrecord", [example(entry(b"id", ints(1))) + lists] * 20)
    found = look(tmp_path / "a.tfrecord")
    rest = {one.key: one for one in found.footprint.features}["feature lists"]
    assert rest.values > 20 * 800
    assert found.footprint.protobuf < 20 * 20
    assert found.footprint.total == found.content_bytes
    assert found.parquet_bytes is None
    assert {saving.kind for saving in found.savings} <= {"gzip"}


def test_features_are_present_in_a_share_of_all_records(tmp_path):
    records = [example(entry(b"x", ints(1)))] * 2 + [b"no Example"] * 2
    path = write(tmp_path / "a.tfrecord", records)
    line, *_ = [line for line in tfrec("inspect", path).stdout.splitlines() if line[:2] == "x "]
    assert line.split()[2] == "50.0%"
