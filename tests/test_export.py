"""Datasets back as tables and pictures: what comes out is what went in, after documented casts."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from conftest import EXAMPLES, shard_paths
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_kernel_examples import entry, example, ints, texts

import tfrec_cli
from tfrec_cli import _kernel
from tfrec_cli._kernel import FeatureColumn
from tfrec_cli.cli import cli
from tfrec_cli.errors import DamageError, DatasetError, UsageError
from tfrec_cli.export import ExportOptions, export
from tfrec_cli.export.jsontext import json_rows
from tfrec_cli.export.pictures import file_name, safe_name
from tfrec_cli.records.framing import frame

UTC = dt.UTC
I64 = st.integers(-(2**63), 2**63 - 1)
F32 = st.floats(width=32, allow_nan=False)
SECONDS = st.integers(-(2**33), 2**33)

# Types with values of them; all are given back as they were.
LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint16(), st.integers(0, 65535)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), I64),
    (pa.uint64(), st.integers(0, 2**63 - 1)),
    (pa.float32(), F32),
    (pa.float64(), F32),
    (pa.float16(), st.floats(width=16, allow_nan=False).map(np.float16)),
    (pa.string(), st.text(max_size=8)),
    (pa.large_string(), st.text(max_size=8)),
    (pa.binary(), st.binary(max_size=8)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.date32(), st.dates()),
    (
        pa.time32("ms"),
        st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    ),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us"), st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1))),
    (pa.timestamp("ms", "UTC"), SECONDS.map(lambda s: dt.datetime.fromtimestamp(s, UTC))),
    (pa.duration("us"), SECONDS.map(lambda s: dt.timedelta(microseconds=s))),
]
TABLE = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, list[Any]]:
    """An Arrow type, perhaps of lists, and some values of it, some of them null."""
    kind, values = draw(st.sampled_from(LEAVES))
    form = draw(st.sampled_from(["one", "one", "list", "large", "fixed", "nested", "deep", "rows"]))
    if form in ("list", "large"):
        values = st.lists(values, max_size=3)
        kind = pa.list_(kind) if form == "list" else pa.large_list(kind)
    elif form == "fixed":
        kind, values = pa.list_(kind, 2), st.lists(values, min_size=2, max_size=2)
    elif form == "nested":
        kind, values = pa.list_(pa.list_(kind)), st.lists(st.lists(values, max_size=3), max_size=3)
    elif form == "deep":
        inner = st.lists(st.lists(values, max_size=2), max_size=2)
        kind, values = pa.list_(pa.list_(pa.list_(kind))), st.lists(inner, max_size=2)
    elif form == "rows":
        pair = st.lists(values, min_size=2, max_size=2)
        kind, values = pa.list_(pa.list_(kind, 2)), st.lists(pair, max_size=2)
    return kind, draw(st.lists(st.none() | values, min_size=3, max_size=3))


def exported(dataset: Path, dest: Path, **how: Any) -> pa.Table:
    export(ExportOptions((str(dataset),), str(dest), **how))
    return pq.read_table(dest)


@TABLE
@given(st.lists(columns(), min_size=1, max_size=4))
def test_columns_come_back_with_their_types(
    tmp_path_factory: pytest.TempPathFactory, found: list[tuple[pa.DataType, list[Any]]]
) -> None:
    folder = tmp_path_factory.mktemp("back")
    fields = [pa.field(f"c{n}", kind) for n, (kind, _) in enumerate(found)]
    arrays = [pa.array(values, kind) for kind, values in found]
    number = pa.array([1, 2, 3])
    table = pa.Table.from_arrays([number, *arrays], schema=pa.schema([("n", pa.int64()), *fields]))
    tfrec_cli.convert(table, folder / "set")
    back = exported(folder / "set", folder / "t.parquet")
    for name in table.column_names:
        kept = table[name]
        if kept.null_count == len(kept):
            assert back[name].null_count == len(kept)
            continue
        assert back[name].to_pylist() == kept.to_pylist()
        assert back[name].type == table.schema.field(name).type


def test_types_however_the_schema_spells_their_key(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"n": pa.array([1, 2], pa.int8())}), tmp_path / "d")
    schema = tmp_path / "d" / "schema.yaml"
    text = schema.read_text()
    assert text.count("arrow") == 1
    schema.write_text(text.replace("arrow", '"\\x61rrow"'))
    assert exported(tmp_path / "d", tmp_path / "a.parquet").schema.field("n").type == pa.int8()


@pytest.mark.parametrize("kind", [pa.int64(), pa.int8()])
def test_a_schema_is_read_where_it_says_something(tmp_path: Path, kind: pa.DataType) -> None:
    tfrec_cli.convert(pa.table({"n": pa.array([1, 2], kind)}), tmp_path / "d")
    code = (
        "import sys; from tfrec_cli.export import ExportOptions, export; "
        "export(ExportOptions((sys.argv[1],), sys.argv[2])); print('pydantic' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "d"), str(tmp_path / "d.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(kind == pa.int8())
    assert pq.read_schema(tmp_path / "d.parquet").field("n").type == kind


def test_what_casts_round_or_change_comes_back_as_documented(tmp_path: Path) -> None:
    table = pa.table(
        {
            "double": pa.array([0.1, None], pa.float64()),
            "decimal": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(10, 2)),
            "word": pa.array(["a", "b"]).dictionary_encode(),
            "parent": [{"child": 1, "name": "x"}, {"child": None, "name": "y"}],
            "seconds": pa.array([1, 2], pa.timestamp("s")),
        }
    )
    tfrec_cli.convert(table, tmp_path / "set")
    back = exported(tmp_path / "set", tmp_path / "t.parquet")
    assert back.column_names == ["decimal", "double", "parent/child", "parent/name", "seconds",
                                 "word"]  # fmt: skip
    assert back["double"].to_pylist() == [float(np.float32(0.1)), None]
    assert (back["decimal"].type, back["decimal"].to_pylist()) == (pa.float32(), [1.5, None])
    assert (back["word"].type, back["word"].to_pylist()) == (pa.string(), ["a", "b"])
    assert back["parent/child"].to_pylist() == [1, None]
    assert back["seconds"].to_pylist() == [dt.datetime(1970, 1, 1, 0, 0, s) for s in (1, 2)]


def test_exact_decimals(tmp_path: Path) -> None:
    values = [decimal.Decimal("12345678901234567.89"), None]
    table = pa.table({"d": pa.array(values, pa.decimal128(20, 2))})
    schema = {"version": 1, "features": {"d": {"type": "bytes", "missing": "omit",
                                               "arrow": "decimal128(20, 2)"}}}  # fmt: skip
    tfrec_cli.convert(table, tmp_path / "set", schema=schema)
    assert exported(tmp_path / "set", tmp_path / "t.parquet")["d"].to_pylist() == values


def test_defaults_that_the_type_cannot_hold_widen_it(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([1, None], pa.uint8())})
    schema = {"version": 1, "features": {
        "a": {"type": "int64", "missing": {"default": -1}, "arrow": "uint8"}}}  # fmt: skip
    tfrec_cli.convert(table, tmp_path / "set", schema=schema)
    back = exported(tmp_path / "set", tmp_path / "t.parquet")
    assert (back["a"].type, back["a"].to_pylist()) == (pa.int64(), [1, -1])


def test_a_value_that_is_not_of_its_type_is_named(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"a": pa.array([True, False, True])}), tmp_path / "set", name="d")
    shard = Path(shard_paths(tmp_path / "set")[0])
    encoded = _kernel.encode([FeatureColumn("a", pa.array([1, 0, 7]))])
    shard.write_bytes(bytes(encoded.data))
    with pytest.raises(DatasetError, match=r"record 2, feature a: 7 cannot be bool.*--plain-types"):
        exported(tmp_path / "set", tmp_path / "t.parquet")
    assert not (tmp_path / "t.parquet").exists()
    back = exported(tmp_path / "set", tmp_path / "t.parquet", plain=True)
    assert back["a"].to_pylist() == [1, 0, 7]


def test_row_lengths_that_do_not_add_up_are_named(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"a": [[[1], [2, 3]], [[4]]]}), tmp_path / "set", name="d")
    shard = Path(shard_paths(tmp_path / "set")[0])
    broken = [
        FeatureColumn("a", pa.array([[1, 2, 3], [4, 5]])),
        FeatureColumn("a/row_lengths", pa.array([[1, 2], [1]])),
    ]
    shard.write_bytes(bytes(_kernel.encode(broken).data))
    with pytest.raises(DatasetError, match=r"record 1, feature a: its list lengths add up to 1"):
        exported(tmp_path / "set", tmp_path / "t.parquet")


def test_foreign_records_are_text_where_all_of_it_is(tmp_path: Path) -> None:
    values = [
        FeatureColumn("text", pa.array([b"a", b"\xc3\xa9"])),
        FeatureColumn("raw", pa.array([b"a", b"\xff"])),
        FeatureColumn("words", pa.array([[b"a"], [b"b", b"c"]])),
    ]
    path = tmp_path / "a.tfrecord"
    path.write_bytes(bytes(_kernel.encode(values).data))
    back = exported(path, tmp_path / "t.parquet")
    assert {f.name: f.type for f in back.schema} == {
        "raw": pa.binary(), "text": pa.string(), "words": pa.list_(pa.string()),
    }  # fmt: skip


def test_of_sequence_examples_the_context_is_told_to_be_all(tmp_path: Path) -> None:
    import tensorflow as tf

    message = tf.train.SequenceExample()
    message.context.feature["id"].int64_list.value.append(1)
    message.feature_lists.feature_list["t"].feature.add().float_list.value.append(1.0)
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(message.SerializeToString())
    report = export(ExportOptions((str(tmp_path / "a.tfrecord"),), str(tmp_path / "a.jsonl")))
    assert (tmp_path / "a.jsonl").read_text() == '{"id":1}\n'
    assert report.notices[0].endswith(
        "only the context is here, and the feature lists are left out: t"
    )


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A dataset of two splits, with labels, gaps and text that needs care."""
    table = pa.table(
        {
            "id": list(range(20)),
            "kind": ["cat", "dog"] * 10,
            "note": ['say "hi",\nnow', None, "é\\", ""] * 5,
            "tags": [[1, 2], [], None, [3]] * 5,
            "when": pa.array([dt.datetime(2020, 1, 1)] * 20, pa.timestamp("ms")),
            "x": [0.1, float("nan"), None, float("inf")] * 5,
        }
    )
    schema = {
        "version": 1,
        "rest": "keep",
        "features": {"kind": {"labels": ["cat", "dog"]}},
    }
    tfrec_cli.convert(
        table, tmp_path / "set", schema=schema, split="train=0.7,test=0.3", split_exact=True
    )
    return tmp_path / "set"


def test_json_lines(people: Path, tmp_path: Path) -> None:
    report = export(ExportOptions((str(people),), str(tmp_path / "a.jsonl"), split_column="split"))
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text("utf-8").splitlines()]
    assert report.records == len(rows) == 20
    assert sorted(row["id"] for row in rows) == list(range(20))
    by_id = {row["id"]: row for row in rows}
    assert {k: v for k, v in by_id[0].items() if k != "split"} == {
        "id": 0, "kind": 0, "note": 'say "hi",\nnow', "tags": [1, 2],
        "when": "2020-01-01T00:00:00.000", "x": 0.1,
    }  # fmt: skip
    assert [by_id[1][key] for key in ("note", "tags", "x")] == [None, [], "NaN"]
    assert [by_id[2][key] for key in ("note", "tags", "x")] == ["é\\", None, None]
    assert {row["split"] for row in rows} == {"train", "test"}


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_numbers_that_json_does_not_have_are_text(kind: pa.DataType) -> None:
    values = [1.5, float("nan"), None, float("inf"), -0.0, float("-inf"), 2.0]
    lists = pa.array([values, [], None, values[:2]] + [[1.0]] * 3, pa.list_(kind))
    batch = pa.record_batch([pa.array(values, kind), lists], ["x", "l"])
    text = "".join(json_rows(batch).to_pylist())
    rows = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
    spelled = [1.5, "NaN", None, "Infinity", -0.0, "-Infinity", 2.0]
    assert [row["x"] for row in rows] == spelled
    assert rows[0]["l"] == spelled
    frame = pd.read_json(io.StringIO(text), lines=True)
    np.testing.assert_array_equal(frame["x"], np.array(values, np.float64))


def test_csv_comes_back_by_a_csv_reader(people: Path, tmp_path: Path) -> None:
    export(ExportOptions((str(people),), str(tmp_path / "a.csv.gz"), split="train",
                         label_names=True))  # fmt: skip
    with gzip.open(tmp_path / "a.csv.gz", "rt", newline="", encoding="utf-8") as file:
        rows = {int(row["id"]): row for row in csv.DictReader(file)}
    assert len(rows) == 14
    for number, row in rows.items():
        assert row["kind"] == ("cat", "dog")[number % 2]
        assert row["note"] == ('say "hi",\nnow', "", "é\\", "")[number % 4]
        assert row["tags"] == ("[1,2]", "[]", "", "[3]")[number % 4]
        assert row["x"] == ("0.1", "nan", "", "inf")[number % 4]


def test_pandas_reads_what_is_no_number_in_csv(tmp_path: Path) -> None:
    values = [1.5, float("nan"), float("inf"), float("-inf"), 3.4e38, 1e-45]
    kinds = {"a": pa.float32(), "b": pa.list_(pa.float32(), 1), "n": pa.int64()}
    rows = {"a": values, "b": [[v] for v in values], "n": [1, None, 3, 4, 5, 6]}
    table = pa.table([pa.array(rows[k], kind) for k, kind in kinds.items()], names=list(kinds))
    tfrec_cli.convert(table, tmp_path / "d")
    export(ExportOptions((str(tmp_path / "d"),), str(tmp_path / "d.csv")))
    found = pd.read_csv(tmp_path / "d.csv")
    assert found["a"].dtype == np.float64
    np.testing.assert_array_equal(found["a"].astype(np.float32), np.array(values, np.float32))
    lists = [json.loads(text) for text in found["b"]]
    assert [float(one) for (one,) in lists[:4]] == pytest.approx(values[:4], nan_ok=True)
    assert found["n"].isna().tolist() == [False, True, *[False] * 4]
    text = (tmp_path / "d.csv").read_text()
    assert text.splitlines()[2].startswith("nan,")
    assert text.splitlines()[4].startswith("-inf,")


def test_a_feature_without_a_name_is_exported(tmp_path: Path) -> None:
    (tmp_path / "a.tfrecord").write_bytes(frame(example(entry(b"", ints(7)))))
    for kind in ("csv", "jsonl", "parquet"):
        command = ["export", str(tmp_path / "a.tfrecord"), str(tmp_path / f"o.{kind}")]
        assert '    ""  int64' in CliRunner().invoke(cli, command).output
    assert (tmp_path / "o.csv").read_text() == '""\n7\n'
    assert json.loads((tmp_path / "o.jsonl").read_text()) == {"": 7}
    assert pq.read_table(tmp_path / "o.parquet").to_pydict() == {"": [7]}


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None, 3, None]),
        pa.array([None, 1.5, float("nan")], pa.float32()),
        pa.array(["a\n\nb", None, 'q"', ""]),
        pa.array([b"\xff", None]),
        pa.array([None, True]),
        pa.array([dt.date(2020, 1, 2), None]),
        pa.array([[1, 2], None, []]),
    ],
)
def test_a_csv_of_one_column_keeps_its_rows(tmp_path: Path, column: pa.Array) -> None:
    tfrec_cli.convert(pa.table({"x": column}), tmp_path / "d")
    report = export(ExportOptions((str(tmp_path / "d"),), str(tmp_path / "d.csv")))
    found = pd.read_csv(tmp_path / "d.csv")
    assert found["x"].isna().tolist() == [v in (None, "") or v != v for v in column.to_pylist()]
    options = pa_csv.ParseOptions(newlines_in_values=True)
    assert len(pa_csv.read_csv(tmp_path / "d.csv", parse_options=options)) == len(column)
    is_text = column.type in (pa.string(), pa.binary())
    assert any("as empty text is" in text for text in report.notices) == is_text


def test_an_exported_csv_converts_to_equal_records(tmp_path: Path) -> None:
    tfrec_cli.convert(EXAMPLES / "penguins.csv", tmp_path / "a")
    export(ExportOptions((str(tmp_path / "a"),), str(tmp_path / "back.csv")))
    tfrec_cli.convert(tmp_path / "back.csv", tmp_path / "b", schema=str(tmp_path / "a/schema.yaml"))
    records = [list(tfrec_cli.open_dataset(tmp_path / name).records()) for name in ("a", "b")]
    assert records[0] == records[1]


def test_splits_become_files_of_a_folder(people: Path, tmp_path: Path) -> None:
    report = export(ExportOptions((str(people),), str(tmp_path / "out"), to="parquet"))
    assert {file.name: file.records for file in report.files} == {
        "train.parquet": 14, "test.parquet": 6,
    }  # fmt: skip
    assert sorted(os.listdir(tmp_path / "out")) == ["test.parquet", "train.parquet"]
    with pytest.raises(UsageError, match=r"splits \(train, test\)"):
        export(ExportOptions((str(people),), str(tmp_path / "one.parquet")))


def test_columns_choose_and_order(people: Path, tmp_path: Path) -> None:
    back = exported(people, tmp_path / "a.parquet", columns=("tags", "id"), split="test")
    assert back.column_names == ["tags", "id"]
    with pytest.raises(UsageError, match=r'no feature is called "idd".*Did you mean "id"'):
        exported(people, tmp_path / "b.parquet", columns=("idd",), split="test")


def test_the_command_takes_names_with_commas(tmp_path: Path) -> None:
    table = pa.table({"a,b": [1, 2], "s": [3, 4]})
    tfrec_cli.convert(table, tmp_path / "set")
    run, dest = CliRunner(), str(tmp_path / "out.csv")
    for wrong in ("s,s", "s,", ""):
        result = run.invoke(cli, ["export", str(tmp_path / "set"), dest, "--columns", wrong])
        assert (result.exit_code, os.path.exists(dest)) == (2, False)
    result = run.invoke(cli, ["export", str(tmp_path / "set"), dest, "--columns", '"a,b",s'])
    assert result.exit_code == 0
    assert Path(dest).read_text() == '"a,b","s"\n1,3\n2,4\n'


def test_pictures_come_back_as_they_were(tmp_path: Path) -> None:
    tfrec_cli.convert(EXAMPLES / "digits", tmp_path / "set")
    export(ExportOptions((str(tmp_path / "set"),), str(tmp_path / "out"), to="images"))

    def all_files(top: Path) -> dict[str, bytes]:
        found = sorted(path for path in top.rglob("*") if path.is_file())
        return {str(path.relative_to(top)): path.read_bytes() for path in found}

    assert all_files(tmp_path / "out") == all_files(EXAMPLES / "digits")


def test_a_feature_of_several_pictures_is_told_to_be_a_list(tmp_path: Path) -> None:
    record = example(entry(b"image/encoded", texts(b"a", b"b")))
    (tmp_path / "d.tfrecord").write_bytes(frame(record))
    with pytest.raises(UsageError, match=r"feature image/encoded is a list, bytes \[2\], and a"):
        export(ExportOptions((str(tmp_path / "d.tfrecord"),), str(tmp_path / "o"), to="images"))


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"RIFF\0\0\0\0WEBPVP8 ", "x.webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "x.bin"),
        (b"BM\0\0\0\0\0\0\0\0\x1a\0\0\0\x28\0\0\0", "x.bmp"),
        (b"BMW is no picture, but a name", "x.bin"),
        (b"\0\0\0\x20ftypavif", "x.avif"),
        (b"II+\0", "x.tiff"),
        (b"GIF89a", "x.gif"),
    ],
)
def test_a_picture_has_the_ending_of_its_bytes(data: bytes, name: str) -> None:
    assert file_name(None, "x", data) == name


def test_keys_and_values_of_json_lines_are_text_as_it_stands(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"größe": ["süß"]}), tmp_path / "d")
    export(ExportOptions((str(tmp_path / "d"),), str(tmp_path / "o.jsonl")))
    assert (tmp_path / "o.jsonl").read_text("utf-8") == '{"größe":"süß"}\n'


def test_standard_input_is_told_not_to_be_read(tmp_path: Path) -> None:
    for command in (["export", "-", str(tmp_path / "x.csv")], ["head", "-"], ["stats", "-"]):
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 1
        assert "-: standard input is not read here" in str(done.exception)


def test_picture_names_are_unique_and_stay_inside(tmp_path: Path) -> None:
    png, jpeg = b"\x89PNG\r\n\x1a\n1", b"\xff\xd8\xff2"
    names = [b"../../evil.png", b"a.png", b"a.png", b"..", b"", b"/etc/passwd", b"a.png"]
    columns = [
        FeatureColumn("image/encoded", pa.array([png] * 5 + [jpeg] * 2)),
        FeatureColumn("image/filename", pa.array(names)),
        FeatureColumn("image/class/text", pa.array([b"../up"] * 6 + [b"a/b"])),
    ]
    (tmp_path / "d.tfrecord").write_bytes(bytes(_kernel.encode(columns).data))
    (tmp_path / "in").mkdir()
    export(
        ExportOptions((str(tmp_path / "d.tfrecord"),), str(tmp_path / "in" / "out"), to="images")
    )
    found = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert found == {
        "d.tfrecord", "in/out/up/evil.png", "in/out/up/a.png", "in/out/up/a-2.png",
        "in/out/up/d-000003.png", "in/out/up/d-000004.png", "in/out/up/passwd.jpg",
        "in/out/a_b/a.png.jpg",
    }  # fmt: skip


@given(st.text())
def test_safe_names_are_names(text: str) -> None:
    name = safe_name(text, "x")
    assert name not in ("", ".", "..")
    assert "/" not in name
    assert not name.startswith(".")
    assert len(os.fsencode(name.encode("utf-8", "replace"))) <= 255


def test_damage_ends_with_code_3_and_leaves_nothing(tmp_path: Path) -> None:
    tfrec_cli.convert(pa.table({"a": list(range(100))}), tmp_path / "set")
    shard = Path(shard_paths(tmp_path / "set")[0])
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(DamageError, match=r"record \d+, byte"):
        export(ExportOptions((str(tmp_path / "set"),), str(tmp_path / "a.parquet")))
    command = [sys.executable, "-m", "tfrec_cli", "export", "set", "a.parquet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert sorted(os.listdir(tmp_path)) == ["set"]


@pytest.mark.parametrize("dest", ["here.csv", "folder", "set", "set/a.csv", "other.tfrecord"])
def test_nothing_that_is_there_is_replaced(people: Path, tmp_path: Path, dest: str) -> None:
    (tmp_path / "here.csv").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("mine")
    (tmp_path / "other.tfrecord").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises((DatasetError, UsageError)):
        export(ExportOptions((str(people),), str(tmp_path / dest), to="csv",
                             split_column="s" if dest != "set/a.csv" else None))  # fmt: skip
    after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("to", ["csv", "images"])
def test_no_split_leads_out_of_dest(people: Path, tmp_path: Path, to: str) -> None:
    (tmp_path / "mine.csv").write_text("mine")
    file = people / "manifest.json"
    known = file.read_text()
    for split in (str(tmp_path / "mine"), "../mine", "../../mine", "..", "a/b", "\0"):
        file.write_text(known.replace('"name": "test"', f'"name": {json.dumps(split)}'))
        with pytest.raises(DamageError, match=r"manifest\.json is damaged: .* is not a split name"):
            export(ExportOptions((str(people),), str(tmp_path / "out"), to=to))
        assert (tmp_path / "mine.csv").read_text() == "mine"
        assert sorted(os.listdir(tmp_path)) == ["mine.csv", "set"]


@pytest.mark.parametrize("fsync", [True, False])
def test_what_was_written_is_on_the_disk_itself_if_asked(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool
) -> None:
    synced: set[int] = set()
    real = os.fsync

    def note(handle: int) -> None:
        synced.add(os.fstat(handle).st_ino)
        real(handle)

    monkeypatch.setattr(os, "fsync", note)
    out = tmp_path / "out"
    export(ExportOptions((str(people),), str(out), to="csv", fsync=fsync))
    made = [out, *out.iterdir(), tmp_path]
    assert len(made) == 4
    assert {path.stat().st_ino in synced for path in made} == {fsync}


def test_the_command(people: Path, tmp_path: Path) -> None:
    run = CliRunner()
    result = run.invoke(cli, ["export", str(people), str(tmp_path / "o"), "--to", "csv", "--json"])
    document = json.loads(result.stdout)
    assert (document["records"], len(document["files"])) == (20, 2)
    command = [sys.executable, "-m", "tfrec_cli", "export", str(people), "-", "--to", "jsonl"]
    done = subprocess.run([*command, "--split", "test"], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 6
    assert "6 records" in done.stderr
    for wrong in (["-"], ["x.txt"], ["x.csv", "--to", "jsonl"], ["-", "--to", "parquet"]):
        done = subprocess.run([*command[:4], *wrong], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_a_killed_export_leaves_nothing_at_dest_and_the_next_one_cleans_up(
    people: Path, tmp_path: Path
) -> None:
    script = (
        "import os, sys\n"
        "from tfrec_cli.export import ExportOptions, export, tables\n"
        "tables._LineWriter.write = lambda self, rows: os._exit(9)\n"
        "export(ExportOptions((sys.argv[1],), sys.argv[2], split='train'))\n"
    )
    dest = tmp_path / "a.jsonl"
    done = subprocess.run([sys.executable, "-c", script, str(people), str(dest)], check=False)
    assert done.returncode == 9
    assert not dest.exists()
    assert any(".a.jsonl.tfrec-" in name for name in os.listdir(tmp_path))
    export(ExportOptions((str(people),), str(dest), split="train"))
    assert sorted(os.listdir(tmp_path)) == ["a.jsonl", "set"]


def written(path: Path, numbers: range, extra: bytes | None = None) -> None:
    """A TFRecord file of Examples with an int64 `n`, and after the first what is no Example."""
    records = [example(entry(b"n", ints(n))) for n in numbers]
    if extra is not None:
        records.insert(1, extra)
    path.write_bytes(b"".join(map(frame, records)))


@pytest.mark.parametrize("to", ["parquet", "jsonl"])
def test_files_without_a_split_are_apart_from_those_with_one(tmp_path: Path, to: str) -> None:
    (tmp_path / "d").mkdir()
    written(tmp_path / "d" / "x-train.tfrecord", range(5))
    written(tmp_path / "d" / "x-test.tfrecord", range(5, 8))
    written(tmp_path / "d" / "more.tfrecord", range(8, 10))
    report = export(ExportOptions((str(tmp_path / "d"),), str(tmp_path / "out"), to=to))
    counts = {file.name: file.records for file in report.files}
    assert counts == {f"train.{to}": 5, f"test.{to}": 3, f"data.{to}": 2}
    if to == "parquet":
        tables = {p.stem: pq.read_table(p)["n"].to_pylist() for p in (tmp_path / "out").iterdir()}
        assert tables == {"train": [0, 1, 2, 3, 4], "test": [5, 6, 7], "data": [8, 9]}


def test_pictures_without_a_split_are_apart_from_those_with_one(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    for name, count in (("x-train", 3), ("x-data", 1), ("more", 2)):
        records = [
            example(entry(b"image", texts(b"\xff\xd8\xff" + bytes([n])))) for n in range(count)
        ]
        (tmp_path / "d" / f"{name}.tfrecord").write_bytes(b"".join(map(frame, records)))
    report = export(ExportOptions((str(tmp_path / "d"),), str(tmp_path / "out"), to="images"))
    assert report.records == 6
    found = [p for p in (tmp_path / "out").rglob("*") if p.is_file()]
    assert sorted(p.parent.name for p in found) == ["data"] * 3 + ["train"] * 3


def test_records_that_are_no_example_are_left_out_on_request(tmp_path: Path) -> None:
    source = tmp_path / "a.tfrecord"
    written(source, range(3), extra=b"\xffno example")
    with pytest.raises(DatasetError, match="record 1"):
        export(ExportOptions((str(source),), str(tmp_path / "a.parquet")))
    report = export(ExportOptions((str(source),), str(tmp_path / "a.parquet"), on_error="skip"))
    assert pq.read_table(tmp_path / "a.parquet")["n"].to_pylist() == [0, 1, 2]
    assert report.skipped == 1
    assert report.notices[0].startswith("1 record left out; the first: ")
    assert "record 1" in report.notices[0]
    rows = list(tfrec_cli.open_dataset(source, on_error="skip"))
    assert [row["n"] for row in rows] == [0, 1, 2]


def test_damage_is_not_left_out(tmp_path: Path) -> None:
    source = tmp_path / "a.tfrecord"
    written(source, range(3))
    data = bytearray(source.read_bytes())
    data[-5] ^= 1
    source.write_bytes(data)
    with pytest.raises(DamageError):
        export(ExportOptions((str(source),), str(tmp_path / "a.jsonl"), on_error="skip"))


def test_whole_floats_stay_floats_in_json(tmp_path: Path) -> None:
    table = pa.table({"w": pa.array([1.0, 2.5, -3.0, 1e30, None]), "v": [[4.0, 0.5]] * 5})
    tfrec_cli.convert(table, tmp_path / "d")
    export(ExportOptions((str(tmp_path / "d"),), str(tmp_path / "a.jsonl")))
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [type(row["w"]) for row in rows] == [float] * 4 + [type(None)]
    assert {type(value) for row in rows for value in row["v"]} == {float}


def test_the_path_of_standard_output_is_standard_output(tmp_path: Path) -> None:
    written(tmp_path / "a.tfrecord", range(2))
    command = [sys.executable, "-m", "tfrec_cli", "export", "a.tfrecord", "/dev/stdout"]
    done = subprocess.run(
        [*command, "--to", "jsonl"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, '{"n":0}\n{"n":1}\n')
