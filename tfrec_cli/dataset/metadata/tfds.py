"""Metadata of TensorFlow Datasets: `tfds.builder_from_directory(folder)`.

`features.json` is the JSON form of the message FeaturesDict, `dataset_info.json` that of
DatasetInfo; their 64-bit numbers are JSON strings. Class names are in `FEATURE.labels.txt`, where
`/` in the feature's name is `.`, as tfrec writes them anyway. Keys of records are taken as they
are, `/` and all, so that a feature and another below it (`x`, `x/row_lengths`) can both be there.
"""

from __future__ import annotations

import json
from typing import Any

from tfrec_cli.dataset.manifest import FeatureFacts, Manifest
from tfrec_cli.errors import UsageError, key_text, listed

NO_FOLDER = (
    "tfds: TensorFlow Datasets reads folders of numbered shards, not single files. Give a folder "
    "as DEST."
)
FEATURES = "features.json"
INFO = "dataset_info.json"
IMAGE, LABEL = "image/encoded", "image/class/label"
VERSION = "1.0.0"

_CLASSES = "tensorflow_datasets.core.features."
_DTYPES = {"int64": "int64", "float": "float32", "bytes": "string"}
_FILLED = "-2^63 for int64, the lowest float32, and empty bytes"


def describe(manifest: Manifest) -> tuple[dict[str, str], list[str]]:
    """Both files, and notices. Raises UsageError for what TensorFlow Datasets cannot read."""
    refuse_compressed(manifest.compression.kind)
    if not manifest.features:
        raise UsageError("tfds: nothing is known of the features of the records.")
    features = {key: body for facts in manifest.features for key, body in _features(facts)}
    document = {
        "pythonClassName": f"{_CLASSES}features_dict.FeaturesDict",
        "featuresDict": {"features": features},
    }
    return {FEATURES: _json(document), INFO: _json(_info(manifest))}, _notices(manifest)


def refuse_compressed(kind: str) -> None:
    """Raise UsageError where shards are compressed."""
    if kind != "none":
        raise UsageError(
            f"tfds: the shards are {kind.upper()}, and TensorFlow Datasets reads uncompressed ones "
            "only. Convert with --compression none."
        )


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def _info(manifest: Manifest) -> dict[str, Any]:
    splits = [
        {
            "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
            "name": split.name,
            "numBytes": str(sum(shard.bytes for shard in split.shards)),
            "shardLengths": [str(shard.records) for shard in split.shards],
        }
        for split in manifest.splits
    ]
    info: dict[str, Any] = {
        "description": f"{manifest.name}, written by tfrec {manifest.tfrec.version}.",
        "fileFormat": "tfrecord",
        "name": manifest.name,
        "splits": splits,
        "version": VERSION,
    }
    if {IMAGE, LABEL} <= {facts.key for facts in manifest.features}:
        items = [{"featureKey": IMAGE}, {"featureKey": LABEL}]
        info["supervisedKeys"] = {"tuple": {"items": items}}
    return info


def _features(facts: FeatureFacts) -> list[tuple[str, dict[str, Any]]]:
    """The entries of the features dict for one feature, row lengths included."""
    lengths = [(key, _sequence(_tensor("int64", ()))) for key in facts.row_lengths]
    if facts.ragged:
        one = _class_label(facts) if _has_classes(facts) else _tensor(_DTYPES[facts.type], ())
        return [(facts.key, _sequence(one)), *lengths]
    if facts.key == IMAGE and facts.type == "bytes" and not facts.shape and not _may_lack(facts):
        return [(facts.key, _image())]
    if _has_classes(facts) and not facts.shape and not _may_lack(facts):
        return [(facts.key, _class_label(facts))]
    return [(facts.key, _tensor(_DTYPES[facts.type], facts.shape or (), _may_lack(facts)))]


def _may_lack(facts: FeatureFacts) -> bool:
    return facts.missing == "omit"


def _has_classes(facts: FeatureFacts) -> bool:
    """Whether TensorFlow Datasets, which numbers classes from 0, can have the labels."""
    names = facts.labels
    return names is not None and facts.first_label == 0 and all(_is_line(name) for name in names)


def _is_line(name: str) -> bool:
    """Whether a name comes back from a file of one name a line, blank lines passed over."""
    return name.strip() == name != "" and name.splitlines() == [name]


def _body(module: str, body: str, entries: dict[str, Any]) -> dict[str, Any]:
    return {"pythonClassName": f"{_CLASSES}{module}", body: entries}


def _tensor(dtype: str, shape: tuple[int, ...], optional: bool = False) -> dict[str, Any]:
    dimensions = {"dimensions": [str(size) for size in shape]} if shape else {}
    entries: dict[str, Any] = {"dtype": dtype, "encoding": "none", "shape": dimensions}
    if optional:
        entries["optional"] = True
    return _body("tensor_feature.Tensor", "tensor", entries)


def _class_label(facts: FeatureFacts) -> dict[str, Any]:
    count = str(len(facts.labels or ()))
    return _body("class_label_feature.ClassLabel", "classLabel", {"numClasses": count})


def _image() -> dict[str, Any]:
    entries = {"dtype": "uint8", "shape": {"dimensions": ["-1", "-1", "3"]}}
    return _body("image_feature.Image", "image", entries)


def _sequence(feature: dict[str, Any]) -> dict[str, Any]:
    entries = {"feature": feature, "length": "-1"}
    return _body("sequence_feature.Sequence", "sequence", entries)


def _notices(manifest: Manifest) -> list[str]:
    """What is otherwise than in the records."""
    labelled = [f for f in manifest.features if f.labels is not None]
    plain = [
        key_text(f.key) for f in labelled
        if not _has_classes(f) or (not f.ragged and (f.shape or _may_lack(f)))
    ]  # fmt: skip
    lacking = [key_text(f.key) for f in manifest.features if _may_lack(f) and not f.ragged]
    notices = []
    if plain:
        notices.append(
            f"tfds: {listed(plain, 5)} without class names: TensorFlow Datasets has names only for "
            "numbers from 0, one in each record, none of them blank"
        )
    if lacking:
        notices.append(f"tfds: a missing value is read as {_FILLED} (in {listed(lacking, 5)})")
    nested = [key_text(f.key) for f in manifest.features if f.row_lengths]
    if nested:
        notices.append(
            f"tfds: lists of lists are read flat, the lengths of their rows beside them: "
            f"{listed(nested, 5)}. TensorFlow Datasets nests only what has its own names"
        )
    return notices
