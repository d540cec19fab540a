"""Labels that count from another number than 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import read_manifest

import tfrec_cli
from tfrec_cli.casting import cast
from tfrec_cli.dataset.manifest import load_manifest
from tfrec_cli.errors import SchemaError
from tfrec_cli.loaders import tensorflow_script
from tfrec_cli.schema import bind, dump_schema, infer_schema, load_schema
from tfrec_cli.schema.yaml import parse_schema
from tfrec_cli.sources.base import Column, LabelHint

COLUMN = Column("name", pa.string(), nulls=True)


def numbers(entry: dict[str, Any], cells: list[Any], kind: pa.DataType | None = None) -> list[Any]:
    schema = load_schema({"features": {"label": {"column": "name", **entry}}})
    batch = pa.record_batch([pa.array(cells, kind or pa.string())], ["name"])
    column = Column("name", batch.schema.types[0], nulls=True)
    result = cast(batch, bind(schema, [column]))
    assert result.faults == ()
    found: list[Any] = result.columns[0].array.to_pylist()
    return found


def test_labels_count_from_the_first_label() -> None:
    assert numbers({"labels": ["ant", "bee"], "first_label": 1}, ["bee", "ant"]) == [2, 1]
    assert numbers({"labels": ["ant", "bee"], "first_label": 0}, ["bee", "ant"]) == [1, 0]
    assert numbers({"labels": ["ant", "bee"]}, ["bee", "ant"]) == [1, 0]


def test_defaults_that_are_names_count_too_and_numbers_stay() -> None:
    entry = {"labels": ["ant", "bee"], "first_label": 1}
    rules = {"missing": {"default": "bee"}, "unknown": {"default": 0}}
    assert numbers(entry | rules, ["ant", None, "cat"]) == [1, 2, 0]
    rules = {"missing": {"default": -1}, "unknown": {"default": "ant"}}
    assert numbers(entry | rules, ["bee", None, "cat"]) == [2, -1, 1]


def test_labels_in_lists_count_too() -> None:
    schema = load_schema(
        {"features": {"x": {"column": "c", "labels": ["a", "b"], "first_label": 7}}}
    )
    batch = pa.record_batch([pa.array([["b", "a"], []], pa.list_(pa.string()))], ["c"])
    column = cast(batch, bind(schema, [Column("c", batch.schema.types[0], nulls=False)])).columns[0]
    values = getattr(column, "array", None)
    assert values is not None
    assert values.to_pylist() == [[8, 7], []]


def test_a_hint_becomes_a_feature_that_is_read_back_equal() -> None:
    hint = LabelHint("label", "name", ("ant", "bee"), first=1)
    schema, _ = infer_schema([COLUMN], [hint])
    assert schema.features["label"].first_label == 1
    assert parse_schema(dump_schema(schema), "s.yaml") == schema
    plain, _ = infer_schema([COLUMN], [LabelHint("label", "name", ("ant", "bee"))])
    assert "first_label" not in dump_schema(plain)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{labels: [a], first_label: -1}", "line 3: .*found -1, expected a whole number from 0"),
        ("{labels: [a], first_label: yes}", 'found "yes", expected a whole number'),
        ("{labels: [a], first_label: true}", "found True|found true"),
        ("{type: int64, first_label: 1}", "first_label.* has no meaning without labels"),
    ],
)
def test_wrong_first_labels_are_refused(entry: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        parse_schema(f"version: 1\nfeatures:\n  x: {entry}\n", "s.yaml")


def test_manifest_and_loader_know_the_first_label(tmp_path: Path) -> None:
    table = pa.table({"name": ["bee", "ant"]})
    schema = {"features": {"y": {"column": "name", "labels": "auto", "first_label": 1}}}
    tfrec_cli.convert(table, tmp_path / "out", schema=schema)
    assert read_manifest(tmp_path / "out")["features"][0]["first_label"] == 1
    manifest = load_manifest(tmp_path / "out")
    assert manifest is not None
    assert "{1: 'ant', 2: 'bee'}" in tensorflow_script(manifest, str(tmp_path / "out"))
