"""What differs between two splits by more than chance.

Numbers are compared by the largest distance of their distribution functions (Kolmogorov, Smirnov),
counted values and missing ones by the difference of their shares. A difference is told where chance
would make it once in ten thousand data sets of as many features, and where it is of any size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfrec_cli.statistics.columns import FeatureStatistics

CHANCE = 1e-4
LEAST_DISTANCE = 0.05
LEAST_SHARE = 0.02
FEW = 20


@dataclass(frozen=True, slots=True)
class Drift:
    """A feature that differs. split: from `base`. kind: `distribution`, `value` or `missing`.

    distance: of the distributions, or of the shares. text: one sentence.
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
    key, (base, split) = old.feature.key, names
    shares = (old.missing, old.records), (new.missing, new.records)
    if _differs(*shares, chance):
        a, b = (part / whole for part, whole in shares)
        text = f"missing in {b:.1%} of {split}, in {a:.1%} of {base}"
        yield Drift(key, split, base, "missing", abs(a - b), text)
    if old.feature.kind == "bytes" or old.feature.labels is not None or _are_few(old, new):
        yield from _values(old, new, names, chance)
        return
    distance, limit = _distance(old, new, chance)
    if distance > max(limit, LEAST_DISTANCE):
        middle = [_median(one) for one in (new, old)]
        text = (
            f"other numbers in {split} (median {middle[0]:.4g}) than in {base} "
            f"({middle[1]:.4g}); the distributions are {distance:.0%} apart"
        )
        yield Drift(key, split, base, "distribution", distance, text)


def _are_few(old: FeatureStatistics, new: FeatureStatistics) -> bool:
    """Whether numbers are so few different ones that each of them means something."""
    return all(one.classes is not None and len(one.classes) <= FEW for one in (old, new))


def _values(
    old: FeatureStatistics, new: FeatureStatistics, names: tuple[str, str], chance: float
) -> Iterator[Drift]:
    """The value whose share differs most."""
    mine, yours = old.classes or {}, new.classes or {}
    totals = sum(mine.values()), sum(yours.values())
    if not all(totals):
        return
    values: Iterable[object] = dict.fromkeys([*mine, *yours])
    counts = [((mine.get(v, 0), totals[0]), (yours.get(v, 0), totals[1]), v) for v in values]
    worst = max(counts, key=lambda c: abs(c[0][0] / totals[0] - c[1][0] / totals[1]))
    if _differs(worst[0], worst[1], chance / max(1, len(counts))):
        a, b = (part / whole for part, whole in worst[:2])
        text = f"{_shown(worst[2])} is {b:.1%} of {names[1]}, {a:.1%} of {names[0]}"
        yield Drift(old.feature.key, names[1], names[0], "value", abs(a - b), text)


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        from tfrec_cli.errors import shorten

        return f'"{shorten(value.decode("utf-8", "backslashreplace"), 40)}"'
    return str(value)


def _differs(mine: tuple[int, int], yours: tuple[int, int], chance: float) -> bool:
    """Whether two shares differ by more than chance (two proportions, normal approximation)."""
    (a, n), (b, m) = mine, yours
    if not n or not m or abs(a / n - b / m) < LEAST_SHARE:
        return False
    pooled = (a + b) / (n + m)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    # The tail of the normal distribution is below exp(-z^2 / 2).
    return abs(a / n - b / m) > spread * math.sqrt(-2 * math.log(chance / 2))


def _distance(old: FeatureStatistics, new: FeatureStatistics, chance: float) -> tuple[float, float]:
    """The largest distance of two distribution functions, and what chance may make it."""
    (mine, a), (yours, b) = old.weighted(), new.weighted()
    if not len(mine) or not len(yours):
        return 0.0, 1.0
    points = np.unique(np.concatenate((mine, yours)))
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
