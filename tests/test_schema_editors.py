"""The JSON Schema for editors says of a file what reading the file says."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from conftest import REPOSITORY

from tfrec_cli.errors import SchemaError
from tfrec_cli.schema import json_schema, parse_schema
from tfrec_cli.schema.yaml import parse_yaml

GOOD = [
    "features: {a: int64}",
    "version: 1\nrest: keep",
    "source: {name: csv, null_words: [NA]}\nfeatures: {a: {type: bytes, missing: omit}}",
    "features: {a: {type: int64, column: b, missing: {default: -1}}}",
    "features: {a: {columns: 'p*', type: float, shape: [2, 2], null_item: drop}}",
    "features: {a: {columns: [p, q], type: float, shape: 2}}",
    "features: {a: {labels: [x, y], unknown: {default: -1}}}",
    "features: {a: {labels: auto, column: b}}",
    "features: {a: {load: file, column: b, root: imgs}}",
    "features: {a: {time: iso8601, arrow: 'timestamp[us]'}}",
    "features: {a: {constant: [1, 2.5]}}",
]
BAD = [
    "features: {a: string}",
    "features: {a: {type: int}}",
    "features: {a: {type: int64, mising: omit}}",
    "features: {a: {type: int64, missing: skip}}",
    "features: {a: {type: int64, null_item: omit}}",
    "features: {a: {type: int64, missing: {defalt: 1}}}",
    "features: {a: {type: int64, shape: [0]}}",
    "features: {a: {load: url}}",
    "features: {a: [int64]}",
    "features: [a]",
    "version: 2\nfeatures: {a: int64}",
    "rest: maybe\nfeatures: {a: int64}",
    "feature: {a: int64}",
]


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("text", GOOD)
def test_good_files_are_good_in_editors(
    validator: jsonschema.Draft202012Validator, text: str
) -> None:
    parse_schema(text, "s.yaml")
    assert validator.is_valid(parse_yaml(text, "s.yaml")[0])


@pytest.mark.parametrize("text", BAD)
def test_bad_files_are_bad_in_editors(
    validator: jsonschema.Draft202012Validator, text: str
) -> None:
    with pytest.raises(SchemaError):
        parse_schema(text, "s.yaml")
    assert not validator.is_valid(parse_yaml(text, "s.yaml")[0])


@pytest.mark.parametrize("path", sorted((REPOSITORY / "examples").glob("*.yaml")), ids=str)
def test_examples_are_good_in_editors(
    validator: jsonschema.Draft202012Validator, path: Path
) -> None:
    validator.validate(parse_yaml(path.read_text("utf-8"), str(path))[0])


def test_every_key_is_described() -> None:
    schema = json_schema()
    feature = schema["$defs"]["Feature"]["anyOf"][1]
    for entry in (*schema["properties"].values(), *feature["properties"].values()):
        assert entry["description"]
    json.dumps(schema)
