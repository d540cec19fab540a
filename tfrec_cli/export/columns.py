"""The columns of an export: which features they come from, and the types that they get back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tfrec_cli.buffers import from_numpy, from_values, is_valid, nulled, to_numpy
from tfrec_cli.dataset.manifest import FeatureFacts
from tfrec_cli.errors import DatasetError, key_text
from tfrec_cli.export.leaves import KINDS, Misfit, leaf_type, restore, takes
from tfrec_cli.export.nesting import (
    BrokenRow,
    Level,
    leaf_of,
    levels_of,
    list_type,
    nest,
    row_offsets,
)
from tfrec_cli.reading import FeatureInfo, Part
from tfrec_cli.reading.features import NO_KIND

if TYPE_CHECKING:
    from tfrec_cli.schema import Feature


class NotText(Exception):
    """Bytes that were taken for text are none."""


_REMEDY = "--plain-types gives all features as int64, float and bytes."


@dataclass(frozen=True, slots=True)
class Column:
    """One column. info: its feature. leaf: the type of one value. levels: of lists. lengths: the
    features that hold the lengths of inner lists. names: those of labels, from `first` on, which
    stand for its numbers. is_guess: whether nobody knows that its bytes are text, as `leaf` says.
    """

    info: FeatureInfo
    leaf: pa.DataType
    levels: tuple[Level, ...] = ()
    lengths: tuple[str, ...] = ()
    names: tuple[str, ...] | None = None
    first: int = 0
    is_guess: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return self.info.name

    @property
    def keys(self) -> tuple[str, ...]:
        """The features that it needs."""
        return (self.info.key, *self.lengths)

    @property
    def type(self) -> pa.DataType:
        """Its Arrow type."""
        return list_type(self.levels, self.leaf)

    def array(self, part: Part) -> pa.Array:
        """Its values of a run of records. Raises DatasetError naming the record that does not fit,
        NotText where text was guessed.

        part: holds the features of `keys`.
        """
        values = _named(part, self.info)
        if self.info.kind == NO_KIND:
            return pa.nulls(part.batch.num_rows, self.type)
        try:
            if not self.levels:
                return self._leaves(values)
            lengths = [part.batch.column(key) for key in self.lengths]
            return nest(self._leaves(values.flatten()), values, self.levels, lengths)
        except Misfit as error:
            if self.is_guess:
                raise NotText(self.info.key) from None
            row = self._row(values, error.position)
            raise self._error(part, row, error.text) from None
        except BrokenRow as error:
            raise self._error(part, error.row, error.text) from None

    def _leaves(self, values: pa.Array) -> pa.Array:
        return restore(values, self.leaf) if self.names is None else self._words(values)

    def _words(self, numbers: pa.Array) -> pa.Array:
        """The names of labels; numbers that have none, as defaults may, are null."""
        names = self.names or ()
        places = to_numpy(numbers) - self.first
        known = is_valid(numbers) & (places >= 0) & (places < len(names))
        chosen = from_numpy(np.where(known, places, 0))
        words = from_values((*names, ""), pa.string()).take(chosen)
        return words if known.all() else nulled(words, ~known)

    def _row(self, values: pa.Array, position: int) -> int:
        if not self.levels:
            return position
        return int(np.searchsorted(row_offsets(values), position, side="right")) - 1

    def _error(self, part: Part, row: int, text: str) -> DatasetError:
        record = part.number(row)
        place = f"{part.target.path}, record {record}, feature {key_text(self.info.key)}"
        return DatasetError(f"{place}: {text}. {_REMEDY}")


def _named(part: Part, info: FeatureInfo) -> pa.Array:
    return part.batch.column(info.name)


def plan_columns(
    features: Sequence[FeatureInfo],
    facts: Mapping[str, FeatureFacts],
    schema: Mapping[str, Feature],
    binary: frozenset[str],
    label_names: bool,
) -> tuple[Column, ...]:
    """The columns of `features`, in their order. Row lengths become part of the lists they tell of.

    facts, schema: what the manifest and the schema beside it say, if there are any. binary: keys of
    features whose bytes are not all UTF-8. label_names: whether names stand for labels.
    """
    inner = {key for one in facts.values() for key in one.row_lengths}
    known = {feature.key: feature for feature in features}
    return tuple(
        _column(
            info, facts.get(info.key), schema.get(info.key), info.key not in binary, label_names
        )
        for info in features
        if info.key not in inner or not _owner(info.key, facts, known)
    )


def _owner(key: str, facts: Mapping[str, FeatureFacts], known: Mapping[str, FeatureInfo]) -> bool:
    """Whether a feature is chosen whose row lengths these are."""
    return any(key in one.row_lengths and one.key in known for one in facts.values())


def _column(
    info: FeatureInfo,
    facts: FeatureFacts | None,
    feature: Feature | None,
    is_utf8: bool,
    label_names: bool,
) -> Column:
    if info.kind == NO_KIND:
        return Column(info, pa.null())
    labels = info.labels if label_names else None
    given = None if labels else _arrow_type(feature)
    levels, lengths = _levels(info, facts, given), facts.row_lengths if facts else ()
    if labels is not None:
        return Column(info, pa.string(), levels, lengths, labels, info.first_label)
    leaf = leaf_type(info.kind, None if given is None else leaf_of(given), is_utf8)
    if feature is not None and not _takes_defaults(info.kind, feature, leaf):
        leaf = KINDS[info.kind]
    return Column(info, leaf, levels, lengths)


def _arrow_type(feature: Feature | None) -> pa.DataType | None:
    """The type that the feature's column had, as far as the schema knows it."""
    if feature is None or feature.arrow is None or feature.labels is not None:
        return None
    from tfrec_cli.schema import parse_type

    try:
        return parse_type(feature.arrow)
    except ValueError:
        return None


def _levels(
    info: FeatureInfo, facts: FeatureFacts | None, given: pa.DataType | None
) -> tuple[Level, ...]:
    """The levels of lists: those of the column where they are known, else as the shape says."""
    if not info.is_list:
        return ()
    ragged = facts.ragged if facts else 0
    shape = info.shape or ()
    found = levels_of(given) if given is not None else ()
    if found and len(found) == max(ragged, len(shape)):
        return tuple(
            Level(level.size or (shape[at] if shape else None), level.is_fixed, level.is_large)
            for at, level in enumerate(found)
        )
    if shape:
        return tuple(Level(size, size > 0) for size in shape)
    return (Level(),) * max(1, ragged)


def _takes_defaults(kind: str, feature: Feature, leaf: pa.DataType) -> bool:
    """Whether what stands in the place of missing values has the type, too."""
    rules = (feature.missing, feature.unknown, feature.null_item)
    for rule in rules:
        if rule is None or rule.action != "default" or rule.default is None:
            continue
        values = rule.default if isinstance(rule.default, tuple) else (rule.default,)
        written = [v.encode() if isinstance(v, str) else v for v in values]
        if not takes(kind, written, leaf):
            return False
    return True
