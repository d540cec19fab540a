"""What an export was asked to do, and what it did."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from tfrec_cli.errors import UsageError, did_you_mean
from tfrec_cli.options import default_jobs

Format = Literal["parquet", "csv", "jsonl", "images"]
FORMATS: tuple[Format, ...] = ("parquet", "csv", "jsonl", "images")
STDOUT = ("-", "/dev/stdout", "/dev/fd/1")
_SUFFIX = re.compile(r".+\.(parquet|pq|csv|jsonl|ndjson)(\.gz)?", re.IGNORECASE | re.DOTALL)
_NAMES: Mapping[str, Format] = {"pq": "parquet", "ndjson": "jsonl"}


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """One run of `tfrec export`.

    paths: a dataset folder, TFRecord files of any origin, patterns. dest: a file, a folder, or `-`.
    to: the format, None for that of dest's suffix. split: only this one. columns: only these
    features, in this order. label_names: the names of labels in place of their numbers.
    split_column: what a column that tells the split is called. plain: the types of features
    (int64, float, bytes) whatever the schema knows of the columns that they were made of.
    fsync: have what is written on the disk itself before it is put at dest.
    on_error: `skip` leaves out records that are no Example, or not as the others.
    """

    paths: tuple[str, ...]
    dest: str
    to: str | None = None
    split: str | None = None
    columns: tuple[str, ...] | None = None
    label_names: bool = False
    split_column: str | None = None
    plain: bool = False
    jobs: int = field(default_factory=default_jobs)
    fsync: bool = True
    on_error: Literal["fail", "skip"] = "fail"


@dataclass(frozen=True, slots=True)
class Goal:
    """Where an export goes. kind: one file, a folder of files, or standard output. suffix: of the
    files, with the dot.
    """

    text: str
    path: Path
    kind: Literal["file", "folder", "stdout"]
    to: Format
    suffix: str


def goal_of(options: ExportOptions) -> Goal:
    """DEST and the format, which agree. Raises UsageError where they do not, or neither tells."""
    text = "-" if options.dest in STDOUT else options.dest
    if options.to is not None and options.to not in FORMATS:
        hint = did_you_mean(options.to, FORMATS)
        raise UsageError(f"--to {options.to}: choose from {', '.join(FORMATS)}.{hint}")
    if not text or "\0" in text:
        raise UsageError("DEST is empty. Give a file, a folder, or - for standard output.")
    path = Path(text).absolute()
    match = None if text.endswith("/") else _SUFFIX.fullmatch(path.name)
    found = _NAMES.get(match[1].lower(), match[1].lower()) if match else None
    to = options.to or found
    if to is None:
        raise UsageError(
            f"{text}: what is it to become? Let DEST end in .parquet, .csv or .jsonl, or say --to "
            f"{'|'.join(FORMATS)}."
        )
    if found is not None and found != to:
        raise UsageError(f"{text}: the suffix says {found}, the option says --to {to}.")
    if to == "parquet" and match and match[2]:
        raise UsageError(f"{text}: Parquet files are compressed inside. Leave .gz out.")
    return _goal(text, path, to, f".{to}" if match is None else _ending(match))


def _goal(text: str, path: Path, to: Any, suffix: str) -> Goal:
    if text != "-":
        is_file = to != "images" and _SUFFIX.fullmatch(path.name) and not text.endswith("/")
        return Goal(text, path, "file" if is_file else "folder", to, suffix)
    if to in ("parquet", "images"):
        raise UsageError(f"DEST is - and cannot take {to}. Use --to csv or jsonl, or give a path.")
    return Goal(text, path, "stdout", to, suffix)


def _ending(match: re.Match[str]) -> str:
    return f".{match[1]}{match[2] or ''}".lower()


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One file that was written, or for images a folder of them."""

    name: str
    split: str | None
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written. columns: their names and Arrow types, none for images. skipped: records
    that were left out because they are not as the others.
    """

    dest: str
    to: str
    files: tuple[ExportedFile, ...]
    columns: tuple[tuple[str, str], ...] = ()
    notices: tuple[str, ...] = ()
    skipped: int = 0

    @property
    def records(self) -> int:
        """All records of all files."""
        return sum(file.records for file in self.files)

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)

    def document(self) -> dict[str, Any]:
        """The JSON document."""
        return {
            "dest": self.dest,
            "format": self.to,
            "records": self.records,
            "skipped": self.skipped,
            "bytes": self.bytes,
            "files": [asdict(file) for file in self.files],
            "columns": [{"name": name, "type": kind} for name, kind in self.columns],
            "notices": list(self.notices),
        }
