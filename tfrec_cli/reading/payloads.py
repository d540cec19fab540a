"""What kinds of records there are that are no Example, by what they start with."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from tfrec_cli.decoding import NoExampleError, message_fields
from tfrec_cli.errors import listed
from tfrec_cli.reading.values import is_text, other_format
from tfrec_cli.records.framing import FOOTER, HEADER
from tfrec_cli.sources.imageheader import image_format

LOOKED = 512
"""Of more records in one chunk as many are looked at, from all over it."""

OTHERS = "of other kinds"
"""What records are called once there are too many kinds to tell."""

_KINDS = 64
_SHOWN = 8
# JSON that is longer is told by its two ends.
_PARSED = 1 << 16


@dataclass(frozen=True, slots=True)
class OddRecords:
    """Records that are no Example, and all of one kind. file, record: the first of them, from 0.
    sampled: whether the number was made out by some of them.
    """

    kind: str
    records: int
    file: str
    record: int
    sampled: bool = False


def look_at(path: str, data: memoryview, ends: np.ndarray, odd: np.ndarray) -> list[OddRecords]:
    """What some records of a chunk are. data, ends: as `_kernel.scan` has them. odd: the numbers of
    those that are no Example, by which records are numbered here.
    """
    looked = odd
    if len(odd) > LOOKED:
        looked = odd[np.linspace(0, len(odd) - 1, LOOKED).astype(np.int64)]
    found: dict[str, list[int]] = {}
    for number in looked.tolist():
        start = int(ends[number - 1]) if number else 0
        kind = kind_of(data[start + HEADER : int(ends[number]) - FOOTER])
        found.setdefault(kind, []).append(number)
    counts = _shared(len(odd), [len(numbers) for numbers in found.values()])
    sampled = len(looked) < len(odd) and len(found) > 1
    return [
        OddRecords(kind, count, path, numbers[0], sampled)
        for (kind, numbers), count in zip(found.items(), counts, strict=True)
    ]


def _shared(total: int, parts: list[int]) -> list[int]:
    """`total` in whole parts as these are to each other."""
    ends = np.cumsum([0, *parts]) * total // max(1, sum(parts))
    return [int(size) for size in np.diff(ends)]


class OddKinds:
    """All records so far that are no Example, by kind."""

    def __init__(self) -> None:
        self._found: dict[str, OddRecords] = {}

    def add(self, some: Iterable[OddRecords], record: int = 0) -> None:
        """Take in more. record: of the file, that from which these are numbered."""
        for one in some:
            kind = one.kind if one.kind in self._found or len(self._found) < _KINDS else OTHERS
            before = self._found.get(kind)
            if before is None:
                self._found[kind] = replace(one, kind=kind, record=record + one.record)
                continue
            records, sampled = before.records + one.records, before.sampled or one.sampled
            self._found[kind] = replace(before, records=records, sampled=sampled)

    def kinds(self) -> tuple[OddRecords, ...]:
        """Those of each kind, the most frequent first."""
        return tuple(sorted(self._found.values(), key=lambda one: -one.records))

    def words(self) -> str:
        """`JSON 3, text about 20`."""
        kinds = self.kinds()
        shown = [f"{one.kind} {'about ' * one.sampled}{one.records:,}" for one in kinds]
        return listed(shown, _SHOWN)


def kind_of(data: bytes | memoryview) -> str:
    """A word or two on bytes of any kind, which are not copied."""
    view = memoryview(data)
    head = bytes(view[:_PARSED])
    if (image := image_format(head)) is not None:
        return f"{image} images"
    if is_text(view):
        return "JSON" if _is_json(view) else "text"
    if (other := other_format(head)) is not None:
        return other
    try:
        fields = message_fields(view)
    except NoExampleError:
        return "bytes of no known kind"
    names = listed([str(number) for number in fields], _SHOWN)
    return f"another protobuf message (fields {names})"


def _is_json(text: memoryview) -> bool:
    first, last = bytes(text[:_PARSED]).lstrip()[:1], bytes(text[-_PARSED:]).rstrip()[-1:]
    if (first, last) not in ((b"{", b"}"), (b"[", b"]")):
        return False
    if len(text) > _PARSED:
        return True
    try:
        return isinstance(json.loads(bytes(text)), dict | list)
    except (ValueError, RecursionError):
        return False
