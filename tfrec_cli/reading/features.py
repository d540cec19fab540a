"""The features of a dataset as a reader needs to know them, from its manifest or its records."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import pyarrow as pa

from tfrec_cli._kernel import Wanted
from tfrec_cli.dataset.manifest import FeatureFacts, Manifest
from tfrec_cli.decoding import KINDS
from tfrec_cli.errors import (
    DatasetError,
    UsageError,
    did_you_mean,
    key_text,
    listed,
    shorten,
    spelled,
)
from tfrec_cli.reading.survey import DatasetSurvey, FeatureTally

NO_KIND = KINDS[0]
_ARROW = {"int64": pa.int64(), "float": pa.float32(), "bytes": pa.binary(), NO_KIND: pa.null()}


@dataclass(frozen=True, slots=True)
class FeatureInfo:
    """One feature of the records of a dataset.

    key: bytes that are not UTF-8 are surrogates. kind: `int64`, `float` or `bytes`; `no kind`
    where no record has a value. shape: `()` for one value, None for any number of them. fewest,
    most: how many values a record has where it has the feature; most is None where nobody knows.
    optional: whether a record may lack it. labels: what the numbers mean, from `first_label` on.
    """

    key: str
    kind: str
    shape: tuple[int, ...] | None = ()
    fewest: int = 1
    most: int | None = 1
    optional: bool = False
    labels: tuple[str, ...] | None = None
    first_label: int = 0

    @property
    def is_list(self) -> bool:
        """Whether a record may have other than one value."""
        return self.shape != ()

    @property
    def arrow(self) -> pa.DataType:
        """The type of its column: int64, float32 or binary, or a list of these."""
        kind = _ARROW[self.kind]
        return pa.list_(kind) if self.is_list and self.kind != NO_KIND else kind

    @property
    def field(self) -> pa.Field:
        """Its column."""
        return pa.field(self.name, self.arrow)

    @property
    def name(self) -> str:
        """What people call it: its key, in which bytes that are not UTF-8 are escaped."""
        return spelled(self.key)

    @property
    def raw_key(self) -> bytes:
        """The key as it stands in the records."""
        return self.key.encode("utf-8", "surrogateescape")

    @property
    def wanted(self) -> Wanted | None:
        """What the kernel is to decode; None where there is nothing."""
        return None if self.kind == NO_KIND else Wanted(self.raw_key, self.kind, self.is_list)

    def layout(self) -> str:
        """`[8, 8]`, `[2…5]`, `[…]`; nothing for one value."""
        if self.shape == ():
            return ""
        if self.shape is not None:
            return str(list(self.shape))
        if self.most is None:
            return "[…]"
        return f"[{self.fewest}…{self.most}]" if self.fewest != self.most else f"[{self.most}]"


FeatureForm = tuple[str, tuple[int, ...] | None, bool]
"""Of a feature its kind, shape and whether a record may lack it, as FeatureInfo has them."""


def features_as_told(told: Mapping[str, FeatureForm]) -> list[FeatureInfo]:
    """The features that somebody says the records have. Raises UsageError for what is no feature
    form.
    """
    return [_as_told(key, form) for key, form in told.items()]


def _as_told(key: str, form: FeatureForm) -> FeatureInfo:
    try:
        kind, shape, optional = form
        shape = None if shape is None else tuple(operator.index(size) for size in shape)
    except (TypeError, ValueError):
        kind, shape, optional = "", None, False
    if kind not in _ARROW or kind == NO_KIND or not isinstance(key, str):
        raise UsageError(
            f"features: {shorten(f'{key!r}: {form!r}')} is no feature. Give a key, and for it "
            "(type, shape, may be missing) as in ('int64', (), False); types are int64, float and "
            "bytes, and the shape of a list of any length is None."
        )
    count = None if shape is None else _product(shape)
    return FeatureInfo(key, kind, shape, count or 0, count, bool(optional))


def features_of_manifest(manifest: Manifest) -> list[FeatureInfo]:
    """The features that a manifest says the records have."""
    found = []
    for facts in manifest.features:
        found.append(_of_facts(facts))
        found += [
            FeatureInfo(key, "int64", None, 0, None, facts.missing == "omit")
            for key in facts.row_lengths
        ]
    return found


def _of_facts(facts: FeatureFacts) -> FeatureInfo:
    shape = None if facts.ragged else facts.shape or ()
    count = None if shape is None else _product(shape)
    return FeatureInfo(
        facts.key,
        facts.type,
        shape,
        count or 0,
        count,
        facts.missing == "omit",
        facts.labels,
        facts.first_label,
    )


def facts_of(info: FeatureInfo) -> FeatureFacts:
    """A feature as a manifest would have it; one without any value is taken for bytes."""
    return FeatureFacts(
        info.key,
        "bytes" if info.kind == NO_KIND else cast("Literal['int64', 'float', 'bytes']", info.kind),
        info.shape or None,
        int(info.shape is None),
        missing="omit" if info.optional else "error",
        labels=info.labels,
        first_label=info.first_label,
    )


def features_of_records(survey: DatasetSurvey) -> list[FeatureInfo]:
    """The features that the records have, by a look at all of them; sorted by key.

    Where records differ in kind the most frequent one is given.
    """
    return [_of_tally(tally, survey.examples) for tally in survey.features]


def _of_tally(tally: FeatureTally, examples: int) -> FeatureInfo:
    key = tally.key.decode("utf-8", "surrogateescape")
    fewest, most = max(tally.fewest, 0), max(tally.most, 0)
    shape = (most,) if fewest == most and most > 1 else () if fewest == most == 1 else None
    optional = tally.present - tally.kind_records[0] < examples
    return FeatureInfo(key, tally.kind, shape, fewest, most, optional)


def choose(features: Sequence[FeatureInfo], columns: Iterable[str] | None) -> list[FeatureInfo]:
    """Those of `columns`, keys or names, in their order; all where none are named. Raises
    UsageError.
    """
    if columns is None:
        return list(features)
    named = {feature.name: feature for feature in features}
    known = named | {feature.key: feature for feature in features}
    chosen: dict[str, FeatureInfo] = {}
    for key in columns:
        if key not in known:
            there = listed([key_text(name) for name in named], 8)
            hint = did_you_mean(key, named) or f" There are {there}."
            raise UsageError(f'no feature is called "{spelled(key)}".{hint}')
        chosen[known[key].key] = known[key]
    return list(chosen.values())


def refuse_equal_names(path: str, features: Iterable[FeatureInfo]) -> None:
    """Raise DatasetError where two features have the same name."""
    found: dict[str, FeatureInfo] = {}
    for feature in features:
        other = found.setdefault(feature.name, feature)
        if other is not feature:
            raise DatasetError(
                f"{shorten(path, 1000)}: the keys {other.raw_key!r} and {feature.raw_key!r} are "
                f"both written {key_text(feature.key)}, so that no table can have both. "
                "`records()` of the library's `open_dataset` gives the records' bytes."
            )


def _product(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


__all__ = [
    "NO_KIND",
    "FeatureForm",
    "FeatureInfo",
    "choose",
    "facts_of",
    "features_as_told",
    "features_of_manifest",
    "features_of_records",
    "refuse_equal_names",
]
