"""Segments: each split's range of keys, cut so that one part of it fits in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_numpy, to_numpy

Ends = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Segments:
    """How keys are cut into segments, numbered through, split by split.

    counts: the segments of each split. sample: where keys are binary (a sort), some of them in
    order, the same distance apart; without it keys are uint64, spread evenly.
    """

    counts: tuple[int, ...]
    sample: tuple[bytes, ...] | None = None

    @property
    def total(self) -> int:
        """All segments of all splits."""
        return sum(self.counts)

    def of(self, split: int) -> range:
        """The segments of a split, in order."""
        first = sum(self.counts[:split])
        return range(first, first + self.counts[split])

    def ends(self, rows: Sequence[int], keys: pa.Array) -> Ends:
        """Where each segment ends among records sorted by split, then key.

        rows: how many of them each split has. keys: of all of them, in that order.
        """
        found, begin = [], 0
        for split, count in enumerate(rows):
            end = begin + count
            found.append(self._ends(split, keys, begin, end))
            found.append(np.array([end], np.int64))
            begin = end
        return np.concatenate(found)

    def _ends(self, split: int, keys: pa.Array, begin: int, end: int) -> Ends:
        """Of all segments of the split but the last."""
        parts = self.counts[split]
        if self.sample is None:
            bounds = np.array([-(-part * 2**64 // parts) for part in range(1, parts)], np.uint64)
            held = to_numpy(keys)[begin:end]
            return np.asarray(begin + np.searchsorted(held, bounds), np.int64)
        steps = [part * len(self.sample) // parts for part in range(1, parts)]
        values = Values(keys)
        ends = [bisect_left(values, self.sample[step], begin, end) for step in steps]
        return np.array(ends, np.int64)


class Values(Sequence[Any]):
    """Keys as a sequence of Python values, for bisection."""

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, row: int) -> Any:  # type: ignore[override]
        return self._keys[row].as_py()


def sorted_rows(keys: pa.Array, splits: npt.NDArray[np.uint8] | None = None) -> Ends:
    """The order of rows by split, then key; equal ones stay in the order they have.

    keys: uint64 or large_binary. splits: None where all rows have the same.
    """
    if keys.type == pa.uint64():
        values = to_numpy(keys)
        order = (
            np.argsort(values, kind="stable") if splits is None else np.lexsort((values, splits))
        )
        return np.asarray(order, np.int64)
    columns = {"key": keys} if splits is None else {"split": from_numpy(splits), "key": keys}
    table = pa.table(columns)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in columns])
    return np.asarray(to_numpy(order), np.int64)
