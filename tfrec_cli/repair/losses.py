"""What was saved and what was lost, in words and as JSON.

The JSON document (`tfrec repair --json`) is one object:

    ok        whether nothing was lost
    dest      the dataset that was written; records in it; mended: those of them whose length was
              damaged and whose data was not
    files     [{file, split, compression, records, mended, lost_bytes, shard}]
    lost      [{file, kind, record, unit, start, end, bytes, records, doubtful, text}], see Loss
    notices   [text]

`lost.jsonl` beside the shards holds the objects of `lost`, one a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

LOST = "lost.jsonl"


@dataclass(frozen=True, slots=True)
class Loss:
    """A range of bytes that is not in the output.

    kind: as `tfrec verify` calls the damage. record: how many records of the file were saved before
    it. unit: whether start and end count bytes of the `file` as it lies on the disk, or of its
    decompressed `content`. end: just past the last. records: how many records are known to be
    lost, None where that cannot be known.
    """

    file: str
    kind: str
    text: str
    record: int
    start: int
    end: int
    unit: Literal["file", "content"] = "file"
    records: int | None = None
    doubtful: int = 0

    @property
    def bytes(self) -> int:
        """The length of the range."""
        return self.end - self.start

    def document(self) -> dict[str, Any]:
        """The loss as an object of the JSON document."""
        entries = asdict(self) | {"bytes": self.bytes}
        order = (
            "file",
            "kind",
            "record",
            "unit",
            "start",
            "end",
            "bytes",
            "records",
            "doubtful",
            "text",
        )
        return {name: entries[name] for name in order}


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """One file that was read: what was saved of it, and the shard it is in."""

    file: str
    split: str
    compression: str
    records: int
    mended: int
    lost_bytes: int
    shard: str


@dataclass(frozen=True, slots=True)
class RepairReport:
    """All that one run did. bytes: of the shards written."""

    dest: str
    files: tuple[FileOutcome, ...]
    losses: tuple[Loss, ...]
    bytes: int
    notices: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """Saved, of all files."""
        return sum(file.records for file in self.files)

    @property
    def mended(self) -> int:
        """Those among them whose length had to be written anew."""
        return sum(file.mended for file in self.files)

    @property
    def exit_code(self) -> int:
        """3 where something was lost, else 0."""
        return 3 if self.losses else 0

    def document(self) -> dict[str, Any]:
        """The JSON document, without `seconds`."""
        return {
            "ok": not self.losses,
            "dest": self.dest,
            "records": self.records,
            "mended": self.mended,
            "files": [asdict(file) for file in self.files],
            "lost": [loss.document() for loss in self.losses],
            "notices": list(self.notices),
        }


def loss_lines(losses: Iterable[Loss]) -> str:
    """The text of `lost.jsonl`."""
    return "".join(json.dumps(loss.document()) + "\n" for loss in losses)
