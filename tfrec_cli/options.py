"""What a run was asked to do, as frozen data."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tfrec_cli.errors import UsageError, did_you_mean

DEFAULT_SHARD_SIZE = 128 * 2**20
DEFAULT_LEVEL = 6
MOST_DEFAULT_MEMORY = 4 * 2**30

CompressorName = Literal["zlib", "isal", "libdeflate"]
IndexFormat = Literal["dali", "tfindex"]
MetadataFormat = Literal["tfds", "tfmd", "label-map"]
# The levels that each compressor knows, and the one it is used with unless another is asked.
LEVELS: Mapping[CompressorName, range] = {
    "zlib": range(10), "isal": range(4), "libdeflate": range(13),
}  # fmt: skip
DEFAULT_LEVELS: Mapping[CompressorName, int] = {"zlib": DEFAULT_LEVEL, "isal": 2, "libdeflate": 6}
_UNITS = {"": 1, "B": 1} | {
    unit: base**power
    for power, letter in enumerate("KMGT", start=1)
    for unit, base in ((letter, 1024), (f"{letter}IB", 1024), (f"{letter}B", 1000))
}


def parse_index(text: str) -> tuple[IndexFormat, ...]:
    """From `dali,tfindex`. Raises UsageError for other words."""
    return _formats(text, get_args(IndexFormat), "an index")


def parse_metadata(text: str) -> tuple[MetadataFormat, ...]:
    """From `tfds,tfmd`. Raises UsageError for other words."""
    return _formats(text, get_args(MetadataFormat), "a metadata")


def _formats(text: str, known: Sequence[Any], kind: str) -> tuple[Any, ...]:
    words = text.split(",")
    for word in words:
        if word not in known:
            raise UsageError(
                f'"{word}" is not {kind} format. Choose from {", ".join(known)}, as in '
                f"{','.join(known[:2])}.{did_you_mean(word, known)}"
            )
    return tuple(dict.fromkeys(words))


def parse_size(text: str) -> int:
    """Bytes from `128MiB`, `1.5GB`, `4096`. `K`, `M`, `G`, `T` alone are powers of 1024.

    Raises UsageError for anything else, and for less than one byte.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = _UNITS.get(match[2].upper()) if match else None
    size = int(float(match[1]) * unit) if match and unit else 0
    if size < 1:
        raise UsageError(f'"{text}" is not a size. Write bytes or a unit, such as 128MiB or 1.5GB.')
    return size


@dataclass(frozen=True, slots=True)
class Compression:
    """How shards are compressed: `none`, `gzip` or `zlib`, the only ones TensorFlow reads; by
    which compressor, and at which of its levels.
    """

    kind: Literal["none", "gzip", "zlib"] = "none"
    level: int = DEFAULT_LEVEL
    compressor: CompressorName = "zlib"

    @classmethod
    def parse(cls, text: str, compressor: CompressorName = "zlib") -> Compression:
        """From `none`, `gzip`, `zlib:9`. Raises UsageError for other words, and as `made` does."""
        levels = _levels(compressor)
        kind, colon, level = text.lower().partition(":")
        if kind not in ("none", "gzip", "zlib") or (colon and not re.fullmatch(r"\d{1,2}", level)):
            raise UsageError(
                f'"{text}" is not a compression. Choose none, gzip or zlib, the last two with a '
                f"level from {levels[0]} to {levels[-1]} if you like, as in gzip:{levels[-1]} "
                "(TensorFlow reads no other)."
            )
        if kind == "none" and level:
            raise UsageError(f'"{text}": none has no level.')
        return cls.made(kind, int(level) if level else None, compressor)  # type: ignore[arg-type]

    @classmethod
    def made(
        cls,
        kind: Literal["none", "gzip", "zlib"],
        level: int | None = None,
        compressor: CompressorName = "zlib",
    ) -> Compression:
        """`kind` by `compressor`; level None is its default. Raises UsageError where the
        compressor does not know the level or cannot write the kind.
        """
        levels = _levels(compressor)
        if level is not None and level not in levels:
            raise UsageError(
                f"{kind}:{level}: the compressor {compressor} has no level {level}. Choose from "
                f"{levels[0]} to {levels[-1]}, as in {kind}:{DEFAULT_LEVELS[compressor]}."
            )
        if kind == "none":
            if compressor != "zlib":
                raise UsageError(
                    f"--compressor {compressor}: nothing is compressed. Add --compression gzip, "
                    "or let DEST end in .gz."
                )
            return cls()
        if kind == "zlib" and compressor == "libdeflate":
            raise UsageError(
                "--compressor libdeflate cannot write zlib: it makes whole streams only, and a "
                "ZLIB shard is one stream of many blocks (TensorFlow ignores a second stream). Use "
                "--compression gzip, or --compressor isal."
            )
        return cls(kind, DEFAULT_LEVELS[compressor] if level is None else level, compressor)

    @property
    def suffix(self) -> str:
        """What shard names end in: empty, `.gz` or `.zz`."""
        return {"none": "", "gzip": ".gz", "zlib": ".zz"}[self.kind]

    @property
    def tensorflow(self) -> str:
        """The spelling TensorFlow wants: empty, `GZIP` or `ZLIB`."""
        return "" if self.kind == "none" else self.kind.upper()


def _levels(compressor: CompressorName) -> range:
    if compressor not in LEVELS:
        words = f"{', '.join(LEVELS)}.{did_you_mean(compressor, LEVELS)}"
        raise UsageError(f'"{compressor}" is not a compressor. Choose from {words}')
    return LEVELS[compressor]


def default_jobs() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_memory() -> int:
    """A quarter of the machine's memory, or of what this process group may use of it, in bytes;
    at most 4 GiB.
    """
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            found = min(found, int(file.read()))
    except (OSError, ValueError):
        pass
    return min(found // 4, MOST_DEFAULT_MEMORY)


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """One conversion: what the command line and the library both fill in.

    sources: paths, globs, folders, `-` for standard input, or Arrow tables / pandas DataFrames.
    dest: a folder, one file (by its suffix), or `-` for standard output.
    compression: None follows DEST's suffix, and `compressor` then says who compresses.
    schema: a schema file, a mapping of the same shape, or None to infer.
    shards: how many of each split; None aims for `shard_size` bytes (None: DEFAULT_SHARD_SIZE).
    split: a name, names, or names with fractions (`train=0.8,test=0.2`). seed, split_seed: None
    is 0. memory: bytes that ordering may use beside a constant. engine: where tasks run: `jobs`
    threads, or the Dask cluster of `scheduler` (None starts one of `jobs` processes).
    index, metadata: formats of index files, and of metadata for other programs.
    """

    sources: tuple[Any, ...]
    dest: str
    source: str | None = None
    source_options: Mapping[str, Any] = field(default_factory=dict)
    schema: Any = None
    name: str | None = None
    split: str | None = None
    shards: int | None = None
    shard_size: int | None = None
    compression: Compression | None = None
    compressor: CompressorName = "zlib"
    limit: int | None = None
    on_error: Literal["fail", "skip"] = "fail"
    rejects: str | None = None
    max_errors: int | None = None
    jobs: int = field(default_factory=default_jobs)
    overwrite: bool = False
    resume: bool = False
    force: bool = False
    fsync: bool = True
    temp_dir: str | None = None
    shuffle: bool = False
    seed: int | None = None
    sort_by: tuple[str, ...] = ()
    split_exact: bool = False
    split_by: str | None = None
    stratify: str | None = None
    split_column: str | None = None
    split_seed: int | None = None
    key: tuple[str, ...] = ()
    memory: int = field(default_factory=default_memory)
    engine: Literal["threads", "dask"] = "threads"
    scheduler: str | None = None
    index: tuple[IndexFormat, ...] = ()
    metadata: tuple[MetadataFormat, ...] = ()

    def __post_init__(self) -> None:
        """Raise UsageError for values that no option has."""
        for name in ("dest", "source", "name", "split", "rejects", "temp_dir", "scheduler"):
            _refuse_type(name, getattr(self, name), str, "text")
        if self.temp_dir == "":
            raise UsageError("--temp-dir is empty. Name a folder, or leave it out.")
        for name in ("split_by", "stratify", "split_column"):
            _refuse_type(name, getattr(self, name), str, "a column's name")
        for name in ("overwrite", "resume", "force", "fsync", "shuffle", "split_exact"):
            _refuse_type(name, getattr(self, name), bool, "True or False")
        _refuse_type("source_options", self.source_options, Mapping, "a mapping")
        if self.on_error not in ("fail", "skip"):
            raise UsageError(f"on_error is {self.on_error!r}; choose fail or skip.")
        if self.engine not in ("threads", "dask"):
            raise UsageError(f"engine is {self.engine!r}; choose threads or dask.")
        if self.scheduler is not None and self.engine != "dask":
            raise UsageError(f"--scheduler {self.scheduler}: only --engine dask has a scheduler.")
        for name in ("shards", "shard_size", "limit", "jobs", "memory"):
            refuse_number(name, getattr(self, name), least=1)
        for name in ("max_errors", "seed", "split_seed"):
            refuse_number(name, getattr(self, name), least=0)
        if self.shards is not None and self.shard_size is not None:
            raise UsageError("--shards and --shard-size both say how many shards; give one.")
        if self.force and not self.overwrite:
            raise UsageError("--force needs --overwrite: it replaces what is up to date, too.")
        if self.resume and self.overwrite:
            raise UsageError("--resume goes on with what --overwrite throws away; give one.")

    @property
    def arranges(self) -> bool:
        """Whether splits, an order or keys are asked for."""
        columns = (self.split_column, self.split_by, self.stratify, *self.sort_by, *self.key)
        return self.shuffle or self.split is not None or any(c is not None for c in columns)


def _refuse_type(name: str, value: object, wanted: type, words: str) -> None:
    """Raise UsageError unless `value` is None or of the type `wanted`, called `words`."""
    if value is not None and not isinstance(value, wanted):
        raise UsageError(f"{name} is {value!r}; give {words}.")


def refuse_number(name: str, value: object, least: int) -> None:
    """Raise UsageError unless `value` is None or a whole number from `least`, within 64 bits."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**64:
        raise UsageError(f"{name} is {value!r}; give a whole number, {least} or more.")
