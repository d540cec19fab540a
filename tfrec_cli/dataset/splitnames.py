"""Which split a file belongs to, by the usual names."""

from __future__ import annotations

import os
import re

_WORDS = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "dev": "validation",
    "eval": "eval",
    "test": "test",
    "testing": "test",
    "holdout": "holdout",
}


def split_of(path: str) -> str | None:
    """The split that a file's name, or the folder it lies in, speaks of; None where neither does.

    `mnist-train.tfrecord-00000-of-00002`, `validation-00001-of-00128`, `Split-eval/data.gz`,
    `test/part-0.tfrecord`. Of several words in a name the last counts.
    """
    folder, name = os.path.split(path)
    for text in (name, os.path.basename(folder)):
        words = re.findall(r"[a-z]+", text.lower())
        found = [_WORDS[word] for word in words if word in _WORDS]
        if found:
            return found[-1]
    return None
