"""How often each value of a feature occurs, while there are few different ones.

Values are counted in Arrow, batch by batch, against those that are known already: of a batch come
numbers alone, and the values that it has first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_numpy, from_values, is_valid, to_numpy

MOST_CLASSES = 1000
"""Different values that are counted one by one; of more, those of a sample are."""
MOST_FLOATS = 100
"""The same for floats, which are mostly measured and seldom classes."""

_FIRST = 1000
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a batch has. places, counts: how often it has values that were known, by their places.
    fresh: how often it has others.
    """

    places: npt.NDArray[Any]
    counts: npt.NDArray[np.int64]
    fresh: tuple[tuple[Any, int], ...] = ()


class ValueCounts:
    """All values so far, in the order in which they first occur, up to `most_of` their kind. kind:
    the Arrow type of the values: int64, float32 or binary.

    values: those known, which grow but never change: batches may be counted in other threads.
    counts: how often each occurs.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.values: pa.Array = from_values([], kind)
        self.counts = np.zeros(0, np.int64)
        self._places: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, batch: Counts) -> bool:
        """Take in what a further batch has; nothing of it, and False, where there would be more
        than are counted.

        That is a matter of the batches and their order alone, not of what was known when this one
        was counted.
        """
        new = sum(value not in self._places for value, _ in batch.fresh)
        if len(self) + new > most_of(self.values.type):
            return False
        self.counts[batch.places] += batch.counts
        if not batch.fresh:
            return True
        places = [self._places.setdefault(v, len(self._places)) for v, _ in batch.fresh]
        if more := len(self._places) - len(self.counts):
            self.counts = np.concatenate((self.counts, np.zeros(more, np.int64)))
            self.values = from_values(list(self._places), self.values.type)
        self.counts[places] += np.array([count for _, count in batch.fresh], np.int64)
        return True

    def entries(self) -> Iterable[tuple[Any, int]]:
        """Each value and how often it occurs."""
        return zip(self._places, self.counts.tolist(), strict=True)


def most_of(kind: pa.DataType) -> int:
    """How many different values of an Arrow type are counted one by one."""
    return MOST_FLOATS if kind == pa.float32() else MOST_CLASSES


def runs(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The different numbers in order, and how often each occurs; each nan is one of its own.

    As `np.unique`, which imports masked arrays to look whether it was given one.
    """
    ordered = np.sort(values)
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))[: len(ordered)]
    return ordered[starts], np.diff(starts, append=len(ordered))


def count_values(items: pa.Array, known: pa.Array) -> Counts | None:
    """How often each value occurs; None where there are too many different ones.

    known: values that were known when the batch came, not always all of those before it. More than
    `most_of` others are too many whatever else is known by the time they are added.
    """
    places, counts = _NONE, _NONE
    if len(known):
        # To look them up takes less time than to count them.
        found = pc.index_in(items, known)
        old = is_valid(found) if found.null_count else slice(None)
        counts = np.bincount(to_numpy(found)[old])
        (places,) = counts.nonzero()
        counts = counts[places]
        if not found.null_count:
            return Counts(places, counts)
        items = items.filter(from_numpy(~is_valid(found)))
    others = pc.value_counts(items)
    if len(others) > most_of(items.type):
        return None
    fresh = zip(others.field(0).to_pylist(), others.field(1).to_pylist(), strict=True)
    return Counts(places, counts, tuple(fresh))


def count_floats(values: npt.NDArray[Any], known: pa.Array) -> Counts | None:
    """`count_values` of floats, of those that are finite."""
    # Most features of floats have so many that the first few tell.
    first = values[:_FIRST]
    if len(runs(first[np.isfinite(first)])[0]) > MOST_FLOATS:
        return None
    if len(values) and not np.isfinite(values.sum(dtype=np.float64)):
        values = values[np.isfinite(values)]
    # What is -0.0 becomes 0.0, as the two are equal.
    return count_values(from_numpy(values + np.float32(0)), known)


def count_near(low: int, counts: npt.NDArray[np.int64], known: pa.Array) -> Counts | None:
    """`count_values` of integers. counts: how often `low` and each integer after it occurs."""
    (there,) = counts.nonzero()
    if len(there) > MOST_CLASSES:
        return None
    return _placed(from_numpy(there + low), counts[there], known)


def _placed(values: pa.Array, counts: npt.NDArray[np.int64], known: pa.Array) -> Counts:
    if not len(known):
        return Counts(_NONE, _NONE, tuple(zip(values.to_pylist(), counts.tolist(), strict=True)))
    found = pc.index_in(values, known)
    places = to_numpy(found)
    if not found.null_count:
        return Counts(places, counts)
    old = is_valid(found)
    others = values.filter(from_numpy(~old)).to_pylist()
    return Counts(places[old], counts[old], tuple(zip(others, counts[~old].tolist(), strict=True)))
