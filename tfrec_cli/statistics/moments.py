"""Counts, extremes, mean and deviation of numbers, put together from parts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(slots=True)
class Moments:
    """Of some numbers. count: the finite ones, which all else but nan, infinite is about.

    low, high: int for integers. squares: the sum of squared distances from the mean. whole: the
    sum of integers, which 64 bits may not hold; None for floats.
    """

    count: int = 0
    nan: int = 0
    infinite: int = 0
    zeros: int = 0
    low: Any = None
    high: Any = None
    mean: float = 0.0
    squares: float = 0.0
    whole: int | None = None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of all of them (not of a sample); None of none."""
        return math.sqrt(self.squares / self.count) if self.count else None

    def add(self, more: Moments) -> None:
        """Take in the moments of further numbers (Chan, Golub and LeVeque: updating formulae)."""
        self.nan += more.nan
        self.infinite += more.infinite
        self.zeros += more.zeros
        if not more.count:
            return
        total = self.count + more.count
        distance = more.mean - self.mean
        self.whole = more.whole if not self.count else _sum(self.whole, more.whole)
        if self.whole is None:
            self.mean += distance * more.count / total
        else:
            self.mean = self.whole / total
        self.squares += more.squares + distance * distance * self.count * more.count / total
        self.low = more.low if self.low is None else min(self.low, more.low)
        self.high = more.high if self.high is None else max(self.high, more.high)
        self.count = total


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def moments(values: npt.NDArray[Any]) -> Moments:
    """Of int64, int32 or float32 numbers."""
    found = Moments()
    total: Any = 0
    if values.dtype.kind == "f":
        values, total = _finite(values, found)
    if not len(values):
        return found
    found.count = len(values)
    found.zeros = found.count - int(np.count_nonzero(values))
    found.low, found.high = values.min().item(), values.max().item()
    if values.dtype.kind == "i":
        found.whole = total = _whole(values, max(found.high, -found.low))
    if found.low == found.high:
        found.mean = float(found.low)
        return found
    found.mean = total / found.count
    distances = values.astype(np.float64)
    distances -= found.mean
    # Not np.dot: it may start threads of its own, which takes longer than the sum.
    found.squares = float(np.square(distances, out=distances).sum())
    return found


def _finite(values: npt.NDArray[Any], found: Moments) -> tuple[npt.NDArray[Any], float]:
    """The finite numbers and their sum; the others are counted in `found`."""
    total = values.sum(dtype=np.float64)
    if not math.isfinite(total):
        finite = np.isfinite(values)
        found.nan = int(np.isnan(values).sum())
        found.infinite = len(values) - int(finite.sum()) - found.nan
        values = values[finite]
        total = values.sum(dtype=np.float64)
    return values, float(total)


def _whole(values: npt.NDArray[Any], largest: int) -> int:
    """The exact sum of integers, none of which is farther from zero than `largest`."""
    if largest * len(values) < 2**63:
        return int(values.sum(dtype=np.int64))
    # By halves: each of the two sums fits in 64 bits.
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


_NEAR = 4096


def tally_near(values: npt.NDArray[Any]) -> tuple[int, npt.NDArray[np.int64]] | None:
    """The least of some integers, and how often it and each integer after it occurs. None where
    they are not near each other, for floats, and of nothing.
    """
    if not len(values) or values.dtype.kind == "f":
        return None
    low, high = int(values.min()), int(values.max())
    if high - low > _NEAR:
        return None
    return low, np.bincount(values - low if low else values)


def moments_near(low: int, counts: npt.NDArray[np.int64]) -> Moments:
    """The moments of integers that `tally_near` has counted."""
    places = np.arange(len(counts))
    count, whole = int(counts.sum()), int((places * counts).sum())
    found = Moments(count, low=low, high=low + len(counts) - 1, whole=whole + count * low)
    found.zeros = int(counts[-low]) if 0 <= -low < len(counts) else 0
    middle = whole / count
    found.mean = (whole + count * low) / count
    found.squares = float((counts * np.square(places - middle)).sum())
    return found


_EXACT, _STEPS = 64, 32


def spread(lengths: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many lengths fall in each bin. counts: how often each length, 0 or more, occurs.

    Up to 63 each length has a bin; above, each power of two has 32 bins up to the next.
    """
    fraction, power = np.frexp(lengths)
    bins = _EXACT + (power - 7) * _STEPS + ((fraction * 2 - 1) * _STEPS).astype(np.int64)
    bins = np.where(lengths < _EXACT, lengths, bins)
    return np.bincount(bins, counts).astype(np.int64)


def add_spreads(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Two results of `spread` as one."""
    if len(one) < len(other):
        one, other = other, one
    found = one.copy()
    found[: len(other)] += other
    return found
