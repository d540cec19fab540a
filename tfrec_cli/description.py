"""A dataset in words: its manifest, from what was settled, planned and written."""

from __future__ import annotations

from typing import Literal

from tfrec_cli.dataset.manifest import (
    FeatureFacts,
    Manifest,
    Rows,
    Shard,
    Split,
    library_versions,
)
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.options import ConvertOptions
from tfrec_cli.plan import Plan, SplitPlan
from tfrec_cli.provenance import output_options
from tfrec_cli.rowlengths import nested
from tfrec_cli.schema.binding import BoundFeature
from tfrec_cli.schema.infer import row_lengths
from tfrec_cli.settlement import Settled
from tfrec_cli.sourcefiles import known_files


def described(dest: Dest, settled: Settled, plan: Plan, options: ConvertOptions) -> Manifest:
    """The manifest of a run before it is written: the shards have no bytes, and the files are
    those that the survey knows.
    """
    return Manifest(
        name=dest.name,
        compression=dest.compression,
        splits=tuple(_planned(dest, split) for split in plan.splits),
        features=_known(settled),
        rows=Rows(plan.rows, plan.records, 0, plan.rejected),
        options=output_options(options),
        libraries=library_versions(dest.compression),
        notices=tuple(settled.survey.notices),
        sources=known_files(settled),
    )


def _known(settled: Settled) -> tuple[FeatureFacts, ...]:
    """The features of the records; of the source's own none unless all records have just these, so
    that readers look for themselves.
    """
    if settled.records is not None and not settled.records.sure:
        return ()
    return nested([_facts(feature) for feature in settled.features], settled.schema)


def _planned(dest: Dest, split: SplitPlan) -> Split:
    names = dest.shards(split.name, len(split.shards))
    shards = (Shard(name, n, 0, 0) for name, n in zip(names, split.shards, strict=True))
    return Split(split.name, tuple(shards), split.asked)


def _facts(feature: BoundFeature) -> FeatureFacts:
    return FeatureFacts(
        feature.key,
        feature.type,
        feature.shape,
        feature.ragged,
        row_lengths(feature.key, feature.ragged),
        _missing(feature),
        feature.labels,
        feature.first_label,
    )


def _missing(feature: BoundFeature) -> Literal["error", "omit", "default"]:
    """What a reader meets where there is no value; an unknown label may be left out as well."""
    omits = "omit" in (feature.missing.action, feature.unknown.action)
    return "omit" if omits else feature.missing.action
