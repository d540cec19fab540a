"""The run: every reader, for one and more parallel reads, and what that says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tfrec_cli.errors import DatasetError, UsageError
from tfrec_cli.estimates.advice import advise_shards
from tfrec_cli.options import default_jobs
from tfrec_cli.progress import SILENT, Reporter
from tfrec_cli.reading import RecordDataset, open_dataset
from tfrec_cli.reading.standin import difference
from tfrec_cli.reading.survey import DatasetSurvey
from tfrec_cli.throughput import tfdata
from tfrec_cli.throughput.rates import Rate, plain_rate, read_columns, read_files

_TENSORFLOW = {"none": "", "gzip": "GZIP", "zlib": "ZLIB"}
_TELLING = 10_000_000
_CLEAR = 1.2
"""How many times as fast is worth a word."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """One run of `tfrec bench`: jobs is the most parallel reads, seconds those of a measurement."""

    path: str
    jobs: int = field(default_factory=default_jobs)
    seconds: float = 1.0
    tensorflow: bool = True


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What was measured. bytes: on the disk, content_bytes: decompressed. advice: one line each."""

    path: str
    files: int
    compression: str
    records: int
    bytes: int
    content_bytes: int
    rates: tuple[Rate, ...]
    advice: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        rates = [
            asdict(rate)
            | {
                "records_per_second": round(rate.records_per_second, 1),
                "bytes_per_second": round(rate.bytes_per_second, 1),
            }
            for rate in self.rates
        ]
        return asdict(self) | {"rates": rates}


def measure(options: BenchOptions, reporter: Reporter = SILENT) -> Benchmark:
    """Read the dataset at `options.path` in all ways, each for some seconds.

    It is read once before, so that files lie in memory where they fit there. Raises DatasetError
    where there is nothing to read, DamageError where records are damaged, UsageError for wrong
    options.
    """
    if not options.seconds > 0:
        raise UsageError(f"seconds is {options.seconds}; give more than 0.")
    dataset = open_dataset(options.path, options.jobs)
    reporter.stage("read", None)
    survey = dataset.survey(reporter)
    if not survey.records:
        raise DatasetError(f"{options.path} holds no records; there is nothing to measure.")
    kinds = {file.container for file in survey.files if file.content_bytes}
    reporter.stage("bench", None)
    rates = [*_own(dataset, survey, options), *_others(survey, kinds, options)]
    size = sum(file.bytes for file in survey.files)
    content = sum(file.content_bytes for file in survey.files)
    kind = kinds.pop() if len(kinds) == 1 else "mixed"
    advice = (*_compression(dataset, kind, rates, (size, content)), *_parallel(rates),
              *_shards(survey))  # fmt: skip
    return Benchmark(
        options.path, len(survey.files), kind, survey.records, size, content, tuple(rates), advice
    )


def _steps(most: int) -> list[int]:
    """1, 2, 4, … and `most`."""
    return sorted({most, *(2**n for n in range(most.bit_length()) if 2**n <= most)})


def _own(dataset: RecordDataset, survey: DatasetSurvey, options: BenchOptions) -> list[Rate]:
    files = [file.target for file in survey.files if file.records]
    steps = _steps(min(options.jobs, len(files)))
    rates = [read_files(files, parallel, options.seconds) for parallel in steps]
    if difference(survey) is None:
        steps = _steps(options.jobs)
        rates += [read_columns(dataset, parallel, options.seconds) for parallel in steps]
    return rates


def _others(survey: DatasetSurvey, kinds: set[str], options: BenchOptions) -> list[Rate]:
    """tf.data, where it is installed and can read all files at once."""
    if not options.tensorflow or not tfdata.is_installed() or len(kinds) > 1:
        return []
    files = [file.target.path for file in survey.files if file.records]
    mean = sum(file.content_bytes for file in survey.files) / survey.records
    steps = _steps(min(options.jobs, len(files)))
    compression = _TENSORFLOW[next(iter(kinds))]
    return tfdata.read_tensors(files, compression, mean, steps, options.seconds)


def _best(rates: Sequence[Rate], reader: str) -> tuple[Rate, Rate] | None:
    """The rate of one read and the best one of a reader, if it was measured."""
    found = [rate for rate in rates if rate.reader == reader]
    if not found:
        return None
    return found[0], max(found, key=lambda rate: rate.records_per_second)


def _compression(
    dataset: RecordDataset, kind: str, rates: Sequence[Rate], sizes: tuple[int, int]
) -> list[str]:
    """What compression costs and saves. sizes: bytes on the disk and of content."""
    if sizes[1] < _TELLING:
        return ["The files are so small that opening them counts; larger ones are read faster."]
    if kind in ("none", "mixed"):
        return []
    one = next(rate for rate in rates if rate.reader == "records").bytes_per_second
    times = plain_rate(dataset.files) / one
    return [
        f"{kind.upper()} makes the files {sizes[1] / sizes[0]:.1f} times smaller, and a reader of "
        f"one file at a time {times:.0f} times slower than it would be with uncompressed files in "
        f"memory. It pays where disk or network deliver less than {one / 1e6:,.0f} MB/s to each "
        "reader."
    ]


def _parallel(rates: Sequence[Rate]) -> list[str]:
    said = []
    for reader, option in (("records", "as many threads"), ("tf.data", "num_parallel_reads")):
        if (found := _best(rates, reader)) is None:
            continue
        one, best = found
        tried = max(rate.parallel for rate in rates if rate.reader == reader)
        gain = best.records_per_second / one.records_per_second
        if tried == 1:
            continue
        if gain < _CLEAR:
            said.append(f"{reader}: several files at a time are no faster than one.")
        else:
            said.append(
                f"{reader}: {best.parallel} files at a time are {gain:.1f} times as fast as one "
                f"({option}{f'={best.parallel}' if reader == 'tf.data' else ''})."
            )
    return said


def _shards(survey: DatasetSurvey) -> list[str]:
    """What the number and size of the files of each split say."""
    splits: dict[str, list[tuple[int, int]]] = {}
    for file in survey.files:
        splits.setdefault(file.target.split or "all", []).append((file.bytes, file.records))
    return [
        advise_shards(split, len(files), sum(b for b, _ in files), sum(r for _, r in files))
        for split, files in splits.items()
    ]
