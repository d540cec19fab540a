"""The script for a dataset of any origin, by its manifest or by a look at its records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfrec_cli.dataset.manifest import Manifest, Shard, Split, load_manifest
from tfrec_cli.dataset.naming import DEFAULT_SPLIT, identifier
from tfrec_cli.errors import DatasetError, counted, key_text, shorten
from tfrec_cli.inspection.payload import without_lists
from tfrec_cli.loaders.grain import grain_script
from tfrec_cli.loaders.parts import Framework
from tfrec_cli.loaders.tensorflow import tensorflow_script
from tfrec_cli.loaders.torch import torch_script
from tfrec_cli.options import Compression
from tfrec_cli.reading import RecordDataset, open_dataset
from tfrec_cli.reading.features import facts_of
from tfrec_cli.reading.survey import FileFacts

FRAMEWORKS = {"tf": tensorflow_script, "torch": torch_script, "grain": grain_script}
"""What makes the script of each framework, from the manifest and the dataset's path."""

# The split of files of which nobody knows one, where that of other files is the usual one.
_OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Script:
    """The text of a program, and what its user should know."""

    text: str
    notices: tuple[str, ...] = ()


def loader_script(path: str, framework: Framework) -> Script:
    """The program that reads the dataset at `path`, a folder, file or pattern, of any origin.

    Where no manifest says what the features are, all records are looked at for it. Raises
    DatasetError where there is nothing to read, where the records have no features, and for files
    that lie in several folders; DamageError at damage, and where a shard
    that the manifest names is not there.
    """
    dataset = open_dataset(path)
    dataset.check_whole()
    manifest = load_manifest(path)
    if manifest is not None and manifest.features:
        return Script(FRAMEWORKS[framework](manifest, path))
    features = tuple(facts_of(info) for info in dataset.features.values())
    _check_records(dataset)
    if not features:
        raise DatasetError(f"{shorten(path, 1000)}: the records have no features to read.")
    if manifest is None:
        manifest, path = _found(dataset, framework)
    notices = [str(replace(found, tensorflow="")) for found in dataset.findings]
    notices += filter(None, [without_lists(dataset)])
    text = FRAMEWORKS[framework](replace(manifest, features=features), path)
    return Script(text, tuple(notices))


def _check_records(dataset: RecordDataset) -> None:
    """Raise DatasetError where some records are not as the others, so that a script ends there."""
    survey = dataset.survey()
    others = survey.records - survey.examples
    if others:
        problem = f"{counted(others, 'record')} of {survey.records:,} are no tf.train.Example"
    elif mixed := next(
        (f for f in survey.features if sum(map(bool, f.kind_records[1:])) > 1), None
    ):
        key = key_text(mixed.key.decode("utf-8", "backslashreplace"))
        problem = f"feature {key} is not of one kind in all records"
    else:
        return
    raise DatasetError(
        f"{shorten(dataset.path, 1000)}: {problem}, and a script would fail there. `tfrec verify` "
        "lists all that differ; `tfrec convert --schema` with --on-error skip leaves them out."
    )


def _found(dataset: RecordDataset, framework: Framework) -> tuple[Manifest, str]:
    """What a manifest would say of files that have none, but for their features, and where they
    lie: a folder, or the only file.
    """
    shown, files = shorten(dataset.path, 1000), dataset.survey().files
    folders = {os.path.dirname(file.target.path) or "." for file in files}
    if len(folders) > 1:
        raise DatasetError(
            f"{shown}: the files lie in {len(folders)} folders, and a script reads one. Name one "
            "of them, or bring the files together with `tfrec convert`."
        )
    # A file without a byte has no records in any way of reading it.
    kinds = {file.container for file in files if file.bytes}
    if framework == "tf" and len(kinds) > 1:
        words = " and some ".join("plain" if k == "none" else k.upper() for k in sorted(kinds))
        raise DatasetError(
            f"{shown}: some files are {words}, and tf.data reads one kind at a time. "
            "`tfrec convert` makes them one."
        )
    home = folders.pop()
    splits = tuple(_splits(files))
    first = files[0].target.path
    # Of several, one that is compressed: it is what Grain cannot read.
    kind = min(kinds - {"none"}, default="none")
    compression = Compression.made(kind)  # type: ignore[arg-type]
    manifest = Manifest(identifier(Path(dataset.path).stem), compression, splits, ())
    return manifest, first if len(files) == 1 else home


def _splits(files: Sequence[FileFacts]) -> Iterable[Split]:
    known = {file.target.split for file in files}
    rest = _OTHERS if DEFAULT_SPLIT in known else DEFAULT_SPLIT
    found: dict[str, list[Shard]] = {}
    for file in files:
        shard = Shard(os.path.basename(file.target.path), file.records, file.bytes, 0)
        found.setdefault(file.target.split or rest, []).append(shard)
    return (Split(name, tuple(shards)) for name, shards in found.items())
