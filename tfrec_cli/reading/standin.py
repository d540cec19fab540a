"""Files of other origin as if they had a manifest, for what reads datasets by theirs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from tfrec_cli.dataset.manifest import FeatureFacts, Manifest, Shard, Split
from tfrec_cli.errors import DatasetError, counted, key_text, shorten
from tfrec_cli.options import Compression
from tfrec_cli.reading.dataset import RecordDataset
from tfrec_cli.reading.features import facts_of
from tfrec_cli.reading.survey import DatasetSurvey, FileFacts
from tfrec_cli.reading.targets import Target


def alike_features(dataset: RecordDataset, failing: str) -> tuple[FeatureFacts, ...]:
    """The features of records of which no manifest tells, by a look at all of them.

    failing: who cannot read records that are not as the others, `a script would fail`. Raises
    DatasetError where there are such records.
    """
    features = tuple(facts_of(info) for info in dataset.features.values())
    problem = difference(dataset.survey())
    if problem is None:
        return features
    raise DatasetError(
        f"{shorten(dataset.path, 1000)}: {problem}, and {failing} there. `tfrec verify` lists all "
        "that differ; `tfrec convert --schema` with --on-error skip leaves them out."
    )


def difference(survey: DatasetSurvey) -> str | None:
    """How some records are not as the others; None where all are alike."""
    others = survey.records - survey.examples
    if others:
        return f"{counted(others, 'record')} of {survey.records:,} are no tf.train.Example"
    for tally in survey.features:
        if sum(map(bool, tally.kind_records[1:])) > 1:
            key = key_text(tally.key.decode("utf-8", "surrogateescape"))
            return f"feature {key} is not of one kind in all records"
    return None


def stand_in(
    dataset: RecordDataset,
    name: str,
    features: tuple[FeatureFacts, ...],
    splits: Mapping[str, Sequence[Target]],
) -> Manifest:
    """What a manifest would say of a dataset that has none. splits: its files."""
    found = {file.target: file for file in dataset.survey().files}
    made = (Split(split, tuple(_shard(found[t]) for t in own)) for split, own in splits.items())
    kinds = containers(found.values())
    # Of several, one that is compressed: it is what some readers cannot read.
    kind = min(kinds - {"none"}, default="none")
    return Manifest(name, Compression.made(kind), tuple(made), features)  # type: ignore[arg-type]


def containers(files: Iterable[FileFacts]) -> set[str]:
    """How files are compressed; one without a byte has no records in any way of reading it."""
    return {file.container for file in files if file.bytes}


def _shard(file: FileFacts) -> Shard:
    return Shard(os.path.basename(file.target.path), file.records, file.bytes, 0)
