"""Metadata for other programs, for datasets and TFRecord files that are there already."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.manifest import FeatureFacts, manifest_path
from tfrec_cli.dataset.metadata import Metadata, describe
from tfrec_cli.dataset.metadata.tfds import NO_FOLDER, refuse_compressed
from tfrec_cli.dataset.naming import identifier, parse_dest
from tfrec_cli.dataset.staging import amend
from tfrec_cli.errors import DamageError, DatasetError, UsageError, shorten
from tfrec_cli.inspection.payload import without_lists
from tfrec_cli.options import MetadataFormat
from tfrec_cli.reading import RecordDataset, open_dataset
from tfrec_cli.reading.features import facts_of
from tfrec_cli.reading.standin import alike_features, stand_in
from tfrec_cli.reading.targets import Target
from tfrec_cli.records.framing import sniff_file

_SHARD = re.compile(r"([A-Za-z]\w*)-([\w-]+)\.tfrecord-(\d{5,})-of-(\d{5,})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Written:
    """The files that were written, by path, and what the user should know of them."""

    path: str
    files: tuple[str, ...]
    notices: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return asdict(self)


def write_metadata(path: str, formats: Sequence[MetadataFormat]) -> Written:
    """Write the files of `formats` beside the shards of the dataset at `path`; a manifest then
    names them.

    Without a manifest, what the features are is found by a look at all records. Raises UsageError
    where a format cannot say what the dataset is, DatasetError where there is none, or more than
    one, where records are not alike, or files of these names hold something else, DamageError where
    records are damaged.
    """
    dataset = open_dataset(path)
    manifest = dataset.manifest
    if manifest is None:
        return _write_foreign(dataset, formats)
    for finding in dataset.findings:
        if finding.kind == "missing shard":
            raise DamageError(f"{finding} No metadata was written.")
    owner = dataset.owner
    dest = parse_dest(owner)
    # What no look at the records can change comes first.
    if "tfds" in formats:
        if dest.kind == "file":
            raise UsageError(NO_FOLDER)
        refuse_compressed(manifest.compression.kind)
    if not manifest.features:
        manifest = replace(manifest, features=_features(dataset, formats))
    made = describe(manifest, formats)
    made = replace(made, notices=(*made.notices, *_left_out(dataset)))
    amend(dest, lambda _: ((name, _bytes(text)) for name, text in made.files.items()))
    return _written(path, manifest_path(owner).parent, made)


def _written(path: str, home: Path, made: Metadata) -> Written:
    return Written(path, tuple(os.fspath(home / name) for name in made.files), made.notices)


def _left_out(dataset: RecordDataset) -> tuple[str, ...]:
    text = without_lists(dataset)
    return (text,) if text else ()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _write_foreign(dataset: RecordDataset, formats: Sequence[MetadataFormat]) -> Written:
    folders = {os.path.dirname(target.path) for target in dataset.files}
    if len(folders) != 1:
        raise DatasetError(
            f"{shorten(dataset.path, 1000)}: the files lie in {len(folders)} folders. Name one of "
            "them."
        )
    home = Path(folders.pop())
    name, splits = identifier(Path(dataset.path).name), dict[str, Sequence[Target]]()
    if "tfds" in formats:
        _refuse_compressed(dataset.files)
        name, splits = _shards(dataset.files)
    features = _features(dataset, formats)
    made = describe(stand_in(dataset, name, features, splits), formats)
    made = replace(made, notices=(*made.notices, *_left_out(dataset)))
    for name, text in made.files.items():
        _refuse_other(home / name, _bytes(text))
    for name, text in made.files.items():
        with writing(home / name):
            draft = home / f".{name}.{os.getpid()}"
            try:
                draft.write_bytes(_bytes(text))
                os.replace(draft, home / name)
            finally:
                draft.unlink(missing_ok=True)
    return _written(dataset.path, home, made)


def _refuse_other(path: Path, wanted: bytes) -> None:
    """Raise DatasetError where something else than `wanted` lies at `path`."""
    if os.path.lexists(path) and not (path.is_file() and path.read_bytes() == wanted):
        raise DatasetError(f"{path} is there and holds something else. Move it away.")


def _features(
    dataset: RecordDataset, formats: Sequence[MetadataFormat]
) -> tuple[FeatureFacts, ...]:
    """The features of records of which no manifest tells."""
    if set(formats) & {"tfds", "tfmd"}:
        return alike_features(dataset, "those who read by the metadata would fail")
    return tuple(facts_of(info) for info in dataset.features.values())


def _refuse_compressed(files: Sequence[Target]) -> None:
    """Raise UsageError where TensorFlow Datasets cannot have such files, before anything is read of
    them but their first bytes.
    """
    for target in files:
        try:
            refuse_compressed(sniff_file(target.path))
        except OSError as error:
            raise DatasetError(f"{target.path}: {error.strerror or error}.") from None


def _shards(files: Sequence[Target]) -> tuple[str, dict[str, Sequence[Target]]]:
    """The dataset's name and the files of its splits, from the names of all of them. Raises
    UsageError where TensorFlow Datasets cannot have such, DamageError where a shard is not there.
    """
    names: set[str] = set()
    splits: dict[str, dict[int, Target]] = {}
    counts: dict[str, int] = {}
    for file in files:
        match = _SHARD.fullmatch(os.path.basename(file.path))
        if match is None:
            raise UsageError(
                f"tfds: {file.path} is not called as TensorFlow Datasets calls shards, "
                "NAME-SPLIT.tfrecord-00000-of-00010. Rename the files."
            )
        names.add(match[1])
        counts[match[2]] = max(counts.get(match[2], 0), int(match[4]))
        splits.setdefault(match[2], {})[int(match[3])] = file
    if len(names) > 1:
        raise UsageError(f"tfds: shards of {len(names)} datasets are here: {', '.join(names)}.")
    for split, shards in splits.items():
        if sorted(shards) != list(range(counts[split])):
            raise DamageError(f"tfds: of {counts[split]} shards of {split}, some are not there.")
    ordered = {name: [shards[n] for n in sorted(shards)] for name, shards in splits.items()}
    return names.pop(), dict(ordered)
