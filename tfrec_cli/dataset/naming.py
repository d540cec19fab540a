"""What things are called: DEST, the dataset, its splits, its shards.

Shards are named as TensorFlow Datasets does, `{name}-{split}.tfrecord-00000-of-00010`, numbered
from 0, with `.gz` or `.zz` last when compressed.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tfrec_cli.errors import UsageError, did_you_mean
from tfrec_cli.options import Compression

MAX_NAME = 150
"""Longest name of a dataset, in characters; leaves room for split, numbers and suffixes."""

SPLIT = re.compile(r"[A-Za-z0-9_-]{1,60}")
"""What a split may be called."""

DEFAULT_SPLIT = "train"
"""That of records for which nothing names another."""

_FILE = re.compile(r"(.+)\.(tfrecords?|tfrec)(\.gz|\.zz)?", re.IGNORECASE | re.DOTALL)
_FILE_KINDS: dict[str, Literal["none", "gzip", "zlib"]] = {"": "none", ".gz": "gzip", ".zz": "zlib"}
_SOURCE = re.compile(
    r".*\.((csv|tsv|tab|txt|jsonl?|ndjson)(\.(gz|bz2|zst|xz))?|parquet|pq|arrow|feather|orc|avro"
    r"|xlsx?|npy|npz|h5|hdf5|jpe?g|png|gif|bmp|webp|tiff?|mpo|zip|tar|tgz|ya?ml)",
    re.IGNORECASE | re.DOTALL,
)
_NEARLY = re.compile(
    r"(.+)\.((record|tfr|tf_record)s?(\.gz|\.zz|\.zlib)?|gz|zz|zlib|bz2|zst|xz|snappy"
    r"|tfrec(ords?)?\.(zlib|bz2|zst|xz|snappy|gzip))",
    re.IGNORECASE | re.DOTALL,
)
_SHARD = re.compile(r"(.+)\.tfrec(ord)?s?-\d+-of-\d+(\.gz|\.zz)?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Dest:
    """Where a run writes.

    text: as the user gave it, for messages. path: absolute, symbolic links kept (`-` for standard
    output). kind: a dataset folder, one file, or standard output. name: what shards are named by.
    """

    text: str
    path: Path
    kind: Literal["folder", "file", "stdout"]
    name: str
    compression: Compression

    @property
    def hidden(self) -> str:
        """What hidden names beside DEST begin with, which no other DEST has. A file's suffix loses
        its dots, so that nothing but data ever matches `*.tfrecord*`; a folder may be called that.
        """
        if self.kind == "file" and (match := _FILE.fullmatch(self.path.name)):
            suffix = f"{match[2]}{(match[3] or '').replace('.', '-')}"
            return f".{match[1]}-{suffix}.tfrec.d"
        return f".{self.path.name}.tfrec"

    @property
    def home(self) -> Path:
        """The folder of the manifest and its side files: DEST itself, or the hidden folder beside
        a single file. It does not end in `.tfrec`, which readers of `*.tfrec` would open.
        """
        return self.path if self.kind != "file" else self.path.parent / self.hidden

    @property
    def lock(self) -> Path:
        """The lock file beside DEST."""
        return self.path.parent / f"{self.hidden}-lock"

    def shards(self, split: str, count: int) -> tuple[str, ...]:
        """The file names of a split of `count` shards, in order. A single file has one."""
        if self.kind != "folder":
            return (self.path.name,)
        return shard_names(self.name, split, count, self.compression)


def parse_dest(
    text: str,
    compression: Compression | None = None,
    name: str | None = None,
    sources: Iterable[Any] = (),
) -> Dest:
    """DEST as the user gave it, checked against what else was asked. Touches nothing.

    compression: None where none was asked; a file's suffix then decides. name: of the dataset,
    None to derive it from DEST. sources: as the user gave them; a DEST that is one of them, or is
    called like one, is a forgotten DEST.

    Raises UsageError.
    """
    if text == "-":
        return Dest("-", Path("-"), "stdout", _chosen(name, "data"), compression or Compression())
    if not text or "\0" in text:
        raise UsageError(
            "DEST is empty. Give a folder, a .tfrecord file, or - for standard output."
        )
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", text):
        raise UsageError(f"{text}: DEST must be a local path. Write there, then copy.")
    path = Path(os.path.abspath(text))
    if not path.name:
        raise UsageError(f"{text}: the root folder cannot be DEST. Name a folder in it.")
    match = None if text.endswith(os.sep) else _FILE.fullmatch(path.name)
    _refuse_source(text, path, sources)
    if match is None:
        if not os.path.isdir(path):
            _refuse_suffix(text, path)
        derived = identifier(path.name)
        return Dest(text, path, "folder", _chosen(name, derived), compression or Compression())
    agreed = _agreed(text, match, compression)
    return Dest(text, path, "file", _chosen(name, identifier(match[1])), agreed)


def identifier(text: str) -> str:
    """`text` as a dataset name: ASCII letters, digits and `_`, a letter first, never empty."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.sub(r"\W+", "_", plain).strip("_")[:MAX_NAME].rstrip("_")
    if not words:
        return "data"
    return words if words[0].isalpha() else f"data_{words}"[:MAX_NAME]


def check_split(split: str) -> str:
    """`split` itself. Raises UsageError where it is no name for a split."""
    if SPLIT.fullmatch(split):
        return split
    raise UsageError(
        f'"{split}" is not a split name. Use letters, digits, _ and - (60 at most), as in '
        f"train, validation, test.{did_you_mean(split, ('train', 'validation', 'test'))}"
    )


def shard_names(name: str, split: str, count: int, compression: Compression) -> tuple[str, ...]:
    """The file names of the `count` shards of a split, in order."""
    stem = f"{name}-{split}.tfrecord"
    return tuple(f"{stem}-{i:05d}-of-{count:05d}{compression.suffix}" for i in range(count))


def shard_rows(total: int, shards: int) -> list[int]:
    """`total` records over `shards` shards: counts that differ by one at most, larger first."""
    each, more = divmod(total, shards)
    return [each + (i < more) for i in range(shards)]


def check_name(name: str) -> str:
    """`name` itself. Raises UsageError where it is no name for a dataset."""
    if re.fullmatch(rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_NAME - 1}}}", name):
        return name
    raise UsageError(
        f'"{name}" is not a dataset name. Use a letter, then letters, digits and _ '
        f'({MAX_NAME} at most), such as "{identifier(name)}".'
    )


def _chosen(name: str | None, derived: str) -> str:
    return derived if name is None else check_name(name)


def _agreed(text: str, match: re.Match[str], asked: Compression | None) -> Compression:
    """The compression that suffix and option agree on."""
    kind = _FILE_KINDS[(match[3] or "").lower()]
    if asked is None:
        return Compression(kind)
    if asked.kind == kind:
        return asked
    right = f"{match[1]}.{match[2]}{asked.suffix}"
    raise UsageError(
        f"{text}: the suffix says {kind}, the option says --compression {asked.kind}. "
        f"Call it {right}, or use --compression {kind}."
    )


def _refuse_source(text: str, path: Path, sources: Iterable[Any]) -> None:
    """A DEST that is one of the sources is the last source of a command without DEST."""
    for source in sources:
        if not isinstance(source, str | os.PathLike) or os.fspath(source) == "-":
            continue
        given = os.fspath(source)
        if os.path.abspath(given) == str(path) or _same_file(given, path):
            raise UsageError(f"{text} is a source and cannot be DEST. Add a DEST as last argument.")


def _same_file(source: str, path: Path) -> bool:
    try:
        return os.path.samefile(source, path)
    except (OSError, ValueError):
        return False


def _stem(name: str) -> str:
    """`name` without a suffix of TFRecord's own."""
    return re.sub(r"\.tfrec(ords?)?$", "", name, flags=re.IGNORECASE)


def _refuse_suffix(text: str, path: Path) -> None:
    """A folder is meant only where the name does not look like some file."""
    if _SOURCE.fullmatch(path.name):
        raise UsageError(
            f"{text} looks like a source, not like a DEST. Add a DEST as last argument: a folder, "
            "or a .tfrecord file."
        )
    if match := _SHARD.fullmatch(path.name):
        raise UsageError(
            f"{text}: shards are numbered by tfrec. Give their folder as DEST, and --name if you "
            f'want to choose the name ("{identifier(match[1])}").'
        )
    if match := _NEARLY.fullmatch(path.name):
        plain = f"{_stem(match[1])}.tfrecord"
        raise UsageError(
            f"{text}: a single file ends in .tfrecord, .tfrecords or .tfrec, then .gz or .zz when "
            f"compressed. Call it {plain} or {plain}.gz, or end it with / if you want a folder."
        )
