"""Index files for datasets and TFRecord files that are there already."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.indexes import index_files
from tfrec_cli.dataset.manifest import INDEXES, Manifest, manifest_path
from tfrec_cli.dataset.naming import parse_dest
from tfrec_cli.dataset.staging import amend, workplace
from tfrec_cli.errors import DamageError, DatasetError
from tfrec_cli.options import IndexFormat
from tfrec_cli.reading.targets import Dataset, find_datasets, roll_forward
from tfrec_cli.records.framing import promised_compression, sniff_file
from tfrec_cli.records.index import index_name, is_index, refuse_compressed

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
    manifest. A manifest names them. Indexes that were there are replaced. Each file is read once,
    and memory is bounded, whatever the number of records.

    Nothing is written where a file is compressed (UsageError) or not what the manifest says
    (DamageError), and nothing for a dataset, or a folder of files of other origin, of which a
    record is damaged (DamageError). Raises DatasetError where there is nothing to index, two files
    would have one index, or it cannot be written.
    """
    for path in paths:
        roll_forward(path)
    datasets = find_datasets(paths)
    for dataset in datasets:
        _check(dataset)
    _refuse_equal_names([target.path for dataset in datasets for target in dataset.files])
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


def _refuse_equal_names(paths: Sequence[str]) -> None:
    """Raise DatasetError where two files would have one index."""
    found: dict[tuple[str, str], str] = {}
    for path in paths:
        folder, name = os.path.split(os.path.realpath(path))
        index = index_name(name, "dali")
        other = found.setdefault((folder, index), path)
        if os.path.realpath(other) != os.path.realpath(path):
            raise DatasetError(
                f"{other} and {path}: the index of both would be {INDEXES}/{index}. Rename one of "
                "them, or move it to another folder; nothing was indexed."
            )


def _index(dataset: Dataset, formats: Sequence[IndexFormat]) -> Indexed:
    paths = {os.path.basename(target.path): Path(target.path) for target in dataset.files}
    if dataset.manifest is None:
        return _index_foreign(dataset, formats)
    owner = dataset.owner
    names = [name for name in paths if name in _shards(dataset.manifest)]
    found = _Found(str(manifest_path(owner).parent))
    amend(
        parse_dest(owner),
        lambda work: found.noted(index_files(names, paths.__getitem__, formats, work)),
    )
    return Indexed(dataset.path, found.lines // len(formats), len(names), tuple(found.paths))


def _shards(manifest: Manifest) -> set[str]:
    return {shard.name for shard in manifest.shards}


class _Found:
    """The indexes in `home` that have gone by: their paths, and how many lines they have together.

    The lines are those of all formats.
    """

    def __init__(self, home: str) -> None:
        self.home, self.lines = home, 0
        self.paths: list[str] = []

    def noted(
        self, indexes: Iterable[tuple[str, Iterator[bytes]]]
    ) -> Iterator[tuple[str, Iterator[bytes]]]:
        """The indexes themselves."""
        for name, pieces in indexes:
            self.paths.append(os.path.join(self.home, name))
            yield name, self._counted(pieces)

    def _counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.lines += piece.count(b"\n")
            yield piece


def _index_foreign(dataset: Dataset, formats: Sequence[IndexFormat]) -> Indexed:
    """Indexes beside files of other origin; those of one folder take their places together."""
    folders: dict[str, list[str]] = {}
    for target in dataset.files:
        folder, name = os.path.split(target.path)
        folders.setdefault(folder, []).append(name)
    found = [_index_folder(folder, names, formats) for folder, names in folders.items()]
    paths = [path for one in found for path in one.paths]
    lines = sum(one.lines for one in found)
    return Indexed(dataset.path, lines // len(formats), len(dataset.files), tuple(paths))


def _index_folder(folder: str, names: Sequence[str], formats: Sequence[IndexFormat]) -> _Found:
    """The indexes of files in one folder, made beside their places and then moved there."""
    found = _Found(folder)
    home = Path(folder, INDEXES)
    if os.path.lexists(home) and not home.is_dir():
        raise DatasetError(f"{home} is there and is no folder for indexes. Move it away.")
    for name in names:
        for kind in formats:
            _refuse_other(home / index_name(name, kind))
    with workplace(parse_dest(str(home))) as work, writing(home):
        drafts = work / "drafts"
        made = list[Path]()
        for name, pieces in found.noted(index_files(names, Path(folder).joinpath, formats, drafts)):
            made.append(work / os.path.basename(name))
            with made[-1].open("wb") as file:
                file.writelines(pieces)
        home.mkdir(exist_ok=True)
        for draft in made:
            _refuse_other(home / draft.name)
            os.replace(draft, home / draft.name)
    return found


def _refuse_other(path: Path) -> None:
    """Raise DatasetError where something else than an index is at `path`."""
    if os.path.lexists(path) and not _is_index(path):
        raise DatasetError(f"{path} is there and is no index. Move it away.")


def _is_index(path: Path) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return is_index(file.read(_HEAD))
