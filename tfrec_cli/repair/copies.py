"""Records that damaged compressed data made, as copies of earlier ones.

Deflated data (RFC 1951) says of most bytes only where they stand already, at most 32 KiB before.
Damage in it may repeat any of that, whole records with it. Where the repetition begins and ends, it
breaks a record in two: copies stand between two damaged places, all of them. Yet the records of
many datasets do occur twice, and then nothing tells one from the other. They are taken for copies
only where the sound records of the file are many and all different.
"""

from __future__ import annotations

from bisect import bisect_right

from tfrec_cli import _kernel
from tfrec_cli.repair.content import Content
from tfrec_cli.repair.search import find_headers

REACH = 1 << 15
"""How far back deflated data may refer, in bytes."""

_SAMPLE = 1 << 20
_ENOUGH = 100


class Copies:
    """What is known of repetitions in one content."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._starts = [start for start, _ in content.doubtful]
        self._sample = b""
        self._is_told: bool | None = None

    def stream_end(self, damaged: int, at: int) -> int | None:
        """Where the content ends that comes of the same damaged stream as `at`, if damage was met
        in it before, at `damaged`; None where `at` can be no copy.
        """
        number = bisect_right(self._starts, at) - 1
        if number < 0:
            return None
        start, end = self._content.doubtful[number]
        return end if start <= damaged < at < end else None

    def learn(self, frames: bytes) -> None:
        """Take account of sound frames, which are no copies."""
        if len(self._sample) < _SAMPLE and len(frames) > len(self._sample):
            self._sample, self._is_told = frames, None

    def are_copies(self, start: int, end: int) -> bool:
        """Whether each of the frames between two places stands in what may be referred to."""
        base = max(0, start - REACH)
        data = self._content.read(base, end - base)
        begin = start - base
        for size in _kernel.scan(memoryview(data)[begin:]).ends.tolist():
            stop = start - base + size
            if data.find(data[begin:stop], max(0, begin - REACH), stop - 1) < 0:
                return False
            begin = stop
        return True

    def are_told(self, at: int) -> bool:
        """Whether frames at a place, which stand before it too, are copies: no sound frames do."""
        if self._is_told is None:
            frames = _frames(self._sample)
            if len(self._sample) < _SAMPLE:
                frames += _frames(self._behind(at))
            self._is_told = _ENOUGH <= len(frames) == len(set(frames))
        return self._is_told

    def _behind(self, at: int) -> bytes:
        """Sound frames behind the damaged stream that holds a place, perhaps with others."""
        number = bisect_right(self._starts, at)
        start = self._content.doubtful[number - 1][1]
        stop = self._starts[number] if number < len(self._starts) else self._content.size
        data = self._content.read(start, min(_SAMPLE, stop - start))
        for place in find_headers(data, len(data)).tolist():
            if len(_kernel.scan(memoryview(data)[place:]).ends):
                return data[place:]
        return b""


def _frames(data: bytes) -> list[bytes]:
    """The intact frames at the start of `data`."""
    ends = _kernel.scan(data).ends.tolist()
    return [data[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
