"""What PATH... names: datasets, their files, and what is wrong before a file is opened."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfrec_cli import _kernel
from tfrec_cli.dataset.manifest import (
    MANIFEST,
    SCHEMA,
    Manifest,
    Shard,
    load_manifest,
    manifest_path,
    read_manifest,
)
from tfrec_cli.dataset.naming import parse_dest
from tfrec_cli.dataset.splitnames import split_of
from tfrec_cli.dataset.staging import recover
from tfrec_cli.errors import DamageError, DatasetError, SchemaError, UsageError, shorten
from tfrec_cli.reading.expectations import Expectations, from_manifest, from_schema
from tfrec_cli.reading.finding import Finding
from tfrec_cli.records.framing import HEADER, starts_with_record
from tfrec_cli.schema import Schema, load_schema
from tfrec_cli.sources.recordfiles import refuse_foreign

_NAMED = re.compile(
    r".*(\.tf_?records?|\.tfrec|\.tfr|\.records?)([-_.].*)?|.*-\d{5,}-of-\d{5,}(\..*)?",
    re.IGNORECASE | re.DOTALL,
)
_BESIDE = re.compile(
    r".*\.(json|ya?ml|txt|md|csv|tsv|parquet|py|idx|index|tfindex|pbtxt)", re.IGNORECASE | re.DOTALL
)
_NUMBERED = re.compile(r"(.*)-(\d{5,})-of-(\d{5,})(.*)", re.DOTALL)
_Known = tuple[Manifest | None, Expectations | None]
_LOST = "reads the files that are there, without an error"


@dataclass(frozen=True, slots=True)
class Target:
    """One file to read. split: where it is known. shard: what the manifest says of it, if any."""

    path: str
    split: str | None = None
    shard: Shard | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Files that belong together. path: as the user gave it. findings: of files that are not
    there, too many, or beside the shards.
    """

    path: str
    files: tuple[Target, ...]
    manifest: Manifest | None = None
    expected: Expectations | None = None
    findings: tuple[Finding, ...] = field(default=())


def roll_forward(path: str) -> None:
    """Finish what a killed run left to be put at `path`, or throw it away."""
    with suppress(UsageError):
        recover(parse_dest(path))


def find_datasets(
    paths: Sequence[str], schema: str | None = None, is_sure: bool = False
) -> list[Dataset]:
    """What `paths` (folders, files, globs) hold. schema: a file that says what records must have.
    is_sure: whether files that are named are taken for TFRecord, whatever they begin with, as those
    in folders are that have its name.

    Raises DatasetError where there is nothing at a path, or a file that is plainly something else,
    SchemaError for a wrong schema.
    """
    given = None if schema is None else from_schema(load_schema(schema), shorten(schema))
    loose: dict[str, Target] = {}
    known: dict[str, _Known] = {}
    found: list[Dataset] = []
    for path in (match for pattern in paths for match in _matches(pattern)):
        if os.path.isdir(path):
            found += _folders(path)
        elif _is_beside(path, known):
            continue
        elif (dataset := _single(path, known)) is not None:
            found.append(dataset)
        elif not os.path.lexists(path):
            raise _nothing(path)
        else:
            loose.setdefault(os.path.realpath(path), Target(path, split_of(path)))
    if loose:
        files = tuple(loose.values())
        name = files[0].path if len(files) == 1 else f"{files[0].path} … {files[-1].path}"
        found.append(Dataset(name, files))
    found = list(_distinct(_together(found)))
    for file in loose.values() if not is_sure else ():
        refuse_foreign(file.path, DatasetError)
    if not found:
        raise DatasetError(f"{shorten(paths[0], 1000)} is no TFRecord file. Name the dataset.")
    return found if given is None else [replace(d, expected=given) for d in found]


def _matches(pattern: str) -> list[str]:
    """The paths that a pattern matches, or itself where it is none."""
    if os.path.lexists(pattern) or not glob.has_magic(pattern):
        return [pattern]
    if matches := sorted(glob.glob(pattern, recursive=True)):
        return [m for m in matches if os.path.isdir(m) or not _BESIDE.fullmatch(m)] or matches
    raise _nothing(pattern)


def _nothing(path: str) -> DatasetError:
    return DatasetError(f"{shorten(path, 1000)}: nothing is there. Name a dataset or its files.")


def _together(datasets: Iterable[Dataset]) -> list[Dataset]:
    """Shards of one dataset that were named one by one are one dataset again."""
    found: dict[int, Dataset] = {}
    for dataset in datasets:
        # A manifest is loaded once, so equal ones of two datasets are two.
        key = id(dataset.manifest or dataset)
        if (first := found.get(key)) is None:
            found[key] = dataset
        else:
            files, findings = first.files + dataset.files, first.findings + dataset.findings
            found[key] = replace(first, files=files, findings=findings)
    return list(found.values())


def _distinct(datasets: Iterable[Dataset]) -> Iterator[Dataset]:
    """Each dataset once, however often it was named."""
    seen: set[frozenset[str]] = set()
    for dataset in datasets:
        files = frozenset(os.path.realpath(file.path) for file in dataset.files)
        if files not in seen or not files:
            seen.add(files)
            yield dataset


def _folders(path: str) -> list[Dataset]:
    """The dataset in a folder, or, where it is none of ours, all that are below it."""
    found: list[Dataset] = []
    files: list[str] = []
    broken: list[Finding] = []
    for folder, names, here in os.walk(path, onerror=_refuse):
        names[:] = sorted(name for name in names if not name.startswith("."))
        try:
            manifest = load_manifest(folder)
        except DamageError as error:
            broken.append(_broken(folder, error))
            manifest = None
        if manifest is not None:
            found.append(_ours(folder, manifest))
            names.clear()
        else:
            files += [os.path.join(folder, n) for n in sorted(here) if _is_data(folder, n)]
    if files or broken:
        targets = tuple(Target(file, split_of(file)) for file in files)
        expected = _saved_expectations(path)
        found.append(Dataset(path, targets, None, expected, (*broken, *_gaps(files))))
    if not found:
        raise DatasetError(f"{shorten(path, 1000)}: no TFRecord file is in this folder.")
    return found


def _refuse(error: OSError) -> None:
    raise DatasetError(f"{error.filename}: {error.strerror}.") from None


def _is_data(folder: str, name: str) -> bool:
    """Whether a file looks like a TFRecord file, by name or by content."""
    if name.startswith((".", "_")) or _BESIDE.fullmatch(name):
        return False
    path = os.path.join(folder, name)
    if not os.path.isfile(path) and not os.path.islink(path):
        return False
    if _NAMED.fullmatch(name):
        return True
    try:
        with open(path, "rb") as file:
            return starts_with_record(file.read(HEADER))
    except OSError:
        return False


def _gaps(files: Iterable[str]) -> list[Finding]:
    """Shards that the names of the others promise."""
    groups: dict[tuple[str, int, str], set[int]] = {}
    for file in files:
        if match := _NUMBERED.fullmatch(file):
            groups.setdefault((match[1], int(match[3]), match[4]), set()).add(int(match[2]))
    return [
        Finding(
            f"{stem}-{number:05d}-of-{count:05d}{suffix}",
            "missing shard",
            f"the names of the others say that there are {count}",
            tensorflow=_LOST,
        )
        for (stem, count, suffix), numbers in groups.items()
        for number in sorted(set(range(count)) - numbers)[:1000]
    ]


def _ours(folder: str, manifest: Manifest) -> Dataset:
    """A dataset folder with a manifest."""
    names = {shard.name: split.name for split in manifest.splits for shard in split.shards}
    files, findings = [], []
    for shard in manifest.shards:
        path = os.path.join(folder, shard.name)
        if os.path.lexists(path):
            files.append(Target(path, names[shard.name], shard))
        else:
            findings.append(_missing(path, shard))
    for name in sorted(os.listdir(folder)):
        if name not in manifest.names and _is_data(folder, name):
            path = os.path.join(folder, name)
            files.append(Target(path, split_of(name)))
            text = "the manifest has no such shard; it was not written with the others"
            findings.append(
                Finding(path, "extra shard", text, tensorflow="reads it where a pattern matches")
            )
    findings += _side_files(Path(folder), manifest)
    expected = _expected(manifest, _saved_schema(Path(folder)))
    return Dataset(folder, tuple(files), manifest, expected, tuple(findings))


def _single(path: str, known: dict[str, _Known]) -> Dataset | None:
    """A file with a manifest: one of its own, or that of the folder it is a shard in.

    known: the manifests of folders loaded so far, to be added to.
    """
    name, folder = os.path.basename(path), os.path.dirname(path) or "."
    home = os.fspath(manifest_path(path).parent)
    try:
        own = _load(home, known)
        manifest, expected = own if own[0] else _load(folder, known)
    except DamageError as error:
        return Dataset(path, (Target(path, split_of(path)),), findings=(_broken(path, error),))
    places = (
        {s.name: (s, split.name) for split in manifest.splits for s in split.shards}
        if manifest
        else {}
    )
    if manifest is None or name not in places:
        return None
    shard, split = places[name]
    findings = _side_files(Path(home), manifest) if own[0] else []
    if not os.path.lexists(path):
        return Dataset(path, (), manifest, expected, (_missing(path, shard), *findings))
    # The split of a single file is `train` where nobody said anything else.
    split = (split_of(path) or split) if own[0] else split
    return Dataset(path, (Target(path, split, shard),), manifest, expected, tuple(findings))


def _is_beside(path: str, known: dict[str, _Known]) -> bool:
    """Whether a file is the manifest of a dataset, or beside its shards: `dataset/*` names it."""
    try:
        manifest, _ = _load(os.path.dirname(path) or ".", known)
    except DamageError:
        return os.path.basename(path) == MANIFEST
    return manifest is not None and os.path.basename(path) in {
        MANIFEST,
        *(file.name for file in manifest.files),
    }


def _load(folder: str, known: dict[str, _Known]) -> _Known:
    """The manifest in a folder, and what it says of the records."""
    if folder not in known:
        manifest = read_manifest(Path(folder) / MANIFEST)
        schema = _saved_schema(Path(folder)) if manifest else None
        known[folder] = manifest, _expected(manifest, schema) if manifest else None
    return known[folder]


def _expected(manifest: Manifest, schema: Schema | None) -> Expectations | None:
    """What the records must have; None where nothing is known of them, as of repaired files."""
    return from_manifest(manifest, schema) if manifest.features else None


def _missing(path: str, shard: Shard) -> Finding:
    return Finding(
        path,
        "missing shard",
        f"it is not there, but the manifest has it with {shard.records:,} records",
        tensorflow=_LOST,
        records=shard.records,
    )


def _broken(folder: str, error: DamageError) -> Finding:
    return Finding(os.fspath(manifest_path(folder)), "manifest", str(error).rstrip("."))


def _side_files(folder: Path, manifest: Manifest) -> list[Finding]:
    findings = []
    for file in manifest.files:
        path = folder / file.name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            text = "it is not there, but the manifest has it"
        except OSError as error:
            text = f"it cannot be read ({error.strerror})"
        else:
            if (len(data), _kernel.crc32c(data)) == (file.bytes, file.crc32c):
                continue
            text = "it is not the file that was written with the shards"
        findings.append(Finding(os.fspath(path), "side file", text))
    return findings


def _saved_schema(folder: Path) -> Schema | None:
    """The schema that lies with a dataset, where it can be read."""
    try:
        return load_schema(folder / SCHEMA)
    except SchemaError:
        return None


def _saved_expectations(folder: str) -> Expectations | None:
    schema = _saved_schema(Path(folder))
    return None if schema is None else from_schema(schema, SCHEMA)
