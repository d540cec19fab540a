"""A dataset opened for reading: its features, its records, and their values as Arrow batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Literal, SupportsIndex, TypeVar, get_args, overload

import numpy as np
import pyarrow as pa

from tfrec_cli.dataset.manifest import Manifest
from tfrec_cli.engines.threads import ordered_flat_map
from tfrec_cli.errors import DamageError, DatasetError, UsageError, did_you_mean, listed, shorten
from tfrec_cli.options import default_jobs, refuse_number
from tfrec_cli.progress import SILENT, Reporter
from tfrec_cli.reading.chunks import Chunk, read_chunks
from tfrec_cli.reading.decoder import ChunkDecoder, Origin, Part
from tfrec_cli.reading.features import (
    FeatureForm,
    FeatureInfo,
    choose,
    features_as_told,
    features_of_manifest,
    features_of_records,
    refuse_equal_names,
)
from tfrec_cli.reading.finding import Finding
from tfrec_cli.reading.random_access import Records
from tfrec_cli.reading.survey import DatasetSurvey, survey_records
from tfrec_cli.reading.targets import Dataset, Target, find_datasets, roll_forward
from tfrec_cli.records.blocks import BLOCK
from tfrec_cli.records.framing import FOOTER, HEADER

Result = TypeVar("Result")
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
OnError = Literal["fail", "skip"]
Choice = str | Sequence[Target] | None
"""A split by its name, or files as `splits` has them; None is all there are."""


def open_dataset(
    path: Paths,
    jobs: int | None = None,
    on_error: OnError = "fail",
    features: Mapping[str, FeatureForm] | None = None,
) -> RecordDataset:
    """The dataset at `path`: a folder, a TFRecord file, a glob, or several files that are one.

    Reads nothing of the records yet. jobs: threads that decode, by default one a processor.
    on_error: `skip` leaves out records that are no Example, or not as the others, of all but those
    that are asked for by number; damage is an error all the same. features: what the records hold
    where no manifest says it, so that they are not looked at for that: for each key its type, its
    shape (None for a list of any length), and whether a record may lack it. Raises DatasetError
    where there is nothing, or more than one dataset, UsageError for what is no path, no feature, or
    no number of jobs.
    """
    found = open_datasets(path, jobs)
    if len(found) > 1:
        names = listed([shorten(dataset.path, 1000) for dataset in found], 5)
        raise DatasetError(f"{len(found)} datasets are here: {names}. Open one of them.")
    opened = found[0].handling(on_error)
    opened._told = None if features is None else tuple(features_as_told(features))
    return opened


def open_datasets(path: Paths, jobs: int | None = None) -> list[RecordDataset]:
    """All datasets at `path`, as `open_dataset` opens one. Raises DatasetError for none."""
    try:
        given = [path] if isinstance(path, str | os.PathLike) else list(path)
        paths = [os.fspath(one) for one in given]
    except TypeError:
        raise UsageError(
            f"{shorten(repr(path))} is no path. Give a dataset folder, a file, a pattern, or a "
            "list of them."
        ) from None
    for one in paths:
        roll_forward(one)
    return [RecordDataset(found, jobs) for found in find_datasets(paths)]


class RecordDataset:
    """TFRecord files of any origin that belong together, in order.

    path: what it was opened by. files: in order, with their splits. manifest: of a dataset that
    tfrec wrote, else None. owner: the folder or file that it is that of. findings: what is wrong
    before a record is read (missing shards, changed side files). `batches` and all else that reads
    records checks each checksum and raises DamageError, which names file, record and offset, at the
    first that does not hold.
    """

    def __init__(self, found: Dataset, jobs: int | None = None) -> None:
        self.path, self.owner, self._home = found.path, found.owner, found.home
        self.files: tuple[Target, ...] = found.files
        self.manifest: Manifest | None = found.manifest
        self.findings: tuple[Finding, ...] = found.findings
        refuse_number("jobs", jobs, least=1)
        self.jobs = default_jobs() if jobs is None else jobs
        self.on_error: OnError = "fail"
        self._survey: DatasetSurvey | None = None
        self._told: tuple[FeatureInfo, ...] | None = None

    @cached_property
    def features(self) -> Mapping[str, FeatureInfo]:
        """The features of the records by key: from the manifest, else as `open_dataset` was told,
        else by a look at all records.

        Raises DatasetError where no record is a `tf.train.Example`, and where the names of two
        features are the same.
        """
        if self.manifest is not None and self.manifest.features:
            found = features_of_manifest(self.manifest)
        elif self._told is not None:
            found = list(self._told)
        else:
            survey = self.survey()
            if survey.records and not survey.examples:
                raise DatasetError(
                    f"{shorten(self.path, 1000)}: the records are no tf.train.Example, so that "
                    "they have no features to decode; `records()` of the library's `open_dataset` "
                    "gives their bytes."
                )
            found = features_of_records(survey)
        refuse_equal_names(self.path, found)
        return {feature.key: feature for feature in found}

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of `batches()`."""
        return pa.schema([feature.field for feature in self.features.values()])

    @property
    def splits(self) -> dict[str | None, tuple[Target, ...]]:
        """The files of each split; under None those of which no split is known."""
        found: dict[str | None, list[Target]] = {}
        for file in self.files:
            found.setdefault(file.split, []).append(file)
        return {split: tuple(files) for split, files in found.items()}

    def survey(self, reporter: Reporter = SILENT) -> DatasetSurvey:
        """A look at all records, taken once: how many there are, and which features they have."""
        if self._survey is None:
            self.check_whole()
            self._survey = survey_records(self.files, self.jobs, reporter)
        return self._survey

    def handling(self, on_error: OnError) -> RecordDataset:
        """The same dataset with another `on_error`, as `open_dataset` has it; `parts` tell how many
        records each of them lacks. Raises UsageError for another word.
        """
        if on_error not in get_args(OnError):
            raise UsageError(f'on_error is "{on_error}", neither fail nor skip.')
        other = copy(self)
        other.on_error = on_error
        return other

    def __len__(self) -> int:
        """All records: from the manifest, else by a look at all of them."""
        self.check_whole()
        if self._survey is None and self.manifest is not None:
            counts = [file.shard.records for file in self.files if file.shard is not None]
            if len(counts) == len(self.files):
                return sum(counts)
        return self.survey().records

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The records as dicts, in order: numbers, bytes or lists of them, None where missing."""
        for batch in self.batches():
            yield from batch.to_pylist()

    def batches(
        self, columns: Sequence[str] | None = None, split: Choice = None
    ) -> Iterator[pa.RecordBatch]:
        """The records as Arrow batches of a few MB, in order; decoded in parallel.

        columns: the features wanted, in this order; None is all. split: only its files, by its
        name or as `splits` has them. A feature
        is int64, float32 or binary, or a list of these; null where a record lacks it. Memory is
        bounded, whatever the size of the files. Raises UsageError for a column or split that is
        not there, DamageError, and DatasetError for a record that is no Example or has another
        kind of feature than the others.
        """
        for part in self.parts(columns, split):
            yield part.batch

    def parts(
        self,
        columns: Sequence[str] | None = None,
        split: Choice = None,
        block: int = BLOCK,
        reporter: Reporter = SILENT,
    ) -> Iterator[Part]:
        """As `batches`, with the file and the number in it of the first record of each.

        block: bytes of records decoded in one go.
        """
        for part in self.map_parts(_same, columns, split, block):
            yield part
            reporter.advance(part.batch.num_rows, part.size)

    def map_parts(
        self,
        function: Callable[[Part], Result],
        columns: Sequence[str] | None = None,
        split: Choice = None,
        block: int = BLOCK,
    ) -> Iterator[Result]:
        """`function` of each of the `parts`, in order; it is called where they are decoded, in
        several threads.
        """
        self.check_whole()
        files = self.files_of(split)
        decoder = self._decoder_of(columns)
        yield from ordered_flat_map(
            lambda target: _with_records(target, block),
            lambda chunk: function(decoder(chunk)),
            files,
            self.jobs,
        )

    def records(self, split: str | None = None) -> Iterator[bytes]:
        """The bytes of each record, in order, whatever they are."""
        self.check_whole()
        for target in self.files_of(split):
            for chunk in read_chunks(target):
                view, start = memoryview(chunk.data), 0
                for end in chunk.ends.tolist():
                    yield bytes(view[start + HEADER : end - FOOTER])
                    start = end

    def decode(
        self, records: Sequence[bytes], columns: Sequence[str] | None = None
    ) -> pa.RecordBatch:
        """Serialized records, as `records` and `by_number` give them, as an Arrow batch.

        columns: as in `batches`, which raises the same errors.
        """
        frames = [len(r).to_bytes(HEADER, "little") + r + bytes(FOOTER) for r in records]
        ends = np.cumsum([len(frame) for frame in frames], dtype=np.int64)
        chunk = Chunk(Target(self.path), pa.py_buffer(b"".join(frames)), ends, 0, 0)
        return self._decoder_of(columns)(chunk).batch

    def by_number(self, split: str | None = None) -> Records:
        """The bytes of the records by number, of plain files: for random access, in any process.

        Raises UsageError for compressed files, DamageError, DatasetError.
        """
        self.check_whole()
        listed = () if self.manifest is None else self.manifest.files
        return Records(self.files_of(split), listed)

    @overload
    def __getitem__(self, number: SupportsIndex) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, number: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, number: SupportsIndex | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """One record of plain files by number, as those that iterating gives, or those of a slice.

        Numbers are those of all records, as `len` counts them: one that `on_error="skip"` leaves
        out of the others is an error here. Raises as `by_number` and, failing, `batches`,
        IndexError, and TypeError for other indices.
        """
        decoder = self._decoder_of(None, is_strict=True)
        if isinstance(number, slice):
            return list(self._records_of(self._numbered.numbers(number), decoder))
        return dict(decoder(self._numbered.chunk(number)).batch.to_pylist()[0])

    def _records_of(self, numbers: range, decoder: ChunkDecoder) -> Iterator[dict[str, Any]]:
        for some, chunk in self._numbered.chunks(numbers):
            try:
                batch = decoder(chunk).batch
            except (DamageError, DatasetError):
                # The first that is not as the others, with its place in its file.
                for number in some:
                    decoder(self._numbered.chunk(number))
                raise
            yield from batch.to_pylist()

    @cached_property
    def _numbered(self) -> Records:
        return self.by_number()

    def _decoder_of(self, columns: Sequence[str] | None, is_strict: bool = False) -> ChunkDecoder:
        features = choose(list(self.features.values()), columns)
        origin: Origin = "records" if self._told is None else "told"
        if self.manifest is not None and self.manifest.features:
            origin = "manifest"
        is_strict = is_strict or self.on_error == "fail"
        return ChunkDecoder(features, origin, columns is None, is_strict)

    def only(self, split: str) -> RecordDataset:
        """The dataset with the files of one split alone. Raises UsageError for none."""
        files = self.files_of(split)
        found = Dataset(self.path, files, self.manifest, self.findings, self._home)
        opened = RecordDataset(found, self.jobs).handling(self.on_error)
        opened._told = self._told
        return opened

    def files_of(self, split: Choice) -> tuple[Target, ...]:
        """The files of a split, all where it is None. Raises UsageError for none, and what
        `check_whole` raises where files are missing that may be of it.
        """
        if split is None:
            return self.files
        if not isinstance(split, str):
            return tuple(split)
        if found := self.splits.get(split):
            return found
        # It may be known, and all of its files missing.
        self.check_whole()
        names = [name for name in self.splits if name is not None]
        known = f" There are {listed(names, 8)}." if names else " The files name none."
        hint = did_you_mean(split, names) or known
        raise UsageError(f'{shorten(self.path, 1000)}: no split is called "{split}".{hint}')

    def check_whole(self) -> None:
        """Raise DamageError where the manifest is broken, or names a shard that is not there."""
        for finding in self.findings:
            if finding.kind == "manifest" or (
                finding.kind == "missing shard" and self.manifest is not None
            ):
                raise DamageError(
                    f"{finding.brief()} Name the files that are there to read them alone."
                )


def _same(part: Part) -> Part:
    return part


def _with_records(target: Target, block: int) -> Iterator[Chunk]:
    return (chunk for chunk in read_chunks(target, block) if len(chunk.ends))
