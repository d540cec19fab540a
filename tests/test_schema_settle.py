"""Schemas tied to sources: what fits, what is refused before any work, and what is filled in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfrec_cli.errors import SchemaError
from tfrec_cli.schema import (
    BoundFeature,
    Missing,
    TextRules,
    auto_labels,
    bind,
    complete,
    dump_schema,
    infer_schema,
    label_files,
    load_schema,
    parse_schema,
)
from tfrec_cli.sources.base import Column

META = pa.struct([("owner", pa.string()), ("at", pa.struct([("x/y", pa.int64())]))])
RULES = TextRules()
COLUMNS = (
    Column("id", pa.int64(), False),
    Column("word", pa.string(), True),
    Column("cell", pa.string(), True, RULES, "bytes"),
    Column("half", pa.float64(), False),
    Column("price", pa.decimal128(9, 2), False),
    Column("raw", pa.binary(), False),
    Column("when", pa.timestamp("us"), False),
    Column("wait", pa.duration("s"), False),
    Column("tags", pa.map_(pa.string(), pa.int64()), False),
    Column("list", pa.list_(pa.int64()), False),
    Column("nest", pa.list_(pa.list_(pa.float32())), False),
    Column("deep", pa.list_(pa.list_(pa.list_(pa.float32()))), False),
    Column("rows", pa.list_(pa.list_(pa.float32(), 3)), False),
    Column("emb", pa.list_(pa.float32(), 6), False),
    Column("objects", pa.list_(META), False),
    Column("meta", META, False),
    Column("late", pa.int64(), False, absent=("b.parquet", "c.parquet")),
    *(Column(f"pixel{n}", pa.uint8(), False) for n in (10, 2, 1)),
    Column("odd[1]", pa.int64(), False),
)


def bound(**entries: Any) -> BoundFeature:
    (feature,) = bind(load_schema({"features": {"x": entries}}), COLUMNS)
    return feature


def refusal(entries: dict[str, Any]) -> str:
    lines = "".join(f"    {key}: {value}\n" for key, value in entries.items())
    schema = parse_schema(f"features:\n  x:\n{lines}", "p.yaml")
    with pytest.raises(SchemaError) as caught:
        bind(schema, COLUMNS)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_features_are_sorted_by_the_bytes_of_their_keys() -> None:
    names = ["aa", "a", "é", "z", "Z", "a/b", "C10", "C1", "\U00010000", "\uffff"]
    schema = load_schema({"features": {n: {"constant": 1} for n in names}})
    assert [f.key for f in bind(schema, ())] == sorted(names, key=str.encode)


def test_the_column_is_the_feature_of_the_same_name_by_default() -> None:
    (feature,) = bind(load_schema({"features": {"id": "int64"}}), COLUMNS)
    assert feature == BoundFeature("id", "int64", ("id",), pa.int64())


def test_text_columns_bring_their_rules() -> None:
    assert bound(column="cell", type="float").text == RULES
    assert bound(column="word", type="float").text is None


def test_children_of_structs() -> None:
    feature = bound(column="meta/owner", type="bytes")
    assert (feature.columns, feature.path, feature.source_type) == (("meta",), ("owner",), META)
    assert bound(column="meta/at/x/y", type="int64").path == ("at", "x/y")
    flat = Column("meta/owner", pa.int64(), False)
    (feature,) = bind(load_schema({"features": {"meta/owner": "int64"}}), [*COLUMNS, flat])
    assert (feature.columns, feature.path) == (("meta/owner",), ())


def test_vectors_follow_the_order_of_the_source() -> None:
    feature = bound(columns="pixel*", type="float")
    assert feature.columns == ("pixel10", "pixel2", "pixel1")
    assert (feature.shape, feature.ragged, feature.source_type) == ((3,), 0, pa.uint8())
    assert bound(columns=["pixel1", "id"], type="float").columns == ("pixel1", "id")
    assert bound(columns=["pixel1", "id"], type="float").source_type == pa.int64()
    assert bound(columns=["half", "id"], type="float").source_type == pa.float64()
    assert bound(columns=["odd[1]"], type="int64").columns == ("odd[1]",)


@pytest.mark.parametrize(
    ("entries", "shape", "ragged"),
    [
        ({"column": "list", "type": "int64"}, None, 1),
        ({"column": "list", "type": "int64", "shape": [2, 2]}, (2, 2), 0),
        ({"column": "nest", "type": "float"}, None, 2),
        ({"column": "nest", "type": "float", "shape": [2, 2]}, (2, 2), 0),
        ({"column": "deep", "type": "float"}, None, 3),
        ({"column": "rows", "type": "float"}, None, 2),
        ({"column": "rows", "type": "float", "shape": [5, 3]}, (5, 3), 0),
        ({"column": "emb", "type": "float"}, (6,), 0),
        ({"column": "emb", "type": "float", "shape": [2, 3]}, (2, 3), 0),
        ({"column": "word", "type": "int64", "separator": " "}, None, 1),
        ({"column": "word", "type": "int64", "separator": " ", "shape": [3]}, (3,), 0),
        ({"column": "id", "type": "int64"}, None, 0),
        ({"constant": [1, 2]}, (2,), 0),
        ({"constant": 1}, None, 0),
    ],
)
def test_shapes_and_ragged_lists(entries: dict[str, Any], shape: Any, ragged: int) -> None:
    feature = bound(**entries)
    assert (feature.shape, feature.ragged) == (shape, ragged)


def test_values_come_in_the_type_of_the_feature() -> None:
    assert bound(constant="é").constant == "é".encode()
    assert bound(constant=1, type="float").constant == 1.0
    assert type(bound(constant=1, type="float").constant) is float
    assert bound(column="id", type="int64", missing={"default": -1}).missing.default == -1
    feature = bound(column="list", type="float", missing={"default": [1, 2]})
    assert feature.missing == Missing("default", (1.0, 2.0))
    feature = bound(column="word", labels=["a", "b"], unknown={"default": "b"})
    assert feature.unknown == Missing("default", 1)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("id", "int64"), ("id", "float"), ("id", "bytes"), ("half", "float"), ("price", "float"),
        ("price", "bytes"), ("word", "bytes"), ("word", "int64"), ("cell", "float"),
        ("raw", "bytes"), ("when", "int64"), ("tags", "bytes"), ("list", "float"),
        ("half", "bytes"), ("half", "int64"), ("meta", "bytes"), ("objects", "bytes"),
    ],
)  # fmt: skip
def test_types_that_fit(column: str, kind: str) -> None:
    assert bound(column=column, type=kind).type == kind


@pytest.mark.parametrize(
    ("entries", "parts"),
    [
        ({"column": "wrod", "type": "bytes"}, ["line 3", '"wrod"', 'Did you mean "word"?']),
        ({"column": "qqqqqq", "type": "bytes"}, ["line 3", "The columns are id, word"]),
        ({"column": "meta/ownr", "type": "bytes"}, ["line 3", 'Did you mean "meta/owner"?']),
        ({"type": "bytes"}, ["line 2", 'no column "x"']),
        ({"columns": "nothing*", "type": "int64"}, ["line 3", 'matches "nothing*"']),
        ({"columns": "[id, id]", "type": "int64"}, ["line 3", '"id" is named twice']),
        ({"columns": "[id, list]", "type": "int64"}, ['"list" holds lists']),
        ({"columns": "[id, word]", "type": "int64"}, ["int64 and string"]),
        ({"column": "when", "type": "float"}, ["timestamp[us]", "int64 or bytes"]),
        ({"column": "when", "type": "bytes"}, ["time: iso8601"]),
        ({"column": "wait", "type": "bytes"}, ["duration[s]", "time: iso8601"]),
        ({"column": "wait", "type": "float"}, ["line 4", "duration[s]", "int64 or bytes"]),
        ({"column": "word", "time": "iso8601"}, ["line 4", "time has no meaning"]),
        ({"column": "tags", "type": "int64"}, ["map<", "bytes"]),
        ({"column": "meta", "type": "int64"}, ["one of its children", "owner", "JSON"]),
        ({"column": "objects", "type": "float"}, ["one of its children", "JSON"]),
        ({"column": "price", "labels": "[a]"}, ["labels has no meaning"]),
        ({"column": "id", "load": "file"}, ["load has no meaning"]),
        ({"column": "id", "type": "int64", "separator": "' '"}, ["separator has no meaning"]),
        ({"column": "id", "type": "int64", "shape": "[2]"}, ["line 5", "one value a row"]),
        ({"column": "id", "type": "int64", "null_item": "drop"}, ["one value a row"]),
        ({"column": "emb", "type": "float", "shape": "[2, 2]"}, ["4 values", "6 in a row"]),
        ({"columns": "pixel*", "type": "float", "shape": "[2, 2]"}, ["4 values", "3 in a row"]),
        ({"column": "nest", "type": "float", "shape": "[4]"}, ["one size for each level"]),
        ({"column": "rows", "type": "float", "shape": "[3, 2]"}, ["lists of 3"]),
        ({"column": "id", "type": "int64", "missing": "{default: [1]}"}, ["default is a list"]),
        ({"column": "emb", "type": "float", "missing": "{default: [1]}"}, ["1 values", "6"]),
        ({"column": "nest", "type": "float", "missing": "{default: 1}"}, ["lists of lists"]),
        ({"column": "late", "type": "int64"}, ["b.parquet, c.parquet lack", "missing: omit"]),
        ({"column": "late", "type": "int64", "missing": "error"}, ["line 5", "lack"]),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(entries: Any, parts: list[str]) -> None:
    said = refusal(entries)
    assert said.startswith("p.yaml, line ")
    assert "feature x" in said
    assert [part for part in parts if part not in said] == [], said


def test_a_lacking_column_is_fine_where_the_schema_says_what_is_missing() -> None:
    assert bound(column="late", type="int64", missing="omit").missing == Missing("omit")
    assert bound(column="late", type="int64", missing={"default": 0}).missing.action == "default"


def test_two_columns_of_one_name_are_refused() -> None:
    twice = (Column("a", pa.int64()), Column("a", pa.int64()))
    with pytest.raises(SchemaError, match='two columns called "a"'):
        bind(load_schema({"features": {"a": "int64"}}), twice)


def test_row_lengths_may_not_take_the_name_of_a_feature() -> None:
    features = {"nest": "float", "nest/row_lengths": {"constant": 1}}
    with pytest.raises(SchemaError, match="nest/row_lengths"):
        bind(load_schema({"features": features}), COLUMNS)


def test_label_files_are_found_beside_the_schema(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("dog\ncat\n")
    path = tmp_path / "s.yaml"
    path.write_text("features:\n  x: {column: word, labels: names.txt, unknown: {default: cat}}\n")
    schema = load_schema(path)
    assert label_files(schema) == (str(tmp_path / "names.txt"),)
    (feature,) = bind(schema, COLUMNS)
    assert feature.labels == ("dog", "cat")
    assert feature.unknown == Missing("default", 1)
    kept, _ = complete(schema, COLUMNS)
    assert bind(parse_schema(dump_schema(kept), "elsewhere.yaml"), COLUMNS) == (feature,)


def test_wrong_label_files_name_schema_and_file(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("features:\n  x:\n    column: word\n    labels: gone.txt\n")
    with pytest.raises(SchemaError, match=r"s\.yaml, line 4: feature x: labels: .*gone\.txt"):
        bind(load_schema(path), COLUMNS)
    (tmp_path / "gone.txt").write_text("a\nb\n")
    path.write_text("features:\n  x: {column: word, labels: gone.txt, unknown: {default: c}}\n")
    with pytest.raises(SchemaError, match="c, which is not among the labels"):
        bind(load_schema(path), COLUMNS)


def test_auto_labels_are_the_sorted_values() -> None:
    schema = load_schema({"features": {"x": {"column": "word", "labels": "auto"}, "id": "int64"}})
    (asked,) = auto_labels(schema, COLUMNS)
    assert (asked.key, asked.columns, asked.labels) == ("x", ("word",), ())
    (_, feature) = bind(schema, COLUMNS, {"x": ["10", "9", "9"]})
    assert feature.labels == ("9", "10")
    with pytest.raises(SchemaError, match="no value in any row"):
        bind(schema, COLUMNS, {"x": []})
    with pytest.raises(SchemaError, match="line break"):
        bind(schema, COLUMNS, {"x": ["a\nb"]})


def test_the_folder_of_loaded_files_is_found_from_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("features:\n  x: {column: word, load: file, root: imgs}\n")
    (feature,) = bind(load_schema(path), COLUMNS)
    assert (feature.load, feature.type) == (True, "bytes")
    assert feature.root == os.path.join(tmp_path, "imgs")
    assert bound(column="word", load="file").root is None


def test_rest_keep_adds_every_column_that_none_names() -> None:
    columns = [*COLUMNS[:4], Column("meta", META, False), COLUMNS[-2]]
    schema = load_schema(
        {"rest": "keep", "features": {"x": {"column": "word", "labels": ["a"]},
                                      "o": {"column": "meta/owner", "type": "bytes"}}}
    )  # fmt: skip
    kept, notes = complete(schema, columns)
    assert list(kept.features) == ["x", "o", "id", "cell", "half", "meta/at/x/y", "pixel1"]
    assert any("half" in note for note in notes)
    assert kept.rest == "drop"
    assert bind(schema, columns) == bind(kept, columns)


def test_rest_keep_does_not_overwrite_a_feature() -> None:
    schema = load_schema({"rest": "keep", "features": {"id": {"column": "word", "type": "bytes"}}})
    with pytest.raises(SchemaError, match="rest: keep would add column id"):
        bind(schema, COLUMNS[:2])


# Whatever can be surveyed ------------------------------------------------------------------------

scalars = st.sampled_from(
    [pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.string(),
     pa.large_string(), pa.binary(), pa.binary(3), pa.decimal128(20, 3), pa.timestamp("ns", "UTC"),
     pa.timestamp("s"), pa.date32(), pa.date64(), pa.time32("ms"), pa.duration("us"), pa.null(),
     pa.dictionary(pa.int16(), pa.string())]
)  # fmt: skip
kinds = st.recursive(
    scalars,
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.builds(pa.list_, inner, st.integers(1, 5)),
        inner.map(pa.large_list),
    ),
    max_leaves=3,
)
names = st.text(max_size=8) | st.sampled_from(["no", "1", "a/b", " x", "é", "null", "a: b", "x*"])
structs = st.dictionaries(names, kinds, min_size=1, max_size=3).map(
    lambda d: pa.struct([*d.items()])
)
nulls = st.sampled_from([True, False, None])
typed = st.builds(Column, names, kinds | structs, nulls)
texts = st.builds(
    Column, names, st.just(pa.string()), nulls, st.just(RULES),
    st.sampled_from(["int64", "float", "bytes", "null"]), names,
)  # fmt: skip
surveys = st.lists(typed | texts, min_size=1, max_size=6, unique_by=lambda column: column.name)


@given(surveys)
def test_a_saved_schema_binds_as_the_inferred_one_did(columns: list[Column]) -> None:
    try:
        schema, _ = infer_schema(columns, (), {"name": "csv"})
        features = bind(schema, columns)
    except SchemaError:
        return  # a clash of names, or no column with a value: nothing is saved
    text = dump_schema(schema)
    assert parse_schema(text, "s.yaml") == schema
    assert bind(parse_schema(text, "s.yaml"), columns) == features
