"""A schema tied to the columns of a source: what the records will hold, decided before any work."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tfrec_cli.errors import SchemaError, did_you_mean, shorten
from tfrec_cli.schema.arrowtypes import POSSIBLE_TYPES, Anatomy, anatomy, unwrapped
from tfrec_cli.schema.binding import BoundFeature, Missing
from tfrec_cli.schema.feature import Feature
from tfrec_cli.schema.infer import ColumnFacts, Notes, infer_features, row_lengths
from tfrec_cli.schema.labels import label_fault, read_label_file, sort_labels
from tfrec_cli.schema.lookup import SHOWN, Entry, columns_by_name, entries, sources_of
from tfrec_cli.schema.model import Schema

LabelValues = Mapping[str, Iterable[str]]


def bind(
    schema: Schema, columns: Sequence[ColumnFacts], label_values: LabelValues | None = None
) -> tuple[BoundFeature, ...]:
    """The features of `schema`, tied to `columns`, sorted by the UTF-8 bytes of their keys.

    label_values: for each feature whose labels are `auto`, the values found in its column.
    Raises SchemaError where the schema does not fit: unknown columns, types that cannot become
    one another, files that lack a column, defaults of the wrong length.
    """
    schema, _ = complete(schema, columns, label_values)
    table = columns_by_name(columns)
    features = [_bound(entry, table) for entry in entries(schema)]
    _refuse_clashes(schema, features)
    return tuple(sorted(features, key=lambda f: f.key.encode("utf-8", "surrogatepass")))


def auto_labels(schema: Schema, columns: Sequence[ColumnFacts]) -> tuple[BoundFeature, ...]:
    """The features whose labels are `auto`, bound without labels, so that someone may count the
    values of their columns (`labels.count_values`).
    """
    table = columns_by_name(columns)
    return tuple(_bound(e, table) for e in entries(schema) if e.feature.labels == "auto")


def label_files(schema: Schema) -> tuple[str, ...]:
    """The label files that the schema names, as paths from here."""
    named = (f.labels for f in schema.features.values() if isinstance(f.labels, str))
    return tuple(sorted({_path_from(schema, name) for name in named if name != "auto"}))


def complete(
    schema: Schema, columns: Sequence[ColumnFacts], label_values: LabelValues | None = None
) -> tuple[Schema, tuple[str, ...]]:
    """The schema with nothing left to find out, and notes on what was: label names in place of
    `auto` and files, and with `rest: keep` a feature for every column that none names.

    It reads the same source the same way from anywhere, so it is what a dataset keeps.
    """
    features = {e.key: _with_root(_with_labels(e, label_values or {}), e) for e in entries(schema)}
    notes = Notes()
    if schema.rest == "keep":
        features |= _rest(schema, columns, notes)
        if not features:
            raise SchemaError("no column has a value in any row, so there is no feature.")
    return schema.with_features(features, rest="drop"), notes.lines()


# Labels ------------------------------------------------------------------------------------------


def _with_labels(entry: Entry, found: LabelValues) -> Feature:
    labels = entry.feature.labels
    if not isinstance(labels, str):
        return entry.feature
    names = _auto_names(entry, found) if labels == "auto" else _file_names(entry, labels)
    for key in ("missing", "unknown"):
        rule = getattr(entry.feature, key)
        default = None if rule is None else rule.default
        if isinstance(default, str) and default not in names:
            said = f"{key} is {shorten(default)}, which is not among the labels"
            raise entry.fault(key, f"{said}.{did_you_mean(default, names)}")
    return entry.feature.model_copy(update={"labels": names})


def _with_root(feature: Feature, entry: Entry) -> Feature:
    if feature.root is None:
        return feature
    root = os.path.abspath(_path_from(entry.schema, feature.root))
    return feature.model_copy(update={"root": root})


def _auto_names(entry: Entry, found: LabelValues) -> tuple[str, ...]:
    if entry.key not in found:
        raise ValueError(f"no values were counted for the labels of {entry.key}")
    names = sort_labels(found[entry.key])
    if not names:
        raise entry.fault("labels", "labels are auto, but its column has no value in any row")
    if fault := label_fault(names):
        raise entry.fault("labels", f"labels are auto, but the column {fault}")
    return names


def _file_names(entry: Entry, name: str) -> tuple[str, ...]:
    try:
        return read_label_file(_path_from(entry.schema, name))
    except SchemaError as error:
        raise entry.fault("labels", f"labels: {error}") from None


def _path_from(schema: Schema, name: str) -> str:
    return os.path.normpath(Path(schema.places.file).parent / name)


# The rest ----------------------------------------------------------------------------------------


def _rest(schema: Schema, columns: Sequence[ColumnFacts], notes: Notes) -> dict[str, Feature]:
    table = columns_by_name(columns)
    named: set[str] = set()
    for entry in entries(schema):
        named.update("/".join((column.name, *path)) for column, path in sources_of(entry, table))
    source = schema.places.file or "the schema"
    rest = infer_features(columns, notes, f"{source}, rest: keep", frozenset(named))
    for key in rest:
        if key in schema.features:
            raise Entry(schema, key, rest[key]).fault(
                "column", f"rest: keep would add column {shorten(key)} under the same name. "
                "Give one of the two another name, or leave the column out with rest: drop."
            )  # fmt: skip
    return rest


# Features ----------------------------------------------------------------------------------------


def _bound(entry: Entry, table: Mapping[str, ColumnFacts]) -> BoundFeature:
    feature = entry.feature
    if feature.constant is not None:
        value = feature.constant
        shape = feature.shape or ((len(value),) if isinstance(value, tuple) else None)
        bound = _bound_value(feature, value)
        return BoundFeature(entry.key, feature.type, constant=bound, shape=shape)
    sources = sources_of(entry, table)
    columns = [column for column, _ in sources]
    parts = [_parts(entry, column, path) for column, path in sources]
    _refuse_absent(entry, columns)
    for column, part in zip(columns, parts, strict=True):
        _check_type(entry, column, part)
    shape, ragged = _layout(entry, parts)
    _check_defaults(entry, shape, ragged)
    labels = () if feature.labels == "auto" else feature.labels
    return BoundFeature(
        key=entry.key,
        type=feature.type,
        columns=tuple(column.name for column in columns),
        source_type=_common_type(entry, columns),
        text=columns[0].text,
        path=sources[0][1],
        labels=labels if isinstance(labels, tuple) else None,
        unknown=_bound_rule(feature, feature.unknown),
        load=feature.load is not None,
        root=None if feature.root is None else _path_from(entry.schema, feature.root),
        shape=shape,
        ragged=ragged,
        separator=feature.separator,
        missing=_bound_rule(feature, feature.missing),
        null_item=_bound_rule(feature, feature.null_item),
        time=feature.time,
        first_label=feature.first_label or 0,
    )


def _parts(entry: Entry, column: ColumnFacts, path: Sequence[str]) -> Anatomy:
    kind = column.type
    for name in path:
        kind = unwrapped(kind).field(name).type
    parts = anatomy(kind)
    if entry.feature.columns is not None and parts.sizes:
        said = f'column "{shorten(column.name)}" holds lists'
        raise entry.fault("columns", f"{said}; a vector is made of columns with one value a row")
    return parts


def _refuse_absent(entry: Entry, columns: Sequence[ColumnFacts]) -> None:
    rule = entry.feature.missing
    if rule is not None and rule.action != "error":
        return
    for column in columns:
        if column.absent:
            files = ", ".join(column.absent[:SHOWN])
            more = len(column.absent) - SHOWN
            files += f" and {more} more" if more > 0 else ""
            verb = "lacks" if len(column.absent) == 1 else "lack"
            raise entry.fault(
                "missing", f'{files} {verb} the column "{shorten(column.name)}". Say in a schema '
                "what its rows hold (missing: omit, or missing: {default: …}), or convert the "
                "files apart."
            )  # fmt: skip


def _check_type(entry: Entry, column: ColumnFacts, parts: Anatomy) -> None:
    """Raise SchemaError where values of the column can never be what the feature asks for."""
    feature, family = entry.feature, parts.family
    is_a = f'column "{shorten(column.name)}" is {column.type}'
    if family == "struct" and feature.type != "bytes":
        names = ", ".join(child.name for child in parts.leaf)
        raise entry.fault(
            "column", f"{is_a}. Name one of its children, as in column: PARENT/CHILD "
            f"({shorten(names)}), or write it as JSON with type: bytes."
        )  # fmt: skip
    if feature.type not in POSSIBLE_TYPES.get(family, ()):
        others = " or ".join(POSSIBLE_TYPES.get(family, ()))
        advice = f"Make it {others}." if others else "Leave it out, or cast it in the source."
        raise entry.fault("type", f"{is_a}, which cannot become {feature.type}. {advice}")
    needs: dict[str, tuple[str, ...]] = {
        "labels": ("text", "binary", "integer", "float", "null"),
        "load": ("text", "binary", "null"),
        "separator": ("text", "null"),
        "time": ("time", "duration", "null"),
    }
    for key, families in needs.items():
        if getattr(feature, key) is not None and family not in families:
            raise entry.fault(key, f"{is_a}, which {key} has no meaning for")
    if family in ("time", "duration") and feature.type == "bytes" and feature.time is None:
        raise entry.fault("type", f"{is_a}. Write time: iso8601 for text, or type: int64.")


def _layout(entry: Entry, parts: Sequence[Anatomy]) -> tuple[tuple[int, ...] | None, int]:
    """The fixed shape and the depth of ragged nesting of a feature."""
    feature, part = entry.feature, parts[0]
    if feature.columns is not None:
        return _fixed_shape(entry, feature.shape or (len(parts),), len(parts)), 0
    if feature.separator is not None:
        if part.sizes:
            raise entry.fault("separator", "the column holds lists, so there is nothing to split")
        return feature.shape, 0 if feature.shape else 1
    if not part.sizes:
        for key in ("shape", "null_item"):
            if getattr(feature, key) is not None:
                raise entry.fault(
                    key, f"the column holds one value a row, so {key} has no meaning. For several "
                    "values name several columns (columns: …), or the separator of a list."
                )  # fmt: skip
        return None, 0
    if part.shape is not None:
        return _fixed_shape(entry, feature.shape or part.shape, math.prod(part.shape)), 0
    if feature.shape is not None:
        _check_levels(entry, feature.shape, part.sizes)
        return feature.shape, 0
    return None, len(part.sizes)


def _fixed_shape(entry: Entry, shape: tuple[int, ...], values: int) -> tuple[int, ...]:
    if math.prod(shape) != values:
        said = f"shape {list(shape)} is {math.prod(shape)} values"
        raise entry.fault("shape", f"{said}, but there are {values} in a row")
    return shape


def _check_levels(entry: Entry, shape: tuple[int, ...], sizes: tuple[int | None, ...]) -> None:
    if len(sizes) == 1:
        return
    fits = len(shape) == len(sizes)
    if not fits or any(b not in (None, a) for a, b in zip(shape, sizes, strict=True)):
        found = " of ".join(f"lists of {size}" if size else "lists" for size in sizes)
        said = f"shape {list(shape)} does not fit the column, which holds {found}"
        raise entry.fault("shape", f"{said}. Give one size for each level.")


def _check_defaults(entry: Entry, shape: tuple[int, ...] | None, ragged: int) -> None:
    rule = entry.feature.missing
    if rule is None or rule.action != "default":
        return
    if ragged > 1:
        raise entry.fault("missing", "lists of lists have no default; give a shape or omit them")
    if not isinstance(rule.default, tuple):
        return
    if shape is None and not ragged:
        raise entry.fault("missing", "the default is a list, but the column holds one value a row")
    if shape is not None and len(rule.default) != math.prod(shape):
        said = f"the default has {len(rule.default)} values"
        raise entry.fault("missing", f"{said}, expected {math.prod(shape)} by shape {list(shape)}")


def _common_type(entry: Entry, columns: Sequence[ColumnFacts]) -> pa.DataType:
    """The type of the columns, or the one that takes all of them."""
    kinds = list(dict.fromkeys(column.type for column in columns))
    fields = [pa.schema([pa.field("x", kind)]) for kind in kinds]
    try:
        common = pa.unify_schemas(fields, promote_options="permissive")
    except pa.ArrowException:
        found = " and ".join(str(kind) for kind in kinds[:2])
        raise entry.fault("columns", f"{found} columns do not make one vector") from None
    return common.field(0).type if len(kinds) > 1 else kinds[0]


def _bound_rule(feature: Feature, rule: Missing | None) -> Missing:
    if rule is None:
        return Missing()
    if rule.action != "default":
        return rule
    return Missing("default", _bound_value(feature, rule.default))


def _bound_value(feature: Feature, value: Any) -> Any:
    """A default or constant as what is written: bytes, float, int, or a tuple of them."""
    if isinstance(value, tuple):
        return tuple(_bound_value(feature, item) for item in value)
    if isinstance(feature.labels, tuple) and isinstance(value, str):
        return feature.labels.index(value) + (feature.first_label or 0)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape") if feature.type == "bytes" else value
    return float(value) if feature.type == "float" else value


def _refuse_clashes(schema: Schema, features: Sequence[BoundFeature]) -> None:
    owners: dict[str, str] = {}
    for feature in features:
        for key in (feature.key, *row_lengths(feature.key, feature.ragged)):
            if key in owners:
                entry = Entry(schema, feature.key, schema.features[feature.key])
                lengths = key if key != feature.key else f"{owners[key]}'s row lengths"
                raise entry.fault("type", f"{lengths} would be a feature of the same name. Rename")
            owners[key] = feature.key
