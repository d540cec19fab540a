"""What PATH... names: datasets, their files, and what is wrong before a file is opened."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tfrec_cli.dataset.manifest import (
    MANIFEST,
    Manifest,
    Shard,
    is_broken,
    load_manifest,
    manifest_path,
    read_manifest,
)
from tfrec_cli.dataset.naming import parse_dest
from tfrec_cli.dataset.recovery import recover
from tfrec_cli.dataset.splitnames import split_of
from tfrec_cli.errors import DamageError, DatasetError, UsageError, shorten
from tfrec_cli.reading.finding import Finding
from tfrec_cli.reading.inventory import (
    Coverage,
    broken,
    extra,
    gap,
    missing,
    series,
    side_files,
)
from tfrec_cli.records.framing import HEADER, starts_with_record
from tfrec_cli.sources.foreign import refuse_foreign
from tfrec_cli.sources.paths import no_file

if TYPE_CHECKING:
    from tfrec_cli.reading.expectations import Expectations

_NAMED = re.compile(
    r".*(\.tf_?records?|\.tfrec|\.tfr|\.records?)([-_.].*)?|.*-\d{5,}-of-\d{5,}(\..*)?",
    re.IGNORECASE | re.DOTALL,
)
_BESIDE = re.compile(
    r".*\.(json|ya?ml|txt|md|csv|tsv|parquet|py|idx|index|tfindex|pbtxt)", re.IGNORECASE | re.DOTALL
)
_NO_MANIFEST = (
    "it is not what tfrec wrote, so nobody knows what the dataset should hold. Restore it from a "
    "copy, or remove it to have the files read without one."
)


@dataclass(frozen=True, slots=True)
class Target:
    """One file to read. split: where it is known. shard: what the manifest says of it, if any."""

    path: str
    split: str | None = None
    shard: Shard | None = None


@dataclass(frozen=True)
class Dataset:
    """Files that belong together. path: as the user gave it. findings: of files that are not
    there, too many, or beside the shards. home: the folder with the manifest or a schema. asked:
    what the records must have where somebody says so. notices: how much of it was named, where
    that is not all.
    """

    path: str
    files: tuple[Target, ...]
    manifest: Manifest | None = None
    findings: tuple[Finding, ...] = field(default=())
    home: str | None = None
    asked: Expectations | None = None
    notices: tuple[str, ...] = ()

    @property
    def owner(self) -> str:
        """What its manifest is that of, a folder or a file: `path`, but for shards that were named,
        whose manifest is that of their folder.
        """
        own = manifest_path(self.path).parent
        return self.path if self.home is None or Path(self.home) == own else self.home

    @cached_property
    def expected(self) -> Expectations | None:
        """What the records must have; None where nothing is known of it."""
        if self.asked is not None or self.home is None:
            return self.asked
        # Schemas take longer to import than small datasets to be read, and few commands ask.
        from tfrec_cli.reading.expectations import saved_expectations

        return saved_expectations(self.home, self.manifest)


def roll_forward(path: str) -> None:
    """Finish what a killed run left to be put at `path`, or throw it away."""
    with suppress(UsageError):
        recover(parse_dest(path))


def find_datasets(
    paths: Sequence[str], schema: str | None = None, is_sure: bool = False, apart: bool = False
) -> list[Dataset]:
    """What `paths` (folders, files, globs) hold. schema: a file that says what records must have.
    is_sure: whether files that are named are taken for TFRecord, whatever they begin with, as those
    in folders are that have its name. apart: whether a file in a folder that has a manifest of its
    own is a dataset by itself there too, rather than one of the folder's files.

    Raises DatasetError where there is nothing at a path, or a file that is plainly something else,
    SchemaError for a wrong schema.
    """
    asked = None if schema is None else _asked(schema)
    loose: dict[str, Target] = {}
    known: dict[str, Manifest | None] = {}
    found: list[Dataset] = []
    matches = [(pattern, _matches(pattern)) for pattern in paths]
    coverage = Coverage.of(matches)
    for path in (match for _, matched in matches for match in matched):
        if os.path.isdir(path):
            inside = _folders(path, known if apart else None)
            if not inside and path in paths:
                raise DatasetError(f"{shorten(path, 1000)}: no TFRecord file is in this folder.")
            found += inside
        elif _is_beside(path, known):
            continue
        elif (dataset := _single(path, known)) is not None:
            found.append(dataset)
        else:
            _refuse_no_file(path)
            loose.setdefault(os.path.realpath(path), Target(path, split_of(path)))
    found = [_completed(dataset, coverage, loose) for dataset in _together(found)]
    if loose:
        found.append(_loose(tuple(loose.values()), coverage))
    for file in loose.values() if not is_sure else ():
        refuse_foreign(file.path, DatasetError)
    if not found:
        raise DatasetError(f"{shorten(paths[0], 1000)} is no TFRecord file. Name the dataset.")
    found = list(_distinct(found))
    return found if asked is None else [replace(d, asked=asked) for d in found]


def _asked(schema: str) -> Expectations:
    from tfrec_cli.reading.expectations import from_schema
    from tfrec_cli.schema import load_schema

    return from_schema(load_schema(schema), shorten(schema))


def _matches(pattern: str) -> list[str]:
    """The paths that a pattern matches, or itself where it is none."""
    if os.path.lexists(pattern) or not glob.has_magic(pattern):
        return [pattern]
    if matches := sorted(glob.glob(pattern, recursive=True)):
        return [m for m in matches if os.path.isdir(m) or not _BESIDE.fullmatch(m)] or matches
    raise _nothing(pattern)


def _nothing(path: str) -> DatasetError:
    if path == "-":
        return DatasetError(
            "-: standard input is not read here. Save it to a file, and name that file."
        )
    return DatasetError(f"{shorten(path, 1000)}: nothing is there. Name a dataset or its files.")


def _refuse_no_file(path: str) -> None:
    """Raise DatasetError where no file is at `path`."""
    found = no_file(path)
    if found == "nothing":
        raise _nothing(path)
    if found is not None:
        raise DatasetError(
            f"{shorten(path, 1000)}: it is {found}, but a file was expected. Name a dataset or "
            "its files."
        )


def _together(datasets: Iterable[Dataset]) -> list[Dataset]:
    """Shards of one dataset that were named one by one are one dataset again."""
    found: dict[int, list[Dataset]] = {}
    for dataset in datasets:
        # A manifest is loaded once, so equal ones of two datasets are two.
        found.setdefault(id(dataset.manifest or dataset), []).append(dataset)
    return [parts[0] if len(parts) == 1 else _joined(parts) for parts in found.values()]


def _joined(parts: Sequence[Dataset]) -> Dataset:
    files = tuple(dict.fromkeys(file for part in parts for file in part.files))
    findings = tuple(dict.fromkeys(finding for part in parts for finding in part.findings))
    name = _names(dict.fromkeys(part.path for part in parts))
    return replace(parts[0], path=name, files=files, findings=findings)


def _names(paths: Iterable[str]) -> str:
    first, *others = paths
    return f"{first} … {others[-1]}" if others else first


def _completed(dataset: Dataset, coverage: Coverage, loose: dict[str, Target]) -> Dataset:
    """A dataset of which shards were named, with what was named beside them, which is taken from
    `loose`, and what a pattern would have named were it there.
    """
    if dataset.manifest is None or dataset.path == dataset.home:
        return dataset
    shards = dataset.manifest.shards
    named = [file.path for file in dataset.files]
    named += [f.file for f in dataset.findings if f.kind == "missing shard"]
    folder, names = os.path.dirname(named[0]), set(map(os.path.basename, named))
    if dataset.home != (folder or "."):
        return dataset  # a single file, whose manifest lies elsewhere
    absent = [
        missing(path, shard, "nothing")
        for shard in shards
        if shard.name not in names and coverage.covers(path := os.path.join(folder, shard.name))
    ]
    extras = [real for real, file in loose.items() if _is_beside_shards(file.path, folder)]
    files = tuple(loose.pop(real) for real in extras)
    count = len(names) + len(absent)
    return replace(
        dataset,
        files=dataset.files + files,
        findings=(*dataset.findings, *absent, *(extra(file.path) for file in files)),
        notices=() if count == len(shards) else (_partial(dataset.path, count, len(shards)),),
    )


def _is_beside_shards(path: str, folder: str) -> bool:
    where, name = os.path.split(path)
    return where == folder and _is_data(folder, name)


def _loose(files: tuple[Target, ...], coverage: Coverage) -> Dataset:
    """Files without a manifest that were named one by one or by patterns."""
    findings: list[Finding] = []
    notices: list[str] = []
    for one in series(file.path for file in files):
        gaps = [path for path in one.gaps if coverage.covers(path)]
        findings += [gap(path, one.count) for path in gaps]
        if one.found and len(gaps) < len(one.gaps):
            notices.append(_partial(one.name, one.found + len(gaps), one.count))
    name = _names(file.path for file in files)
    return Dataset(name, files, findings=tuple(findings), notices=tuple(notices))


def _partial(name: str, count: int, total: int) -> str:
    verb = "was" if count == 1 else "were"
    return f"{shorten(name, 1000)}: {count:,} of {total:,} shards {verb} named"


def _distinct(datasets: Iterable[Dataset]) -> Iterator[Dataset]:
    """Each dataset once, however often it was named."""
    seen: set[frozenset[str]] = set()
    for dataset in datasets:
        files = frozenset(os.path.realpath(file.path) for file in dataset.files)
        if files not in seen or not files:
            seen.add(files)
            yield dataset


def _folders(path: str, known: dict[str, Manifest | None] | None) -> list[Dataset]:
    """The dataset in a folder, or, where it is none of ours, all that are below it, if any.

    known: the manifests loaded so far, where single files that have one are datasets by themselves.
    """
    found: list[Dataset] = []
    files: list[str] = []
    faults: list[Finding] = []
    for folder, names, here in os.walk(path, onerror=_refuse):
        hidden = [name for name in names if name.startswith(".")]
        names[:] = sorted(name for name in names if not name.startswith("."))
        try:
            manifest = load_manifest(folder)
        except DamageError as error:
            faults.append(broken(folder, error))
            manifest = None
        if manifest is not None:
            found.append(_ours(folder, manifest))
            names.clear()
            continue
        data = [os.path.join(folder, n) for n in sorted(here) if _is_data(folder, n)]
        if data and not faults and is_broken(Path(folder, MANIFEST)):
            faults.append(broken(folder, DamageError(_NO_MANIFEST)))
        own = [] if known is None else _own(folder, hidden, data, known)
        found += own
        files += _others(data, own)
    if files or faults:
        targets = tuple(Target(file, split_of(file)) for file in files)
        gaps = [gap(path, one.count) for one in series(files) for path in one.gaps]
        found.append(Dataset(path, targets, None, (*faults, *gaps), path))
    return found


def _own(
    folder: str, hidden: Iterable[str], data: Iterable[str], known: dict[str, Manifest | None]
) -> list[Dataset]:
    """The files in a folder whose manifest is in one of its `hidden` folders, there or not."""
    homes = {os.path.abspath(os.path.join(folder, name)) for name in hidden}
    paths = {path for path in data if homes and os.fspath(manifest_path(path).parent) in homes}
    for home in homes:
        with suppress(DamageError):  # told of the file itself
            manifest = _load(home, known)
            paths |= {os.path.join(folder, s.name) for s in manifest.shards} if manifest else set()
    found = [_single(path, known) for path in sorted(paths)]
    return [dataset for dataset in found if dataset is not None]


def _others(files: Iterable[str], datasets: Iterable[Dataset]) -> list[str]:
    """The files that are none of the datasets'."""
    taken = {file.path for dataset in datasets for file in dataset.files}
    return [file for file in files if file not in taken]


def _refuse(error: OSError) -> None:
    raise DatasetError(f"{error.filename}: {error.strerror}.") from None


def _is_data(folder: str, name: str) -> bool:
    """Whether a file looks like a TFRecord file, by name or by content."""
    if name.startswith((".", "_")) or _BESIDE.fullmatch(name):
        return False
    path = os.path.join(folder, name)
    if not os.path.isfile(path) and (os.path.exists(path) or not os.path.islink(path)):
        return False
    if _NAMED.fullmatch(name):
        return True
    try:
        with open(path, "rb") as file:
            return starts_with_record(file.read(HEADER))
    except OSError:
        return False


def _ours(folder: str, manifest: Manifest) -> Dataset:
    """A dataset folder with a manifest."""
    names = {shard.name: split.name for split in manifest.splits for shard in split.shards}
    files, findings = [], []
    for shard in manifest.shards:
        path = os.path.join(folder, shard.name)
        if found := no_file(path):
            findings.append(missing(path, shard, found))
        else:
            files.append(Target(path, names[shard.name], shard))
    for name in sorted(os.listdir(folder)):
        if name not in manifest.names and _is_data(folder, name):
            path = os.path.join(folder, name)
            files.append(Target(path, split_of(name)))
            findings.append(extra(path))
    findings += side_files(Path(folder), manifest)
    return Dataset(folder, tuple(files), manifest, tuple(findings), folder)


def _single(path: str, known: dict[str, Manifest | None]) -> Dataset | None:
    """A file with a manifest: one of its own, or that of the folder it is a shard in.

    known: the manifests of folders loaded so far, to be added to.
    """
    name, folder = os.path.basename(path), os.path.dirname(path) or "."
    home = os.fspath(manifest_path(path).parent)
    try:
        own = _load(home, known)
        manifest = own or _load(folder, known)
    except DamageError as error:
        return Dataset(path, _unknown(path), findings=(broken(path, error),))
    if own is None and Path(home) != Path(folder) and is_broken(Path(home, MANIFEST)):
        fault = broken(path, DamageError(_NO_MANIFEST))
        return Dataset(path, _unknown(path), findings=(fault,))
    places = (
        {s.name: (s, split.name) for split in manifest.splits for s in split.shards}
        if manifest
        else {}
    )
    if manifest is None or name not in places:
        return None
    shard, split = places[name]
    findings = side_files(Path(home), manifest) if own else []
    where = home if own else folder
    if found := no_file(path):
        return Dataset(path, (), manifest, (missing(path, shard, found), *findings), where)
    # The split of a single file is `train` where nobody said anything else.
    split = (split_of(path) or split) if own else split
    return Dataset(path, (Target(path, split, shard),), manifest, tuple(findings), where)


def _unknown(path: str) -> tuple[Target, ...]:
    """The file at `path` of which nothing is known, where there is one."""
    _refuse_no_file(path)
    return (Target(path, split_of(path)),)


def _is_beside(path: str, known: dict[str, Manifest | None]) -> bool:
    """Whether a file is the manifest of a dataset, or beside its shards: `dataset/*` names it."""
    try:
        manifest = _load(os.path.dirname(path) or ".", known)
    except DamageError:
        return os.path.basename(path) == MANIFEST
    return manifest is not None and os.path.basename(path) in {
        MANIFEST,
        *(file.name for file in manifest.files),
    }


def _load(folder: str, known: dict[str, Manifest | None]) -> Manifest | None:
    """The manifest in a folder, loaded once."""
    if folder not in known:
        known[folder] = read_manifest(Path(folder) / MANIFEST)
    return known[folder]
