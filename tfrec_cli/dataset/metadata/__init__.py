"""Files beside the shards that other programs know a dataset by.

tfds       features.json, dataset_info.json: TensorFlow Datasets, `tfds.builder_from_directory`
tfmd       schema.pbtxt: TensorFlow Metadata, which TFX, TFDV and TensorFlow Transform read
label-map  label_map.pbtxt: class names and numbers for the Object Detection API
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfrec_cli.dataset.keys import refuse_odd_keys
from tfrec_cli.dataset.manifest import Manifest
from tfrec_cli.dataset.metadata import labelmap, tfds, tfmd
from tfrec_cli.errors import UsageError
from tfrec_cli.options import MetadataFormat

_MAKERS = {"tfds": tfds.describe, "tfmd": tfmd.describe, "label-map": labelmap.describe}
_READERS = {"tfds": "TensorFlow Datasets", "tfmd": "TensorFlow Metadata"}


@dataclass(frozen=True, slots=True)
class Metadata:
    """Files, name to text, and what the user should know of them."""

    files: dict[str, str]
    notices: tuple[str, ...]


def describe(manifest: Manifest, formats: Iterable[MetadataFormat]) -> Metadata:
    """The files of `formats` for a dataset. Raises UsageError where one cannot say what it is."""
    files: dict[str, str] = {}
    notices: list[str] = []
    for kind in formats:
        if kind in _READERS:
            refuse_odd_keys(manifest.features, _READERS[kind])
        made, said = _MAKERS[kind](manifest)
        files |= made
        notices += said
    return Metadata(files, tuple(notices))


def check_metadata(formats: Sequence[MetadataFormat], planned: Manifest, kind: str) -> None:
    """Raise UsageError where a run with this plan cannot have the files. kind: of its DEST."""
    if formats and kind == "stdout":
        raise UsageError("--metadata: DEST is -, and its files lie beside the shards.")
    if "tfds" in formats and kind == "file":
        raise UsageError(tfds.NO_FOLDER)
    describe(planned, formats)
