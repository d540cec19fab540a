"""The run: all records once, and from that what is told of each feature in each split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tfrec_cli.errors import spelled
from tfrec_cli.inspection.payload import Payload, payloads
from tfrec_cli.progress import SILENT, Reporter
from tfrec_cli.reading.dataset import RecordDataset
from tfrec_cli.reading.decoder import Part
from tfrec_cli.reading.features import FeatureInfo, choose
from tfrec_cli.reading.survey import DatasetSurvey
from tfrec_cli.reading.values import float32, image_size, readable
from tfrec_cli.sources.imageheader import image_format
from tfrec_cli.statistics.columns import BatchSummary, FeatureStatistics, summarise
from tfrec_cli.statistics.drift import Drift, find_drift
from tfrec_cli.statistics.moments import Moments

BLOCK = 8 << 20
"""Bytes of records that are summed up in one go."""

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
BINS = 20
TOP = 10
_TRAIN = ("train", "training")

_SAMPLED = 1 << 21
# Floating point has all integers up to here.
_WHOLE = 1 << 53
_MOST_SAMPLED = 1 << 14
_LEAST_SAMPLED = 1 << 10


@dataclass(frozen=True, slots=True)
class SplitStatistics:
    """One split, None where no split is known: its records, and the features in one order."""

    name: str | None
    records: int
    features: tuple[FeatureStatistics, ...]


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the records of a dataset hold. bytes: of the records, framed and decompressed. drift:
    between `train`, or else its first split, and each other. payloads: what records are that are no
    Example, or more than one, where all were looked at before. skipped: records that are left out
    because they are not as the others, misfit: what is wrong with the first.
    """

    path: str
    bytes: int
    splits: tuple[SplitStatistics, ...]
    drift: tuple[Drift, ...] = ()
    payloads: tuple[Payload, ...] = ()
    skipped: int = 0
    misfit: str = ""

    @property
    def base(self) -> SplitStatistics | None:
        """The split that the others are held to; None where there is nothing to compare."""
        known = [split for split in self.splits if split.name is not None and split.records]
        trained = [split for split in known if str(split.name).lower() in _TRAIN]
        return (trained or known)[0] if len(known) > 1 else None

    @property
    def records(self) -> int:
        """All records of all splits."""
        return sum(split.records for split in self.splits)

    @property
    def features(self) -> tuple[FeatureInfo, ...]:
        """The features, in the order in which each split has them."""
        return tuple(one.feature for one in self.splits[0].features) if self.splits else ()


def statistics(
    dataset: RecordDataset,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    reporter: Reporter = SILENT,
) -> Statistics:
    """Read all records of a dataset, or of one split, and tell what their features hold.

    columns: these features only. Memory is bounded; where there are more values than fit, quantiles
    and histograms are those of a sample. Without a manifest that says what the features are,
    records that are no Example or not as the others are left out and counted. Raises what
    `RecordDataset.batches` raises.
    """
    survey = None
    if not (dataset.manifest and dataset.manifest.features):
        survey = dataset.survey(reporter)
        if survey.records and not survey.examples:
            return _without_features(dataset, survey)
        dataset = dataset.handling("skip")
    features = choose(list(dataset.features.values()), columns)
    reporter.stage("stats", None)
    names = list(dataset.splits) if split is None else [split]
    gathered = _Gathered(features, names)
    parts = dataset.map_parts(gathered.summarise, [f.key for f in features], split, BLOCK)
    for part in parts:
        gathered.add(part)
        reporter.advance(part.records, part.size)
    splits = gathered.splits()
    odd = payloads(survey) if survey is not None and split is None else ()
    found = Statistics(
        dataset.path, gathered.bytes, splits, (), odd, gathered.skipped, gathered.misfit
    )
    return replace(found, drift=tuple(_drift(found)))


def _drift(found: Statistics) -> Iterator[Drift]:
    if (base := found.base) is None:
        return
    for other in found.splits:
        if other is not base and other.name is not None and other.records:
            names = str(base.name), str(other.name)
            yield from find_drift((names[0], base.features), (names[1], other.features))


def _without_features(dataset: RecordDataset, survey: DatasetSurvey) -> Statistics:
    """Records and bytes of what is no Example."""
    counts: dict[str | None, int] = {}
    for file in survey.files:
        counts[file.target.split] = counts.get(file.target.split, 0) + file.records
    splits = tuple(SplitStatistics(name, records, ()) for name, records in counts.items())
    size = sum(file.content_bytes for file in survey.files)
    return Statistics(dataset.path, size, splits, payloads=payloads(survey))


@dataclass(frozen=True, slots=True)
class _Summary:
    """One batch: its split, records, bytes, and what it says of each feature."""

    split: str | None
    records: int
    size: int
    features: tuple[BatchSummary, ...]
    skipped: int
    misfit: str


class _Gathered:
    """The statistics so far. Batches are summarised in several threads, and added in order."""

    def __init__(self, features: Sequence[FeatureInfo], splits: Sequence[str | None]) -> None:
        cells = max(1, len(features) * len(splits))
        sample = min(_MOST_SAMPLED, max(_LEAST_SAMPLED, _SAMPLED // cells))
        self.bytes = self.skipped = 0
        self.misfit = ""
        self._features = features
        self._records = dict.fromkeys(splits, 0)
        self._found = {
            name: tuple(FeatureStatistics(feature, sample) for feature in features)
            for name in splits
        }

    def summarise(self, part: Part) -> _Summary:
        """What a batch says. The values that are known by now spare work: how many of the batches
        before this one have been added makes no difference to what all say together.
        """
        counted = (found.counted for found in self._found[part.target.split])
        known = [None if values is None else values.values for values in counted]
        summaries = tuple(
            summarise(feature, part.batch.column(place), known[place])
            for place, feature in enumerate(self._features)
        )
        return _Summary(
            part.target.split, part.batch.num_rows, part.size, summaries, part.skipped, part.misfit
        )

    def add(self, summary: _Summary) -> None:
        """Take in the next batch."""
        self.bytes += summary.size
        self.skipped += summary.skipped
        self.misfit = self.misfit or summary.misfit
        self._records[summary.split] += summary.records
        for found, batch in zip(self._found[summary.split], summary.features, strict=True):
            found.add(batch)

    def splits(self) -> tuple[SplitStatistics, ...]:
        """All of it."""
        return tuple(
            SplitStatistics(name, self._records[name], found) for name, found in self._found.items()
        )


def quantiles(found: FeatureStatistics) -> dict[str, Any]:
    """Values that given shares of all are not above; nothing where there is none."""
    values, weights = found.weighted()
    if not len(values):
        return {}
    ends = np.cumsum(weights)
    places = np.searchsorted(ends, np.array(QUANTILES) * ends[-1], side="left")
    return {str(q): _number(values[place]) for q, place in zip(QUANTILES, places, strict=True)}


def histogram(found: FeatureStatistics) -> tuple[list[Any], list[int]]:
    """Edges of bins, and how many values are in each (of the sample, where there is one).

    The inner edges are evenly spread from the first to the 99th percentile, so that few extreme
    values do not make all others one bar; the first and the last bin reach to the extremes. Few
    different integers have a bin each.
    """
    values, weights = found.weighted()
    own = found.numbers
    if not len(values) or own.low == own.high:
        return [], []
    if isinstance(own.low, int) and own.high - own.low < BINS:
        whole = (values - own.low).astype(np.int64)
        return list(range(own.low, own.high + 2)), _counts(whole, weights, own.high - own.low + 1)
    if isinstance(own.low, int) and max(-own.low, own.high) >= _WHOLE:
        return _far_histogram(values, weights, own.low, own.high)
    return _histogram(values, weights, own.low, own.high)


def _far_histogram(
    values: Any, weights: Any, lowest: int, highest: int
) -> tuple[list[Any], list[int]]:
    """That of integers so large that floating point does not have them all: of how far each is from
    the lowest, which is exact where they are close together.
    """
    far = (values.astype(np.uint64) - np.uint64(lowest % 2**64)).astype(np.float64)
    edges, counts = _histogram(far, weights, 0, highest - lowest)
    return [lowest, *(lowest + int(edge) for edge in edges[1:-1]), highest], counts


def _histogram(values: Any, weights: Any, lowest: Any, highest: Any) -> tuple[list[Any], list[int]]:
    ends = np.cumsum(weights)
    low, high = values[np.searchsorted(ends, np.array([0.01, 0.99]) * ends[-1])].astype(np.float64)
    if low == high:
        low, high = float(lowest), float(highest)
    edges = np.linspace(low, high, BINS + 1)
    counts = _counts(np.searchsorted(edges[1:-1], values, side="right"), weights, BINS)
    edges[0], edges[-1] = lowest, highest
    return [float(edge) for edge in edges], counts


def _counts(bins: Any, weights: Any, most: int) -> list[int]:
    counts = np.bincount(bins, weights, minlength=most)
    return [int(count) for count in counts]


def label(feature: FeatureInfo, value: Any) -> str:
    """A value as people read it; a number that stands for a label with its name."""
    if isinstance(value, bytes):
        return readable(value)
    place = value - feature.first_label
    if feature.labels is not None and 0 <= place < len(feature.labels):
        name = feature.labels[place]
        return f"{value} {name}" if name != str(value) else name
    return str(_number(value))


def image_of(found: FeatureStatistics) -> str | None:
    """`jpeg 640×480` where the first value seen is an image, else None."""
    for data in found.firsts:
        if (kind := image_format(data)) is not None:
            size = image_size(data)
            return f"{kind} {size[0]}×{size[1]}" if size else kind
    return None


def document(found: Statistics) -> dict[str, Any]:
    """Statistics as one JSON document.

    path, records, bytes (of the records, decompressed)
    splits  [{name, records, features: [{key, kind, shape, records, missing, lists, numbers or
            lengths, quantiles {share: value}, sampled, histogram {edges, counts}, distinct,
            top [{value, label, count}], counted}]}]
            lists: of the number of values in a record; numbers: of the values; lengths: of
            bytes. Each is {count, nan, infinite, zeros, low, high, mean, deviation}. sampled:
            values that quantiles and histogram are taken of. counted: whether all values were
            counted, so that distinct is known; else counts of top are estimates
    drift   [{feature, split, base, kind, distance, text}]
    payloads  [{records, file, record, kind, keys, sampled}]: records that are no tf.train.Example
    skipped, misfit: records left out because they are not as the others, and the first in words
    """
    return {
        "path": found.path,
        "records": found.records,
        "bytes": found.bytes,
        "splits": [
            {
                "name": split.name,
                "records": split.records,
                "features": [_feature_entry(one) for one in split.features],
            }
            for split in found.splits
        ],
        "drift": [asdict(one) | {"feature": spelled(one.feature)} for one in found.drift],
        "payloads": [asdict(one) for one in found.payloads],
        "skipped": found.skipped,
        "misfit": found.misfit or None,
    }


def _feature_entry(found: FeatureStatistics) -> dict[str, Any]:
    feature = found.feature
    edges, counts = histogram(found)
    of = "lengths" if feature.kind == "bytes" else "numbers"
    return {
        "key": feature.name,
        "kind": feature.kind,
        "shape": feature.shape,
        "records": found.records,
        "missing": found.missing,
        "lists": None if found.counts is None else _moments(found.counts),
        of: _moments(found.numbers),
        "quantiles": quantiles(found),
        "sampled": int(found.weighted()[1].sum()),
        "histogram": {"edges": edges, "counts": counts},
        "distinct": None if found.classes is None else len(found.classes),
        "top": [
            {"value": _json(value), "label": label(feature, value), "count": round(count)}
            for value, count in found.top(TOP)
        ],
        "counted": found.classes is not None,
    }


def _moments(found: Moments) -> dict[str, Any]:
    return {
        "count": found.count,
        "nan": found.nan,
        "infinite": found.infinite,
        "zeros": found.zeros,
        "low": _number(found.low),
        "high": _number(found.high),
        "mean": found.mean if found.count else None,
        "deviation": found.deviation,
    }


def _number(value: Any) -> Any:
    """A number without the digits that float32 does not have; minus zero is zero."""
    if isinstance(value, np.generic):
        value = value.item()
    return float32(value + 0.0) if isinstance(value, float) else value


def _json(value: Any) -> Any:
    return readable(value) if isinstance(value, bytes) else _number(value)
