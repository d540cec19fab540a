"""The schema of TensorFlow Metadata (tensorflow_metadata.v0.Schema) in text form.

A feature that each record has, with a fixed shape, is read as `tf.io.FixedLenFeature`; a list of
any length, and a feature that may be missing, by the representations at the end.
"""

from __future__ import annotations

import math

from tfrec_cli.dataset.manifest import FeatureFacts, Manifest
from tfrec_cli.dataset.metadata.textformat import Fields, Word, text_of
from tfrec_cli.errors import UsageError

SCHEMA_PBTXT = "schema.pbtxt"
_TYPES = {"int64": Word("INT"), "float": Word("FLOAT"), "bytes": Word("BYTES")}
_IMAGES = "image/encoded"


def describe(manifest: Manifest) -> tuple[dict[str, str], list[str]]:
    """`schema.pbtxt`. Raises UsageError where nothing is known of the features."""
    if not manifest.features:
        raise UsageError("tfmd: nothing is known of the features of the records.")
    fields: list[tuple[str, Fields]] = []
    for facts in manifest.features:
        fields.append(("feature", _feature(facts)))
        fields += [("feature", _lengths(key, facts)) for key in facts.row_lengths]
    representations = [r for facts in manifest.features for r in _representations(facts)]
    if representations:
        group: Fields = [("key", ""), ("value", representations)]
        fields.append(("tensor_representation_group", group))
    return {SCHEMA_PBTXT: text_of(fields)}, []


def _feature(facts: FeatureFacts) -> Fields:
    return [
        ("name", facts.key),
        ("type", _TYPES[facts.type]),
        *_presence(facts),
        *_counts(facts),
        *_domain(facts),
    ]


def _presence(facts: FeatureFacts) -> Fields:
    if facts.missing == "omit":
        return [("presence", [("min_count", 1)])]
    return [("presence", [("min_fraction", 1.0), ("min_count", 1)])]


def _counts(facts: FeatureFacts) -> Fields:
    """The shape; of what may be missing or is of any length, how many values there are."""
    if facts.ragged:
        return [("value_count", [("min", 0)])]
    if facts.missing != "omit":
        dims = [("dim", [("size", size)]) for size in facts.shape or ()]
        return [("shape", dims)]
    count = math.prod(facts.shape or ())
    return [("value_count", [("min", count), ("max", count)])]


def _domain(facts: FeatureFacts) -> Fields:
    if facts.key == _IMAGES and facts.type == "bytes":
        return [("image_domain", [])]
    if facts.labels is None or facts.type != "int64":
        return []
    last = facts.first_label + len(facts.labels) - 1
    domain = [("min", facts.first_label), ("max", last), ("is_categorical", True)]
    return [("int_domain", domain)]


def _lengths(key: str, facts: FeatureFacts) -> Fields:
    return [
        ("name", key),
        ("type", _TYPES["int64"]),
        *_presence(facts),
        ("value_count", [("min", 0)]),
    ]


def _representations(facts: FeatureFacts) -> list[tuple[str, Fields]]:
    if facts.ragged:
        lengths = [("partition", [("row_length", key)]) for key in facts.row_lengths]
        tensor: Fields = [("feature_path", [("step", facts.key)]), *lengths]
        return [_representation(facts, "ragged_tensor", tensor)]
    if facts.missing == "omit":
        return [_representation(facts, "varlen_sparse_tensor", [("column_name", facts.key)])]
    return []


def _representation(facts: FeatureFacts, kind: str, tensor: Fields) -> tuple[str, Fields]:
    return "tensor_representation", [("key", facts.key), ("value", [(kind, tensor)])]
