"""The script for a dataset of any origin, by its manifest or by a look at its records."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfrec_cli.dataset.keys import refuse_odd_keys
from tfrec_cli.dataset.manifest import Manifest, load_manifest
from tfrec_cli.dataset.naming import DEFAULT_SPLIT, identifier
from tfrec_cli.errors import DatasetError, shorten
from tfrec_cli.inspection.payload import without_lists
from tfrec_cli.loaders.grain import grain_script
from tfrec_cli.loaders.parts import Framework
from tfrec_cli.loaders.tensorflow import tensorflow_script
from tfrec_cli.loaders.torch import torch_script
from tfrec_cli.reading import RecordDataset, open_dataset
from tfrec_cli.reading.standin import alike_features, containers, stand_in
from tfrec_cli.reading.targets import Target

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
    DatasetError where there is nothing to read, where the records have no features or are not
    alike, and for files that lie in several folders; UsageError for what a framework cannot read;
    DamageError at damage, and where a shard that the manifest names is not there.
    """
    dataset = open_dataset(path)
    dataset.check_whole()
    manifest = load_manifest(path)
    if manifest is not None and manifest.features:
        return _script(manifest, path, framework)
    features = alike_features(dataset, "a script would fail")
    if not features:
        raise DatasetError(f"{shorten(path, 1000)}: the records have no features to read.")
    if manifest is None:
        manifest, path = _found(dataset, framework)
    notices = [found.brief() for found in dataset.findings]
    notices += filter(None, [without_lists(dataset)])
    return _script(replace(manifest, features=features), path, framework, notices)


def _script(
    manifest: Manifest, path: str, framework: Framework, notices: Sequence[str] = ()
) -> Script:
    if framework == "tf":
        refuse_odd_keys(manifest.features, "tf.data")
    return Script(FRAMEWORKS[framework](manifest, path), tuple(notices))


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
    kinds = containers(files)
    if framework == "tf" and len(kinds) > 1:
        words = " and some ".join("plain" if k == "none" else k.upper() for k in sorted(kinds))
        raise DatasetError(
            f"{shown}: some files are {words}, and tf.data reads one kind at a time. "
            "`tfrec convert` makes them one."
        )
    name = identifier(Path(dataset.path).stem)
    manifest = stand_in(dataset, name, (), _named(dataset.splits))
    return manifest, files[0].target.path if len(files) == 1 else folders.pop()


def _named(splits: Mapping[str | None, Sequence[Target]]) -> dict[str, Sequence[Target]]:
    """Splits with a name for the files of which nobody knows one."""
    rest = _OTHERS if DEFAULT_SPLIT in splits else DEFAULT_SPLIT
    return {split or rest: files for split, files in splits.items()}
