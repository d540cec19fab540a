"""Some rows of one place, which stand for those around them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tfrec_cli._kernel.model import FeatureColumn


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of one place: as features, and as framed records back to back.

    ends: where each record ends in `data`.
    """

    columns: tuple[FeatureColumn, ...]
    data: bytes
    ends: npt.NDArray[np.int64]

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
        return Part(columns, self.data[: int(self.ends[count - 1])], self.ends[:count])
