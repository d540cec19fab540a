"""Some rows of one place, which stand for those around them, and the order of many of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from random import Random

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli._kernel.model import FeatureColumn
from tfrec_cli.buffers import to_numpy


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of one place: as features, and as framed records back to back.

    ends: where each record ends in `data`. keys: what the records are sorted by, where they are.
    """

    columns: tuple[FeatureColumn, ...]
    data: bytes
    ends: npt.NDArray[np.int64]
    keys: pa.Array | None = None

    @property
    def records(self) -> list[memoryview]:
        """The framed records one by one."""
        view, ends = memoryview(self.data), self.ends.tolist()
        return [view[start:end] for start, end in pairwise((0, *ends))]

    def within(self, size: int) -> Part:
        """The first records, until there are `size` bytes: no more than one beyond that."""
        count = int(np.searchsorted(self.ends, size)) + 1
        if count >= len(self.ends):
            return self
        columns = tuple(FeatureColumn(c.key, c.array.slice(0, count)) for c in self.columns)
        keys = None if self.keys is None else self.keys.slice(0, count)
        return Part(columns, self.data[: int(self.ends[count - 1])], self.ends[:count], keys)


def shuffled(parts: Sequence[Part]) -> bytes:
    """The framed records of parts in any order. They compress less well than neighbours that are
    alike.
    """
    records = _records(parts)
    Random(0).shuffle(records)
    return b"".join(records)


def in_order(parts: Sequence[Part]) -> bytes:
    """The framed records of parts in the order of their keys, else in their own."""
    keys = pa.chunked_array([part.keys for part in parts], pa.large_binary())
    records = _records(parts)
    return b"".join([records[place] for place in to_numpy(ranked(keys)).tolist()])


def ranked(keys: pa.ChunkedArray) -> pa.Array:
    """The places of keys in their order; of equal ones the first comes first."""
    return pc.array_sort_indices(keys.combine_chunks())


def _records(parts: Sequence[Part]) -> list[memoryview]:
    return list(chain.from_iterable(part.records for part in parts))
