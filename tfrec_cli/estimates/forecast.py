"""The forecast of a conversion: rows, shards, bytes, time, and what would be better."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from tfrec_cli.dataset.naming import Dest
from tfrec_cli.dataset.occupant import check_dest, finished
from tfrec_cli.errors import CellError, DatasetError
from tfrec_cli.estimates.advice import advise_shards
from tfrec_cli.estimates.comparison import (
    Measured,
    Trial,
    Workload,
    absent,
    compare,
    margin,
    measure,
    parallel,
    recommend,
)
from tfrec_cli.estimates.footprint import Footprint, Saving, footprint, savings
from tfrec_cli.estimates.sample import Sample, take_sample
from tfrec_cli.freshness import look
from tfrec_cli.options import Compression, ConvertOptions
from tfrec_cli.plan import SplitPlan
from tfrec_cli.preparation import Run, choose_dest, paths_of, prepare
from tfrec_cli.progress import SILENT, Reporter
from tfrec_cli.settlement import explain_unknown_label, open_given
from tfrec_cli.sizing import record_sizes


@dataclass(frozen=True, slots=True)
class ShardForecast:
    """One file: its name, its records, and about how many bytes it will have; None where that is
    not known, since sorting may put large records together.
    """

    name: str
    records: int
    bytes: float | None


@dataclass(frozen=True, slots=True)
class SplitForecast:
    """One split, its shards in order, and one sentence on how many there should be."""

    name: str
    records: int
    bytes: float
    shards: tuple[ShardForecast, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ways to compress compared: the trials, the one to choose, and why.

    absent: the compressors that are not installed.
    """

    trials: tuple[Trial, ...]
    recommended: Compression
    sentence: str
    absent: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a conversion would do. Bytes and seconds are estimates unless the sample is whole.

    rows: of the source, rejected ones included. plain_bytes: of the records without compression;
    bytes: of the shards. seconds: of the whole run with `jobs` threads; neither the disk is
    counted nor, where records are `ordered` (shuffled or sorted), the ordering.
    source_bytes: of the source files. margin: the share by which `bytes` may be off because parts
    of the source compress otherwise than others; 0 where nothing is compressed, 1 and more where it
    cannot be told. unseen: the share of the rows that are too large, or lie too deep in the source,
    to try how they compress; margin allows for them. thin: whether sorted rows are nearer to each
    other, and so may compress much better, than those of the sample. problem: why DEST as it is
    would stop the conversion.
    """

    dest: str
    rows: int
    rejected: int
    records: int
    bytes: float
    plain_bytes: float
    source_bytes: int
    seconds: float
    jobs: int
    compression: Compression
    sampled_rows: int
    sample_whole: bool
    inferred: bool
    ordered: bool
    splits: tuple[SplitForecast, ...]
    footprint: Footprint
    savings: tuple[Saving, ...]
    comparison: Comparison | None = None
    problem: str | None = None
    margin: float = 0.0
    unseen: float = 0.0
    thin: bool = False


def forecast(
    options: ConvertOptions, compare_compression: bool = False, reporter: Reporter = SILENT
) -> Forecast:
    """What `convert(options)` would do. Writes nothing.

    Raises what `convert` raises for the same options and source, as far as the rows that are read
    show it; that DEST is occupied is no error here, it is in the forecast.
    """
    began = time.perf_counter()
    dest = choose_dest(options)
    run = prepare(dest, replace(options, rejects=None), reporter)
    preparing = time.perf_counter() - began
    sample = _sample(run)
    scene = _Scene(run, sample, preparing)
    for notice in (*run.settled.survey.notices, *run.settled.notes):
        reporter.notice(notice)
    compared = _comparison(scene) if compare_compression else None
    return _assembled(scene, compared, _problem(dest, run))


class _Scene:
    """A run with its sample, and the totals that follow from both."""

    def __init__(self, run: Run, sample: Sample, preparing: float) -> None:
        self.run, self.sample, self.preparing = run, sample, preparing
        self.excerpt = sample.excerpt()
        # Where cells name files, the sample has runs of rows from all over the source.
        told = sample.whole or any(feature.load for feature in run.work.features)
        self.size = 0.0 if told else _mean_size(run)
        self.plain = sum(self.plain_of(split) for split in run.plan.splits)
        self.scale = self.plain / max(1, len(self.excerpt))
        shards = sum(len(split.shards) for split in run.plan.splits)
        encoding = sample.seconds * run.plan.records / max(1, sample.records)
        self.load = Workload(self.plain, self.plain / shards, encoding, run.options.jobs)

    def plain_of(self, split: SplitPlan) -> float:
        """Framed bytes of a split's records."""
        mean = self.sample.mean(split.name)
        if self.size:
            # Splits differ as they do in the sample, which is of a few places only.
            mean *= self.size / max(1.0, self.sample.mean())
        return mean * split.records

    def measured(self, way: Compression) -> Measured:
        """What the excerpt shows of a way to compress."""
        return measure(self.excerpt, way, self.load.shard_bytes)


def _mean_size(run: Run) -> float:
    """The mean size of a record by the plan, which may not have needed it."""
    plan = run.plan
    return plan.mean_size or record_sizes(run.work, plan.pieces, run.options.jobs).record


def _sample(run: Run) -> Sample:
    survey, options = run.settled.survey, run.options
    try:
        return take_sample(run.work, survey.partitions, options.limit, options.jobs)
    except CellError as error:
        raise explain_unknown_label(error, run.settled, options) from None


def _assembled(scene: _Scene, compared: Comparison | None, problem: str | None) -> Forecast:
    run, way = scene.run, scene.run.dest.compression
    found = scene.measured(way)
    compressing = found.write * scene.plain / parallel(way, scene.load)
    splits = tuple(_split(scene, split, found.ratio) for split in run.plan.splits)
    return Forecast(
        dest=run.options.dest,
        rows=run.plan.rows,
        rejected=run.plan.rejected,
        records=run.plan.records,
        bytes=sum(split.bytes for split in splits),
        plain_bytes=scene.plain,
        source_bytes=sum(print.size for print in run.settled.survey.fingerprints),
        seconds=scene.preparing + scene.load.encode_seconds + compressing,
        jobs=run.options.jobs,
        compression=way,
        sampled_rows=scene.sample.rows,
        sample_whole=scene.sample.whole,
        inferred=run.settled.inferred,
        ordered=run.work.order is not None,
        splits=splits,
        footprint=footprint(scene.sample.parts, scene.scale),
        savings=_savings(scene),
        comparison=compared,
        problem=problem,
        margin=_margin(scene, found.ratio),
        unseen=scene.sample.unseen,
        thin=scene.sample.thin,
    )


def _margin(scene: _Scene, ratio: float) -> float:
    """How sure the size of the shards is, as far as compression goes. ratio: what it makes of the
    excerpt.
    """
    is_whole = not scene.sample.unseen and len(scene.excerpt) >= scene.plain
    if is_whole or scene.run.dest.compression.kind == "none":
        return 0.0
    found = margin(scene.sample.stretches(scene.excerpt), ratio, scene.sample.unseen)
    return max(1.0, found) if scene.sample.thin else found


def _split(scene: _Scene, split: SplitPlan, ratio: float) -> SplitForecast:
    size = scene.plain_of(split) * ratio
    names = scene.run.dest.shards(split.name, len(split.shards))
    each = size / max(1, split.records)
    order = scene.run.work.order
    told = order is None or order.kind != "sort" or len(names) == 1
    shards = tuple(
        ShardForecast(name, records, records * each if told else None)
        for name, records in zip(names, split.shards, strict=True)
    )
    advice = advise_shards(split.name, len(shards), size, split.records)
    return SplitForecast(split.name, split.records, size, shards, advice)


def _savings(scene: _Scene) -> tuple[Saving, ...]:
    """Shorter names, vectors, and GZIP where nothing is compressed yet."""
    found = savings(scene.sample.parts, scene.scale)
    if scene.run.dest.compression.kind == "none":
        ratio = scene.measured(Compression("gzip")).ratio
        found.append(Saving("gzip", "--compression gzip", scene.plain * (1 - ratio)))
    return tuple(found)


def _comparison(scene: _Scene) -> Comparison:
    trials = compare(scene.excerpt, scene.load)
    found = footprint(scene.sample.parts, scene.scale)
    best, sentence = recommend(trials, found.images / max(1.0, found.values))
    return Comparison(trials, best, sentence, absent())


def _problem(dest: Dest, run: Run) -> str | None:
    """What `convert` would say of DEST as it is."""
    if dest.kind == "stdout":
        return None
    sources = [*paths_of(run.options), *(print.path for print in run.settled.survey.fingerprints)]
    try:
        found = None if "-" in run.options.sources else finished(dest)
        reason = look(dest, found, open_given(run.options), run.options).reason if found else ""
        if found is not None and not reason:
            return None
        check_dest(dest, run.options.overwrite, sources, reason)
    except DatasetError as error:
        return str(error)
    return None
