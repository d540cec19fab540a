"""Serialized Examples taken apart, in plain Python: the specification of the walk.

The messages are TensorFlow's `example.proto` and `feature.proto` on the protobuf wire
(protobuf.dev/programming-guides/encoding):

    Example   { 1: Features }
    Features  { 1: repeated map entry { 1: key, 2: Feature } }
    Feature   { oneof 1: BytesList, 2: FloatList, 3: Int64List }
    BytesList { 1: repeated bytes }   FloatList, Int64List { 1: repeated value, packed or not }

As for protobuf, parts of a message that come twice are merged, the last kind of a Feature counts,
and fields of other numbers or wire types are skipped. Groups, which no Example has had in living
memory, make a record no Example. So do: a varint of more than ten bytes, a length beyond the
message around it, field number 0, a tag beyond 32 bits, packed floats of odd length.

Readers differ where no writer of Examples goes. The measure is what any of them would meet:

* A length in six to ten bytes: protobuf for Python, by which PyTorch and Grain read, takes the
  record for none, `tf.io.parse_example` takes it. It is no Example.
* A field in a map entry beside key and Feature: protobuf passes over the whole entry, and
  `parse_example` refuses the record, so that nobody sees the feature. It is no Example.
* Other fields that are not known, parts of a message that come twice, a tag in more bytes than it
  needs: protobuf reads the record, `parse_example` refuses it or passes over the field. It is an
  Example.
* A key that is no UTF-8: `parse_example` reads the record, protobuf for Python does not. It is an
  Example, whose key `tfrec verify` names.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfrec_cli._kernel.model import EXAMPLE_FACTS, ExampleSurvey

NO_KIND, BYTES, FLOAT, INT64 = 0, 1, 2, 3
_VARINT, _WIRE_64, _WIRE_BYTES, _WIRE_32 = 0, 1, 2, 5
_MIN, _MAX = -(2**63), 2**63 - 1
_HEADER, _FOOTER = 12, 4
_MOST_SIZE = 5


class NoExampleError(ValueError):
    """The bytes are no message of the kind expected."""


@dataclass(slots=True)
class Entry:
    """One entry of a feature map: where it is, its key, and the values of its Feature.

    values: int for int64, bytes for bytes; for float an array of them. payload: bytes of
    the values alone.
    """

    start: int
    end: int
    key: bytes = b""
    kind: int = NO_KIND
    values: Any = field(default_factory=list)
    payload: int = 0


def read_entry(data: memoryview, start: int, end: int) -> Entry:
    """The map entry at `data[start:end]`. Raises NoExampleError."""
    entry = Entry(start, end)
    for number, low, high in _entry_fields(data, start, end):
        if number == 1:
            entry.key = bytes(data[low:high])
        else:
            _read_feature(data, low, high, entry)
    return entry


def read_feature(data: memoryview, start: int, end: int) -> Entry:
    """The Feature at `data[start:end]`, as an entry without a key. Raises NoExampleError."""
    entry = Entry(start, end)
    _read_feature(data, start, end, entry)
    return entry


def read_key(data: memoryview, start: int, end: int) -> bytes:
    """The key of the map entry at `data[start:end]`. Raises NoExampleError."""
    keys = [place for number, *place in _entry_fields(data, start, end) if number == 1]
    return bytes(data[keys[-1][0] : keys[-1][1]]) if keys else b""


def read_example(data: memoryview, start: int, end: int) -> tuple[list[Entry], bool]:
    """The entries of the Example at `data[start:end]`, all of them in the order they stand, and
    whether it has the second field of a SequenceExample. Raises NoExampleError.
    """
    places = list(walk_example(data, start, end))
    entries = [read_entry(data, first, last) for is_entry, first, last in places if is_entry]
    return entries, len(entries) < len(places)


def walk_example(data: memoryview, start: int, end: int) -> Iterator[tuple[bool, int, int]]:
    """Where the map entries of the Example at `data[start:end]` are, with True; and the second
    fields of a SequenceExample, with False. Raises NoExampleError.
    """
    for number, wire, low, high in _fields(data, start, end):
        if (number, wire) == (2, _WIRE_BYTES):
            yield False, low, high
        if (number, wire) == (1, _WIRE_BYTES):
            for inner, inner_wire, first, last in _fields(data, low, high):
                if (inner, inner_wire) == (1, _WIRE_BYTES):
                    yield True, first, last


def survey_examples(buffer: Any, ends: np.ndarray) -> ExampleSurvey:
    """See `tfrec_cli._kernel.survey_examples`."""
    facts: dict[bytes, _Facts] = {}
    examples: list[int] = []
    invalid, sequences = [], []
    for number, (data, start, end) in enumerate(records(buffer, ends)):
        try:
            entries, sequence = read_example(data, start, end)
        except NoExampleError:
            invalid.append(number)
            continue
        if sequence:
            sequences.append(number)
        examples.append(number)
        _count(facts, entries, examples)
    for found in facts.values():
        found.note_gap(len(examples), examples)
    table = np.array([found.row() for found in facts.values()], EXAMPLE_FACTS)
    first = sequences[0] if sequences else -1
    return ExampleSurvey(list(facts), table, np.array(invalid, np.int64), len(sequences), first)


def find_feature(buffer: Any, ends: np.ndarray, key: bytes) -> np.ndarray:
    """See `tfrec_cli._kernel.find_feature`."""
    found = np.full((len(ends), 3), -1, np.int64)
    for number, (data, start, end) in enumerate(records(buffer, ends)):
        try:
            entries, _ = read_example(data, start, end)
        except NoExampleError:
            continue
        for entry in entries:
            if entry.key == key:
                found[number] = entry.start, entry.end, len(entry.values)
    return found


@dataclass(slots=True)
class _Facts:
    """EXAMPLE_FACTS being gathered; `last` is the ordinal of the last Example counted."""

    last: int = -1
    present: int = 0
    absent: int = -1
    repeated: int = -1
    kind_records: list[int] = field(default_factory=lambda: [0] * 4)
    kind_first: list[int] = field(default_factory=lambda: [-1] * 4)
    fewest: int = -1
    most: int = -1
    values: int = 0
    low: int = _MAX
    high: int = _MIN
    bytes: int = 0
    payload: int = 0

    def note_gap(self, ordinal: int, examples: list[int]) -> None:
        """The first Example between the last counted and `ordinal` lacks the feature."""
        if self.last < ordinal - 1 and self.absent < 0:
            self.absent = examples[self.last + 1]

    def add(self, entry: Entry, examples: list[int]) -> None:
        """Count the feature of the last of `examples`."""
        self.note_gap(len(examples) - 1, examples)
        self.last = len(examples) - 1
        self.present += 1
        size = entry.end - entry.start
        self.bytes += 1 + max(1, -(-size.bit_length() // 7)) + size
        self.payload += entry.payload
        if not self.kind_records[entry.kind]:
            self.kind_first[entry.kind] = examples[-1]
        self.kind_records[entry.kind] += 1
        if entry.kind == NO_KIND:
            return
        count = len(entry.values)
        self.fewest = count if self.fewest < 0 else min(self.fewest, count)
        self.most = max(self.most, count)
        self.values += count
        if entry.kind == INT64 and entry.values:
            self.low = min(self.low, *entry.values)
            self.high = max(self.high, *entry.values)

    def row(self) -> tuple[Any, ...]:
        """The facts in the order of EXAMPLE_FACTS."""
        return tuple(getattr(self, name) for name in EXAMPLE_FACTS.names or ())


def _count(facts: dict[bytes, _Facts], entries: list[Entry], examples: list[int]) -> None:
    latest: dict[bytes, Entry] = {}
    for entry in entries:
        found = facts.setdefault(entry.key, _Facts())
        if entry.key in latest and found.repeated < 0:
            found.repeated = examples[-1]
        latest[entry.key] = entry
    for key, entry in latest.items():
        facts[key].add(entry, examples)


def records(buffer: Any, ends: np.ndarray) -> Iterator[tuple[memoryview, int, int]]:
    """The buffer, and where each record's data starts and ends in it. Raises ValueError where
    `ends` do not fit.
    """
    data = memoryview(buffer).cast("B")
    start = 0
    places = [int(end) for end in ends]
    for end in places:
        if end - start < _HEADER + _FOOTER or end > len(data):
            raise ValueError("ends do not fit the buffer")
        start = end
    for begin, end in zip([0, *places], places, strict=False):
        yield data, begin + _HEADER, end - _FOOTER


def _entry_fields(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, start and end of the key and the Feature of a map entry."""
    for number, wire, low, high in _fields(data, start, end):
        if wire != _WIRE_BYTES or number > 2:
            raise NoExampleError("a field beside key and Feature")
        yield number, low, high


def _fields(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type, start and end of the content of each field of a message. The content of
    a varint is the varint itself.
    """
    while at < end:
        tag, at = _varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if tag > 0xFFFFFFFF or not number:
            raise NoExampleError("a tag that no message has")
        if wire == _WIRE_BYTES:
            before = at
            size, at = _varint(data, at, end)
            if at - before > _MOST_SIZE:
                raise NoExampleError("a length of more than five bytes")
        elif wire == _VARINT:
            size = _varint(data, at, end)[1] - at
        elif wire in (_WIRE_64, _WIRE_32):
            size = 8 if wire == _WIRE_64 else 4
        else:
            raise NoExampleError(f"wire type {wire}")
        if size > end - at:
            raise NoExampleError("a length beyond the message")
        yield number, wire, at, at + size
        at += size


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """An unsigned 64-bit varint and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at == end:
            raise NoExampleError("a number that is cut")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise NoExampleError("a number of more than ten bytes")


def _read_feature(data: memoryview, start: int, end: int, entry: Entry) -> None:
    for number, wire, low, high in _fields(data, start, end):
        if wire != _WIRE_BYTES or number > INT64:
            continue
        if entry.kind != number:
            values: Any = array("f") if number == FLOAT else []
            entry.kind, entry.values, entry.payload = number, values, 0
        for inner, inner_wire, first, last in _fields(data, low, high):
            if inner == 1:
                items = _items(data, (first, last), number, inner_wire)
                entry.values += items
                # Without a value there are no bytes either: the field is of another wire type.
                entry.payload += last - first if items else 0


def _items(data: memoryview, place: tuple[int, int], kind: int, wire: int) -> Any:
    """The values in one field of a list."""
    start, end = place
    if kind == BYTES:
        return [bytes(data[start:end])] if wire == _WIRE_BYTES else []
    if kind == FLOAT:
        if wire == _WIRE_BYTES and (end - start) % 4:
            raise NoExampleError("packed floats of odd length")
        floats = wire in (_WIRE_BYTES, _WIRE_32)
        return array("f", bytes(data[start:end]) if floats else b"")
    return _integers(data, start, end) if wire in (_WIRE_BYTES, _VARINT) else []


def _integers(data: memoryview, at: int, end: int) -> list[int]:
    values = []
    while at < end:
        value, at = _varint(data, at, end)
        values.append(value - (1 << 64) if value >> 63 else value)
    return values


def message_fields(data: memoryview, start: int, end: int) -> list[tuple[int, int, int, int]]:
    """Number, wire type, start and end of the content of each field of any message.

    Raises NoExampleError where the bytes are none.
    """
    return list(_fields(data, start, end))
