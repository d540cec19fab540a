"""TFRecord files as a source: records as they are, and their features as columns.

It is the one source that knows what records are. Without a schema its records are written as they
stand, whatever they hold. With one, and where a feature decides on order or split, their features
are columns of int64, float32 or binary, or of lists of these, null where a record has no value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from tfrec_cli import _kernel
from tfrec_cli._kernel import Decoded, Wanted
from tfrec_cli.buffers import from_numpy, rows_without_columns
from tfrec_cli.decoding import KINDS
from tfrec_cli.errors import Location, SourceError
from tfrec_cli.records.blocks import Block
from tfrec_cli.records.intact import intact_blocks, open_content, record_count
from tfrec_cli.schema.binding import BoundFeature
from tfrec_cli.sources.base import (
    Column,
    Fault,
    Needs,
    Origin,
    Partition,
    SourceBatch,
    Survey,
    WholeRecords,
)
from tfrec_cli.sources.files import counted, display, fingerprint, some, unreadable
from tfrec_cli.sources.recordfiles import RecordFile, find_record_files, gaps
from tfrec_cli.sources.recordsurvey import (
    ARROW,
    NO_LISTS,
    Contents,
    RecordRange,
    columns_of,
    survey_files,
)
from tfrec_cli.sources.suffixes import TFRECORD_SUFFIXES

# The column of the records themselves.
RECORD = "\0record"
_KINDS = {kind: name for name, kind in ARROW.items()}
_NO_EXAMPLE = "is no tf.train.Example, so that it has no features"
_SEQUENCE = "is a tf.train.SequenceExample, whose feature lists a schema does not reach"
_SKIP = "Use --on-error skip to leave such records out."


class Options(BaseModel):
    """The options of the tfrecord source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    manifest: Literal["auto", "off"] = Field(
        "auto",
        description="Whether a manifest beside the files tells of splits, features and labels.",
    )
    sequences: Literal["error", "context"] = Field(
        "error",
        description="What a schema makes of a tf.train.SequenceExample: an error, or a record with "
        "the features of its context, without its feature lists.",
    )


@dataclass(frozen=True, slots=True)
class RecordPart:
    """What reading a partition takes: the path of the file, which records, types of columns.

    lists_fit: whether a record may have feature lists, which are no columns.
    """

    path: str
    asked: RecordRange
    types: Mapping[str, pa.DataType]
    lists_fit: bool = True


class TFRecordSource:
    """Reads TFRecord files of any origin (see `tfrec_cli.sources.base.Source`)."""

    name: ClassVar[str] = "tfrecord"
    summary: ClassVar[str] = "TFRecord files of any origin and datasets, plain, GZIP or ZLIB."
    suffixes: ClassVar[tuple[str, ...]] = TFRECORD_SUFFIXES
    Options: ClassVar[type[BaseModel]] = Options

    def __init__(self, inputs: Sequence[Any], options: BaseModel) -> None:
        self.inputs = tuple(str(item) for item in inputs)
        self.options = Options.model_validate(options.model_dump())
        self.partition_bytes = 16 * 2**20
        self.batch_bytes = 4 * 2**20

    def survey(self, needs: Needs) -> Survey:
        """Records and features, from the manifest of a dataset that is as it was written; else by
        a look at every record.

        Raises SourceError for what is missing or cannot be read, DamageError at damage.
        """
        use_manifests = self.options.manifest == "auto"
        found = find_record_files(self.inputs, needs.temp_dir, use_manifests)
        prints = tuple(fingerprint(file.path) for file in found.files)
        contents = survey_files(found.files, self.partition_bytes, needs.jobs)
        if not sum(scan.records for scan in contents.scans):
            raise SourceError(_empty(found.files))
        columns = tuple(_columns(contents.features))
        types = {column.name: column.type for column in columns}
        lists_fit = not needs.skips or self.options.sequences == "context"
        return Survey(
            columns=columns,
            partitions=tuple(_partitions(contents, types, lists_fit)),
            fingerprints=tuple(
                replace(seen, crc32c=scan.crc32c)
                for seen, scan in zip(prints, contents.scans, strict=True)
            ),
            notices=(*found.notices, *self._told(contents), *_notices(contents)),
            options=self.options.model_dump(exclude_defaults=True)
            | {"manifest": self.options.manifest},
            records=WholeRecords(
                RECORD,
                contents.features,
                contents.sure,
                contents.arrow,
                self._refused(contents, needs.skips),
                self._as_they_stand(),
            ),
        )

    def _told(self, contents: Contents) -> tuple[str, ...]:
        """The notices on records; who asked for contexts alone knows what is left out."""
        if self.options.sequences == "error":
            return contents.notices
        return tuple(text.removesuffix(NO_LISTS) for text in contents.notices)

    def _as_they_stand(self) -> str:
        """What to say where no schema is given; empty where nothing is."""
        if self.options.sequences == "error":
            return ""
        return (
            "-O sequences=context does nothing without --schema: records are written as they "
            "stand, feature lists and all"
        )

    def _refused(self, contents: Contents, skips: bool) -> str:
        """Why a schema cannot take features from the records; empty where it can. skips: whether
        those from which it cannot are left out.
        """
        if not contents.features and not contents.sure:
            return (
                f"{display(contents.scans[0].file.path)}: the records have no features that a "
                "schema could take; `tfrec inspect` tells what they are"
            )
        found = next((scan for scan in contents.scans if scan.sequence is not None), None)
        if found is None or skips or self.options.sequences == "context":
            return ""
        return (
            f"{display(found.file.path)}, record {found.sequence}: it {_SEQUENCE}; with -O "
            "sequences=context it takes the features of the context alone"
        )

    def read(self, partition: Partition, columns: Sequence[str]) -> Iterator[SourceBatch]:
        """Records of one file, in batches of about `batch_bytes`, checked.

        Raises DamageError naming file, record and offset where one is not intact.
        """
        detail: RecordPart = partition.detail
        asked, seen, end = detail.asked, 0, 0
        columns_wanted = _Columns(columns, detail, partition.file)
        try:
            with open_content(detail.path, asked.span) as stream:
                for block in intact_blocks(detail.path, stream, asked.span, self.batch_bytes):
                    seen += len(block.ends)
                    end = block.offset + int(block.ends[-1])
                    yield columns_wanted.batch(block)
        except OSError as error:
            raise unreadable(detail.path, error) from error
        if seen != asked.records:
            raise record_count(detail.path, asked.record + seen, end, asked.record + asked.records)


def _empty(files: Sequence[RecordFile]) -> str:
    more = f" (nor have {len(files) - 1:,} others)" if len(files) > 1 else ""
    return (
        f"{display(files[0].path)}: has no records{more}, so there is nothing to convert. "
        "Check what wrote it."
    )


def _columns(features: Sequence[BoundFeature]) -> Iterator[Column]:
    for feature in features:
        for name, kind in columns_of(feature):
            yield Column(name, kind, feature.missing.action == "omit")


def _partitions(
    contents: Contents, types: Mapping[str, pa.DataType], lists_fit: bool
) -> Iterator[Partition]:
    for scan in contents.scans:
        for each in scan.ranges:
            yield Partition(
                display(scan.file.path), each.record, each.records, each.size,
                RecordPart(scan.file.path, each, types, lists_fit), scan.file.split,
            )  # fmt: skip


def _notices(contents: Contents) -> Iterator[str]:
    empty = [scan.file.path for scan in contents.scans if not scan.records]
    if empty:
        yield f"{counted(len(empty), 'file')} without records: {some(empty)}"
    yield from gaps(scan.file.path for scan in contents.scans)
    named = [s.file.split for s in contents.scans if s.file.home is None]
    if any(named):
        names = ", ".join(dict.fromkeys(name or "train" for name in named))
        yield f"splits by the names of files: {names}. --split NAME puts all records into one"


class _Columns:
    """Makes batches of the columns that are asked for."""

    def __init__(self, columns: Sequence[str], part: RecordPart, file: str) -> None:
        self._columns, self._file = columns, file
        self._wanted = [_wanted(name, part.types[name]) for name in columns if name != RECORD]
        self._lists_fit = part.lists_fit

    def batch(self, block: Block) -> SourceBatch:
        """The records of a block, which may then be overwritten."""
        data = pa.py_buffer(bytes(block.data))
        arrays = {RECORD: _records(data, block.ends)} if RECORD in self._columns else {}
        faults: list[Fault] = []
        if self._wanted:
            decoded = _kernel.decode_examples(data, block.ends, self._wanted)
            names = (name for name in self._columns if name != RECORD)
            arrays |= dict(zip(names, decoded.columns, strict=True))
            if self._differ(decoded):
                faults = list(self._faults(data, block.ends))
        found = [arrays[column] for column in self._columns]
        batch = pa.RecordBatch.from_arrays(found, list(self._columns))
        batch = batch if found else rows_without_columns(len(block.ends))
        record, file = block.record, self._file

        def place(row: int, _column: str | None, _value: str | None) -> Location:
            return Location(f"{file}, record {record + row}")

        return SourceBatch(batch, Origin(file, record, place=place), tuple(faults))

    def _differ(self, decoded: Decoded) -> bool:
        """Whether any record is not as it should be."""
        misfits = decoded.faults["kind_records"].any() or decoded.faults["count_records"].any()
        return bool(len(decoded.invalid) or misfits or (decoded.sequences and not self._lists_fit))

    def _faults(self, data: pa.Buffer, ends: np.ndarray) -> Iterator[Fault]:
        """What is wrong with each record; they are decoded one by one, for few blocks have any."""
        view, start = memoryview(data), 0
        for row, end in enumerate(ends.tolist()):
            one = np.array([end - start], np.int64)
            decoded = _kernel.decode_examples(view[start:end], one, self._wanted)
            start = end
            if len(decoded.invalid):
                yield Fault(row, None, None, _NO_EXAMPLE, _SKIP)
                continue
            if decoded.sequences and not self._lists_fit:
                yield Fault(row, None, None, _SEQUENCE, _SKIP)
                continue
            for wanted, facts in zip(self._wanted, decoded.faults, strict=True):
                if text := _misfit(wanted, facts):
                    yield Fault(row, wanted.key.decode(), None, text, _SKIP)


def _misfit(wanted: Wanted, facts: np.void) -> str:
    """Why the values of one record are not as wanted; empty where they are."""
    if facts["kind_records"]:
        return f"is {KINDS[int(facts['kind_found'])]} here, but {wanted.kind} in other records"
    if facts["count_records"]:
        return f"has {int(facts['count_found'])} values here, but one in other records"
    return ""


def _wanted(name: str, kind: pa.DataType) -> Wanted:
    is_list = pa.types.is_list(kind)
    return Wanted(name.encode(), _KINDS[kind.value_type if is_list else kind], is_list)


def _records(data: pa.Buffer, ends: np.ndarray) -> pa.Array:
    """Framed records as large_binary, without a copy."""
    bounds = from_numpy(np.concatenate([np.zeros(1, np.int64), ends])).buffers()[1]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends), [None, bounds, data])
