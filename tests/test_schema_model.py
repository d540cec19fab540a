"""Schemas checked in themselves: what is refused, where, and what the message advises."""

from __future__ import annotations

import pytest

from tfrec_cli.errors import SchemaError
from tfrec_cli.schema import Feature, Missing, load_schema, parse_schema


def message(text: str) -> str:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text, "p.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def feature(**entries: object) -> Feature:
    return load_schema({"features": {"x": entries}}).features["x"]


def test_the_whole_vocabulary() -> None:
    schema = parse_schema(
        """
        version: 1
        source: {name: csv, delimiter: ";"}
        rest: keep
        features:
          island: bytes
          mass: {column: body_mass_g, type: int64, missing: {default: -1}}
          image/class/label: {column: species, type: int64, labels: [Adelie, Gentoo], unknown: omit}
          image/encoded: {column: path, type: bytes, load: file, root: images}
          x: {columns: "pixel*", type: float, shape: [28, 28], null_item: {default: 0}}
          tokens: {type: int64, separator: " ", null_item: drop}
          origin: {constant: survey-2026, type: bytes}
          when: {type: bytes, time: iso8601, arrow: "timestamp[us, tz=UTC]"}
        """,
        "p.yaml",
    )
    assert schema.source == {"name": "csv", "delimiter": ";"}
    assert schema.rest == "keep"
    assert schema.features["island"] == feature(type="bytes")
    assert schema.features["mass"].missing == Missing("default", -1)
    assert schema.features["image/class/label"].labels == ("Adelie", "Gentoo")
    assert schema.features["image/class/label"].unknown == Missing("omit")
    assert schema.features["x"].shape == (28, 28)
    assert schema.features["tokens"].null_item == Missing("omit")
    assert schema.features["origin"].constant == "survey-2026"


@pytest.mark.parametrize(
    ("entries", "kind"),
    [
        ({"labels": ["a"]}, "int64"), ({"load": "file"}, "bytes"), ({"time": "iso8601"}, "bytes"),
        ({"constant": 1}, "int64"), ({"constant": 1.5}, "float"), ({"constant": "x"}, "bytes"),
        ({"constant": [1, 2.5]}, "float"),
    ],
)  # fmt: skip
def test_a_type_that_another_key_settles_may_be_left_out(
    entries: dict[str, object], kind: str
) -> None:
    assert feature(**entries).type == kind


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("string", "bytes"), ("str", "bytes"), ("text", "bytes"), ("float32", "float"),
        ("double", "float"), ("int", "int64"), ("Integer", "int64"), ("bool", "int64"),
        ("INT64", "int64"), ("flaot", "float"), ("byte", "bytes"), ("uint8", "int64"),
    ],
)  # fmt: skip
def test_other_names_of_types_get_the_right_one_suggested(word: str, meant: str) -> None:
    text = message(f"features:\n  a: int64\n  x:\n    column: y\n    type: {word}\n")
    assert text.startswith(f'p.yaml, line 5: feature x, type: "{word}"')
    assert f'Did you mean "{meant}"?' in text
    assert f'"{word}"' in message(f"features:\n  x: {word}\n")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("features:\n  x: {type: int64, mising: omit}", ["line 2", '"mising"', '"missing"']),
        ("featuers:\n  x: int64", ["line 1", '"featuers"', '"features"']),
        ("features:\n  x: int64\nversion: 2", ["line 3", "found 2, expected 1"]),
        ("features:\n  x: int64\nversion: true", ["line 3", "expected 1"]),
        ("features:\n  x: int64\nrest: kep", ["line 3", '"keep"']),
        ("features: [a]", ["line 1", "a list", "a mapping"]),
        ("features:\n  x: int64\nsource: name", ["line 3", "source", "a mapping"]),
        ("features:\n  x: int64\nsource: [name]", ["line 3", "source", "a mapping"]),
        ("features:\n  x: [a]", ["line 2", "feature x", "a list"]),
        ("features:\n  x:", ["line 2", "feature x", "nothing"]),
        ("features: {}", ["line 1", "features is empty"]),
        ("version: 1", ["features is empty"]),
        ("features:\n  x: {column: y}", ["line 2", "feature x has no type"]),
        ("features:\n  x:\n    type: int64\n    missing:", ["line 4", "missing has no value"]),
        ("features:\n  x: {type: int64, missing: skip}", ["missing", '"skip"', "error, omit"]),
        ("features:\n  x: {type: int64, null_item: omit}", ["null_item", "error, drop"]),
        ("features:\n  x:\n    type: int64\n    missing:\n      default: a", ["line 4", '"a"']),
        ("features:\n  x: {type: int64, missing: {default: 1.5}}", ["1.5", "whole number"]),
        ("features:\n  x: {type: int64, missing: {default: true}}", ["True", "write 1 or 0"]),
        ("features:\n  x: {type: int64, missing: {default: 9223372036854775808}}", ["range"]),
        ("features:\n  x: {type: float, missing: {default: 1e39}}", ["too large for a float"]),
        ("features:\n  x: {type: bytes, missing: {default: 5}}", ["put it in quotes"]),
        ("features:\n  x: {type: bytes, labels: [a]}", ["type is bytes", "int64"]),
        ("features:\n  x: {labels: [a, b, a]}", ['"a" twice', "label 0 and as label 2"]),
        ("features:\n  x: {labels: []}", ["labels has no names"]),
        ('features:\n  x: {labels: ["a\\nb"]}', ["line break"]),
        ('features:\n  x: {labels: [""]}', ["no name for label 0"]),
        ("features:\n  x: {labels: [cat], unknown: {default: dog}}", ["unknown", '"dog"']),
        ("features:\n  x: {columns: a*, labels: auto}", ["labels are auto", "list the names"]),
        ("features:\n  x: {type: int64, unknown: error}", ["unknown", "without labels"]),
        ("features:\n  x: {type: int64, shape: [0]}", ["shape", "from 1"]),
        ("features:\n  x: {type: int64, shape: []}", ["shape", "sizes"]),
        ("features:\n  x: {type: int64, shape: [65536, 65536]}", ["more values"]),
        ("features:\n  x: {type: int64, column: a, columns: b*}", ["columns", "beside column"]),
        ("features:\n  x: {type: int64, columns: []}", ["columns is empty"]),
        ("features:\n  x: {type: int64, constant: 1, missing: omit}", ["missing", "constant"]),
        ("features:\n  x: {type: int64, constant: []}", ["constant", "empty list"]),
        ("features:\n  x: {constant: [1, 2], shape: [3]}", ["constant", "2 values", "3"]),
        ("features:\n  x: {type: int64, load: file}", ["type is int64", "load gives bytes"]),
        ("features:\n  x: {load: url}", ["load", '"url"', "expected file"]),
        ("features:\n  x: {type: bytes, root: a}", ["root", "without load"]),
        ("features:\n  x: {type: int64, time: iso8601}", ["time gives bytes"]),
        ("features:\n  x: {time: rfc}", ["time", "expected iso8601"]),
        ("features:\n  x: {type: int64, separator: ''}", ["separator is empty"]),
        ("features:\n  x: {type: int64, arrow: int65}", ["arrow", '"int65"']),
        ("features:\n  x: {type: int64, column: [a]}", ["column", "a list"]),
    ],
)
def test_faults_name_the_place_and_what_is_wrong(text: str, parts: list[str]) -> None:
    said = message(text)
    assert said.startswith("p.yaml")
    assert [part for part in parts if part not in said] == [], said


def test_the_first_fault_of_the_file_is_reported() -> None:
    text = "features:\n  a: int64\n  b: strin\n  c: flot\nversoin: 1\n"
    assert message(text).startswith("p.yaml, line 3: feature b")


def test_mappings_get_the_same_checks_without_a_place() -> None:
    with pytest.raises(SchemaError) as caught:
        load_schema({"features": {"x": {"type": "string"}}})
    assert str(caught.value).startswith('feature x, type: "string" is not int64')


@pytest.mark.parametrize("features", [{1: "int64"}, {"x": {1: "int64"}}, {"x": object()}, 5])
def test_mappings_of_the_wrong_shape_are_schema_errors(features: object) -> None:
    with pytest.raises(SchemaError):
        load_schema({"features": features})


def test_float32_boundary_of_defaults() -> None:
    assert feature(type="float", missing={"default": 3.4028235e38})
    assert feature(type="float", missing={"default": float("inf")})
    with pytest.raises(SchemaError):
        feature(type="float", missing={"default": 3.4028236e38})


def test_a_misspelt_key_is_named_before_the_key_that_is_missing_for_it():
    with pytest.raises(SchemaError, match=r'unknown key "typ".*type'):
        load_schema({"features": {"name": {"typ": "bytes"}}})
