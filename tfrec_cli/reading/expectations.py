"""What each record of a dataset must have, as its manifest or a schema says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tfrec_cli.dataset.manifest import SCHEMA, FeatureFacts, Manifest
from tfrec_cli.decoding import KINDS
from tfrec_cli.errors import SchemaError
from tfrec_cli.schema import (
    Feature,
    Schema,
    load_schema,
    parse_type,
    read_label_file,
    row_lengths,
)
from tfrec_cli.schema.arrowtypes import anatomy
from tfrec_cli.schema.binding import Missing

UNLIMITED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Expected:
    """One feature of each record.

    kind: one of KINDS. fewest, most: how many values it may have where it is there. shape: of a
    fixed list or scalar, None where any number is right or none is known. required: whether every
    record has it. labels: the first label and the number after the last, None where it is no
    label. extras: numbers written beside the labels, as defaults.
    """

    key: str
    kind: str
    fewest: int = 0
    most: int = UNLIMITED
    shape: tuple[int, ...] | None = None
    required: bool = True
    labels: tuple[int, int] | None = None
    extras: frozenset[int] = frozenset()

    @property
    def number(self) -> int:
        """The kind as surveys number it."""
        return KINDS.index(self.kind)


@dataclass(frozen=True, slots=True)
class Expectations:
    """All features of a dataset's records. origin: where they are written down. is_closed: there
    are no others.
    """

    origin: str
    features: Mapping[str, Expected]
    is_closed: bool = True


def saved_expectations(folder: str, manifest: Manifest | None) -> Expectations | None:
    """What the records must have that lie in a folder: by its manifest, and by the schema beside
    it, where that can be read. None where nothing is known of them, as of repaired files.
    """
    path = Path(folder) / SCHEMA
    try:
        schema = load_schema(path) if path.is_file() else None
    except SchemaError:
        schema = None
    if manifest is not None:
        return from_manifest(manifest, schema) if manifest.features else None
    return None if schema is None else from_schema(schema, SCHEMA)


def from_manifest(manifest: Manifest, schema: Schema | None) -> Expectations:
    """What the manifest says; its schema adds what is written for labels that are none."""
    given = schema.features if schema else {}
    expected: dict[str, Expected] = {}
    for facts in manifest.features:
        feature = given.get(facts.key)
        expected[facts.key] = _from_facts(facts, feature)
        for key in facts.row_lengths:
            expected[key] = Expected(key, "int64", required=facts.missing != "omit")
    return Expectations("manifest", expected)


def _from_facts(facts: FeatureFacts, feature: Feature | None) -> Expected:
    fixed = Expected(facts.key, facts.type, required=facts.missing != "omit")
    if not facts.ragged:
        fixed = _with_shape(fixed, facts.shape or ())
    if facts.labels is None or feature is None or feature.labels is None:
        # The schema of records that were passed on does not know which other numbers were written.
        return fixed
    return _with_labels(fixed, facts.first_label, len(facts.labels), feature)


def from_schema(schema: Schema, origin: str) -> Expectations:
    """What a schema says by itself; without its source, some shapes stay unknown."""
    expected: dict[str, Expected] = {}
    for key, feature in schema.features.items():
        expected |= _from_feature(schema, key, feature)
    return Expectations(origin, expected, is_closed=schema.rest == "drop")


def _from_feature(schema: Schema, key: str, feature: Feature) -> dict[str, Expected]:
    required = feature.missing is None or feature.missing.action != "omit"
    one = Expected(key, feature.type, required=required)
    depth, shape = _layout(schema, feature)
    if shape is not None:
        one = _with_shape(one, shape)
    if feature.labels is not None:
        first = feature.first_label or 0
        one = _with_labels(one, first, _label_count(schema, feature), feature)
    lengths = {k: Expected(k, "int64", required=required) for k in row_lengths(key, depth)}
    return {key: one, **lengths}


def _layout(schema: Schema, feature: Feature) -> tuple[int, tuple[int, ...] | None]:
    """How deep a list without a shape is, and the shape: None where it is unknown."""
    if feature.shape is not None:
        return 0, feature.shape
    if feature.constant is not None:
        return 0, (len(feature.constant),) if isinstance(feature.constant, tuple) else ()
    if feature.columns is not None:
        listed = isinstance(feature.columns, tuple)
        return 0, (len(feature.columns),) if listed else None
    if feature.separator is not None:
        return 1, None
    if feature.arrow is not None:
        return _arrow_layout(feature.arrow)
    scalar = feature.load is not None or schema.source.get("name") in ("csv", "images")
    return 0, () if scalar else None


def _arrow_layout(text: str) -> tuple[int, tuple[int, ...] | None]:
    try:
        parts = anatomy(parse_type(text))
    except ValueError:
        return 0, None
    if not parts.sizes:
        return 0, ()
    return (0, parts.shape) if parts.shape is not None else (len(parts.sizes), None)


def _with_shape(expected: Expected, shape: tuple[int, ...]) -> Expected:
    count = math.prod(shape)
    return replace(expected, fewest=count, most=count, shape=tuple(shape))


def _with_labels(expected: Expected, first: int, count: int | None, feature: Feature) -> Expected:
    rules = (feature.missing, feature.unknown, feature.null_item)
    optional = any(rule is not None and rule.action == "omit" for rule in rules[:2])
    return replace(
        expected,
        labels=(first, UNLIMITED if count is None else first + count),
        extras=frozenset(number for rule in rules for number in _numbers(rule)),
        required=expected.required and not optional,
    )


def _numbers(rule: Missing | None) -> list[int]:
    """The numbers that a rule writes. Names of labels are among the labels anyway."""
    if rule is None or rule.action != "default":
        return []
    values = rule.default if isinstance(rule.default, tuple) else (rule.default,)
    return [value for value in values if isinstance(value, int)]


def _label_count(schema: Schema, feature: Feature) -> int | None:
    """How many labels there are; None for `auto`."""
    if isinstance(feature.labels, tuple):
        return len(feature.labels)
    if feature.labels is None or feature.labels == "auto":
        return None
    return len(read_label_file(Path(schema.places.file).parent / feature.labels))
