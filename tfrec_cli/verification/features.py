"""The features of one file's records against what they should be, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tfrec_cli import _kernel
from tfrec_cli._kernel import ExampleSurvey
from tfrec_cli.decoding import KINDS, Tally, decode_entry
from tfrec_cli.errors import counted, did_you_mean, shorten
from tfrec_cli.reading.expectations import UNLIMITED, Expectations, Expected
from tfrec_cli.reading.payloads import OddKinds, look_at
from tfrec_cli.records.blocks import Block
from tfrec_cli.verification import tensorflow
from tfrec_cli.verification.findings import Findings, words_of

NO_EXAMPLE = "not an Example"


class FeatureCheck:
    """Gathers the tally of one file, and checks it where anything is expected."""

    def __init__(self, path: str, expected: Expectations | None, findings: Findings) -> None:
        self.tally, self.odd = Tally(), OddKinds()
        self._path = path
        self._expected = expected
        self._findings = findings
        self._keys: list[bytes] | None = None
        self._bounds = np.zeros((0, 4), np.int64)
        self._reported: set[tuple[str, bytes]] = set()

    def add(self, block: Block) -> None:
        """Check the records of one block."""
        survey = _kernel.survey_examples(block.data, block.ends)
        self.tally.add(survey, block.ends, block.record, block.offset)
        self.odd.add(look_at(self._path, block.data, block.ends, survey.invalid), block.record)
        if self._expected is not None:
            self._check_values(survey, block)

    def finish(self) -> None:
        """Check what only the whole file shows."""
        for row, key in enumerate(self.tally.keys):
            self._check_repeated(row, key)
            self._check_text(row, key)
        if self._expected is None:
            return
        self._check_examples()
        for row, key in enumerate(self.tally.keys):
            expected = self._expected.features.get(_text(key))
            if expected is None:
                self._check_known(row, key)
            else:
                self._check_kind(row, expected)
                self._check_presence(row, expected)
        self._check_lacking()

    # Values: how many there are in a record, and the range of labels.

    def _check_values(self, survey: ExampleSurvey, block: Block) -> None:
        if survey.keys != self._keys:
            self._keys, self._bounds = survey.keys, self._bounds_of(survey.keys)
        facts, bounds = survey.facts, self._bounds
        counted = facts["fewest"] >= 0
        shape = counted & ((facts["fewest"] < bounds[:, 0]) | (facts["most"] > bounds[:, 1]))
        range_ = (facts["low"] < bounds[:, 2]) | (facts["high"] > bounds[:, 3])
        labels = (facts["kind_records"][:, 3] > 0) & (facts["low"] <= facts["high"]) & range_
        for row in np.flatnonzero(shape):
            self._find_shape(survey.keys[row], block)
        for row in np.flatnonzero(labels):
            self._find_label(survey.keys[row], block)

    def _bounds_of(self, keys: Sequence[bytes]) -> np.ndarray:
        """For each key the fewest and most values, and the least and greatest label."""
        bounds = np.empty((len(keys), 4), np.int64)
        bounds[:] = 0, UNLIMITED, -UNLIMITED - 1, UNLIMITED
        for row, key in enumerate(keys):
            if expected := self._feature(key):
                bounds[row, :2] = expected.fewest, expected.most
                if expected.labels is not None:
                    bounds[row, 2:] = expected.labels[0], expected.labels[1] - 1
        return bounds

    def _find_shape(self, key: bytes, block: Block) -> None:
        expected = self._feature(key)
        if expected is None or ("shape", key) in self._reported:
            return
        found = _kernel.find_feature(block.data, block.ends, key)
        counts = found[:, 2]
        wrong = (found[:, 0] >= 0) & ((counts < expected.fewest) | (counts > expected.most))
        for number in np.flatnonzero(wrong):
            start, end, count = (int(value) for value in found[number])
            kind = decode_entry(block.data, start, end).kind
            if kind == expected.kind:  # of another kind is another finding
                self._report_shape(expected, count, _place(block, int(number)))
                self._reported.add(("shape", key))
                return

    def _report_shape(self, expected: Expected, count: int, place: tuple[int, int]) -> None:
        shape = expected.shape or ()
        wanted = f"{expected.fewest} by shape {list(shape)}" if shape else "1"
        said = tensorflow.of_shape(shorten(expected.key), expected.kind, count, shape)
        text = f"{counted(count, 'value')}, expected {wanted} (the first such record of the file)"
        self._findings.add("shape", text, place, feature=expected.key, tensorflow=said)

    def _find_label(self, key: bytes, block: Block) -> None:
        expected = self._feature(key)
        if expected is None or expected.labels is None or ("label", key) in self._reported:
            return
        low, high = expected.labels
        right: set[bytes] = set()
        for number, raw, values in _new_values(block, key, right):
            if odd := [v for v in values if not low <= v < high and v not in expected.extras]:
                names = f"{low} to {high - 1}" if high < UNLIMITED else f"{low} or more"
                text = f"the label {odd[0]} has no name, expected {names}"
                place = _place(block, number)
                self._findings.add("label", text, place, feature=expected.key)
                self._reported.add(("label", key))
                return
            right.add(raw)

    # What the tally of the whole file shows.

    def _check_examples(self) -> None:
        if self.tally.first_invalid is not None:
            text = "the record is no tf.train.Example"
            said = "parse_example fails"
            self._findings.add(
                NO_EXAMPLE, text, self.tally.first_invalid, records=self.tally.invalid,
                tensorflow=said,
            )  # fmt: skip

    def _check_repeated(self, row: int, key: bytes) -> None:
        number = int(self.tally.facts["repeated"][row])
        if number >= 0:
            place = (number, int(self.tally.places["repeated"][row]))
            text = "the record has this feature twice"
            said = "the last one counts"
            self._findings.add("repeated feature", text, place, feature=_text(key), tensorflow=said)

    def _check_text(self, row: int, key: bytes) -> None:
        try:
            key.decode()
        except UnicodeDecodeError:
            place = min(_kind_places(self.tally, row).values())
            records = int(self.tally.facts["present"][row])
            text = f"the feature's name is not UTF-8 ({_count(records)})"
            said = "parse_example reads it; tf.train.Example.FromString raises DecodeError"
            self._findings.add(
                "key", text, place, feature=_text(key), records=records, tensorflow=said
            )

    def _check_known(self, row: int, key: bytes) -> None:
        if self._expected is None or not self._expected.is_closed:
            return
        records = int(self.tally.facts["present"][row])
        hint = did_you_mean(_text(key), self._expected.features).strip()
        text = f"{words_of(self._expected.origin)} has no such feature ({_count(records)}). {hint}"
        place = min(p for p in _kind_places(self.tally, row).values())
        text = text.strip().removesuffix(".")
        self._findings.add("unknown feature", text, place, feature=_text(key), records=records)

    def _check_kind(self, row: int, expected: Expected) -> None:
        for number, place in _kind_places(self.tally, row).items():
            if number in (0, expected.number):
                continue
            records = int(self.tally.facts["kind_records"][row, number])
            text = f"{KINDS[number]} in {_count(records)}, expected {expected.kind}"
            said = tensorflow.of_kind(shorten(expected.key), KINDS[number], expected.kind)
            self._findings.add(
                "kind", text, place, feature=expected.key, records=records, tensorflow=said
            )

    def _check_presence(self, row: int, expected: Expected) -> None:
        if not expected.required:
            return
        facts, places = self.tally.facts[row], self.tally.places[row]
        lacking = self.tally.examples - int(facts["present"])
        none = int(facts["kind_records"][0])
        candidates = []
        if lacking:
            candidates.append((int(facts["absent"]), int(places["absent"])))
        if none:
            candidates.append((int(facts["kind_first"][0]), int(places["kind_first"][0])))
        if candidates:
            self._report_missing(expected, lacking + none, min(candidates))

    def _check_lacking(self) -> None:
        """Features that no record has."""
        if self._expected is None or self.tally.first_example is None:
            return
        present = {_text(key) for key in self.tally.keys}
        for key, expected in self._expected.features.items():
            if expected.required and key not in present:
                self._report_missing(expected, self.tally.examples, self.tally.first_example)

    def _report_missing(self, expected: Expected, records: int, place: tuple[int, int]) -> None:
        text = f"it is missing in {_count(records)}, expected in all"
        said = tensorflow.of_presence(shorten(expected.key), expected.kind)
        self._findings.add(
            "presence", text, place, feature=expected.key, records=records, tensorflow=said
        )

    def _feature(self, key: bytes) -> Expected | None:
        return self._expected.features.get(_text(key)) if self._expected else None


def _kind_places(tally: Tally, row: int) -> dict[int, tuple[int, int]]:
    """Where each kind that a feature has comes first."""
    first, places = tally.facts["kind_first"][row], tally.places["kind_first"][row]
    return {k: (int(first[k]), int(places[k])) for k in range(len(KINDS)) if first[k] >= 0}


def _new_values(
    block: Block, key: bytes, known: set[bytes]
) -> Iterator[tuple[int, bytes, tuple[int, ...]]]:
    """Record in the block, entry, and values of each int64 feature whose entry is not `known`."""
    for number, (start, end, _) in enumerate(
        _kernel.find_feature(block.data, block.ends, key).tolist()
    ):
        raw = bytes(block.data[start:end]) if start >= 0 else b""
        if raw and raw not in known:
            decoded = decode_entry(block.data, start, end)
            yield number, raw, decoded.values if decoded.kind == "int64" else ()


def _place(block: Block, number: int) -> tuple[int, int]:
    """Record and offset of the block's record `number`."""
    start = int(block.ends[number - 1]) if number else 0
    return block.record + number, block.offset + start


def _count(records: int) -> str:
    return counted(records, "record")


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")
