"""TFRecord files as a source: re-sharded without decoding, or by a schema anew."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from conftest import read_examples, read_manifest, read_records, shard_paths
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_examples import entry, field, ints

import tfrec_cli
from tfrec_cli import _kernel
from tfrec_cli._kernel import FeatureColumn
from tfrec_cli.cli import cli
from tfrec_cli.cli.progress import TerminalReporter
from tfrec_cli.dataset.manifest import load_manifest
from tfrec_cli.errors import (
    CellError,
    DamageError,
    DatasetError,
    SchemaError,
    SourceError,
    UsageError,
)
from tfrec_cli.export import ExportOptions, export
from tfrec_cli.loaders import tensorflow_script
from tfrec_cli.records.framing import frame
from tfrec_cli.records.framing import read_records as read_plainly
from tfrec_cli.sources.registry import open_source
from tfrec_cli.sources.tfrecord import TFRecordSource


def write(path: Path, records: Sequence[bytes], compression: str = "none") -> Path:
    """A TFRecord file as any program may have written it."""
    data = b"".join(map(frame, records))
    packed = {"none": bytes, "gzip": gzip.compress, "zlib": zlib.compress}[compression](data)
    path.write_bytes(packed)
    return path


def example(**features: Any) -> bytes:
    """A serialized Example by TensorFlow: lists of int, float, bytes or str."""
    import tensorflow as tf

    message = tf.train.Example()
    for key, values in features.items():
        values = values if isinstance(values, list) else [values]
        feature = message.features.feature[key]
        if isinstance(values[0], float):
            feature.float_list.value.extend(values)
        elif isinstance(values[0], int):
            feature.int64_list.value.extend(values)
        else:
            texts = [v.encode() if isinstance(v, str) else v for v in values]
            feature.bytes_list.value.extend(texts)
    return bytes(message.SerializeToString())


def people(count: int, start: int = 0) -> list[bytes]:
    """Examples that no writer of ours would serialize just so: keys in the order of a hash map."""
    return [
        example(id=n, name=f"n{n % 7}", weight=n / 2, tags=[n, n + 1][: 1 + n % 2])
        for n in range(start, start + count)
    ]


def all_records(dest: Path) -> list[bytes]:
    return [record for path in shard_paths(dest) for record in read_plainly(path)]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TFRecordSource.__init__

    def shrunk(self: TFRecordSource, *given: Any) -> None:
        original(self, *given)
        self.partition_bytes = self.batch_bytes = 1 << 9

    monkeypatch.setattr(TFRecordSource, "__init__", shrunk)


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_records_keep_their_bytes_and_their_order(tmp_path: Path, compression: str) -> None:
    first = write(tmp_path / "a.tfrecord", people(40), compression)
    second = write(tmp_path / "b-00000-of-00001", people(5, 40), compression)
    tfrec_cli.convert([first, second], tmp_path / "out", shards=4, compression="gzip")
    assert read_records(tmp_path / "out") == people(40) + people(5, 40)
    assert [s["records"] for s in read_manifest(tmp_path / "out")["splits"][0]["shards"]] == [
        12, 11, 11, 11,
    ]  # fmt: skip


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=30), st.sampled_from([1, 2, 7]))
def test_any_payload_is_shuffled_whole(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes], jobs: int
) -> None:
    folder = tmp_path_factory.mktemp("any")
    write(folder / "in.tfrecord", payloads)
    dest = folder / "out"
    tfrec_cli.convert(folder / "in.tfrecord", dest, shuffle=True, shards=2, jobs=jobs)
    assert sorted(all_records(dest)) == sorted(payloads)


@pytest.mark.parametrize("how", [
    {}, {"shuffle": True, "seed": 3}, {"split": "a=0.6,b=0.4", "shuffle": True},
    {"split": "a=0.5,b=0.5", "stratify": "name"}, {"sort_by": ["name"]},
        {"shuffle": True, "key": ["id"]},
    {"split": "a=0.5,b=0.5", "split_by": "name", "limit": 70},
])  # fmt: skip
@pytest.mark.usefixtures("small_parts")
def test_shards_are_the_same_on_any_number_of_threads(tmp_path: Path, how: dict[str, Any]) -> None:
    write(tmp_path / "a.tfrecord", people(60))
    write(tmp_path / "b.tfrecord.gz", people(40, 60), "gzip")
    found = []
    for jobs in (1, 2, 7):
        dest = tmp_path / f"out{jobs}"
        tfrec_cli.convert(
            str(tmp_path / "*.tfrecord*"), dest, name="d", shards=3, jobs=jobs, memory=1, **how
        )
        found.append([Path(path).read_bytes() for path in shard_paths(dest)])
    assert found[0] == found[1] == found[2]
    kept = all_records(tmp_path / "out1")
    assert sorted(kept) == sorted(people(100)[: how.get("limit", 100)])


def test_order_and_splits_go_by_features(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", people(60))
    tfrec_cli.convert(tmp_path / "a.tfrecord", tmp_path / "sorted", sort_by=["name", "weight"])
    rows = read_examples(tmp_path / "sorted")
    assert rows == sorted(rows, key=lambda row: (row["name"], row["weight"]))
    tfrec_cli.convert(
        tmp_path / "a.tfrecord", tmp_path / "groups", split="x=0.5,y=0.5", split_by="name"
    )
    parts = [
        {row["name"][0] for row in read_examples(path)} for path in shard_paths(tmp_path / "groups")
    ]
    assert parts[0].isdisjoint(parts[1])
    with pytest.raises(SourceError, match=r"record 7, column name: .n0. is there before.* 0,"):
        tfrec_cli.convert(tmp_path / "a.tfrecord", tmp_path / "twice", key=["name"], shuffle=True)


def test_a_dataset_keeps_splits_features_and_labels(tmp_path: Path) -> None:
    table = pa.table({"kind": ["cat", "dog", None] * 20, "x": [[1.5, 2.5]] * 60})
    schema = {
        "version": 1,
        "features": {
            "kind": {"labels": ["cat", "dog"], "missing": "omit"},
            "x": {"type": "float", "shape": [2]},
        },
    }
    tfrec_cli.convert(table, tmp_path / "old", schema=schema, split="train=0.5,test=0.5", shards=3)
    manifest = tfrec_cli.convert(tmp_path / "old", tmp_path / "new", shards=1)
    old = read_manifest(tmp_path / "old")
    assert read_manifest(tmp_path / "new")["features"] == old["features"]
    assert [s.name for s in manifest.splits] == ["train", "test"]
    assert all_records(tmp_path / "new") == all_records(tmp_path / "old")
    assert (tmp_path / "new" / "kind.labels.txt").read_text() == "cat\ndog\n"
    names: dict[str, Any] = {}
    found = load_manifest(tmp_path / "new")
    assert found is not None
    exec(tensorflow_script(found, str(tmp_path / "new")), names)
    batch = next(iter(names["load"]("test", batch_size=4)))
    assert batch["x"].shape == (4, 2)


def test_splits_that_are_asked_for_go_before_those_there_are(tmp_path: Path) -> None:
    write(tmp_path / "d-train.tfrecord", people(10))
    write(tmp_path / "d-test.tfrecord", people(10, 10))
    kept = tfrec_cli.convert(str(tmp_path / "d-*"), tmp_path / "kept")
    assert {s.name: s.records for s in kept.splits} == {"test": 10, "train": 10}
    asked = tfrec_cli.convert(str(tmp_path / "d-*"), tmp_path / "asked", split="x=0.9,y=0.1",
                              split_exact=True)  # fmt: skip
    assert {s.name: s.records for s in asked.splits} == {"x": 18, "y": 2}
    with pytest.raises(UsageError, match=r"one file.*\(test, train\).*--split NAME"):
        tfrec_cli.convert(str(tmp_path / "d-*"), tmp_path / "one.tfrecord")
    tfrec_cli.convert(str(tmp_path / "d-*"), tmp_path / "one.tfrecord", split="all")
    assert len(list(read_plainly(tmp_path / "one.tfrecord"))) == 20


@pytest.mark.parametrize(("place", "split"), [
    ("test/a.tfrecord", "test"), ("Split-eval/a", "eval"), ("my_test_runs/a.tfrecord", "train"),
    ("x/val-00000-of-00001", "validation"),
])  # fmt: skip
def test_names_tell_splits(tmp_path: Path, place: str, split: str) -> None:
    (tmp_path / place).parent.mkdir()
    write(tmp_path / place, people(1))
    manifest = tfrec_cli.convert(tmp_path / place, tmp_path / "out")
    assert [found.name for found in manifest.splits] == [split]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("others_first", [False, True])
def test_files_without_a_split_join_the_one_called_train(
    tmp_path: Path, shuffle: bool, others_first: bool
) -> None:
    write(tmp_path / "old-train.tfrecord-00000-of-00001", people(6))
    write(tmp_path / "old-test.tfrecord-00000-of-00001", people(3, 50))
    plain = str(write(tmp_path / "plain.tfrecord", people(20, 100)))
    named = [str(path) for path in sorted(tmp_path.glob("old-*"))]
    sources = [plain, *named] if others_first else [*named, plain]
    manifest = tfrec_cli.convert(sources, tmp_path / "out", shards=2, shuffle=shuffle)
    assert {split.name: split.records for split in manifest.splits} == {"train": 26, "test": 3}
    assert sorted(all_records(tmp_path / "out")) == sorted(
        [*people(6), *people(3, 50), *people(20, 100)]
    )


def test_a_schema_selects_renames_and_casts(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", [*people(3), example(id=9, name="last", text="12")])
    schema = {
        "version": 1,
        "features": {
            "number": {"column": "id", "type": "float"},
            "digits": {"column": "text", "type": "int64", "missing": "omit"},
            "weight": {"type": "float", "missing": {"default": -1.0}},
            "class": {"column": "name", "labels": ["n0", "n1", "n2", "last"]},
            "tags": {"type": "int64", "missing": "omit"},
        },
    }
    tfrec_cli.convert(tmp_path / "a.tfrecord", tmp_path / "out", schema=schema)
    assert read_examples(tmp_path / "out") == [
        {"number": [0.0], "weight": [0.0], "class": [0], "tags": [0]},
        {"number": [1.0], "weight": [0.5], "class": [1], "tags": [1, 2]},
        {"number": [2.0], "weight": [1.0], "class": [2], "tags": [2]},
        {"number": [9.0], "weight": [-1.0], "class": [3], "digits": [12]},
    ]


def test_the_inferred_schema_gives_equal_records(tmp_path: Path) -> None:
    from tfrec_cli.conversion import infer
    from tfrec_cli.options import ConvertOptions

    columns = [
        FeatureColumn("n", pa.array([1, None, 3])),
        FeatureColumn("v", pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32()))),
        FeatureColumn("w", pa.array([[b"a"], [], [b"b", b"c"]])),
    ]
    (tmp_path / "a.tfrecord").write_bytes(bytes(_kernel.encode(columns).data))
    text = infer(ConvertOptions((str(tmp_path / "a.tfrecord"),), ""))
    (tmp_path / "s.yaml").write_text(text)
    tfrec_cli.convert(tmp_path / "a.tfrecord", tmp_path / "out", schema=str(tmp_path / "s.yaml"))
    assert all_records(tmp_path / "out") == list(read_plainly(tmp_path / "a.tfrecord"))
    features = read_manifest(tmp_path / "out")["features"]
    shapes = {f["key"]: (f["shape"], f["ragged"]) for f in features}
    assert shapes == {"n": (None, 0), "v": ([2], 0), "w": (None, 1)}


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("on_error", ["fail", "skip"])
@pytest.mark.usefixtures("small_parts")
def test_damage_names_file_record_and_offset(
    tmp_path: Path, compression: str, on_error: str
) -> None:
    records = people(50)
    framed = [bytearray(frame(record)) for record in records]
    framed[30][20] ^= 1
    data = b"".join(framed)
    path = tmp_path / "a.tfrecord"
    path.write_bytes(gzip.compress(data) if compression == "gzip" else data)
    offset = sum(map(len, framed[:30]))
    with pytest.raises(DamageError, match=rf"a\.tfrecord, record 30, byte {offset}: data checksum"):
        tfrec_cli.convert(path, tmp_path / "out", on_error=on_error)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("small_parts")
def test_damage_behind_the_survey_is_found_too(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"a": list(range(500))}), tmp_path / "old", name="d")
    shard = Path(shard_paths(tmp_path / "old")[0])
    data = bytearray(shard.read_bytes())
    data[-3] ^= 1
    shard.write_bytes(data)
    result = CliRunner().invoke(
        cli, ["convert", str(tmp_path / "old"), str(tmp_path / "new")], standalone_mode=False
    )
    assert isinstance(result.exception, DamageError)
    assert "record 499, byte" in str(result.exception)


def test_a_missing_shard_is_damage(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"a": [1, 2, 3]}), tmp_path / "old", shards=3)
    Path(shard_paths(tmp_path / "old")[1]).unlink()
    for source in (tmp_path / "old", tmp_path):
        with pytest.raises(DamageError, match=r"00001-of-00003 is not there"):
            tfrec_cli.convert(source, tmp_path.parent / f"{tmp_path.name}-new")


def test_a_short_shard_is_damage(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"a": [1, 2, 3]}), tmp_path / "old", name="d")
    shard = Path(shard_paths(tmp_path / "old")[0])
    shard.write_bytes(b"".join(map(frame, list(read_plainly(shard))[:2])))
    with pytest.raises(DamageError, match="3 records were written"):
        tfrec_cli.convert(tmp_path / "old", tmp_path / "new")


def test_labels_that_differ_are_not_merged(tmp_path: Path) -> None:
    for name, kinds in (("a", ["cat", "dog"]), ("b", ["dog", "fox"])):
        schema = {"version": 1, "features": {"kind": {"labels": kinds}}}
        tfrec_cli.convert(pa.table({"kind": kinds}), tmp_path / name, schema=schema)
    both = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(SourceError, match=r"labels of kind.*0 cat, 1 dog.*0 dog, 1 fox.*off"):
        tfrec_cli.convert(both, tmp_path / "out")
    merged = tfrec_cli.convert(both, tmp_path / "out", source_options={"manifest": "off"})
    assert merged.records == 4
    assert merged.features[0].labels is None


def test_records_that_are_no_examples_are_passed_on(tmp_path: Path) -> None:
    records = [b"\xff\xff", b"", b"text"]
    write(tmp_path / "a.tfrecord", [*people(2), *records])
    manifest = tfrec_cli.convert(tmp_path / "a.tfrecord", tmp_path / "out")
    assert manifest.features == ()
    assert any("no tf.train.Example, the first is record" in text for text in manifest.notices)
    assert all_records(tmp_path / "out")[2:] == records
    with pytest.raises(CellError, match=r"a\.tfrecord, record 2: is no tf\.train\.Example"):
        tfrec_cli.convert(tmp_path / "a.tfrecord", tmp_path / "sorted", sort_by=["id"])
    write(tmp_path / "b.tfrecord", [b"\xff\xff"] * 3)
    result = CliRunner().invoke(cli, ["convert", str(tmp_path / "b.tfrecord"), str(tmp_path / "b")])
    assert result.exit_code == 0, result.output
    assert "none: not all records are tf.train.Examples" in result.output


def test_rows_that_differ_are_skipped_where_asked(tmp_path: Path) -> None:
    odd = example(id="text", name="x")
    write(tmp_path / "a.tfrecord", [*people(4), odd, b"\xff", *people(2, 4)])
    schema = {"version": 1, "features": {"id": "int64"}}
    with pytest.raises(CellError, match=r"record 4, column id: is bytes here, but int64"):
        tfrec_cli.convert(tmp_path / "a.tfrecord", tmp_path / "out", schema=schema)
    manifest = tfrec_cli.convert(
        tmp_path / "a.tfrecord", tmp_path / "out", schema=schema, on_error="skip",
        rejects=str(tmp_path / "rejects.jsonl"),
    )  # fmt: skip
    assert manifest.rows.rejected == 2
    assert read_examples(tmp_path / "out") == [{"id": [n]} for n in range(6)]


@pytest.mark.parametrize("name", [
    "a.tfrecord", "a.tfrecords", "A.TFREC", "a.record", "a.tfrecord.gz", "train-00000-of-00010",
    "a.tfrecord-00000-of-00001.zz", "mnist_v1.0-train-00000-of-00002",
])  # fmt: skip
def test_names_tell_tfrecord(tmp_path: Path, name: str) -> None:
    (tmp_path / "readme.md").write_text("text")
    write(tmp_path / name, [b"x"])
    for source in (tmp_path, tmp_path / name, str(tmp_path / "*")):
        assert open_source([source]).name == "tfrecord"


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_content_tells_tfrecord_where_the_name_does_not(tmp_path: Path, compression: str) -> None:
    path = write(tmp_path / "data", [b"x" * 100] * 3, compression)
    assert open_source([path]).name == "tfrecord"


def test_numbered_text_is_still_text(tmp_path: Path) -> None:
    path = tmp_path / "out.csv-00000-of-00001"
    path.write_text("a,b\n1,2\n")
    assert open_source([path]).name == "csv"


def test_a_forgotten_dest_does_not_eat_the_last_file(tmp_path: Path) -> None:
    names = [str(tmp_path / f"{name}.tfrecord") for name in "abc"]
    for number, name in enumerate(names):
        tfrec_cli.convert(pa.table({"a": [number]}), name)
    before = Path(names[2]).read_bytes()
    with pytest.raises(DatasetError, match="holds a finished dataset"):
        tfrec_cli.convert(names[:2], names[2])
    with pytest.raises(UsageError, match="looks like a source"):
        tfrec_cli.convert(names[:2], names[2], overwrite=True)
    assert Path(names[2]).read_bytes() == before
    merged = str(tmp_path / "merged.tfrecord")
    for _ in range(2):
        tfrec_cli.convert(names, merged, overwrite=True)


def test_plan_tells_of_features_and_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", people(20))
    result = CliRunner().invoke(
        cli, ["plan", str(tmp_path / "a.tfrecord"), str(tmp_path / "out"), "--json"]
    )
    plan = json.loads(result.stdout)
    size = (tmp_path / "a.tfrecord").stat().st_size
    assert (plan["records"], round(plan["plain_bytes"])) == (20, size)
    assert {f["key"] for f in plan["footprint"]["features"]} == {"id", "name", "weight", "tags"}


def test_defaults_beside_labels_are_no_damage_of_what_is_passed_on(tmp_path: Path) -> None:
    rules = {"labels": ["cat", "dog"], "missing": {"default": -2}, "unknown": {"default": -1}}
    schema = {"version": 1, "features": {"kind": rules}}
    table = pa.table({"kind": ["cat", "fox", None]})
    tfrec_cli.convert(table, tmp_path / "a", schema=schema)
    manifest = tfrec_cli.convert(tmp_path / "a", tmp_path / "b", verify=True)
    assert manifest.features[0].labels == ("cat", "dog")
    result = CliRunner().invoke(cli, ["verify", str(tmp_path / "b")])
    assert result.exit_code == 0, result.output


def test_features_without_a_kind_leave_the_manifest_open(tmp_path: Path) -> None:
    import tensorflow as tf

    message = tf.train.Example()
    message.features.feature["x"].SetInParent()
    message.features.feature["y"].int64_list.value.append(1)
    write(tmp_path / "a.tfrecord", [message.SerializeToString()])
    manifest = tfrec_cli.convert(tmp_path / "a.tfrecord", tmp_path / "out", verify=True)
    assert manifest.features == ()
    assert "feature x has no value in any record, and no kind" in manifest.notices


def test_the_same_again_is_up_to_date_by_content(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord.gz", people(3), "gzip")
    crc = _kernel.crc32c(path.read_bytes())
    assert tfrec_cli.convert(path, tmp_path / "out").sources[0].crc32c == crc


@pytest.mark.parametrize("rest", [{}, {"split_by": "x", "split": "a=0.5,b=0.5"}])
def test_what_a_schema_cannot_take_is_left_out(tmp_path: Path, rest: dict[str, Any]) -> None:
    lists = b"\x12\x00"
    records = [example(x=n) + (lists if n % 3 == 1 else b"") for n in range(30)]
    old = tmp_path / "old.tfrecord"
    old.write_bytes(b"".join(map(frame, [*records, b"no Example"])))
    schema = {"version": 1, "features": {"x": "int64"}}
    new = {"schema": schema, "on_error": "skip", **rest}
    reporter = TerminalReporter(bar=False)
    manifest = tfrec_cli.convert(str(old), tmp_path / "new", reporter=reporter, **new)
    assert manifest.records == 20
    found = sorted(r["x"] for r in tfrec_cli.open_dataset(tmp_path / "new"))
    assert found == [n for n in range(30) if n % 3 != 1]
    assert any("record 1: is a tf.train.SequenceExample" in text for text in reporter.notices)
    context = {"source_options": {"sequences": "context"}}
    assert tfrec_cli.convert(str(old), tmp_path / "c", **new, **context).records == 30
    # As they stand none is lost, whatever decides on splits.
    assert tfrec_cli.convert(str(old), tmp_path / "w", on_error="skip").records == 31
    old.write_bytes(frame(records[1]) * 2)
    with pytest.raises(SourceError, match="none of the 2 rows"):
        tfrec_cli.convert(str(old), tmp_path / "none", **new)


def test_a_schema_does_not_lose_feature_lists_unasked(tmp_path: Path) -> None:
    # Behind the context of the second record, an empty map of feature lists.
    records = [example(x=n) + (b"\x12\x00" if n == 1 else b"") for n in range(3)]
    old = tmp_path / "old.tfrecord"
    old.write_bytes(b"".join(map(frame, records)))
    schema = {"version": 1, "features": {"x": "int64"}}
    with pytest.raises(SchemaError, match=r"old.tfrecord, record 1: .* -O sequences=context"):
        tfrec_cli.convert(str(old), tmp_path / "new", schema=schema)
    options = {"sequences": "context"}
    tfrec_cli.convert(str(old), tmp_path / "new", schema=schema, source_options=options)
    assert [r["x"] for r in tfrec_cli.open_dataset(tmp_path / "new")] == [0, 1, 2]
    reporter = TerminalReporter(bar=False)
    tfrec_cli.convert(
        str(old), tmp_path / "told", schema=schema, source_options=options, reporter=reporter
    )
    (notice,) = reporter.notices
    assert notice.endswith("1 record is a tf.train.SequenceExample, the first is record 1")
    reporter = TerminalReporter(bar=False)
    tfrec_cli.convert(str(old), tmp_path / "whole", source_options=options, reporter=reporter)
    assert "-O sequences=context does nothing without --schema" in reporter.notices[-1]
    # The saved schema remembers what was asked.
    tfrec_cli.convert(str(old), tmp_path / "again", schema=tmp_path / "new" / "schema.yaml")
    # Without one, a feature may decide on the split, and nothing is lost.
    tfrec_cli.convert(str(old), tmp_path / "split", split_by="x", split="a=0.5,b=0.5")
    found = [r for s in (tmp_path / "split").glob("*.tfrecord-*") for r in read_plainly(s)]
    assert sorted(found) == sorted(records)


def test_a_schema_without_features_to_take(tmp_path: Path) -> None:
    old = tmp_path / "old.tfrecord"
    old.write_bytes(frame(b"no Example"))
    schema = {"version": 1, "features": {"x": "int64"}}
    with pytest.raises(SchemaError, match=r"no features that a schema could take.*--schema"):
        tfrec_cli.convert(str(old), tmp_path / "new", schema=schema)


def test_sequence_examples_are_passed_on(tmp_path: Path) -> None:
    import tensorflow as tf

    message = tf.train.SequenceExample()
    message.context.feature["id"].int64_list.value.append(1)
    message.feature_lists.feature_list["t"].feature.add().float_list.value.append(1.0)
    write(tmp_path / "a.tfrecord", [message.SerializeToString()])
    manifest = tfrec_cli.convert(tmp_path / "a.tfrecord", tmp_path / "out", verify=True)
    assert any("1 record is a tf.train.SequenceExample" in notice for notice in manifest.notices)
    assert all_records(tmp_path / "out") == [message.SerializeToString()]


def test_plan_takes_records_that_are_no_examples(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", [b"\xff" * 100] * 3)
    command = ["plan", str(tmp_path / "a.tfrecord"), str(tmp_path / "out")]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    assert "none: the records are no tf.train.Examples" in result.output


def test_numbered_files_that_are_not_there_are_told(tmp_path: Path) -> None:
    for number in (0, 3):
        write(tmp_path / f"a-{number:05d}-of-00004", people(1, number))
    manifest = tfrec_cli.convert(tmp_path, tmp_path.parent / f"{tmp_path.name}-out")
    assert manifest.notices == (
        "2 of 4 files that their names number are not among the sources: a-00001-of-00004, …",
    )


def test_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"")
    with pytest.raises(SourceError, match="has no records, so there is nothing"):
        tfrec_cli.convert(tmp_path / "a.tfrecord", tmp_path / "out")
    (tmp_path / "b.tfrecord").write_bytes(random.Random(0).randbytes(1000))
    with pytest.raises(DamageError, match="if the file ever was a TFRecord file"):
        tfrec_cli.convert(tmp_path / "b.tfrecord", tmp_path / "out")


def test_a_pattern_means_all_that_holds_records(tmp_path: Path) -> None:
    data = b"".join(frame(field(1, entry(b"n", ints(n)))) for n in range(4))
    (tmp_path / "a.tfrecord").write_bytes(data)
    (tmp_path / "a.gz").write_bytes(gzip.compress(data))
    (tmp_path / "a.zz").write_bytes(zlib.compress(data))
    (tmp_path / "a.md").write_text("notes")
    manifest = tfrec_cli.convert(str(tmp_path / "a.*"), str(tmp_path / "out"), adapter="tfrecord")
    assert manifest.records == 12
    assert any("a.md" in notice for notice in manifest.notices)
    manifest = tfrec_cli.convert(str(tmp_path / "a.[gz]z"), str(tmp_path / "packed"))
    assert manifest.records == 8


def test_lists_of_lists_stay_so_with_the_schema_of_their_table(tmp_path: Path) -> None:
    rows = [[[1, 2], [], [3]], [], [[4]]]
    deep = [[[[1.0], []], [[2.0, 3.0]]], [[]], []]
    table = pa.table({"nest": pa.array(rows), "deep": pa.array(deep), "n": [1, 2, 3]})
    pq.write_table(table, tmp_path / "t.parquet")
    tfrec_cli.convert(str(tmp_path / "t.parquet"), str(tmp_path / "a"))
    schema = str(tmp_path / "a" / "schema.yaml")
    manifest = tfrec_cli.convert(
        str(tmp_path / "a"), str(tmp_path / "b"), schema=schema, adapter="tfrecord"
    )
    facts = {one.key: one.row_lengths for one in manifest.features}
    assert facts["nest"] == ("nest/row_lengths",)
    assert facts["deep"] == ("deep/row_lengths_0", "deep/row_lengths_1")
    first, second = (next(iter(p.glob("*.tfrecord*"))) for p in (tmp_path / "a", tmp_path / "b"))
    assert read_examples(first) == read_examples(second)
    export(ExportOptions((str(tmp_path / "b"),), str(tmp_path / "back.parquet")))
    assert pq.read_table(tmp_path / "back.parquet")["nest"].to_pylist() == rows
    assert pq.read_table(tmp_path / "back.parquet")["deep"].to_pylist() == deep


def test_that_the_schema_names_another_source_is_said(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, 2, 3]}), tmp_path / "t.parquet")
    tfrec_cli.convert(str(tmp_path / "t.parquet"), str(tmp_path / "a"))
    schema = str(tmp_path / "a" / "schema.yaml")
    with pytest.raises(SourceError, match=r"`source:` says .* parquet; .* --source tfrecord"):
        tfrec_cli.convert(str(tmp_path / "a"), str(tmp_path / "b"), schema=schema)
