"""A sample of values of bounded size, drawn evenly from all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

Values = TypeVar("Values")


class ValueSample(Generic[Values]):
    """Each value is kept with the same chance, which is halved whenever there are too many.

    While there are at most `most` values, all are kept. The same values in the same order give the
    same sample. join: several runs of values as one; take: those at positions.

    seen: how many there were.
    """

    def __init__(
        self,
        most: int,
        join: Callable[[list[Values]], Values],
        take: Callable[[Values, npt.NDArray[np.int64]], Values],
    ) -> None:
        self.seen = 0
        self._most, self._join, self._take = most, join, take
        self._parts: list[Values] = []
        self._held, self._rate = 0, 1.0
        self._chance = np.random.Generator(np.random.PCG64(20130901))

    @property
    def is_whole(self) -> bool:
        """Whether all values are there."""
        return self._rate == 1.0

    @property
    def values(self) -> Values:
        """The values kept."""
        return self._join(self._parts)

    def begin(self, values: Values, counts: npt.NDArray[np.int64]) -> None:
        """Draw from values each of which occurs so many times, before all others."""
        self.seen = int(counts.sum())
        while self.seen * self._rate > self._most:
            self._rate /= 2
        kept = counts if self.is_whole else self._chance.binomial(counts, self._rate)
        self._held = int(kept.sum())
        self._parts = [self._take(values, np.repeat(np.arange(len(kept)), kept))]

    def add(self, values: Values, count: int) -> None:
        """Draw from `count` further values."""
        self.seen += count
        if self._rate < 1.0:
            wanted = int(self._chance.binomial(count, self._rate))
            if not wanted:
                return
            # Each at most once: what is drawn twice would look like a value that is frequent.
            places = self._chance.choice(count, wanted, replace=False, shuffle=False)
            values = self._take(values, np.sort(places))
            count = wanted
        self._parts.append(values)
        self._held += count
        while self._held > self._most:
            kept = np.flatnonzero(self._chance.random(self._held) < 0.5)
            self._parts = [self._take(self.values, kept)]
            self._held, self._rate = len(kept), self._rate / 2


def number_sample(most: int) -> ValueSample[npt.NDArray[Any]]:
    """A sample of numbers."""
    return ValueSample(most, _joined, lambda values, places: values[places])


def _joined(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0)


def bytes_sample(most: int) -> ValueSample[Any]:
    """A sample of bytes, as an Arrow array."""
    import pyarrow as pa

    from tfrec_cli.buffers import from_numpy

    return ValueSample(
        most,
        lambda parts: pa.concat_arrays(parts) if parts else pa.array([], pa.binary()),
        lambda values, places: values.take(from_numpy(places)),
    )
