"""Examples taken apart: the values of a feature, and what a file's records say of their features.

The wire format is described in `tfrec_cli._kernel._examples_reference`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfrec_cli._kernel import EXAMPLE_FACTS, ExampleSurvey, _examples_reference
from tfrec_cli._kernel._examples_reference import FLOAT, NoExampleError, read_entry, read_example

__all__ = [
    "KINDS",
    "FeatureTally",
    "NoExampleError",
    "Tally",
    "Values",
    "decode_entry",
    "decode_example",
    "decode_feature",
    "decode_lists",
    "message_fields",
    "sequence_keys",
]

KINDS = ("no kind", "bytes", "float", "int64")
"""The kinds of a Feature, by the number that a survey gives them."""

MAX_FEATURES = 100_000

_PLACES = np.dtype([("absent", "<i8"), ("repeated", "<i8"), ("kind_first", "<i8", 4)])


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one feature of one record: int, float or bytes, by `kind` (one of KINDS)."""

    kind: str
    values: tuple[Any, ...]


def decode_entry(data: memoryview, start: int, end: int) -> Values:
    """The values in the map entry at `data[start:end]`, where `find_feature` found it.

    Raises NoExampleError (a ValueError) where there is none.
    """
    entry = read_entry(data, start, end)
    return _values(entry.kind, entry.values)


def decode_example(data: bytes | memoryview) -> dict[str, Values]:
    """The features of one serialized Example by key, as they stand; of a key that comes twice the
    last counts. Keys that are not UTF-8 keep their bytes as surrogates.

    Raises NoExampleError (a ValueError).
    """
    view = memoryview(data).cast("B")
    entries, _ = read_example(view, 0, len(view))
    return {e.key.decode("utf-8", "surrogateescape"): _values(e.kind, e.values) for e in entries}


def message_fields(data: bytes | memoryview) -> list[int]:
    """The numbers of the fields of a protobuf message of any kind, sorted.

    Raises NoExampleError where `data` is no message, or one without fields.
    """
    view = memoryview(data)
    numbers = {field[0] for field in _examples_reference.message_fields(view, 0, len(view))}
    if not numbers:
        raise NoExampleError("no fields")
    return sorted(numbers)


def sequence_keys(data: bytes) -> list[str]:
    """The keys of the feature lists of a `tf.train.SequenceExample`, sorted.

        SequenceExample { 1: Features context, 2: FeatureLists }
        FeatureLists    { 1: repeated map entry { 1: key, 2: FeatureList { 1: repeated Feature } } }

    Raises NoExampleError where `data` is none.
    """
    view, keys = memoryview(data), set()
    # The context is read as an Example's features are.
    read_example(view, 0, len(view))
    fields = _examples_reference.message_fields
    lists = [f for f in fields(view, 0, len(view)) if f[:2] == (2, 2)]
    for _, _, start, end in lists:
        for number, wire, low, high in fields(view, start, end):
            if (number, wire) != (1, 2):
                raise NoExampleError("not feature lists")
            entry = fields(view, low, high)
            if any(field[:2] not in ((1, 2), (2, 2)) for field in entry):
                raise NoExampleError("not a feature list")
            keys |= {bytes(view[a:b]) for n, _, a, b in entry if n == 1}
    if not lists:
        raise NoExampleError("no feature lists")
    return sorted(key.decode("utf-8", "surrogateescape") for key in keys)


def decode_lists(data: bytes) -> dict[str, tuple[Values, ...]]:
    """The feature lists of a `tf.train.SequenceExample` by key, the Features of each in order; none
    of an Example. The messages are those of `sequence_keys`.

    Raises NoExampleError where `data` is neither.
    """
    view, found = memoryview(data), {}
    fields = _examples_reference.message_fields
    places = [f[2:] for f in fields(view, 0, len(view)) if f[:2] == (2, 2)]
    for start, end in places:
        for _, _, low, high in (f for f in fields(view, start, end) if f[:2] == (1, 2)):
            key, steps = b"", []
            for number, wire, first, last in fields(view, low, high):
                if (number, wire) == (1, 2):
                    key = bytes(view[first:last])
                elif (number, wire) == (2, 2):
                    steps += [f[2:] for f in fields(view, first, last) if f[:2] == (1, 2)]
            found[key.decode("utf-8", "surrogateescape")] = tuple(
                decode_feature(view, *step) for step in steps
            )
    return found


def decode_feature(data: memoryview, start: int, end: int) -> Values:
    """The values of the Feature at `data[start:end]`. Raises NoExampleError."""
    feature = _examples_reference.read_feature(data, start, end)
    return _values(feature.kind, feature.values)


def _values(kind: int, values: Any) -> Values:
    if kind == FLOAT:
        values = np.frombuffer(bytes(values), "<f4").tolist()
    return Values(KINDS[kind], tuple(values))


@dataclass(slots=True)
class FeatureTally:
    """One feature in all records.

    present: records that have the key; kind_records: how many with no kind, as bytes, float and
    int64. fewest, most: values in a record, -1 without any. values: all of them. low, high: least
    and greatest int64. bytes: of its map entries, payload: of its values alone.
    """

    key: bytes
    present: int = 0
    kind_records: list[int] = field(default_factory=lambda: [0] * len(KINDS))
    fewest: int = -1
    most: int = -1
    values: int = 0
    low: int = 2**63 - 1
    high: int = -(2**63)
    bytes: int = 0
    payload: int = 0

    @property
    def kind(self) -> str:
        """The most frequent kind; no kind only where there is no other."""
        kinds = max((1, 2, 3), key=self.kind_records.__getitem__)
        return KINDS[kinds if self.kind_records[kinds] else 0]

    def add(self, facts: np.void) -> None:
        """Take in EXAMPLE_FACTS of further records."""
        self.present += int(facts["present"])
        for kind, records in enumerate(facts["kind_records"].tolist()):
            self.kind_records[kind] += records
        fewest = int(facts["fewest"])
        if fewest >= 0:
            self.fewest = fewest if self.fewest < 0 else min(self.fewest, fewest)
        self.most = max(self.most, int(facts["most"]))
        self.values += int(facts["values"])
        self.low = min(self.low, int(facts["low"]))
        self.high = max(self.high, int(facts["high"]))
        self.bytes += int(facts["bytes"])
        self.payload += int(facts["payload"])

    def include(self, other: FeatureTally) -> None:
        """Take in the same feature of further records."""
        self.present += other.present
        pairs = zip(self.kind_records, other.kind_records, strict=True)
        self.kind_records = [mine + theirs for mine, theirs in pairs]
        if other.fewest >= 0:
            self.fewest = other.fewest if self.fewest < 0 else min(self.fewest, other.fewest)
        self.most = max(self.most, other.most)
        self.values += other.values
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)
        self.bytes += other.bytes
        self.payload += other.payload


class Tally:
    """What all records of one file say of their features, gathered block by block.

    keys: the features, as they first appear. facts: EXAMPLE_FACTS of each, records numbered from
    the file's first. places: for `absent`, `repeated` and `kind_first` the bytes of content before
    that record. examples: how many records are Examples, `first_example` the first of them.
    invalid, sequences: how many are no Example, and how many are SequenceExamples; with the record
    and offset of the first, None without. is_full: more than 100,000 features were seen, and the
    further ones left out.
    """

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.facts = np.zeros(0, EXAMPLE_FACTS)
        self.places = np.zeros(0, _PLACES)
        self.examples = self.invalid = self.sequences = 0
        self.first_example: tuple[int, int] | None = None
        self.first_invalid: tuple[int, int] | None = None
        self.first_sequence: tuple[int, int] | None = None
        self.is_full = False
        self._index: dict[bytes, int] = {}

    def add(self, survey: ExampleSurvey, ends: np.ndarray, record: int, offset: int) -> None:
        """Count the records of a block that end at `ends`. record, offset: of its first record."""
        starts = np.concatenate(([0], ends[:-1])) + offset
        self._note_odd(survey, starts, record)
        first = _first_valid(len(ends), survey.invalid)
        if first is None:
            return
        place = (first + record, int(starts[first]))
        rows, taken = self._rows(survey.keys)
        self._note_absent(rows, place)
        self._merge(rows, survey.facts[taken], starts, record)
        self.examples += len(ends) - len(survey.invalid)
        self.first_example = self.first_example or place

    def _note_odd(self, survey: ExampleSurvey, starts: np.ndarray, record: int) -> None:
        self.invalid += len(survey.invalid)
        if len(survey.invalid) and self.first_invalid is None:
            number = int(survey.invalid[0])
            self.first_invalid = (number + record, int(starts[number]))
        self.sequences += survey.sequences
        if survey.sequences and self.first_sequence is None:
            self.first_sequence = (survey.sequence + record, int(starts[survey.sequence]))

    def _rows(self, keys: list[bytes]) -> tuple[np.ndarray, slice | np.ndarray]:
        """The rows of `keys` in the table, made where there are none, and which keys they are."""
        if keys == self.keys:
            return np.arange(len(keys)), slice(None)
        for key in keys:
            if key not in self._index and len(self.keys) < MAX_FEATURES:
                self._index[key] = len(self.keys)
                self.keys.append(key)
        self._grow(len(self.keys) - len(self.facts))
        rows = np.array([self._index.get(key, -1) for key in keys], np.int64)
        self.is_full |= bool((rows < 0).any())
        return rows[rows >= 0], rows >= 0

    def _grow(self, count: int) -> None:
        facts, places = np.zeros(count, EXAMPLE_FACTS), np.full(count, -1, _PLACES)
        for name in ("absent", "repeated", "kind_first", "fewest", "most"):
            facts[name] = -1
        facts["low"], facts["high"] = 2**63 - 1, -(2**63)
        if self.first_example is not None:
            facts["absent"], places["absent"] = self.first_example
        self.facts = np.concatenate((self.facts, facts))
        self.places = np.concatenate((self.places, places))

    def _note_absent(self, rows: np.ndarray, place: tuple[int, int]) -> None:
        """Features that a block does not have are absent from its first Example."""
        lacking = self.facts["absent"] < 0
        lacking[rows] = False
        self.facts["absent"][lacking], self.places["absent"][lacking] = place

    def _merge(self, rows: np.ndarray, new: np.ndarray, starts: np.ndarray, record: int) -> None:
        mine, places = self.facts[rows], self.places[rows]
        for name in _PLACES.names or ():
            take = (mine[name] < 0) & (new[name] >= 0)
            places[name][take] = starts[new[name][take]]
            mine[name][take] = new[name][take] + record
        for name in ("present", "kind_records", "values", "bytes", "payload"):
            mine[name] += new[name]
        known = new["fewest"] >= 0
        less = known & ((mine["fewest"] < 0) | (new["fewest"] < mine["fewest"]))
        mine["fewest"][less] = new["fewest"][less]
        mine["most"] = np.maximum(mine["most"], new["most"])
        mine["low"] = np.minimum(mine["low"], new["low"])
        mine["high"] = np.maximum(mine["high"], new["high"])
        self.facts[rows], self.places[rows] = mine, places


def _first_valid(count: int, invalid: np.ndarray) -> int | None:
    """The first of `count` numbers that is not among the sorted `invalid` ones."""
    if len(invalid) == count:
        return None
    gaps = np.flatnonzero(invalid != np.arange(len(invalid)))
    return int(gaps[0]) if len(gaps) else len(invalid)
