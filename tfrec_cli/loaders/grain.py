"""The Grain script (for JAX) that reads a dataset back, generated from its manifest."""

from __future__ import annotations

from tfrec_cli.dataset.manifest import Manifest
from tfrec_cli.errors import UsageError
from tfrec_cli.loaders.parts import arrow_parts

_SCRIPT = '''\
"""Reads the TFRecord dataset {name} with Grain, for JAX. Written by tfrec {version}.

As a module: `from {module} import load`. As a script: prints one batch of each split. Needs grain
and tfrec-cli, which finds records by their number: through index files where there are any
(`tfrec index`), else by reading the files once.
"""

import functools
import math
import sys
from pathlib import Path

import grain
import numpy as np
import tfrec_cli

{data}{arrow}

def stack(value):
    """Numbers as they are; lists of any length as an array, filled up with zeros, and lengths."""
    if not isinstance(value, tuple):
        return value
    values, lengths = value
    longest = int(lengths.max(initial=0))
    padded = np.zeros((len(lengths), longest), values.dtype)
    padded[np.arange(longest) < lengths[:, None]] = values
    return padded, lengths


def decode_batch(dataset, records):
    """Serialized records as a dict: numpy arrays, lists of bytes; for a list of any length, an
    array that is filled up with zeros, and in KEY + "/lengths" how long each is.
    """
    found = {{}}
    for key, value in columns(dataset.decode(records, list(FEATURES))).items():
        value = stack(value)
        if isinstance(value, tuple):
            found[key], found[key + "/lengths"] = value
        else:
            found[key] = value
    return found

{image}
def load(
    split={split}, batch_size=32, seed=None, epochs=1, shard=(0, 1), workers=0, dataset=DATASET,
    drop_remainder=False,
):
    """A grain.IterDataset of batches of one split; its iterators can be checkpointed.

    seed: shuffles all records, in each epoch otherwise; None keeps the order. epochs: None is
    endless. shard: number of this process and how many there are. workers: processes that read.
    """
    files = sorted(str(p) for name in FILES[split] for p in Path(dataset).glob(name))
    if len(files) != SHARDS[split]:
        found = f"{{len(files)}} of {{SHARDS[split]}} files match {{FILES[split]}}"
        raise FileNotFoundError(f"{{dataset}}: {{found}}")
    opened = tfrec_cli.open_dataset(files, features=FEATURES)
    records = grain.MapDataset.source(opened.by_number())
    records = records[shard[0] :: shard[1]]
    if seed is not None:
        records = records.seed(seed).shuffle()
    records = records.repeat(epochs) if epochs != 1 else records
    batches = records.to_iter_dataset().batch(
        batch_size,
        drop_remainder=drop_remainder,
        batch_fn=functools.partial(decode_batch, opened),
    )
    if workers:
        batches = batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    return batches


def describe(value):
    """A value of a batch in a few words."""
    if isinstance(value, list):
        return f"list of {{len(value)}}"
    return f"{{value.dtype}} {{value.shape}}"


{program}'''


def grain_script(manifest: Manifest, dataset: str) -> str:
    """A complete Python script that reads `dataset` (a path, written into it) with Grain.

    Raises UsageError for compressed shards.
    """
    if manifest.compression.kind != "none":
        raise UsageError(
            f"--framework grain: Grain reads records by number, which the "
            f"{manifest.compression.kind.upper()} shards do not allow. Convert with --compression "
            "none."
        )
    return _SCRIPT.format(**arrow_parts(manifest, dataset))
