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

_PIECE = 1 << 20


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
    drafts: Path,
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """The indexes of `shards`, each as its name in the dataset (`index/…`) and its bytes in pieces
    of about 1 MiB, to be taken before the next index is asked for.

    path: where a shard lies, by name. drafts: a folder in which an IndexDraft has left the lines of
    those shards that this run has written, by name; of the others they are put there, by one read
    of each. A draft is removed when it has been taken in all formats. Raises what
    `records.index.find_records` raises, and DatasetError where a draft cannot be written.
    """
    for shard in shards:
        draft = drafts / shard
        if not draft.exists():
            _write_draft(path(shard), draft)
        for kind in formats:
            yield f"{INDEXES}/{index_name(shard, kind)}", _pieces(draft)
        draft.unlink()


def _write_draft(shard: Path, path: Path) -> None:
    draft = IndexDraft(path)
    try:
        start = 0
        for ends in find_records(shard):
            draft.add(ends - start)
            start = int(ends[-1])
        draft.close()
    except BaseException:
        draft.abort()
        raise


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece


def check_index(formats: Sequence[IndexFormat], compression: str, is_stdout: bool) -> None:
    """Raise UsageError where a run that writes such shards cannot have indexes."""
    if formats and is_stdout:
        raise UsageError("--index: DEST is -, and indexes lie beside the shards. Give a folder.")
    if formats and compression != "none":
        raise UsageError(
            f"--index: shards would be {compression.upper()}, and nobody can jump to a record in "
            "the middle of compressed data. Leave one of them out."
        )
