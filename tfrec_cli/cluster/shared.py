"""What all tasks of a stage share, in a file on the storage that all workers see.

A task is then small, however large the schema or the list of files; a worker reads the file once.
The file holds a pickle, which could run any code where it is loaded, and others may be allowed to
write to the storage. So each task carries the SHA-256 of the file, by the same way as the task
itself, and nothing else is ever loaded.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import uuid
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tfrec_cli.dataset.failures import writing
from tfrec_cli.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Shared:
    """A file that holds one pickled value, and the SHA-256 of its bytes."""

    path: str
    digest: bytes

    def load(self) -> Any:
        """The value. Raises OSError where the file is gone, DatasetError where it is not the one
        that was shared.
        """
        return _load(self)


def share(folder: str | os.PathLike[str], value: Any) -> Shared:
    """Keep `value` in a new file in `folder`. Raises DatasetError where it cannot be written."""
    path = os.path.join(folder, f"shared-{uuid.uuid4().hex}")
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    with writing(folder), open(path, "xb") as file:
        file.write(data)
    return Shared(path, hashlib.sha256(data).digest())


@lru_cache(maxsize=4)
def _load(shared: Shared) -> Any:
    with open(shared.path, "rb") as file:
        data = file.read()
    if hashlib.sha256(data).digest() != shared.digest:
        raise DatasetError(
            f"{shared.path}: {len(data):,} bytes that are not what this run wrote there; they were "
            "not loaded. See who else writes to this folder, then run again."
        )
    return pickle.loads(data)
