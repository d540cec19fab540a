"""Index files of a dataset's shards: made while these are written, or from the files themselves."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import numpy as np

from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.manifest import INDEXES
from tfrec_cli.errors import UsageError
from tfrec_cli.options import IndexFormat
from tfrec_cli.records.index import find_records, index_name, index_text


class IndexDraft:
    """The lines of the index of one shard, put together while its records are written.

    path: a file that is there, with all of them, when `close` returns and not before; the same may
    be written twice at a time, by tasks that know nothing of each other. Its folder is made. Raises
    DatasetError where it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._end = path, 0
        self._draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        with writing(str(path)):
            path.parent.mkdir(exist_ok=True)
            self._file = _create(self._draft)

    def add(self, ends: np.ndarray) -> None:
        """The next records. ends: int64, the offset just past each, counted from the first."""
        if len(ends):
            with writing(str(self._path)):
                self._file.write(index_text(ends + self._end, self._end))
            self._end += int(ends[-1])

    def close(self) -> None:
        """Give the file its name."""
        with writing(str(self._path)):
            self._file.close()
            os.replace(self._draft, self._path)

    def abort(self) -> None:
        """Give up; nothing is left."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            os.unlink(self._draft)


def _create(path: Path) -> IO[bytes]:
    return open(path, "xb")


def index_files(
    shards: Iterable[str],
    path: Callable[[str], Path],
    formats: Sequence[IndexFormat],
    drafts: Path | None = None,
) -> Iterator[tuple[str, bytes]]:
    """The indexes of `shards`, each as its name in the dataset (`index/…`) and its bytes.

    path: where a shard lies, by name. drafts: a folder in which an IndexDraft has left the lines of
    those shards that this run has written, by name; the others are read. Raises DamageError,
    UsageError and OSError as `records.index.find_records`.
    """
    for shard in shards:
        text = _drafted(drafts, shard)
        if text is None:
            text = index_text(find_records(path(shard)))
        for kind in formats:
            yield f"{INDEXES}/{index_name(shard, kind)}", text


def _drafted(drafts: Path | None, shard: str) -> bytes | None:
    if drafts is None:
        return None
    try:
        return (drafts / shard).read_bytes()
    except FileNotFoundError:
        return None


def check_index(formats: Sequence[IndexFormat], compression: str, is_stdout: bool) -> None:
    """Raise UsageError where a run that writes such shards cannot have indexes."""
    if formats and is_stdout:
        raise UsageError("--index: DEST is -, and indexes lie beside the shards. Give a folder.")
    if formats and compression != "none":
        raise UsageError(
            f"--index: shards would be {compression.upper()}, and nobody can jump to a record in "
            "the middle of compressed data. Leave one of them out."
        )
