"""One thing that is wrong with a dataset."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tfrec_cli.errors import key_text, shorten, spelled


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    file: as the user would name it. kind: a word or two, see `tfrec verify --help`. record: from
    0. offset: bytes of decompressed content before that record. feature: its key. text: what was
    found and expected. tensorflow: what TensorFlow does about it. records: how many are concerned.
    """

    file: str
    kind: str
    text: str
    record: int | None = None
    offset: int | None = None
    feature: str | None = None
    tensorflow: str = ""
    records: int | None = None
    decompressed: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        place = shorten(self.file, 1000)
        if self.record is not None:
            unit = "decompressed byte" if self.decompressed else "byte"
            place += f", record {self.record}, {unit} {self.offset}"
        if self.feature is not None:
            place += f", feature {key_text(self.feature)}"
        said = f" TensorFlow: {self.tensorflow}." if self.tensorflow else ""
        return f"{place}: {self.kind}: {self.text}.{said}"

    def brief(self) -> str:
        """As text, without what TensorFlow does about it."""
        return str(replace(self, tensorflow=""))

    def document(self) -> dict[str, Any]:
        """The finding as an object of the JSON document."""
        entries = asdict(self)
        del entries["decompressed"]
        entries["feature"] = None if self.feature is None else spelled(self.feature)
        order = ("file", "record", "offset", "kind", "feature", "text", "tensorflow", "records")
        return {name: entries[name] for name in order}
