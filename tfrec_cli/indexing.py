"""Index files for datasets and TFRecord files that are there already."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.indexes import index_files
from tfrec_cli.dataset.manifest import MANIFEST, Manifest, manifest_path
from tfrec_cli.dataset.naming import parse_dest
from tfrec_cli.dataset.staging import amend
from tfrec_cli.errors import DamageError, DatasetError
from tfrec_cli.options import IndexFormat
from tfrec_cli.reading.targets import Dataset, find_datasets, roll_forward
from tfrec_cli.records.framing import promised_compression, sniff_file
from tfrec_cli.records.index import is_index, refuse_compressed

_HEAD = 4096


@dataclass(frozen=True, slots=True)
class Indexed:
    """What was indexed: a dataset's path, its records and files, the indexes by path."""

    path: str
    records: int
    files: int
    indexes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """As an object of the JSON document."""
        return asdict(self)


def write_indexes(paths: Sequence[str], formats: Sequence[IndexFormat]) -> list[Indexed]:
    """Write the indexes of all files that `paths` (dataset folders, files, globs) name.

    They lie in a folder `index` beside the files; those of a single file of tfrec's with its
    manifest. A manifest names them. Indexes that were there are replaced. Nothing is written where
    a file is compressed (UsageError), damaged, or not what the manifest says (DamageError); raises
    DatasetError where there is nothing to index, or it cannot be written.
    """
    for path in paths:
        roll_forward(path)
    datasets = find_datasets(paths)
    for dataset in datasets:
        _check(dataset)
    return [_index(dataset, formats) for dataset in datasets]


def _check(dataset: Dataset) -> None:
    """Raise where a file of the dataset cannot be indexed."""
    for finding in dataset.findings:
        if finding.kind in ("missing shard", "manifest"):
            raise DamageError(f"{finding} Nothing was indexed.")
    for target in dataset.files:
        try:
            size = os.path.getsize(target.path)
            empty = promised_compression(target.path) if not size else "none"
            refuse_compressed(target.path, sniff_file(target.path) if size else empty)
        except OSError as error:
            raise DatasetError(f"{target.path}: {error.strerror or error}.") from None
        if target.shard is not None and size != target.shard.bytes:
            raise DamageError(
                f"{target.path} has {size:,} bytes, but the manifest says "
                f"{target.shard.bytes:,}. See tfrec verify; nothing was indexed."
            )


def _index(dataset: Dataset, formats: Sequence[IndexFormat]) -> Indexed:
    paths = {os.path.basename(target.path): Path(target.path) for target in dataset.files}
    if dataset.manifest is None:
        return _index_foreign(dataset, formats)
    owner = dataset.path
    if not (manifest_path(owner).parent / MANIFEST).exists():
        # A shard was named, and the manifest is that of its folder.
        owner = os.path.dirname(dataset.files[0].path) or "."
    names = [name for name in paths if name in _shards(dataset.manifest)]
    dest = parse_dest(owner)
    found: list[str] = []
    records = 0

    def made() -> Iterable[tuple[str, bytes]]:
        nonlocal records
        for name, text in index_files(names, paths.__getitem__, formats):
            found.append(os.path.join(manifest_path(owner).parent, name))
            records += text.count(b"\n")
            yield name, text

    amend(dest, made())
    return Indexed(dataset.path, records // len(formats), len(names), tuple(found))


def _shards(manifest: Manifest) -> set[str]:
    return {shard.name for shard in manifest.shards}


def _index_foreign(dataset: Dataset, formats: Sequence[IndexFormat]) -> Indexed:
    """Indexes beside files of other origin, each put in its place whole."""
    found: list[str] = []
    records = 0
    for target in dataset.files:
        folder, name = os.path.split(target.path)
        for index, text in index_files([name], Path(folder).joinpath, formats):
            path = Path(folder, index)
            _put(path, text)
            found.append(str(path))
            records += text.count(b"\n")
    return Indexed(dataset.path, records // len(formats), len(dataset.files), tuple(found))


def _put(path: Path, text: bytes) -> None:
    """Write an index, over another index at most."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with writing(path):
        path.parent.mkdir(exist_ok=True)
        if os.path.lexists(path) and not _is_index(path):
            raise DatasetError(f"{path} is there and is no index. Move it away.")
        try:
            draft.write_bytes(text)
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)


def _is_index(path: Path) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return is_index(file.read(_HEAD))
