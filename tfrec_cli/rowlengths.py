"""Lists of lists in records that are written anew: the lengths of their rows go along."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from tfrec_cli.dataset.manifest import FeatureFacts
from tfrec_cli.errors import listed
from tfrec_cli.schema.arrowtypes import anatomy, parse_type
from tfrec_cli.schema.feature import Feature
from tfrec_cli.schema.infer import feature_of, row_lengths
from tfrec_cli.schema.model import Schema
from tfrec_cli.sources.base import Survey


def with_row_lengths(schema: Schema, survey: Survey) -> tuple[Schema, tuple[str, ...]]:
    """The schema with the features that hold the row lengths of its lists of lists, where the
    source is TFRecord and has them as features; and a note that names them.

    In records a list of lists is its values, with `KEY/row_lengths` beside them; a schema that was
    made of a table knows the list alone, by its Arrow type.
    """
    if survey.records is None:
        return schema, ()
    lists = {column.name for column in survey.columns if column.type == pa.list_(pa.int64())}
    features: dict[str, Feature] = {}
    added: list[str] = []
    for key, feature in schema.features.items():
        features[key] = feature
        for name, column in _lengths(key, feature):
            if column in lists and name not in schema.features:
                other = None if column == name else column
                features[name] = feature_of(type="int64", column=other, missing=feature.missing)
                added.append(name)
    if not added:
        return schema, ()
    note = f"row lengths of lists of lists are carried over: {listed(added, 8)}"
    return schema.model_copy(update={"features": features}), (note,)


def nested(features: Sequence[FeatureFacts], schema: Schema) -> tuple[FeatureFacts, ...]:
    """The features as readers are to know them: one that is a list of lists by the schema, and has
    its row lengths in features of their own, is such a list with these row lengths.
    """
    known = {facts.key: facts for facts in features}
    found: dict[str, FeatureFacts] = dict(known)
    for key, feature in schema.features.items():
        names = tuple(name for name, _ in _lengths(key, feature))
        parts = [known.get(name) for name in (key, *names)]
        if names and all(one is not None and one.ragged == 1 for one in parts):
            found[key] = replace(known[key], ragged=len(names) + 1, row_lengths=names)
            for name in names:
                found.pop(name, None)
    return tuple(found.values())


def _lengths(key: str, feature: Feature) -> Iterator[tuple[str, str]]:
    """The features that hold the row lengths of a list of lists, and the columns they come from."""
    if feature.arrow is None or feature.shape is not None or feature.columns is not None:
        return
    try:
        parts = anatomy(parse_type(feature.arrow))
    except ValueError:
        return
    if parts.shape is None:
        depth, column = len(parts.sizes), feature.column or key
        yield from zip(row_lengths(key, depth), row_lengths(column, depth), strict=True)
