"""How fast tf.data reads, measured in a process of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence

from tfrec_cli.errors import DatasetError, first_line, shorten
from tfrec_cli.throughput.rates import Rate

_BATCH_BYTES = 4e6
_MOST_BATCH = 4096
_SCRIPT = """
import json, sys, time
import tensorflow as tf

asked = json.load(sys.stdin)
for parallel in asked["parallel"]:
    records = tf.data.TFRecordDataset(
        asked["files"], asked["compression"], num_parallel_reads=parallel if parallel > 1 else None
    )
    batches = iter(records.repeat().batch(asked["batch"]).prefetch(2))
    next(batches)
    count, began = 0, time.monotonic()
    while time.monotonic() - began < asked["seconds"]:
        count += int(tf.shape(next(batches))[0])
    print(json.dumps([parallel, count, time.monotonic() - began]), flush=True)
"""


def is_installed() -> bool:
    """Whether TensorFlow is at hand."""
    return importlib.util.find_spec("tensorflow") is not None


def read_tensors(
    files: Sequence[str], compression: str, mean: float, parallel: Sequence[int], seconds: float
) -> list[Rate]:
    """The rates at which a `TFRecordDataset` gives serialized records, in batches.

    compression: in TensorFlow's spelling. mean: bytes of content for a record. parallel: the
    `num_parallel_reads` to try. Raises DatasetError where TensorFlow fails.
    """
    asked = {
        "files": list(files),
        "compression": compression,
        "parallel": list(parallel),
        "batch": int(max(1, min(_MOST_BATCH, _BATCH_BYTES / max(mean, 1)))),
        "seconds": seconds,
    }
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"},
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        text = shorten(first_line(ValueError(last)), 300)
        raise DatasetError(f"TensorFlow does not read {files[0]}: {text}. See tfrec verify.")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [Rate("tf.data", p, count, round(count * mean), took) for p, count, took in lines]
