"""The tf.data script that reads a dataset back, generated from its manifest.

The feature specifications follow `tf.io.parse_example`: FixedLenFeature for scalars and shapes,
with a default where records may lack the key; RaggedFeature for lists of any length, with row
lengths where lists are nested; VarLenFeature for an int64 scalar that may be missing, since no
integer can stand for "no value".
"""

from __future__ import annotations

from typing import Any

from tfrec_cli.dataset.manifest import FeatureFacts, Manifest
from tfrec_cli.loaders.parts import common, entries

_DTYPES = {"int64": "tf.int64", "float": "tf.float32", "bytes": "tf.string"}
_NEUTRAL = {"float": 'float("nan")', "bytes": '""'}

_SCRIPT = '''\
"""Reads the TFRecord dataset {name} with tf.data. Written by tfrec {version}.

As a module: `from {module} import load`. As a script: prints one batch of each split.
"""

import sys
from pathlib import Path

import tensorflow as tf

{data}COMPRESSION = {compression!r}  # tf.data does not find out by itself

FEATURES = {{
{features}
}}
{labels}

def parse(serialized):
    """A batch of serialized records as a dict of tensors."""
    return tf.io.parse_example(serialized, FEATURES)

{image}
def load(split={split}, batch_size=32, shuffle=0, dataset=DATASET):
    """Batches of one split, as dicts of tensors.

    shuffle: how many records tf.data holds to shuffle among; 0 keeps the order of the files.
    """
    files = sorted(str(p) for name in FILES[split] for p in Path(dataset).glob(name))
    if len(files) != SHARDS[split]:
        found = f"{{len(files)}} of {{SHARDS[split]}} files match {{FILES[split]}}"
        raise FileNotFoundError(f"{{dataset}}: {{found}}")
    records = tf.data.TFRecordDataset(files, compression_type=COMPRESSION)
    if shuffle:
        records = records.shuffle(shuffle)
    batches = records.batch(batch_size).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return batches.prefetch(tf.data.AUTOTUNE)


def describe(value):
    """A tensor in a few words."""
    kinds = {{tf.sparse.SparseTensor: "sparse ", tf.RaggedTensor: "ragged "}}
    return f"{{kinds.get(type(value), '')}}{{value.dtype.name}} {{value.shape}}"


{program}'''

_IMAGE = '''
def decode(example):
    """One record's image as a uint8 tensor of shape [height, width, channels].

    Images may differ in size: use it on single records, or resize before batching, as in
    `load(...).unbatch().map(decode)`.
    """
    return tf.io.decode_image(example["image/encoded"], expand_animations=False)

'''


def tensorflow_script(manifest: Manifest, dataset: str) -> str:
    """A complete Python script that reads `dataset` (a path, written into it) with tf.data."""
    return _SCRIPT.format(
        **common(manifest, dataset),
        compression=manifest.compression.tensorflow,
        features=entries({key: spec for f in manifest.features for key, spec in _specs(f)}),
        image=_IMAGE if any(f.key == "image/encoded" for f in manifest.features) else "",
    )


def _specs(feature: FeatureFacts) -> list[tuple[str, str]]:
    """The entries of the feature dict: the output key and the code of its specification."""
    dtype = _DTYPES[feature.type]
    if feature.ragged == 1:
        return [(feature.key, f"tf.io.RaggedFeature({dtype})")]
    if feature.ragged > 1:
        partitions = ", ".join(
            f"tf.io.RaggedFeature.RowLengths({key!r})" for key in feature.row_lengths
        )
        code = f"tf.io.RaggedFeature({dtype}, value_key={feature.key!r}, partitions=[{partitions}])"
        return [(feature.key, code)]
    return [(feature.key, _fixed(feature, dtype))]


def _fixed(feature: FeatureFacts, dtype: str) -> str:
    shape = list(feature.shape or ())
    if feature.missing != "omit":
        return f"tf.io.FixedLenFeature({shape}, {dtype})"
    if feature.type == "int64":
        return f"tf.io.VarLenFeature({dtype})"
    count = _product(shape)
    neutral = _NEUTRAL[feature.type]
    default: Any = f"[{neutral}] * {count}" if shape else neutral
    return f"tf.io.FixedLenFeature({shape}, {dtype}, default_value={default})"


def _product(shape: list[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
