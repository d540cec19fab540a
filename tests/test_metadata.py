"""Metadata for other programs: what they load is what the dataset holds."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conftest import EXAMPLES, run_with
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_examples import entry, example, field, ints, texts

import tfrec_cli
from tfrec_cli.dataset.manifest import FeatureFacts, Manifest
from tfrec_cli.dataset.metadata import describe
from tfrec_cli.errors import DamageError, DatasetError, UsageError
from tfrec_cli.metadata import write_metadata
from tfrec_cli.options import Compression, MetadataFormat
from tfrec_cli.records.framing import frame
from tfrec_cli.verification import VerifyOptions, verify

TFDS = """
import json, sys
import numpy as np
import tensorflow_datasets as tfds

def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, bytes):
        return value.decode()
    return plain(value.tolist()) if hasattr(value, "tolist") else (
        [plain(v) for v in value] if isinstance(value, list) else value)

builder = tfds.builder_from_directory(sys.argv[1])
wanted = json.loads(sys.argv[2])
features = builder.info.features
found = {
    "features": {key: type(features[key]).__name__ for key in features},
    "names": {k: f.names for k in features if hasattr(f := features[k], "names")},
    "counts": {name: split.num_examples for name, split in builder.info.splits.items()},
    "slices": [
        [plain(record) for record in tfds.as_numpy(builder.as_dataset(split=split))]
        for split in wanted
    ],
}
if builder.info.supervised_keys:
    image, label = next(iter(tfds.as_numpy(builder.as_dataset(split="train", as_supervised=True))))
    found["supervised"] = [list(image.shape), int(label)]
print(json.dumps(found))
"""

TFMD = """
import json, sys
from google.protobuf import json_format, text_format
from tensorflow_metadata.proto.v0 import schema_pb2
text = open(sys.argv[1], encoding="utf-8").read()
print(json_format.MessageToJson(text_format.Parse(text, schema_pb2.Schema())))
"""


def load(path: Path, *splits: str) -> dict[str, Any]:
    """What TensorFlow Datasets finds in a folder."""
    return json.loads(run_with("tensorflow_datasets", TFDS, path, json.dumps(splits)))  # type: ignore[no-any-return]


def tfmd(path: Path) -> dict[str, Any]:
    """What TensorFlow Metadata reads in a schema, features and representations by name."""
    found = json.loads(run_with("tensorflow_metadata", TFMD, path / "schema.pbtxt"))
    groups = found.get("tensorRepresentationGroup", {"": {}})
    return {f["name"]: f for f in found["feature"]} | {"": groups[""].get("tensorRepresentation")}


ROWS = 50


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A dataset with all that features can be."""
    table = pa.table({
        "id": pa.array(range(ROWS)),
        "score": pa.array([None if n % 5 == 0 else n / 4 for n in range(ROWS)], pa.float32()),
        "count": pa.array([None if n % 5 == 1 else n for n in range(ROWS)]),
        "word": pa.array([None if n % 5 == 2 else f"w{n}" for n in range(ROWS)]),
        "vector": pa.array([[n, n + 1, n + 2] for n in range(ROWS)], pa.list_(pa.float32(), 3)),
        "tokens": pa.array([list(range(n % 4)) for n in range(ROWS)]),
        "nested": pa.array([[[n], [n, n]][: n % 3] for n in range(ROWS)]),
        "kind": pa.array([("cat", "dog \u00e9")[n % 2] for n in range(ROWS)]),
        "group/kind": pa.array([("x", "y", "z")[n % 3] for n in range(ROWS)]),
    })  # fmt: skip
    schema = {
        "version": 1,
        "rest": "keep",
        "features": {
            "kind": {"type": "int64", "labels": ["cat", "dog \u00e9"]},
            "group/kind": {"type": "int64", "labels": ["x", "y", "z"], "first_label": 1},
        },
    }
    dest = tmp_path / "mixed"
    tfrec_cli.convert(
        table, dest, schema=schema, split="train=0.6,test=0.4", split_exact=True, shards=3,
        metadata="tfds,tfmd,label-map",
    )  # fmt: skip
    return dest


def test_tfds_loads_and_slices_every_kind_of_feature(mixed: Path) -> None:
    found = load(mixed, "train", "test", "train[5:9]", "test[:50%]", "train+test")
    assert found["counts"] == {"train": 30, "test": 20}
    assert found["features"]["kind"] == "ClassLabel"
    assert found["names"] == {"kind": ["cat", "dog \u00e9"]}
    # Numbers of labels that do not count from 0 stay what they are.
    assert found["features"]["group/kind"] == "Tensor"
    train, test, four, half, both = found["slices"]
    assert four == train[5:9]
    assert half == test[:10]
    assert sorted(record["id"] for record in both) == list(range(ROWS))
    lowest = float(np.finfo(np.float32).min)
    for record in (*train, *test):
        n = record["id"]
        assert record["kind"] == n % 2
        assert record["group/kind"] == n % 3 + 1
        assert record["vector"] == [n, n + 1, n + 2]
        assert record["tokens"] == list(range(n % 4))
        inner = [[n], [n, n]][: n % 3]
        assert record["nested"] == [value for row in inner for value in row]
        assert record["nested/row_lengths"] == [len(row) for row in inner]
        assert record["score"] == (n / 4 if n % 5 else lowest)
        assert record["count"] == (n if n % 5 != 1 else -(2**63))
        assert record["word"] == (f"w{n}" if n % 5 != 2 else "")


def test_tfds_loads_images_with_their_classes(tmp_path: Path) -> None:
    tfrec_cli.convert(EXAMPLES / "digits", tmp_path / "d", shards=2, metadata="tfds")
    found = load(tmp_path / "d", "train[:3]")
    assert found["features"]["image/encoded"] == "Image"
    assert found["names"]["image/class/label"] == [str(n) for n in range(10)]
    assert found["counts"] == {"train": 200}
    assert np.array(found["slices"][0][0]["image/encoded"]).shape == (8, 8, 3)
    assert found["supervised"] == [[8, 8, 3], 0]


def test_tfds_loads_a_split_with_empty_shards(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"x": [1, 2]}), tmp_path / "few", shards=4, metadata="tfds")
    found = load(tmp_path / "few", "train", "train[1:]")
    assert found["slices"] == [[{"x": 1}, {"x": 2}], [{"x": 2}]]


def test_tfmd_reads_the_schema(mixed: Path) -> None:
    found = tfmd(mixed)
    assert (found["id"]["type"], found["id"]["shape"]) == ("INT", {})
    assert found["id"]["presence"] == {"minFraction": 1.0, "minCount": "1"}
    assert found["vector"]["shape"] == {"dim": [{"size": "3"}]}
    assert found["score"]["presence"] == {"minCount": "1"}
    assert found["score"]["valueCount"] == {"min": "1", "max": "1"}
    assert found["word"]["type"] == "BYTES"
    assert found["tokens"]["valueCount"] == {"min": "0"}
    assert found["group/kind"]["intDomain"] == {"min": "1", "max": "3", "isCategorical": True}
    representation = found[""]
    assert set(representation) == {"score", "count", "word", "tokens", "nested"}
    assert representation["nested"]["raggedTensor"] == {
        "featurePath": {"step": ["nested"]},
        "partition": [{"rowLength": "nested/row_lengths"}],
    }


def label_map(text: str) -> dict[int, str]:
    """The ids and names of a StringIntLabelMap."""
    file = descriptor_pb2.FileDescriptorProto(name="map.proto", package="t", syntax="proto2")
    item, whole = file.message_type.add(name="Item"), file.message_type.add(name="Map")
    item.field.add(name="name", number=1, type=9, label=1)
    item.field.add(name="id", number=2, type=5, label=1)
    whole.field.add(name="item", number=1, type=11, type_name=".t.Item", label=3)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)  # type: ignore[no-untyped-call]
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Map"))
    found = text_format.Parse(text, kind())
    return {one.id: one.name for one in found.item}  # type: ignore[attr-defined]


def test_a_label_map_has_the_numbers_of_the_records(mixed: Path) -> None:
    text = (mixed / "label_map.pbtxt").read_text("utf-8")
    assert label_map(text) == {1: "x", 2: "y", 3: "z"}


@given(st.lists(st.text(min_size=1), min_size=1, max_size=8, unique=True))
def test_any_name_comes_back_from_a_label_map(names: list[str]) -> None:
    facts = FeatureFacts("k", "int64", labels=tuple(names), first_label=1)
    made = describe(Manifest("d", Compression(), (), (facts,)), ["label-map"])
    assert label_map(made.files["label_map.pbtxt"]) == dict(enumerate(names, 1))


def test_labels_from_0_are_never_shifted(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="first_label: 1"):
        tfrec_cli.convert(EXAMPLES / "digits", tmp_path / "d", metadata="label-map")
    assert not (tmp_path / "d").exists()
    with pytest.raises(UsageError, match="no feature has labels"):
        tfrec_cli.convert(pa.table({"x": [1]}), tmp_path / "d", metadata="label-map")


def test_what_is_wrong_is_told_before_records_are_read(tmp_path: Path) -> None:
    """The compression first, since converting anew gives other names too."""
    damaged = frame(b"\xff")[:-1]
    (tmp_path / "a.tfrecord.gz").write_bytes(gzip.compress(damaged))
    with pytest.raises(UsageError, match="tfds: the shards are GZIP"):
        write_metadata(str(tmp_path), ("tfds",))
    (tmp_path / "a.tfrecord.gz").unlink()
    (tmp_path / "a.tfrecord").write_bytes(damaged)
    with pytest.raises(UsageError, match="NAME-SPLIT"):
        write_metadata(str(tmp_path), ("tfds",))
    (tmp_path / "a.tfrecord").rename(tmp_path / "a-train.tfrecord-00001-of-00002")
    with pytest.raises(DamageError, match="tfds: of 2 shards of train, some are not there"):
        write_metadata(str(tmp_path), ("tfds",))


def test_tfds_is_refused_where_it_could_not_read(tmp_path: Path) -> None:
    table = pa.table({"x": [1]})
    with pytest.raises(UsageError, match="GZIP"):
        tfrec_cli.convert(table, tmp_path / "d", metadata="tfds", compression="gzip")
    with pytest.raises(UsageError, match="folder"):
        tfrec_cli.convert(table, tmp_path / "d.tfrecord", metadata="tfds")
    assert list(tmp_path.iterdir()) == []
    tfrec_cli.convert(table, tmp_path / "d", compression="gzip")
    with pytest.raises(UsageError, match="GZIP"):
        write_metadata(str(tmp_path / "d"), ["tfds"])
    tfrec_cli.convert(table, tmp_path / "d.tfrecord", metadata="tfmd")
    with pytest.raises(UsageError, match="folder"):
        write_metadata(str(tmp_path / "d.tfrecord"), ["tfds"])


def test_the_command_adds_what_convert_would_have_written(mixed: Path, tmp_path: Path) -> None:
    wanted = ("features.json", "dataset_info.json", "schema.pbtxt", "label_map.pbtxt")
    before = {name: (mixed / name).read_bytes() for name in wanted}
    manifest = json.loads((mixed / "manifest.json").read_text())
    for name in wanted:
        (mixed / name).unlink()
    manifest["files"] = [f for f in manifest["files"] if f["name"] not in wanted]
    (mixed / "manifest.json").write_text(json.dumps(manifest, separators=(",", ":")))
    done = write_metadata(str(mixed), ["tfds", "tfmd", "label-map"])
    assert {Path(path).name for path in done.files} == set(wanted)
    assert {name: (mixed / name).read_bytes() for name in wanted} == before
    assert verify(VerifyOptions((str(mixed),))).findings == ()


def test_files_without_a_manifest(mixed: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    for shard in mixed.glob("*.tfrecord-*"):
        (alone / shard.name).write_bytes(shard.read_bytes())
    write_metadata(str(alone), ["tfds", "tfmd"])
    found = load(alone, "train", "train[2:4]")
    assert found["counts"] == {"train": 30, "test": 20}
    assert found["slices"][1] == found["slices"][0][2:4]
    assert tfmd(alone)["vector"]["shape"] == {"dim": [{"size": "3"}]}
    write_metadata(str(alone), ["tfmd"])
    (alone / "schema.pbtxt").write_text("mine")
    with pytest.raises(DatasetError, match="something else"):
        write_metadata(str(alone), ["tfmd"])
    assert (alone / "schema.pbtxt").read_text() == "mine"
    next(alone.glob("*test*00001-of*")).unlink()
    with pytest.raises(DamageError, match="not there"):
        write_metadata(str(alone), ["tfds"])


def test_files_that_tfds_could_not_find(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(frame(b""))
    with pytest.raises(UsageError, match="features"):
        write_metadata(str(tmp_path), ["tfmd"])
    tfrec_cli.convert(pa.table({"x": [1]}), tmp_path / "b" / "b.tfrecord")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "b.tfrecord").write_bytes((tmp_path / "b" / "b.tfrecord").read_bytes())
    with pytest.raises(UsageError, match="NAME-SPLIT"):
        write_metadata(str(tmp_path / "c"), ["tfds"])
    (tmp_path / "c" / "b.tfrecord").write_bytes(frame(b"no message"))
    with pytest.raises(DatasetError, match=r"no tf\.train\.Example"):
        write_metadata(str(tmp_path / "c"), ["tfmd"])


def tfrec(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfrec_cli", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def test_the_commands(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,\n,2\n")
    done = tfrec("convert", "x.csv", "x", "--metadata", "tfds", cwd=tmp_path)
    assert done.returncode == 0
    assert "note: tfds: a missing value is read as" in done.stderr
    done = tfrec("metadata", "x", "--format", "tfmd", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "x/schema.pbtxt\n")
    done = tfrec("metadata", "x", "--format", "tfds", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["files"] == ["x/features.json", "x/dataset_info.json"]
    assert tfrec("metadata", "x", "--format", "tfdv", cwd=tmp_path).returncode == 2
    assert tfrec("metadata", "x", cwd=tmp_path).returncode == 2
    assert tfrec("metadata", "y", "--format", "tfds", cwd=tmp_path).returncode == 1
    assert tfrec("convert", "x.csv", "-", "--metadata", "tfmd", cwd=tmp_path).returncode == 2


def test_what_is_no_feature_is_told(tmp_path):
    lists = field(2, entry(b"t", field(1, ints(1))))
    (tmp_path / "d").mkdir()
    path = tmp_path / "d" / "x-train.tfrecord-00000-of-00001"
    path.write_bytes(frame(example(entry(b"id", ints(7))) + lists))
    notices = write_metadata(str(tmp_path / "d"), ("tfmd",)).notices
    assert any("feature lists are left out: t" in notice for notice in notices)


@pytest.mark.parametrize("kind", ["tfds", "tfmd"])
@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (b"no example", r"1 record of 2 are no tf.train.Example, and those who read"),
        (example(entry(b"x", texts(b"a"))), "feature x is not of one kind in all records"),
        (example(entry(b"\xff\xfe", ints(1))), r"key of feature \\xff\\xfe is not UTF-8"),
    ],
)
def test_records_that_are_not_alike_have_no_metadata(
    tmp_path: Path, kind: MetadataFormat, odd: bytes, why: str
) -> None:
    path = tmp_path / "a-train.tfrecord-00000-of-00001"
    path.write_bytes(frame(example(entry(b"x", ints(1)))) + frame(odd))
    with pytest.raises((DatasetError, UsageError), match=why):
        write_metadata(str(tmp_path), (kind,))
    tfrec_cli.convert(path, tmp_path / "whole")
    with pytest.raises((DatasetError, UsageError), match=why):
        write_metadata(str(tmp_path / "whole"), (kind,))
    assert sorted(os.listdir(tmp_path)) == [path.name, "whole"]


def test_lists_of_lists_are_told_to_be_flat_in_tensorflow_datasets(tmp_path):
    tfrec_cli.convert(pa.table({"x": [[[1], [2, 3]]]}), tmp_path / "d")
    notices = write_metadata(str(tmp_path / "d"), ("tfds",)).notices
    assert any("lists of lists are read flat" in notice for notice in notices)
