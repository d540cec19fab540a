"""The run: find the datasets, read their files in parallel, put together what is wrong."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfrec_cli.dataset.manifest import MANIFEST, SCHEMA, Manifest
from tfrec_cli.engines.threads import ordered_map
from tfrec_cli.errors import DamageError, counted
from tfrec_cli.options import default_jobs
from tfrec_cli.progress import SILENT, Reporter
from tfrec_cli.reading.expectations import from_manifest
from tfrec_cli.reading.finding import Finding
from tfrec_cli.reading.payloads import OddKinds
from tfrec_cli.reading.targets import Dataset, Target, find_datasets, roll_forward
from tfrec_cli.schema import parse_schema
from tfrec_cli.verification.completeness import compare
from tfrec_cli.verification.files import FileReport, check_file, unreadable
from tfrec_cli.verification.findings import DatasetSummary, FileSummary, Report
from tfrec_cli.verification.kinds import DatasetKinds
from tfrec_cli.verification.leaks import SplitGroups, find_leaks


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """One run of `tfrec verify`.

    paths: dataset folders, files, globs. schema: a file that says what records must have, in place
    of manifests. leak: features whose values must not occur in two splits. jobs: files read at a
    time.
    """

    paths: tuple[str, ...]
    schema: str | None = None
    leak: tuple[str, ...] = ()
    jobs: int = field(default_factory=default_jobs)


def verify(options: VerifyOptions, reporter: Reporter = SILENT) -> Report:
    """Read all that `options` name, to the last byte; tell what is wrong.

    Raises DatasetError where there is nothing to read, SchemaError for a wrong schema, UsageError
    where leaks are asked for that cannot be. What is damaged is told, not raised.
    """
    for path in options.paths:
        roll_forward(path)
    datasets = find_datasets(options.paths, options.schema, apart=True)
    reporter.stage("verify", None)
    results = [_Result(dataset) for dataset in datasets]
    jobs = [(result, target) for result in results for target in result.dataset.files]
    for (result, target), outcome in zip(jobs, _read(jobs, options), strict=True):
        if not isinstance(outcome, FileReport):
            result.unread.append(unreadable(outcome, target.path))
            continue
        result.add(outcome)
        reporter.advance(outcome.summary.records, outcome.summary.bytes)
    leaks = _leaks(results) if options.leak else []
    return Report(
        datasets=tuple(result.summary() for result in results),
        files=tuple(file for result in results for file in result.files),
        findings=(*(f for result in results for f in result.findings()), *leaks),
        notices=tuple(n for result in results for n in result.all_notices()),
        unread=tuple(text for result in results for text in result.unread),
    )


def check_staged(path: Callable[[str], Path], manifest: Manifest, schema: str, jobs: int) -> None:
    """Read the shards that a run has written, as they lie in its stage.

    path: where each shard is, by name. schema: the text of the dataset's schema. jobs: files read
    at a time. Raises DamageError where anything is not what was meant to be written.
    """
    given = parse_schema(schema, "schema.yaml") if schema else None
    # Nothing is known of records that are passed on and are no Examples.
    expected = from_manifest(manifest, given) if manifest.features else None
    splits = {shard.name: split.name for split in manifest.splits for shard in split.shards}
    files = tuple(
        Target(os.fspath(path(shard.name)), splits[shard.name], shard) for shard in manifest.shards
    )
    result = _Result(Dataset(manifest.name, files, manifest, asked=expected))
    options = VerifyOptions((), jobs=jobs)
    outcomes = _read([(result, target) for target in files], options)
    for target, outcome in zip(files, outcomes, strict=True):
        if isinstance(outcome, MemoryError):
            raise outcome
        if isinstance(outcome, OSError):
            why = unreadable(outcome, target.path)
            raise DamageError(f"what was written cannot be read: {why}.")
        result.add(outcome)
    if found := result.findings():
        more = f" ({len(found) - 1:,} more)" if len(found) > 1 else ""
        raise DamageError(
            f"what was written is not what was meant; nothing was put at DEST. {found[0]}{more} "
            "Another program interferes, or the disk is broken; run again."
        )


@dataclass(frozen=True, slots=True)
class _Odd:
    """How many records are no Examples, or no plain ones, and the first of them."""

    records: int
    file: str
    record: int


class _Result:
    """What was found in one dataset so far. Reports are not kept, only what is still needed."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.files: list[FileSummary] = []
        self.unread: list[str] = []
        self.kinds = DatasetKinds()
        self.groups: list[SplitGroups] = []
        self._notices: list[str] = []
        self._found: list[Finding] = []
        self._odd: dict[str, _Odd] = {}
        self._odd_kinds = OddKinds()
        self._is_full = False
        shards = dataset.manifest.shards if dataset.manifest else ()
        self._contents = {(shard.bytes, shard.crc32c): shard.name for shard in shards}

    def add(self, report: FileReport) -> None:
        """Take in one file."""
        self.files.append(report.summary)
        self._found += report.findings
        if self.dataset.manifest is not None:
            self._found += compare(self.dataset.manifest, self._contents, report)
        self._notices += report.notices
        decompressed = report.summary.compression != "none"
        self.kinds.add(report.target.path, report.tally, decompressed)
        split = report.target.split or report.target.path
        self.groups += [
            SplitGroups(report.target.path, split, groups, decompressed) for groups in report.groups
        ]
        self._note_odd(report)

    def _note_odd(self, report: FileReport) -> None:
        tally, path = report.tally, report.target.path
        self._is_full |= tally.is_full
        if tally.first_invalid is not None and self.dataset.expected is None:
            self._count_odd("invalid", tally.invalid, path, tally.first_invalid[0])
            self._odd_kinds.add(report.odd)
        if tally.first_sequence is not None:
            self._count_odd("sequence", tally.sequences, path, tally.first_sequence[0])

    def _count_odd(self, what: str, records: int, path: str, record: int) -> None:
        before = self._odd.get(what, _Odd(0, path, record))
        self._odd[what] = replace(before, records=before.records + records)

    def summary(self) -> DatasetSummary:
        """The dataset in figures."""
        expected = self.dataset.expected
        return DatasetSummary(
            self.dataset.path,
            self.dataset.manifest is not None,
            None if expected is None else expected.origin,
            len(self.files),
            sum(file.records for file in self.files),
        )

    def findings(self) -> list[Finding]:
        """All that is wrong, file by file."""
        kinds = self.kinds.findings() if self.dataset.expected is None else []
        return [*self.dataset.findings, *self._found, *kinds]

    def all_notices(self) -> list[str]:
        """What the user should know without anything being wrong."""
        total = sum(file.records for file in self.files)
        said = {
            "invalid": f"no tf.train.Example ({self._odd_kinds.words()}): framing and counts "
            "were checked, features not",
            "sequence": "tf.train.SequenceExample: of their features the context was checked",
        }
        notices = [
            f"{self.dataset.path}: {odd.records:,} of {counted(total, 'record')} "
            f"{'is' if odd.records == 1 else 'are'} {said[what]} "
            f"(first: {odd.file}, record {odd.record})"
            for what, odd in self._odd.items()
        ]
        if self._lacks_manifest():
            notices.append(
                f"{self.dataset.path}: a {SCHEMA} is here, but no {MANIFEST}: whether files are "
                "missing or others than those written cannot be told"
            )
        full = [f"{self.dataset.path}: only its first 100,000 features were checked"]
        return [*self.dataset.notices, *self._notices, *notices, *(full if self._is_full else [])]

    def _lacks_manifest(self) -> bool:
        """Whether the schema is here that is written with a manifest, but none."""
        dataset = self.dataset
        if dataset.manifest is not None or dataset.asked is not None or dataset.findings:
            return False
        return dataset.expected is not None and dataset.expected.origin == SCHEMA


def _read(
    jobs: Iterable[tuple[_Result, Target]], options: VerifyOptions
) -> Iterator[FileReport | OSError | MemoryError]:
    """The report of each file in order, or why it cannot be read."""
    stop = threading.Event()

    def read(job: tuple[_Result, Target]) -> FileReport | OSError | MemoryError:
        result, target = job
        try:
            return check_file(target, result.dataset.expected, options.leak, stop)
        except (OSError, MemoryError) as error:
            return error.with_traceback(None)  # which holds what was read

    yield from ordered_map(read, jobs, options.jobs, stop)


def _leaks(results: Iterable[_Result]) -> list[Finding]:
    results = list(results)
    keys = [key for result in results for key in result.kinds.keys]
    return find_leaks([group for result in results for group in result.groups], keys)
