"""A look at datasets: files, features, where the bytes go, and what would save some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tfrec_cli.decoding import KINDS
from tfrec_cli.estimates.advice import advise_shards
from tfrec_cli.estimates.footprint import FRAME, FeatureBytes, Footprint, Saving
from tfrec_cli.inspection.payload import Payload, payloads
from tfrec_cli.inspection.sample import RecordSample, find_savings
from tfrec_cli.progress import SILENT, Reporter
from tfrec_cli.reading.dataset import RecordDataset, open_datasets
from tfrec_cli.reading.features import FeatureInfo, features_of_records
from tfrec_cli.reading.survey import DatasetSurvey, FeatureTally, FileFacts, survey_records

SEQUENCE_LISTS, NO_EXAMPLES = "feature lists", "records of other kinds"


@dataclass(frozen=True, slots=True)
class SplitFacts:
    """The files of one split, None where no split is known. advice: on how many there should be;
    empty where they are no longer of any use, as of an empty split.
    """

    name: str | None
    files: tuple[FileFacts, ...]
    advice: str

    @property
    def records(self) -> int:
        """All records of all files."""
        return sum(file.records for file in self.files)

    @property
    def bytes(self) -> int:
        """Of all files, as they lie on the disk."""
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class FeatureReport:
    """One feature: what it is, in how many records, how many values they have together, and for
    int64 the least and greatest. A feature without a kind is missing, as it is to all who read it;
    an empty list is there. kinds: how many records hold it as each kind, where not all agree.
    """

    info: FeatureInfo
    present: int
    values: int
    low: int | None
    high: int | None
    kinds: dict[str, int] | None


@dataclass(frozen=True, slots=True)
class Inspection:
    """What one dataset holds.

    version: of the tfrec that wrote it, None without a manifest. examples: the records that are
    Examples. content_bytes: of all records, decompressed. parquet_bytes: about what they would take
    as Parquet. payloads: what the records are that are no Example, or more than one.
    problems: what is wrong with the files before they are read.
    """

    path: str
    version: str | None
    records: int
    examples: int
    bytes: int
    content_bytes: int
    splits: tuple[SplitFacts, ...]
    features: tuple[FeatureReport, ...]
    footprint: Footprint | None
    savings: tuple[Saving, ...]
    parquet_bytes: float | None
    payloads: tuple[Payload, ...]
    problems: tuple[str, ...]

    @property
    def files(self) -> tuple[FileFacts, ...]:
        """All files."""
        return tuple(file for split in self.splits for file in split.files)

    @property
    def compression(self) -> dict[str, int]:
        """How many files are plain (`none`), `gzip`, `zlib`."""
        found: dict[str, int] = {}
        for file in self.files:
            found[file.container] = found.get(file.container, 0) + 1
        return found


def inspect(paths: Sequence[str], jobs: int, reporter: Reporter = SILENT) -> list[Inspection]:
    """Look at all records of the datasets at `paths` (folders, files, globs), of any origin.

    Raises DatasetError where there is nothing, DamageError where a record is not intact.
    """
    reporter.stage("inspect", None)
    return [_inspect(dataset, reporter) for dataset in open_datasets(list(paths), jobs)]


def _inspect(dataset: RecordDataset, reporter: Reporter) -> Inspection:
    sample = RecordSample()
    survey = survey_records(dataset.files, dataset.jobs, reporter, sample.add)
    content = sum(file.content_bytes for file in survey.files)
    plain = all(file.container == "none" for file in survey.files)
    saved, parquet = find_savings(sample, survey, content, plain)
    return Inspection(
        path=dataset.path,
        version=dataset.manifest.tfrec.version if dataset.manifest else None,
        records=survey.records,
        examples=survey.examples,
        bytes=sum(file.bytes for file in survey.files),
        content_bytes=content,
        splits=_splits(survey),
        features=_features(dataset, survey),
        footprint=_footprint(survey, content) if survey.features else None,
        savings=tuple(saved),
        parquet_bytes=parquet,
        payloads=payloads(survey),
        problems=tuple(f.brief() for f in dataset.findings),
    )


def _splits(survey: DatasetSurvey) -> tuple[SplitFacts, ...]:
    groups: dict[str | None, list[FileFacts]] = {}
    for file in survey.files:
        groups.setdefault(file.target.split, []).append(file)
    return tuple(_split(name, files) for name, files in groups.items())


def _split(name: str | None, files: Sequence[FileFacts]) -> SplitFacts:
    split = SplitFacts(name, tuple(files), "")
    if not split.records:
        return split
    advice = advise_shards(name or "all", len(files), split.bytes, split.records)
    return replace(split, advice=advice)


def _features(dataset: RecordDataset, survey: DatasetSurvey) -> tuple[FeatureReport, ...]:
    """By the records; labels and shapes of more than one dimension by the manifest."""
    known = {}
    if dataset.manifest is not None:
        known = dict(dataset.features) if dataset.manifest.features else {}
    found = []
    for tally, info in zip(survey.features, features_of_records(survey), strict=True):
        says = known.get(info.key)
        if says is not None and says.kind == info.kind:
            optional, shape = info.optional, says.shape
            if shape is None or (info.fewest == info.most == says.most):
                info = replace(
                    info, shape=shape, labels=says.labels, first_label=says.first_label,
                    optional=optional,
                )  # fmt: skip
        found.append(_report(tally, info))
    return tuple(found)


def _report(tally: FeatureTally, info: FeatureInfo) -> FeatureReport:
    kinds = {n: c for n, c in zip(KINDS, tally.kind_records, strict=True) if c}
    numbers = tally.kind == "int64" and tally.low <= tally.high
    return FeatureReport(
        info,
        tally.present - tally.kind_records[0],
        tally.values,
        tally.low if numbers else None,
        tally.high if numbers else None,
        kinds if len(kinds) > 1 else None,
    )


def _footprint(survey: DatasetSurvey, content: int) -> Footprint:
    """The exact bytes of each feature; what is left is protobuf's around all of a record, or, where
    there are any, what is in records beside the features of Examples.
    """
    features = tuple(_feature_bytes(tally) for tally in survey.features)
    framing = FRAME * survey.records
    other = content - framing - sum(feature.total for feature in features)
    odd = [SEQUENCE_LISTS] if survey.sequences else []
    odd += [NO_EXAMPLES] if survey.examples < survey.records else []
    if odd:
        features, other = (*features, FeatureBytes(" and ".join(odd), other, 0, 0)), 0
    return Footprint(survey.records, features, framing, other, 0)


def _feature_bytes(tally: FeatureTally) -> FeatureBytes:
    names = tally.present * len(tally.key)
    key = tally.key.decode("utf-8", "surrogateescape")
    return FeatureBytes(key, tally.payload, names, tally.bytes - tally.payload - names)


def document(found: Inspection) -> dict[str, Any]:
    """An inspection as JSON: bytes as whole numbers.

    path, version, records, examples, bytes, content_bytes, compression {kind: files}
    splits     [{name, records, bytes, advice, files: [{file, compression, records, examples,
               bytes, content_bytes}]}]
    features   [{key, kind, shape, fewest, most, optional, labels, first_label, present, values,
               low, high, kinds, bytes, value_bytes, name_bytes}]
    savings    [{kind, text, bytes}], parquet_bytes (null where it is not known)
    payloads   [{records, file, record, kind, keys, sampled}]: records that are no tf.train.Example
    problems   [text]
    """
    sizes = {f.key: f for f in found.footprint.features} if found.footprint else {}
    return {
        "path": found.path,
        "version": found.version,
        "records": found.records,
        "examples": found.examples,
        "bytes": found.bytes,
        "content_bytes": found.content_bytes,
        "compression": found.compression,
        "splits": [_split_entry(split) for split in found.splits],
        "features": [_feature_entry(report, sizes) for report in found.features],
        "savings": [asdict(saving) | {"bytes": round(saving.bytes)} for saving in found.savings],
        "parquet_bytes": None if found.parquet_bytes is None else round(found.parquet_bytes),
        "payloads": [asdict(one) for one in found.payloads],
        "problems": list(found.problems),
    }


def _split_entry(split: SplitFacts) -> dict[str, Any]:
    files = [
        {
            "file": file.target.path,
            "compression": file.container,
            "records": file.records,
            "examples": file.examples,
            "bytes": file.bytes,
            "content_bytes": file.content_bytes,
        }
        for file in split.files
    ]
    return {
        "name": split.name,
        "records": split.records,
        "bytes": split.bytes,
        "advice": split.advice,
        "files": files,
    }


def _feature_entry(report: FeatureReport, sizes: dict[str, FeatureBytes]) -> dict[str, Any]:
    size = sizes[report.info.key]
    return asdict(report.info) | {
        "key": report.info.name,
        "present": report.present,
        "values": report.values,
        "low": report.low,
        "high": report.high,
        "kinds": report.kinds,
        "bytes": round(size.total),
        "value_bytes": round(size.values),
        "name_bytes": round(size.names),
    }
