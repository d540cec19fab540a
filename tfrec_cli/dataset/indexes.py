"""Index files of a dataset's shards, made from the shards themselves before they are committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tfrec_cli.dataset.manifest import INDEXES
from tfrec_cli.errors import UsageError
from tfrec_cli.options import IndexFormat
from tfrec_cli.records.index import find_records, index_name, index_text


def index_files(
    shards: Iterable[str], path: Callable[[str], Path], formats: Sequence[IndexFormat]
) -> Iterator[tuple[str, bytes]]:
    """The indexes of `shards`, each as its name in the dataset (`index/…`) and its bytes.

    path: where a shard lies, by name. Raises DamageError, UsageError and OSError as
    `records.index.find_records`.
    """
    for shard in shards:
        text = index_text(find_records(path(shard)))
        for kind in formats:
            yield f"{INDEXES}/{index_name(shard, kind)}", text


def check_index(formats: Sequence[IndexFormat], compression: str, is_stdout: bool) -> None:
    """Raise UsageError where a run that writes such shards cannot have indexes."""
    if formats and is_stdout:
        raise UsageError("--index: DEST is -, and indexes lie beside the shards. Give a folder.")
    if formats and compression != "none":
        raise UsageError(
            f"--index: shards would be {compression.upper()}, and nobody can jump to a record in "
            "the middle of compressed data. Leave one of them out."
        )
