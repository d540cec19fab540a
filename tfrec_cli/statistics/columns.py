"""One feature in one split: what a batch says of it, and all batches together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_values, scalar, to_numpy
from tfrec_cli.reading.features import NO_KIND, FeatureInfo
from tfrec_cli.statistics.moments import Moments, moments
from tfrec_cli.statistics.sampling import bytes_sample, number_sample

MOST_CLASSES = 1000
"""Different values that are counted one by one; of more, those of a sample are."""

LONG = 64
"""Bytes beyond which a value is no word that would be counted."""

_FORMATS = 3
_NEAR = 4096
_WORDS_SAMPLED = 1 << 12
_Words = dict[Any, int]
_Top = list[tuple[Any, float]]


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """One feature in one batch.

    rows, missing: records, and those without it. counts: values in each record that has it, of a
    list. numbers: of the values, or for bytes of their lengths. values: numbers, or bytes that
    are not LONG. classes: how often each of these occurs, None where nobody wants to know, there
    are too many, or most are LONG. first: the first value, where some are LONG.
    """

    rows: int
    missing: int
    counts: Moments | None
    numbers: Moments
    values: Any
    classes: _Words | None
    first: bytes = b""


def summarise(feature: FeatureInfo, column: pa.Array, counted: bool) -> BatchSummary:
    """What a batch says of a feature. counted: whether its values are still to be counted."""
    rows, missing = len(column), column.null_count
    if feature.kind == NO_KIND:
        return BatchSummary(rows, rows, None, Moments(), np.zeros(0), None)
    counts, items = None, column
    if feature.is_list:
        counts, items = _lengths(column), column.flatten()
    elif missing:
        items = column.drop_null()
    if feature.kind != "bytes":
        values = to_numpy(items)
        own, is_counted = moments(values), counted and feature.kind == "int64"
        classes = _integers(items, values, own) if is_counted else None
        return BatchSummary(rows, missing, counts, own, values, classes)
    return _bytes_summary((rows, missing), counts, items, counted)


def _lengths(column: pa.Array) -> Moments:
    """How many values each list has that is there."""
    lengths = pc.list_value_length(column)
    return moments(to_numpy(lengths.drop_null() if lengths.null_count else lengths))


def _bytes_summary(
    records: tuple[int, int], counts: Moments | None, items: pa.Array, counted: bool
) -> BatchSummary:
    lengths = moments(to_numpy(pc.binary_length(items)))
    first = items[0].as_py() if len(items) and lengths.high > LONG else b""
    short, classes = items, None
    if lengths.count and lengths.high > LONG:
        short = items.filter(pc.less_equal(pc.binary_length(items), scalar(LONG, pa.int32())))
    if counted and len(short) * 2 >= len(items):
        classes = _classes(short)
    return BatchSummary(*records, counts, lengths, short, classes, first)


def _integers(items: pa.Array, values: npt.NDArray[np.int64], own: Moments) -> _Words | None:
    """`_classes` of integers: where they are near each other, without looking for each."""
    if not own.count or own.high - own.low > _NEAR:
        return _classes(items)
    counts = np.bincount(values - own.low)
    (there,) = counts.nonzero()
    if len(there) > MOST_CLASSES:
        return None
    return dict(zip((there + own.low).tolist(), counts[there].tolist(), strict=True))


def _classes(items: pa.Array) -> _Words | None:
    """How often each value occurs; None where there are too many different ones."""
    found = pc.value_counts(items)
    if len(found) > MOST_CLASSES:
        return None
    return dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))


class FeatureStatistics:
    """One feature in one split, batch after batch.

    records, missing, counts, numbers: as in BatchSummary. classes: how often each value occurs;
    None where there are more than MOST_CLASSES, or floats, or most are LONG: then a sample is kept.
    firsts: some of the values that are LONG.
    """

    def __init__(self, feature: FeatureInfo, sample: int) -> None:
        self.feature = feature
        self.records = self.missing = 0
        self.counts = Moments() if feature.is_list else None
        self.numbers = Moments()
        self.classes: _Words | None = None if feature.kind in ("float", NO_KIND) else {}
        self.firsts: list[bytes] = []
        self.sample: Any = number_sample(sample)
        if feature.kind == "bytes":
            self.sample = bytes_sample(min(sample, _WORDS_SAMPLED))

    def add(self, batch: BatchSummary) -> None:
        """Take in a further batch."""
        self.records += batch.rows
        self.missing += batch.missing
        self.numbers.add(batch.numbers)
        if self.counts is not None and batch.counts is not None:
            self.counts.add(batch.counts)
        if batch.first and len(self.firsts) < _FORMATS:
            self.firsts.append(batch.first)
        if self.classes is not None and batch.classes is not None:
            for value, count in batch.classes.items():
                self.classes[value] = self.classes.get(value, 0) + count
            if len(self.classes) > MOST_CLASSES:
                self._stop_counting(self.classes)
            return
        if self.classes is not None:
            self._stop_counting(self.classes)
        if len(batch.values):
            self.sample.add(batch.values, len(batch.values))

    def _stop_counting(self, classes: _Words) -> None:
        """There are too many different values: go on with a sample."""
        self.classes = None
        counts = np.array(list(classes.values()), np.int64)
        if not len(counts):
            return
        if self.feature.kind == "bytes":
            self.sample.begin(from_values(list(classes), pa.binary()), counts)
        else:
            self.sample.begin(np.array(list(classes), np.int64), counts)

    def top(self, most: int) -> _Top:
        """The most frequent values and their counts, estimated where not all were counted."""
        if self.feature.kind in ("float", NO_KIND):
            return []
        if self.classes is not None:
            return _most_frequent(self.classes, most)
        sampled = self.sample.values
        held = len(sampled)
        if not held:
            return []
        if isinstance(sampled, np.ndarray):
            names, counts = np.unique(sampled, return_counts=True)
            words = dict(zip(names.tolist(), counts.tolist(), strict=True))
        else:
            words = _all_classes(sampled)
        # What occurs once in a sample may be anything.
        often = {value: count for value, count in words.items() if count > 1}
        scale = self.sample.seen / held
        return [(value, count * scale) for value, count in _most_frequent(often, most)]

    def weighted(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Finite numbers in order, and how often each is there: all of them where they were
        counted, else the sample; none for bytes.
        """
        if self.feature.kind not in ("int64", "float"):
            return np.zeros(0), np.zeros(0, np.int64)
        if self.classes is not None:
            values = np.array(sorted(self.classes), np.int64)
            return values, np.array([self.classes[v] for v in values.tolist()], np.int64)
        values = self.sample.values
        values = np.sort(values[np.isfinite(values)])
        return values, np.ones(len(values), np.int64)


def _all_classes(items: pa.Array) -> _Words:
    found = pc.value_counts(items)
    return dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))


def _most_frequent(words: _Words, most: int) -> _Top:
    found = sorted(words.items(), key=lambda entry: (-entry[1], entry[0]))
    return [(value, float(count)) for value, count in found[:most]]
