"""What differs between two splits by more than chance.

Numbers and lengths are compared by the largest distance of their distribution functions
(Kolmogorov, Smirnov); frequent values, and what is missing, empty or no finite number, by the
difference of their shares. A difference is told where chance would make it once in ten thousand
data sets of as many features, and where it is at least LEAST_DISTANCE or LEAST_SHARE.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfrec_cli.reading.values import float32
from tfrec_cli.statistics.columns import FeatureStatistics

CHANCE = 1e-4
LEAST_DISTANCE = 0.05
LEAST_SHARE = 0.02
FEW = 20


@dataclass(frozen=True, slots=True)
class Drift:
    """A feature that differs. split: from `base`. kind: `distribution` of numbers, `value` (a
    frequent one), `missing`, `nan`, `infinite`, `empty` (bytes), `length` (of bytes) or
    `list length`. distance: of the distributions, or of the shares. text: one sentence.
    """

    feature: str
    split: str
    base: str
    kind: str
    distance: float
    text: str


def find_drift(
    base: tuple[str, Sequence[FeatureStatistics]], other: tuple[str, Sequence[FeatureStatistics]]
) -> list[Drift]:
    """What differs in a split from another, feature by feature in one order, largest first."""
    found: list[Drift] = []
    names = (base[0], other[0])
    tests = max(1, len(base[1]))
    for old, new in zip(base[1], other[1], strict=True):
        found += _differences(old, new, names, CHANCE / tests)
    return sorted(found, key=lambda drift: -drift.distance)


def _differences(
    old: FeatureStatistics, new: FeatureStatistics, names: tuple[str, str], chance: float
) -> Iterator[Drift]:
    yield from _shares(old, new, names, chance)
    if old.feature.is_list:
        yield from _lengths((old, new), names, chance, "list length")
    if old.feature.kind == "bytes":
        told = list(_values(old, new, names, chance))
        yield from told
        # Where all values are known, their lengths say nothing more.
        if not told or old.classes is None or new.classes is None:
            yield from _lengths((old, new), names, chance, "length")
    elif old.feature.labels is not None or _are_few(old, new):
        yield from _values(old, new, names, chance)
    else:
        yield from _distributions(old, new, names, chance)


def _shares(
    old: FeatureStatistics, new: FeatureStatistics, names: tuple[str, str], chance: float
) -> Iterator[Drift]:
    """Shares of what is no value."""
    shares = zip(_voids(old), _voids(new), strict=True)
    for (kind, words, *mine), (_, _, *yours) in shares:
        if _differs((mine[0], mine[1]), (yours[0], yours[1]), chance):
            a, b = mine[0] / mine[1], yours[0] / yours[1]
            text = f"{words} in {b:.1%} of {names[1]}, in {a:.1%} of {names[0]}"
            yield Drift(old.feature.key, names[1], names[0], kind, abs(a - b), text)


def _voids(found: FeatureStatistics) -> Iterator[tuple[str, str, int, int]]:
    """The kind, words for it, how many there are, of how many."""
    own = found.numbers
    yield "missing", "missing", found.missing, found.records
    if found.feature.kind == "bytes":
        yield "empty", "without any bytes", own.zeros, own.count
    else:
        total = own.count + own.nan + own.infinite
        yield "nan", "NaN", own.nan, total
        yield "infinite", "infinite", own.infinite, total


def _lengths(
    pair: tuple[FeatureStatistics, FeatureStatistics],
    names: tuple[str, str],
    chance: float,
    kind: str,
) -> Iterator[Drift]:
    is_list = kind == "list length"
    spreads = [one.list_sizes if is_list else one.sizes for one in pair]
    bins = [np.arange(len(one)) for one in spreads]
    distance, limit = _distance((bins[0], spreads[0]), (bins[1], spreads[1]), chance)
    if distance > max(limit, LEAST_DISTANCE):
        sizes = [one.counts if is_list else one.numbers for one in pair]
        of = "values a record" if is_list else "bytes"
        base, split = (f"{one.mean:.4g}" if one else "" for one in sizes)
        text = (
            f"other lengths in {names[1]} (on average {split} {of}) than in {names[0]} "
            f"({base}); the distributions are {distance:.0%} apart"
        )
        yield Drift(pair[0].feature.key, names[1], names[0], kind, distance, text)


def _distributions(
    old: FeatureStatistics, new: FeatureStatistics, names: tuple[str, str], chance: float
) -> Iterator[Drift]:
    base, split = names
    distance, limit = _distance(old.weighted(), new.weighted(), chance)
    if distance > max(limit, LEAST_DISTANCE):
        middle = [_median(one) for one in (new, old)]
        text = (
            f"other numbers in {split} (median {middle[0]:.4g}) than in {base} "
            f"({middle[1]:.4g}); the distributions are {distance:.0%} apart"
        )
        yield Drift(old.feature.key, split, base, "distribution", distance, text)


def _are_few(old: FeatureStatistics, new: FeatureStatistics) -> bool:
    """Whether numbers are so few different ones that each of them means something."""
    return all(one.classes is not None and len(one.classes) <= FEW for one in (old, new))


def _values(
    old: FeatureStatistics, new: FeatureStatistics, names: tuple[str, str], chance: float
) -> Iterator[Drift]:
    """The value whose share differs most. That of empty bytes is told by `_shares`."""
    (mine, n), (yours, m) = _counted(old), _counted(new)
    values = [value for value in dict.fromkeys([*mine, *yours]) if value != b""]
    if not values or not n or not m:
        return
    counts = [((mine.get(v, 0), n), (yours.get(v, 0), m), v) for v in values]
    worst = max(counts, key=lambda c: abs(c[0][0] / n - c[1][0] / m))
    if _differs(worst[0], worst[1], chance / len(counts)):
        a, b = (part / whole for part, whole in worst[:2])
        about = ["about " if one.classes is None else "" for one in (old, new)]
        text = (
            f"{_shown(worst[2])} is {about[1]}{b:.1%} of {names[1]}, {about[0]}{a:.1%} of "
            f"{names[0]}"
        )
        yield Drift(old.feature.key, names[1], names[0], "value", abs(a - b), text)


def _counted(found: FeatureStatistics) -> tuple[dict[Any, int], int]:
    """How often each value occurs, and among how many: in all records, or in the sample."""
    if found.classes is not None:
        return found.classes, found.numbers.count
    words, held = found.sampled()
    if not held:
        # Nearly all are too long to be counted.
        return {}, found.numbers.count
    return words, max(held, round(held * found.numbers.count / found.sample.seen))


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        from tfrec_cli.errors import shorten

        return f'"{shorten(value.decode("utf-8", "backslashreplace"), 40)}"'
    return str(float32(value)) if isinstance(value, float) else str(value)


def _differs(mine: tuple[int, int], yours: tuple[int, int], chance: float) -> bool:
    """Whether two shares differ by more than chance (two proportions, normal approximation)."""
    (a, n), (b, m) = mine, yours
    if not n or not m or abs(a / n - b / m) < LEAST_SHARE:
        return False
    pooled = (a + b) / (n + m)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    # The tail of the normal distribution is below exp(-z^2 / 2).
    return abs(a / n - b / m) > spread * math.sqrt(-2 * math.log(chance / 2))


def _distance(old: tuple[Any, Any], new: tuple[Any, Any], chance: float) -> tuple[float, float]:
    """The largest distance of two distribution functions, and what chance may make it. Each is
    numbers in order, and how often each occurs.
    """
    (mine, a), (yours, b) = old, new
    if not a.sum() or not b.sum():
        return 0.0, 1.0
    points = np.sort(np.concatenate((mine, yours)))
    apart = np.abs(_below(mine, a, points) - _below(yours, b, points)).max()
    limit = math.sqrt(-math.log(chance / 2) / 2 * (1 / a.sum() + 1 / b.sum()))
    return float(apart), limit


def _below(values: Any, weights: Any, points: Any) -> Any:
    """The share of the values that is not above each of `points`."""
    ends = np.concatenate(([0], np.cumsum(weights)))
    return ends[np.searchsorted(values, points, side="right")] / ends[-1]


def _median(found: FeatureStatistics) -> float:
    values, weights = found.weighted()
    ends = np.cumsum(weights)
    return float(values[np.searchsorted(ends, ends[-1] / 2)])
