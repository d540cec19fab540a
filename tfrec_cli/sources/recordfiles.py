"""The TFRecord files that SOURCEs name, and what manifests beside them say of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfrec_cli.dataset.manifest import (
    MANIFEST,
    SCHEMA,
    Manifest,
    Shard,
    load_manifest,
    manifest_path,
    read_manifest,
)
from tfrec_cli.dataset.splitnames import split_of
from tfrec_cli.errors import DamageError, SchemaError, SourceError, listed
from tfrec_cli.schema.model import Schema
from tfrec_cli.schema.yaml import load_schema
from tfrec_cli.sources.files import counted, display, expand_inputs, some
from tfrec_cli.sources.foreign import HEAD, holds_records, refuse_foreign
from tfrec_cli.sources.paths import no_file
from tfrec_cli.sources.suffixes import TFRECORD_SUFFIXES

_NUMBERED = re.compile(r"(.*)-(\d{5,9})-of-(\d{5,9})(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Home:
    """A manifest and the folder it lies in."""

    folder: Path
    manifest: Manifest

    def schema(self) -> Schema | None:
        """The schema that lies with the manifest, where it can be read."""
        try:
            return load_schema(self.folder / SCHEMA)
        except SchemaError:
            return None


@dataclass(frozen=True, slots=True)
class RecordFile:
    """One file. split: that the manifest or its name tells. shard, home: where a manifest knows
    the file, what it says of it.
    """

    path: str
    split: str | None = None
    shard: Shard | None = None
    home: Home | None = None

    @property
    def is_as_written(self) -> bool:
        """Whether the file has the size that the manifest says."""
        return self.shard is not None and os.stat(self.path).st_size == self.shard.bytes


@dataclass(frozen=True, slots=True)
class RecordFiles:
    """Files in order, and what was passed over."""

    files: tuple[RecordFile, ...]
    notices: tuple[str, ...] = ()


def _holds_records(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return holds_records(file.read(HEAD))
    except OSError:
        return False


def find_record_files(
    inputs: Sequence[str], temp_dir: str | None, use_manifests: bool
) -> RecordFiles:
    """The files that `inputs` mean: by the rules of `sources.files`, or of a folder with a manifest
    the shards that this names, in its order.

    Raises SourceError for what is missing or plainly no TFRecord, DamageError for a shard of a
    dataset that is not there and for a manifest that is damaged.
    """
    homes = _Homes(use_manifests)
    files: list[RecordFile] = []
    notices: list[str] = []
    for item in inputs:
        found = homes.dataset(item)
        if found is None:
            listed_files = expand_inputs([item], TFRECORD_SUFFIXES, temp_dir, _holds_records)
            found = [homes.file(path) for path in listed_files.files]
            for file in found:
                if file.shard is None:
                    refuse_foreign(file.path, SourceError)
            notices += listed_files.notices
            if os.path.isdir(item):
                homes.refuse_gaps(found)
        files += found
    return _once(files, notices)


def _named_split(path: str) -> str | None:
    """The split that a file's name speaks of, or the folder it lies in where that is called so:
    `test/`, `Split-test/`, but not `my_test_runs/`.
    """
    folder, name = os.path.split(path)
    folder = os.path.basename(folder)
    is_split = re.fullmatch(r"(split[-_=])?[a-z]+", folder, re.IGNORECASE)
    return split_of(name) or (split_of(folder) if is_split else None)


def gaps(paths: Iterable[str]) -> Iterator[str]:
    """Words on files that the names of others promise: `a-00001-of-00003` of three."""
    groups: dict[tuple[str, int, str], set[int]] = {}
    for path in paths:
        if match := _NUMBERED.fullmatch(path):
            groups.setdefault((match[1], int(match[3]), match[4]), set()).add(int(match[2]))
    for (stem, count, suffix), numbers in groups.items():
        if lacking := count - sum(number < count for number in numbers):
            first = next(number for number in range(count) if number not in numbers)
            name = f"{os.path.basename(stem)}-{first:05d}-of-{count:05d}{suffix}"
            verb = "is" if lacking == 1 else "are"
            yield (
                f"{lacking:,} of {count:,} files that their names number {verb} not among the "
                f"sources: {display(name)}{', …' if lacking > 1 else ''}"
            )


def _once(files: Iterable[RecordFile], notices: list[str]) -> RecordFiles:
    first: dict[str, RecordFile] = {}
    twice: list[str] = []
    for file in files:
        if first.setdefault(os.path.realpath(file.path), file) is not file:
            twice.append(file.path)
    if twice:
        notices.append(f"{counted(len(twice), 'file')} named twice, read once: {some(twice)}")
    return RecordFiles(tuple(first.values()), tuple(notices))


class _Homes:
    """The manifests that were met, each read once."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._known: dict[Path, Home | None] = {}
        self._shards: dict[Path, dict[str, tuple[str, Shard]]] = {}

    def dataset(self, folder: str) -> list[RecordFile] | None:
        """The shards of a dataset folder in the order of its manifest; None where it has none."""
        home = self._at(Path(folder)) if self._wanted and os.path.isdir(folder) else None
        if home is None:
            return None
        found = [
            RecordFile(os.path.join(folder, shard.name), split.name, shard, home)
            for split in home.manifest.splits
            for shard in split.shards
        ]
        _refuse_missing(home, (file.path for file in found if no_file(file.path)))
        return found

    def file(self, path: str) -> RecordFile:
        """A file with what the manifest in its folder, or its own, says of it."""
        name, folder = os.path.basename(path), Path(os.path.dirname(path))
        for place in (manifest_path(path).parent, folder) if self._wanted else ():
            home = self._at(place)
            if home is not None and name in self._shards[place]:
                split, shard = self._shards[place][name]
                # The split of a single file is `train` where nobody said anything else.
                named = split if place == folder else _named_split(path) or split
                return RecordFile(path, named, shard, home)
        return RecordFile(path, _named_split(path))

    def refuse_gaps(self, files: Iterable[RecordFile]) -> None:
        """Raise DamageError where a dataset below a folder lacks a shard."""
        there = {file.path for file in files}
        for place, home in self._known.items():
            if home is None or not any(os.path.dirname(path) == str(place) for path in there):
                continue
            names = (os.path.join(place, name) for name in self._shards[place])
            _refuse_missing(home, (name for name in names if name not in there))

    def _at(self, place: Path) -> Home | None:
        if place not in self._known:
            manifest = load_manifest(place) if place.is_dir() else read_manifest(place / MANIFEST)
            self._known[place] = None if manifest is None else Home(place, manifest)
            self._shards[place] = dict(_shards(manifest)) if manifest is not None else {}
        return self._known[place]


def _shards(manifest: Manifest) -> Iterator[tuple[str, tuple[str, Shard]]]:
    for split in manifest.splits:
        for shard in split.shards:
            yield shard.name, (split.name, shard)


def _refuse_missing(home: Home, paths: Iterable[str]) -> None:
    if missing := list(paths):
        names = listed([display(path) for path in missing], 3)
        found = {no_file(path) for path in missing} - {"nothing", None}
        what = f"no file ({listed(sorted(map(str, found)), 3)})" if found else "not there"
        verb = "is" if len(missing) == 1 else "are"
        raise DamageError(
            f"{names} {verb} {what}, but {display(str(home.folder / MANIFEST))} has "
            f"{'it' if len(missing) == 1 else 'them'}. Restore what is missing, or name the files "
            "that are there."
        )
