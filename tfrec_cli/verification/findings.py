"""What verifying finds, in words and as JSON.

The JSON document (`tfrec verify --json`) is one object:

    ok        whether nothing was found
    records   intact records in all files; bytes: of the files; seconds
    datasets  [{path, manifest, schema, files, records}]: whether there is a manifest, and where
              the features that records must have are written down (null: nowhere)
    files     [{file, split, compression, records, examples, bytes, content_bytes, findings}]
              compression as found; examples: the records that are tf.train.Example
    findings  [{file, record, offset, kind, feature, text, tensorflow, records}]
              record from 0, offset in bytes of the decompressed content; both null where a
              finding is about the file as a whole. records: how many are concerned, null where
              that was not counted. tensorflow: what TensorFlow does about it
    notices   [text]
    unread    [text]: files that could not be read
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tfrec_cli.reading.finding import Finding

MAX_FINDINGS = 100
"""Findings of one kind that are listed for one file; further ones are counted."""


@dataclass(frozen=True, slots=True)
class FileSummary:
    """One file that was read: split where it is known, compression as found, intact records and
    how many of them are Examples, bytes on the disk and decompressed.
    """

    file: str
    split: str | None
    compression: str
    records: int
    examples: int
    bytes: int
    content_bytes: int


@dataclass(frozen=True, slots=True)
class DatasetSummary:
    """What was taken as one dataset. schema: where its features are written down, or None."""

    path: str
    manifest: bool
    schema: str | None
    files: int
    records: int


@dataclass(frozen=True, slots=True)
class Report:
    """All that one run found."""

    datasets: tuple[DatasetSummary, ...]
    files: tuple[FileSummary, ...]
    findings: tuple[Finding, ...]
    notices: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """Intact records in all files."""
        return sum(file.records for file in self.files)

    @property
    def bytes(self) -> int:
        """Of all files, as they lie on the disk."""
        return sum(file.bytes for file in self.files)

    @property
    def exit_code(self) -> int:
        """3 where something is wrong, 1 where something could not be read, else 0."""
        return 3 if self.findings else 1 if self.unread else 0

    def document(self) -> dict[str, Any]:
        """The JSON document, without `seconds`."""
        counts = count_by_file(self.findings)
        files = [asdict(f) | {"findings": counts.get(f.file, 0)} for f in self.files]
        return {
            "ok": self.exit_code == 0,
            "records": self.records,
            "bytes": self.bytes,
            "datasets": [asdict(dataset) for dataset in self.datasets],
            "files": files,
            "findings": [finding.document() for finding in self.findings],
            "notices": list(self.notices),
            "unread": list(self.unread),
        }


def words_of(origin: str) -> str:
    """What the place is called in which features are written down: a file by its name."""
    return f"the {origin}" if origin == "manifest" else origin


def count_by_file(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings each file has."""
    counts: dict[str, int] = {}
    for finding in findings:
        counts[finding.file] = counts.get(finding.file, 0) + 1
    return counts


class Findings:
    """The findings of one file, those of each kind listed up to a limit."""

    def __init__(self, file: str, decompressed: bool) -> None:
        self._file, self._decompressed = file, decompressed
        self._found: list[Finding] = []
        self._counts: dict[str, int] = {}

    def add(self, kind: str, text: str, place: tuple[int, int] | None = None, **more: Any) -> None:
        """Note one. place: record and offset. more: further fields of Finding."""
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count > MAX_FINDINGS:
            return
        record, offset = place or (None, None)
        self._found.append(
            Finding(self._file, kind, text, record, offset,
                    decompressed=self._decompressed, **more)
        )  # fmt: skip

    def has(self, *kinds: str) -> bool:
        """Whether there is one of these kinds, or of any where none is given."""
        return bool(self._counts) if not kinds else any(kind in self._counts for kind in kinds)

    def listed(self) -> list[Finding]:
        """Those listed, and one for each kind that says how many more there are."""
        more = [
            Finding(self._file, kind, f"{count - MAX_FINDINGS:,} more of this kind in this file",
                    records=count - MAX_FINDINGS)
            for kind, count in self._counts.items()
            if count > MAX_FINDINGS
        ]  # fmt: skip
        return [*self._found, *more]
