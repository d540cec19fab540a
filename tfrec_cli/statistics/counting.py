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


@dataclass(frozen=True, slots=True)
class Counts:
    """What a batch has. places, counts: how often it has values that were known, by their places.
    fresh: how often it has others.
    """

    places: npt.NDArray[Any]
    counts: npt.NDArray[np.int64]
    fresh: tuple[tuple[Any, int], ...] = ()


class ValueCounts:
    """All values so far, in the order in which they first occur, up to MOST_CLASSES and those of
    one batch. kind: the Arrow type of the values, int64 or binary.

    values: those known, which grow but never change: batches may be counted in other threads.
    counts: how often each occurs.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.values: pa.Array = from_values([], kind)
        self.counts = np.zeros(0, np.int64)
        self._places: dict[Any, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, batch: Counts) -> None:
        """Take in what a further batch has."""
        self.counts[batch.places] += batch.counts
        if not batch.fresh:
            return
        places = [self._places.setdefault(v, len(self._places)) for v, _ in batch.fresh]
        if more := len(self._places) - len(self.counts):
            self.counts = np.concatenate((self.counts, np.zeros(more, np.int64)))
            self.values = from_values(list(self._places), self.values.type)
        self.counts[places] += np.array([count for _, count in batch.fresh], np.int64)

    def entries(self) -> Iterable[tuple[Any, int]]:
        """Each value and how often it occurs."""
        return zip(self._places, self.counts.tolist(), strict=True)


def count_values(items: pa.Array, known: pa.Array) -> Counts | None:
    """How often each value occurs; None where there are too many different ones."""
    found = pc.value_counts(items)
    if len(found) > MOST_CLASSES:
        return None
    return _placed(found.field(0), to_numpy(found.field(1)), known)


def count_near(low: int, counts: npt.NDArray[np.int64], known: pa.Array) -> Counts | None:
    """`count_values` of integers. counts: how often `low` and each integer after it occurs."""
    (there,) = counts.nonzero()
    if len(there) > MOST_CLASSES:
        return None
    return _placed(from_numpy(there + low), counts[there], known)


def _placed(values: pa.Array, counts: npt.NDArray[np.int64], known: pa.Array) -> Counts:
    if not len(known):
        fresh = zip(values.to_pylist(), counts.tolist(), strict=True)
        return Counts(np.zeros(0, np.int64), np.zeros(0, np.int64), tuple(fresh))
    found = pc.index_in(values, known)
    places = to_numpy(found)
    if not found.null_count:
        return Counts(places, counts)
    old = is_valid(found)
    others = values.filter(from_numpy(~old)).to_pylist()
    return Counts(places[old], counts[old], tuple(zip(others, counts[~old].tolist(), strict=True)))
