"""One kind for each feature over a whole dataset, where nothing says which."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfrec_cli.decoding import KINDS, MAX_FEATURES, Tally
from tfrec_cli.errors import shorten
from tfrec_cli.reading.finding import Finding
from tfrec_cli.verification import tensorflow


@dataclass(slots=True)
class _Feature:
    """How many records hold each kind, and the first of each: file, record, offset."""

    records: list[int] = field(default_factory=lambda: [0] * len(KINDS))
    first: list[tuple[str, int, int] | None] = field(default_factory=lambda: [None] * len(KINDS))


class DatasetKinds:
    """The kinds of all features of a dataset, file after file."""

    def __init__(self) -> None:
        self._features: dict[bytes, _Feature] = {}
        self._decompressed: set[str] = set()

    @property
    def keys(self) -> list[str]:
        """The features seen."""
        return [key.decode("utf-8", "surrogateescape") for key in self._features]

    def add(self, file: str, tally: Tally, decompressed: bool) -> None:
        """Take in what the records of a file hold."""
        if decompressed:
            self._decompressed.add(file)
        for row, key in enumerate(tally.keys):
            if key not in self._features and len(self._features) >= MAX_FEATURES:
                continue
            feature = self._features.setdefault(key, _Feature())
            for kind in range(len(KINDS)):
                feature.records[kind] += int(tally.facts["kind_records"][row, kind])
                number = int(tally.facts["kind_first"][row, kind])
                if number >= 0 and feature.first[kind] is None:
                    offset = int(tally.places["kind_first"][row, kind])
                    feature.first[kind] = (file, number, offset)

    def findings(self) -> list[Finding]:
        """A finding for each kind beside the most frequent one. No kind at all is no other."""
        found = []
        for key, feature in self._features.items():
            usual = max((1, 2, 3), key=feature.records.__getitem__)
            for kind in {1, 2, 3} - {usual}:
                if (place := feature.first[kind]) is not None:
                    found.append(self._finding(key, feature, (kind, usual), place))
        return found

    def _finding(
        self, key: bytes, feature: _Feature, kinds: tuple[int, int], place: tuple[str, int, int]
    ) -> Finding:
        kind, usual = kinds
        name = key.decode("utf-8", "surrogateescape")
        file, record, offset = place
        records = feature.records[kind]
        count = "1 record" if records == 1 else f"{records:,} records"
        text = f"{KINDS[kind]} in {count}, but {KINDS[usual]} in {feature.records[usual]:,}"
        said = tensorflow.of_kind(shorten(name), KINDS[kind], KINDS[usual])
        return Finding(
            file, "kind", text, record, offset, name, said, records,
            decompressed=file in self._decompressed,
        )  # fmt: skip
