"""One feature in one split: what a batch says of it, and all batches together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import scalar, to_numpy
from tfrec_cli.reading.features import NO_KIND, FeatureInfo
from tfrec_cli.statistics.counting import (
    Counts,
    ValueCounts,
    count_floats,
    count_near,
    count_values,
    runs,
)
from tfrec_cli.statistics.moments import (
    Moments,
    add_spreads,
    moments,
    moments_near,
    spread,
    tally_near,
)
from tfrec_cli.statistics.sampling import bytes_sample, number_sample

LONG = 64
"""Bytes beyond which a value is no word that would be counted."""

_FORMATS = 3
_COUNTED = {"int64": pa.int64(), "float": pa.float32(), "bytes": pa.binary()}
_WORDS_SAMPLED = 1 << 12
_Top = list[tuple[Any, float]]
_Sizes = tuple[Moments, npt.NDArray[np.int64]]


def _no_spread() -> npt.NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """One feature in one batch.

    rows, missing: records, and those without it. counts: values in each record that has it, of a
    list. numbers: of the values, or for bytes of their lengths. values: numbers, or bytes that
    are not LONG. classes: how often each of these occurs, None where nobody wants to know, there
    are too many, or most are LONG. first: the first value, where some are LONG. list_sizes, sizes:
    the spread of the lengths of lists, and of bytes.
    """

    rows: int
    missing: int
    counts: Moments | None
    numbers: Moments
    values: Any
    classes: Counts | None
    first: bytes = b""
    list_sizes: npt.NDArray[np.int64] = field(default_factory=_no_spread)
    sizes: npt.NDArray[np.int64] = field(default_factory=_no_spread)


def summarise(feature: FeatureInfo, column: pa.Array, known: pa.Array | None) -> BatchSummary:
    """What a batch says of a feature. known: the values counted so far; None where its values are
    not to be counted any more.
    """
    rows, missing = len(column), column.null_count
    if feature.kind == NO_KIND:
        return BatchSummary(rows, rows, None, Moments(), np.zeros(0), None)
    counts, items, of_lists = None, column, _no_spread()
    if feature.is_list:
        (counts, of_lists), items = _lengths(column), column.flatten()
    elif missing:
        items = column.drop_null()
    if feature.kind != "bytes":
        values = to_numpy(items)
        own, classes = _numbers(values, items, known)
        return BatchSummary(rows, missing, counts, own, values, classes, list_sizes=of_lists)
    return replace(_bytes_summary((rows, missing), counts, items, known), list_sizes=of_lists)


def _numbers(
    values: npt.NDArray[Any], items: pa.Array, known: pa.Array | None
) -> tuple[Moments, Counts | None]:
    near = tally_near(values)
    own = moments(values) if near is None else moments_near(*near)
    if known is None:
        return own, None
    if values.dtype.kind == "f":
        return own, count_floats(values, known)
    return own, count_values(items, known) if near is None else count_near(*near, known)


def _lengths(column: pa.Array) -> _Sizes:
    """How many values each list has that is there."""
    lengths = pc.list_value_length(column)
    return _sizes(lengths.drop_null() if lengths.null_count else lengths)


def _sizes(lengths: pa.Array) -> _Sizes:
    values = to_numpy(lengths)
    if (near := tally_near(values)) is None:
        return moments(values), spread(values, np.ones(len(values), np.int64))
    low, counts = near
    return moments_near(low, counts), spread(np.arange(low, low + len(counts)), counts)


def _bytes_summary(
    records: tuple[int, int], counts: Moments | None, items: pa.Array, known: pa.Array | None
) -> BatchSummary:
    lengths, sizes = _sizes(pc.binary_length(items))
    first = items[0].as_py() if len(items) and lengths.high > LONG else b""
    short, classes = items, None
    if lengths.count and lengths.high > LONG:
        short = items.filter(pc.less_equal(pc.binary_length(items), scalar(LONG, pa.int32())))
    elif known is not None:
        classes = count_values(items, known)
    return BatchSummary(*records, counts, lengths, short, classes, first, sizes=sizes)


class FeatureStatistics:
    """One feature in one split, batch after batch.

    records, missing, counts, numbers: as in BatchSummary. counted: how often each value occurs;
    None where there are more than MOST_CLASSES (of floats MOST_FLOATS), or any is LONG: then a
    sample of those that are not is kept. firsts: some of the values that are LONG. list_sizes,
    sizes: as in BatchSummary.
    """

    def __init__(self, feature: FeatureInfo, sample: int) -> None:
        self.feature = feature
        self.records = self.missing = 0
        self.counts = Moments() if feature.is_list else None
        self.numbers = Moments()
        self.list_sizes = self.sizes = _no_spread()
        self.counted: ValueCounts | None = None
        if feature.kind in _COUNTED:
            self.counted = ValueCounts(_COUNTED[feature.kind])
        self._classes: dict[Any, int] | None = None
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
            self.list_sizes = add_spreads(self.list_sizes, batch.list_sizes)
        self.sizes = add_spreads(self.sizes, batch.sizes)
        if batch.first and len(self.firsts) < _FORMATS:
            self.firsts.append(batch.first)
        self._classes = None
        if self.counted is not None:
            if batch.classes is not None and self.counted.add(batch.classes):
                return
            self._stop_counting(self.counted)
        if len(batch.values):
            self.sample.add(batch.values, len(batch.values))

    def _stop_counting(self, counted: ValueCounts) -> None:
        """There are too many different values: go on with a sample."""
        self.counted = None
        if not len(counted):
            return
        is_bytes = self.feature.kind == "bytes"
        self.sample.begin(counted.values if is_bytes else to_numpy(counted.values), counted.counts)

    @property
    def classes(self) -> dict[Any, int] | None:
        """How often each value occurs; None where they are not all counted."""
        if self.counted is None:
            return None
        if self._classes is None:
            self._classes = dict(self.counted.entries())
        return self._classes

    def top(self, most: int) -> _Top:
        """The most frequent values and their counts, estimated where not all were counted."""
        if self.feature.kind == NO_KIND:
            return []
        if self.classes is not None:
            return _most_frequent(self.classes, most)
        words, held = self.sampled() if self.feature.kind != "float" else ({}, 0)
        if not held:
            return []
        # What occurs once in a sample may be anything.
        often = {value: count for value, count in words.items() if count > 1}
        scale = self.sample.seen / held
        return [(value, count * scale) for value, count in _most_frequent(often, most)]

    def sampled(self) -> tuple[dict[Any, int], int]:
        """How often each value is in the sample (nan is none), and how many are in it."""
        sampled = self.sample.values
        if not isinstance(sampled, np.ndarray):
            return _all_classes(sampled), len(sampled)
        names, counts = runs(sampled[~np.isnan(sampled)])
        return dict(zip(names.tolist(), counts.tolist(), strict=True)), len(sampled)

    def weighted(self) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
        """Finite numbers in order, and how often each is there: all of them where they were
        counted, else the sample; none for bytes.
        """
        if self.feature.kind not in ("int64", "float"):
            return np.zeros(0), np.zeros(0, np.int64)
        if self.counted is not None:
            values = to_numpy(self.counted.values)
            order = np.argsort(values)
            return values[order], self.counted.counts[order]
        values = self.sample.values
        values = np.sort(values[np.isfinite(values)])
        return values, np.ones(len(values), np.int64)


def _all_classes(items: pa.Array) -> dict[Any, int]:
    found = pc.value_counts(items)
    return dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))


def _most_frequent(words: dict[Any, int], most: int) -> _Top:
    found = sorted(words.items(), key=lambda entry: (-entry[1], entry[0]))
    return [(value, float(count)) for value, count in found[:most]]
