"""What all tasks of a stage share, in a file on the storage that all workers see.

A task is then small, however large the schema or the list of files; a worker reads the file once.
"""

from __future__ import annotations

import os
import pickle
import uuid
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tfrec_cli.dataset.failures import writing


@dataclass(frozen=True, slots=True)
class Shared:
    """A file that holds one pickled value."""

    path: str

    def load(self) -> Any:
        """The value. Raises OSError where the file is gone."""
        return _load(self.path)


def share(folder: str | os.PathLike[str], value: Any) -> Shared:
    """Keep `value` in a new file in `folder`. Raises DatasetError where it cannot be written."""
    path = os.path.join(folder, f"shared-{uuid.uuid4().hex}")
    with writing(folder), open(path, "xb") as file:
        pickle.dump(value, file, protocol=pickle.HIGHEST_PROTOCOL)
    return Shared(path)


@lru_cache(maxsize=4)
def _load(path: str) -> Any:
    with open(path, "rb") as file:
        return pickle.load(file)
