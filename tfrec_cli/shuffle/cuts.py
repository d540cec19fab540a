"""Cuts: what is merged at a time, by the bytes that segments really have.

Neighbouring segments that are small go together. One that is too large is cut into parts: the keys
of all its runs are read, some at a time, and put in order, which shows where each part ends in
each run.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli.shuffle.pile import Load, Pile
from tfrec_cli.shuffle.runs import Run
from tfrec_cli.shuffle.segments import Values, sorted_rows

# Bytes of keys that are looked at together while a segment is cut.
KEYS_AT_ONCE = 8 * 2**20

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cut:
    """Records that are merged at a time: the segments from `segment` to before `last`, or some
    rows of one segment.

    parts: then for each run that has such rows its place among the runs, and its first row and the
    one after its last. size: their bytes, with their keys and two numbers each.
    """

    segment: int
    last: int
    parts: tuple[tuple[int, int, int], ...] | None = None
    size: int = 0

    def rows(self, runs: Sequence[Run]) -> int:
        """How many records that are."""
        if self.parts is not None:
            return sum(last - first for _, first, last in self.parts)
        inside = range(self.segment, self.last)
        return sum(run.rows_of(segment) for run in runs for segment in inside)

    def pile(self, runs: Sequence[Run]) -> Pile:
        """The records in all runs, those of earlier runs first. Raises DatasetError where a run
        cannot be read.
        """
        if self.parts is not None:
            pile = Pile(self._load_of_parts(runs, self.parts))
            for place, first, last in self.parts:
                runs[place].pour_part(pile, self.segment, first, last)
            return pile
        chosen = [run for run in runs if run.rows_of(self.segment, self.last)]
        pile = Pile(self._load(chosen))
        for run in chosen:
            run.pour(pile, self.segment, self.last)
        return pile

    def _load(self, runs: Sequence[Run]) -> Load:
        rows = sum(run.rows_of(self.segment, self.last) for run in runs)
        size = sum(run.size_of(self.segment, self.last) for run in runs)
        pieces = len(runs) * (self.last - self.segment)
        return Load(
            len(runs), pieces, rows, size, any(run.held is None for run in runs), key_of(runs)
        )

    def _load_of_parts(self, runs: Sequence[Run], parts: Sequence[tuple[int, int, int]]) -> Load:
        rows = sum(last - first for _, first, last in parts)
        chosen = [runs[place] for place, _, _ in parts]
        files = any(run.held is None for run in chosen)
        return Load(len(parts), len(parts), rows, self.size, files, key_of(chosen))


def key_of(runs: Sequence[Run]) -> pa.DataType:
    """The type of the keys of runs."""
    return runs[0].key if runs else pa.uint64()


def cuts(runs: Sequence[Run], segments: range, most: int) -> Iterator[Cut]:
    """Segments in order, cut so that each part has up to `most` bytes, or is one record."""
    sizes = np.zeros(len(segments), np.int64)
    for run in runs:
        sizes += np.diff(run.offsets[segments.start : segments.stop + 1])
    first, held = segments.start, 0
    for segment, size in zip(segments, sizes.tolist(), strict=True):
        if held + size > most and first < segment:
            yield Cut(first, segment)
            first, held = segment, 0
        held += size
        if held > most:
            yield from cut_segment(runs, segment, most)
            first, held = segment + 1, 0
    if first < segments.stop:
        yield Cut(first, segments.stop)


def cut_segment(runs: Sequence[Run], segment: int, most: int) -> Iterator[Cut]:
    """A segment in parts of up to `most` bytes, or of one record, in order. Raises DatasetError
    where a run is not what was written, which its parts alone do not show.
    """
    for run in runs:
        run.check(segment)
    cursors = [_Cursor(run, place, segment) for place, run in enumerate(runs)]
    cursors = [cursor for cursor in cursors if cursor.left]
    tally = _Tally(segment, [cursor.place for cursor in cursors])
    room = max(1, KEYS_AT_ONCE // max(1, len(cursors)))
    while any(cursor.left for cursor in cursors):
        for cursor in cursors:
            cursor.fill(room)
        owners, sizes = _settled(cursors)
        yield from tally.add(owners, sizes, most)
    yield from tally.rest()


class _Cursor:
    """A window on the keys of one run in a segment. left: rows that are not settled yet."""

    def __init__(self, run: Run, place: int, segment: int) -> None:
        self._run, self._segment, self.place = run, segment, place
        self.left = run.rows_of(segment)
        self._next = self._filled = 0
        self.keys: pa.Array = pa.nulls(0, run.key)
        self._sizes: Counts = np.zeros(0, np.int64)

    @property
    def more(self) -> bool:
        """Whether there are rows behind the window."""
        return self.left > len(self.keys)

    def fill(self, room: int) -> None:
        """Move the window on, where it is half empty: of short ones few rows can be settled."""
        if self.more and 2 * len(self.keys) <= self._filled:
            self.keys, self._sizes = self._run.keys(self._segment, self._next, room)
            self._filled = len(self.keys)

    def take(self, count: int) -> tuple[pa.Array, Counts]:
        """The first `count` rows of the window, which are settled then."""
        taken = self.keys.slice(0, count), self._sizes[:count]
        self.keys, self._sizes = self.keys.slice(count), self._sizes[count:]
        self._next, self.left = self._next + count, self.left - count
        return taken


def _settled(cursors: Sequence[_Cursor]) -> tuple[Counts, Counts]:
    """Rows that no row behind a window can come before, in order: the cursor and the bytes of each.

    Of equal keys the one in the earlier run comes first.
    """
    windows = [Values(cursor.keys) for cursor in cursors]
    ends = [(w[len(w) - 1], at) for at, w in enumerate(windows) if cursors[at].more]
    if ends:
        key, at = min(ends)
        counts = [
            bisect_right(window, key) if place <= at else bisect_left(window, key)
            for place, window in enumerate(windows)
        ]
    else:
        counts = [len(window) for window in windows]
    taken = [cursor.take(count) for cursor, count in zip(cursors, counts, strict=True)]
    order = sorted_rows(pa.concat_arrays([keys for keys, _ in taken]))
    owners = np.repeat(np.arange(len(cursors)), counts)
    return owners[order], np.concatenate([sizes for _, sizes in taken])[order]


class _Tally:
    """Counts off rows in order into parts. places: of the runs that they are in."""

    def __init__(self, segment: int, places: Sequence[int]) -> None:
        self._segment, self._places = segment, places
        self._done = np.zeros(len(places), np.int64)
        self._taken = np.zeros(len(places), np.int64)
        self._held = 0

    def add(self, owners: Counts, sizes: Counts, most: int) -> Iterator[Cut]:
        """The parts that are full with these rows."""
        ends, first, base = np.cumsum(sizes), 0, 0
        while first < len(ends):
            fits = int(np.searchsorted(ends, base + most - self._held, side="right"))
            fits = max(fits, first if self._held else first + 1)
            self._taken += np.bincount(owners[first:fits], minlength=len(self._places))
            if fits == len(ends):
                self._held += int(ends[-1]) - base
                return
            base, before = int(ends[fits - 1]) if fits else 0, base
            self._held += base - before
            yield from self.rest()
            first = fits

    def rest(self) -> Iterator[Cut]:
        """The last part, where it has rows."""
        ends = self._done + self._taken
        rows = zip(self._places, self._done.tolist(), ends.tolist(), strict=True)
        parts = tuple((place, begin, end) for place, begin, end in rows if end > begin)
        size, self._held = self._held, 0
        self._done, self._taken = ends, np.zeros_like(ends)
        if parts:
            yield Cut(self._segment, self._segment + 1, parts, size)
