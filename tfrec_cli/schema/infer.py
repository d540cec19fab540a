"""The schema of a source that came without one, and what there is to say about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import escape
from typing import Any, Protocol

import pyarrow as pa

from tfrec_cli.errors import SchemaError, listed, shorten
from tfrec_cli.schema.arrowtypes import (
    DEFAULT_TYPES,
    OBVIOUS_TYPES,
    Anatomy,
    anatomy,
    spell_type,
    unwrapped,
)
from tfrec_cli.schema.binding import FeatureType, Missing
from tfrec_cli.schema.feature import Feature
from tfrec_cli.schema.grammar import TextRules
from tfrec_cli.schema.model import Schema

VECTOR_COLUMNS = 50
_NAMED = 8


class ColumnFacts(Protocol):
    """What a survey knows of a column; see `sources.base.Column`."""

    @property
    def name(self) -> str:
        """Its name, unique in the source."""

    @property
    def type(self) -> pa.DataType:
        """The Arrow type its cells are read as."""

    @property
    def nulls(self) -> bool | None:
        """Whether any row lacks a value; None where nobody looked."""

    @property
    def text(self) -> TextRules | None:
        """The rules for reading its cells, where they are text."""

    @property
    def kind(self) -> str | None:
        """With `text`: what all cells are: `int64`, `float`, `bytes` or `null`."""

    @property
    def reason(self) -> str:
        """Why `kind` is not narrower, where that is not obvious."""

    @property
    def absent(self) -> tuple[str, ...]:
        """The files that lack the column."""


class LabelFacts(Protocol):
    """A label that the source knows of; see `sources.base.LabelHint`."""

    @property
    def feature(self) -> str:
        """The feature that holds the number."""

    @property
    def column(self) -> str:
        """The column that holds the name."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names by number."""

    @property
    def first(self) -> int:
        """The number of the first name."""


@dataclass(slots=True)
class Notes:
    """What to tell the user: one line a kind, naming the columns it is true of."""

    subjects: dict[str, list[str]] = field(default_factory=dict)

    def add(self, text: str, column: str) -> None:
        """`text` is true of `column`; `{}` in it stands for the columns."""
        self.subjects.setdefault(text, []).append(shorten(column))

    def lines(self) -> tuple[str, ...]:
        """The notes, in the order of their first column."""
        return tuple(
            text.replace("{}", listed(names, _NAMED)) for text, names in self.subjects.items()
        )


def infer_schema(
    columns: Sequence[ColumnFacts],
    labels: Sequence[LabelFacts] = (),
    options: Mapping[str, Any] | None = None,
    source: str = "the source",
) -> tuple[Schema, tuple[str, ...]]:
    """The schema of surveyed columns, and notes on what they became and why.

    options: source options to keep in the schema, the adapter under `name`. source: what errors
    call the source. Raises SchemaError where no schema comes without help: maps, lists of
    structs, two features of one name, no column with a value.
    """
    notes = Notes()
    features = infer_features(columns, notes, source)
    nulls = {column.name: column.nulls for column in columns}
    for label in labels:
        rule = None if nulls.get(label.column) is False else Missing("omit")
        feature = feature_of(
            type="int64",
            column=label.column,
            labels=label.names,
            first_label=label.first or None,
            missing=rule,
        )
        if label.feature in features:
            raise _clash(source, label.feature, f"the label of column {label.column}")
        features[label.feature] = feature
    if not features:
        raise SchemaError(f"{source}: no column has a value in any row, so there is no feature.")
    _suggest_vectors(features, notes)
    schema = Schema.model_validate({"source": options or {}, "features": features})
    return schema, notes.lines()


def infer_features(
    columns: Iterable[ColumnFacts], notes: Notes, source: str, named: frozenset[str] = frozenset()
) -> dict[str, Feature]:
    """The features of `columns` and of the children of structs, without those in `named`."""
    features: dict[str, Feature] = {}
    for column in columns:
        for leaf in _leaves(column, notes, source):
            if leaf.name in named:
                continue
            if leaf.name in features:
                raise _clash(source, leaf.name, f"a part of column {column.name}")
            feature = _feature(leaf, notes, source)
            if feature is not None:
                features[leaf.name] = feature
    return features


def _clash(source: str, key: str, other: str) -> SchemaError:
    return SchemaError(
        f"{source}: two features would be called {shorten(key)}, one of them {other}. "
        "Write a schema that gives one of them another name."
    )


@dataclass(frozen=True, slots=True)
class _Leaf:
    """What becomes one feature: a column, or a child of a struct column."""

    name: str
    type: pa.DataType
    nulls: bool
    column: ColumnFacts


def _leaves(column: ColumnFacts, notes: Notes, source: str) -> Iterator[_Leaf]:
    if column.absent:
        notes.add(f"{{}} is lacking in {listed(column.absent, _NAMED)}", column.name)
    if not pa.types.is_struct(unwrapped(column.type)):
        yield _Leaf(column.name, column.type, column.nulls is not False, column)
        return
    children = list(struct_children(column.name, column.type))
    known = [name for name, _ in children]
    if not known:
        notes.add("{} is left out: a struct without children", column.name)
    if twice := next((name for name in known if known.count(name) > 1), None):
        raise _clash(source, twice, f"a child of column {column.name}")
    for name, kind in children:
        # Nobody counts the nulls of children, so every child may lack values.
        yield _Leaf(name, kind, True, column)
    if known:
        notes.add("{} is a struct: its children become features of their own", column.name)


def struct_children(name: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """The values within a struct column as `parent/child` with their types; any other column is
    its own only one.
    """
    kind = unwrapped(kind)
    if not pa.types.is_struct(kind):
        yield name, kind
        return
    for child in kind:
        if pa.types.is_struct(unwrapped(child.type)):
            yield from struct_children(f"{name}/{child.name}", child.type)
        else:
            yield f"{name}/{child.name}", child.type


def _feature(leaf: _Leaf, notes: Notes, source: str) -> Feature | None:
    parts = anatomy(leaf.type)
    kind = _kind(leaf, parts, source)
    if kind is None:
        notes.add("{} is left out: it has no value in any row", leaf.name)
        return None
    _explain(leaf, parts, kind, notes)
    return feature_of(
        type=kind,
        shape=parts.shape,
        missing=_missing(leaf),
        arrow=_arrow(leaf, kind),
    )


def feature_of(**entries: Any) -> Feature:
    """The feature with these keys; None stands for a key that is not said."""
    return Feature.model_validate({k: v for k, v in entries.items() if v is not None})


def _missing(leaf: _Leaf) -> Missing | None:
    if leaf.column.absent:
        # A file without the column is an error until the schema's owner has decided.
        return Missing("error")
    return Missing("omit") if leaf.nulls else None


def _arrow(leaf: _Leaf, kind: FeatureType) -> str | None:
    if leaf.column.text is not None or leaf.type == OBVIOUS_TYPES[kind]:
        return None
    return spell_type(leaf.type)


def _kind(leaf: _Leaf, parts: Anatomy, source: str) -> FeatureType | None:
    """The type of the feature; None where there is no value."""
    if leaf.column.text is not None:
        kinds: dict[str | None, FeatureType | None]
        kinds = {"int64": "int64", "float": "float", "null": None}
        return kinds.get(leaf.column.kind, "bytes")
    if parts.family == "null":
        return None
    if parts.family in DEFAULT_TYPES:
        return DEFAULT_TYPES[parts.family]
    raise SchemaError(f"{source}, column {shorten(leaf.name)}: {_no_feature(leaf.name, parts)}")


def _no_feature(name: str, parts: Anatomy) -> str:
    if parts.family == "map" and not parts.sizes:
        return (
            "a map has no form in a record. Write it as JSON, with a schema that says "
            f"{shorten(name)}: bytes, or give its keys columns of their own."
        )
    if parts.family in ("map", "struct"):
        return (
            f"a list of {parts.family}s has no form in a record. Write each as JSON, with a schema "
            f"that says {shorten(name)}: bytes, or give its fields list columns of their own."
        )
    return f"{parts.leaf} has no form in a record. Leave the column out with a schema, or cast it."


def _explain(leaf: _Leaf, parts: Anatomy, kind: FeatureType, notes: Notes) -> None:
    if leaf.column.text is not None and leaf.column.reason:
        notes.add(f"{{}} is {kind}: {leaf.column.reason}", leaf.name)
    if len(parts.sizes) > 1 and parts.shape is None:
        lengths = ", ".join(row_lengths(leaf.name, len(parts.sizes)))
        notes.add(f"{{}} holds lists of lists: their lengths are in {lengths}", leaf.name)
    if text := _type_note(parts.leaf, parts.family, kind):
        notes.add(text, leaf.name)


def _type_note(leaf: pa.DataType, family: str, kind: FeatureType) -> str:
    if family == "decimal":
        return f"{{}} ({leaf}) becomes float, rounded; type: bytes keeps the exact digits"
    if kind == "float" and leaf not in (pa.float32(), pa.float16()):
        return "float holds about 7 digits (float32): values are rounded in {}"
    if family == "duration":
        return f"{{}} ({leaf}) becomes int64, in {leaf.unit}"
    if family == "time":
        text = "time: iso8601 writes text"
        return f"{{}} ({leaf}) becomes int64, in {time_unit(leaf)}; {text}"
    if leaf == pa.uint64():
        return "{} is uint64: a value past 9223372036854775807 is an error; type: bytes has room"
    return ""


def time_unit(leaf: pa.DataType) -> str:
    """What the int64 of a time column counts, such as `us since 1970-01-01`."""
    if pa.types.is_date32(leaf):
        return "days since 1970-01-01"
    if pa.types.is_date64(leaf):
        return "ms since 1970-01-01"
    return f"{leaf.unit} since {'midnight' if pa.types.is_time(leaf) else '1970-01-01'}"


def row_lengths(key: str, depth: int) -> tuple[str, ...]:
    """The features beside a ragged list of `depth` levels that hold the lengths of its rows."""
    if depth < 3:
        return (f"{key}/row_lengths",) if depth == 2 else ()
    return tuple(f"{key}/row_lengths_{level}" for level in range(depth - 1))


def _suggest_vectors(features: Mapping[str, Feature], notes: Notes) -> None:
    """Say so where many numbered columns look like one vector."""
    groups: dict[tuple[str, str], list[str]] = {}
    for key, feature in features.items():
        match = re.fullmatch(r"(.*?)[0-9]+", key, re.DOTALL)
        if match and feature.shape is None and feature.labels is None:
            groups.setdefault((match[1], feature.type), []).append(key)
    for (prefix, kind), keys in groups.items():
        if len(keys) >= VECTOR_COLUMNS:
            name = prefix.rstrip("_-./ ") or "x"
            alone = sum(key.startswith(prefix) for key in features) == len(keys)
            pattern = escape(prefix) + ("*" if alone else "[0-9]*")
            form = f'{name}: {{columns: "{pattern}", type: {kind}}}'
            notes.add(
                f"{{}}: {len(keys)} numbered columns of one type. As one vector they are smaller "
                f"and faster; a schema says it with {form}",
                f"{keys[0]} … {keys[-1]}",
            )
