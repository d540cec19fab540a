"""The manifest: what a finished dataset holds, so that it can be proven complete.

TFRecord has no footer: a file cut at a record's end is a valid shorter file. `manifest.json` names
each shard with its records, bytes and CRC32C, and says what the dataset was made of. It holds no
time of writing: the same run leaves the same manifest. The file is one JSON object:

    tfrec        {format, version}: of the manifest, of the program that wrote it
    name         what the shards are named by
    compression  {kind, level, compressor}
    rows         {read, written, skipped, rejected}
    splits       [{name, records, asked, classes, classless, shards: [{name, records, bytes,
                 crc32c}]}]; asked (a fraction of all) and classes ({name: records}) only where they
                 were asked for, classless (records without a class) where there are any
    features     [{key, type, shape, ragged, row_lengths, missing, labels, first_label}] of a record
    files        [{name, bytes, crc32c}] beside the shards: schema, label files, `index/…`
    options      those that the output depends on
    libraries    {name: version} of those that the output depends on
    notices      [text]
    sources      [{path, size, mtime_ns, crc32c, role, inode, ctime_ns}] of all files that records
                 came from; mtime and ctime in ns since 1970, crc32c null if not taken, role
                 `source`, `schema`, `labels` or `loaded`

`bytes` and `crc32c` (CRC-32C, RFC 3720, unmasked) are of the file as it lies on the disk.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tfrec_cli
from tfrec_cli.dataset.naming import check_name, check_split, parse_dest
from tfrec_cli.dataset.plainform import Form, plain_form
from tfrec_cli.errors import DamageError, UsageError, shorten
from tfrec_cli.options import Compression
from tfrec_cli.records.compressors import compressor_version

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MANIFEST = "manifest.json"
SCHEMA = "schema.yaml"
INDEXES = "index"
"""The one folder that a dataset may have beside its shards."""

FORMAT = 1
Role = Literal["source", "schema", "labels", "loaded"]
# In whatever layout: formatters of repositories know JSON, too.
_START = re.compile(rb'\s*\{\s*"tfrec"\s*:')


@dataclass(frozen=True, slots=True)
class Shard:
    """One data file: name, records in it, size in bytes and CRC32C of the file."""

    name: str
    records: int
    bytes: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class Split:
    """One split and its shards in order.

    asked: the fraction of all records that was asked for it. classes: how many of its records are
    of each class, where the split was made within classes. classless: how many have none, where any
    record of the dataset has none.
    """

    name: str
    shards: tuple[Shard, ...]
    asked: float | None = None
    classes: Mapping[str, int] | None = None
    classless: int | None = None

    @property
    def records(self) -> int:
        """All records of all shards."""
        return sum(shard.records for shard in self.shards)


@dataclass(frozen=True, slots=True)
class FeatureFacts:
    """One feature of the records, as a reader needs to know it.

    type: `int64`, `float` or `bytes`. shape: of a fixed-size list, None for a scalar or a ragged
    list. ragged: how many levels of a list have no fixed length. row_lengths: the features that
    hold the lengths of the inner lists, outermost first. missing: what stands where a row had no
    value: nothing is ever missing (`error`), the key is left out (`omit`), or a `default`.
    labels: what the numbers mean, from `first_label` on.
    """

    key: str
    type: Literal["int64", "float", "bytes"]
    shape: tuple[int, ...] | None = None
    ragged: int = 0
    row_lengths: tuple[str, ...] = ()
    missing: Literal["error", "omit", "default"] = "error"
    labels: tuple[str, ...] | None = None
    first_label: int = 0


@dataclass(frozen=True, slots=True)
class SideFile:
    """A file beside the shards: name, size in bytes, CRC32C."""

    name: str
    bytes: int
    crc32c: int


@dataclass(frozen=True, slots=True)
class SourceFile:
    """What a file that records came from looked like: bytes, mtime in ns since 1970, CRC32C of it
    if taken. role: whether it is one of the source's, the schema, names labels, or was loaded since
    a cell names it. inode, ctime_ns: which file it was, and when anything of it was last changed.
    The copy of a stream has the mtime 0, and no inode.
    """

    path: str
    size: int
    mtime_ns: int
    crc32c: int | None = None
    role: Role = "source"
    inode: int | None = None
    ctime_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows were read from the sources, written as records, skipped as blank, rejected."""

    read: int = 0
    written: int = 0
    skipped: int = 0
    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Writer:
    """The format of the manifest and the version of the program that wrote it."""

    format: int = FORMAT
    version: str = tfrec_cli.__version__


@dataclass(frozen=True, slots=True)
class Manifest:
    """A finished dataset; the fields are those of the file, described above."""

    name: str
    compression: Compression
    splits: tuple[Split, ...]
    features: tuple[FeatureFacts, ...] = ()
    rows: Rows = Rows()
    files: tuple[SideFile, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    libraries: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    tfrec: Writer = Writer()

    @property
    def records(self) -> int:
        """All records of all splits."""
        return sum(split.records for split in self.splits)

    @property
    def shards(self) -> tuple[Shard, ...]:
        """All shards, split by split."""
        return tuple(shard for split in self.splits for shard in split.shards)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all files of the dataset, the manifest last."""
        return (*(s.name for s in self.shards), *(f.name for f in self.files), MANIFEST)

    @property
    def entries(self) -> tuple[str, ...]:
        """As `names`, with the folder of the indexes in place of what lies in it."""
        return tuple(dict.fromkeys(name.partition("/")[0] for name in self.names))

    def to_json(self) -> str:
        """The text of `manifest.json`: ASCII, one line an entry, the same for equal manifests."""
        splits = [_split_entry(split) for split in self.splits]
        entries: dict[str, Any] = {
            "tfrec": asdict(self.tfrec),
            "name": self.name,
            "compression": asdict(self.compression),
            "rows": asdict(self.rows),
            "splits": splits,
            "features": self.features,
            "files": self.files,
            "options": dict(self.options),
            "libraries": dict(self.libraries),
            "notices": self.notices,
            "sources": self.sources,
        }
        return "{" + ",\n".join(f'"{k}": {_lines(v)}' for k, v in entries.items()) + "}\n"

    @classmethod
    def from_json(cls, text: str | bytes, file: str = MANIFEST) -> Manifest:
        """The manifest that `to_json` wrote. `file` is named in messages.

        Raises DamageError where the text is not one, or comes from a newer program.
        """
        try:
            entries = json.loads(text)
            writer = _read(Writer, entries["tfrec"])
            if writer.format > FORMAT:
                raise DamageError(
                    f"{file} has format {writer.format}, written by tfrec {writer.version}; this "
                    f"tfrec reads format {FORMAT}. Use that version or a newer one."
                )
            return _with_safe_names(_read(cls, entries))
        except (ValueError, KeyError, TypeError) as error:
            raise DamageError(f"{file} is damaged: {error}. {_REMEDY}") from None


_REMEDY = "Restore it from a copy, or convert again to another DEST."


def library_versions(compression: Compression) -> dict[str, str]:
    """The libraries whose version can change the output: Arrow, and what compresses."""
    import pyarrow as pa

    return {"pyarrow": str(pa.__version__), **compressor_version(compression)}


def side_files(schema: str, labels: Mapping[str, Sequence[str]] | None = None) -> dict[str, str]:
    """The files beside the shards, name to text: the schema's YAML text as `schema.yaml` (none
    where that is empty), and for each label feature its names, one a line, as `FEATURE.labels.txt`.
    The first line is the name of label 0, or of the feature's `first_label`, as the schema and the
    manifest say.

    `/` in a feature's name becomes `.`. No name matches `*.tfrecord*`, hides, or is given twice.
    """
    files = {SCHEMA: schema} if schema else {}
    for feature, names in (labels or {}).items():
        files[_label_file(feature, files)] = "".join(f"{_one_line(name)}\n" for name in names)
    return files


def load_manifest(dataset: str | os.PathLike[str]) -> Manifest | None:
    """The manifest of a dataset folder or of a single-file dataset.

    None where there is none, or where a `manifest.json` is not ours. Raises DamageError where it
    is ours but broken, OSError where it cannot be read.
    """
    return read_manifest(manifest_path(dataset))


def manifest_path(dataset: str | os.PathLike[str]) -> Path:
    """Where the manifest of `dataset` lies, if it has one."""
    path = Path(dataset)
    if os.path.isdir(path):
        return path / MANIFEST
    try:
        return parse_dest(os.fspath(dataset)).home / MANIFEST
    except UsageError:
        return path / MANIFEST


def read_manifest(path: Path) -> Manifest | None:
    """As `load_manifest`, from the manifest file itself."""
    if path.exists() and not path.is_file():
        return None
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Manifest.from_json(text, os.fspath(path)) if _START.match(text) else None


def is_broken(path: Path) -> bool:
    """Whether a file that has the manifest's name is not what was written: it holds no JSON, or no
    entries, or lies beside a schema of ours and is none of ours. Other programs keep files of that
    name, too.
    """
    if path.exists() and not path.is_file():
        return False
    try:
        text = path.read_bytes()
        return not json.loads(text) or (not _START.match(text) and _is_ours(path.parent))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (ValueError, RecursionError):
        return True


def _is_ours(folder: Path) -> bool:
    """Whether a folder has a schema as tfrec writes it."""
    try:
        schema = (folder / SCHEMA).read_bytes()
    except OSError:
        return False
    return schema.startswith(b"version:") and b"\nfeatures:" in schema


def _read(kind: type[Form], entries: Any) -> Form:
    """`entries` as a dataclass. Raises ValueError where they are none."""
    found = plain_form(kind, entries)
    return _lenient(kind, entries) if found is None else found


def _lenient(kind: type[Form], entries: Any) -> Form:
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_python(entries)  # type: ignore[arg-type, no-any-return]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{place}: {first['msg']}") from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _with_safe_names(manifest: Manifest) -> Manifest:
    """`manifest` itself. Raises ValueError where a name is none that tfrec gives: it may become a
    path or code, and must not lead out of the folder that it is used in.
    """
    try:
        check_name(manifest.name)
        for split in manifest.splits:
            check_split(split.name)
    except UsageError as error:
        raise ValueError(shorten(str(error).partition(". ")[0], 300)) from None
    for name in manifest.names:
        base = name.removeprefix(f"{INDEXES}/")
        if base in ("", ".", "..") or "/" in base or "\0" in base:
            raise ValueError(f'"{shorten(name)}" is not a file name')
    return manifest


def _lines(value: Any) -> str:
    """JSON with each item of a list on a line of its own."""
    if isinstance(value, list | tuple) and value:
        return "[\n" + ",\n".join(_compact(item) for item in value) + "]"
    return _compact(value)


def _compact(value: Any) -> str:
    if isinstance(value, dict) and isinstance(value.get("shards"), tuple):
        head = ", ".join(f'"{k}": {_compact(v)}' for k, v in value.items() if k != "shards")
        return "{" + head + ', "shards": ' + _lines(value["shards"]) + "}"
    if hasattr(value, "__dataclass_fields__"):
        return json.dumps({name: getattr(value, name) for name in value.__dataclass_fields__})
    return json.dumps(value, allow_nan=False)


def _split_entry(split: Split) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": split.name, "records": split.records}
    if split.asked is not None:
        entry["asked"] = split.asked
    if split.classes is not None:
        entry["classes"] = dict(split.classes)
    if split.classless is not None:
        entry["classless"] = split.classless
    return entry | {"shards": split.shards}


def _label_file(feature: str, taken: Mapping[str, str]) -> str:
    """A file name for `feature` that is safe, unhidden, and not taken (whatever the case)."""
    stem = "".join(c if c.isprintable() else "_" for c in feature.replace("/", "."))
    stem = stem.replace(".tfrec", "_tfrec").replace("\\", "_")
    if stem.startswith("."):
        stem = f"_{stem[1:]}"
    stem = stem.encode("utf-8", "replace")[:200].decode("utf-8", "ignore")
    lower = {name.lower() for name in taken}
    name, number = f"{stem}.labels.txt", 1
    while name.lower() in lower:
        number += 1
        name = f"{stem}-{number}.labels.txt"
    return name


def _one_line(name: str) -> str:
    return name.replace("\r", "\\r").replace("\n", "\\n")
