"""Intact records found in content of which some is damaged.

What is taken as a record has a length and data that both their checksums vouch for. Behind damage
the next record is looked for in three ways:

* The length is good, the data is not: the record ends where its length says. Records found before
  that are taken only where bytes were lost, so that those after it do not stand where they should;
  a payload that holds framed records itself is not taken apart.
* The length is bad: where the data up to a later header has the checksum that stands before that
  header, only the length was damaged, and the record is saved with its length written anew.
* Else the next header whose length and data are intact is where records go on.

Compressed data that is damaged may inflate to copies of what came before: see `copies`.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tfrec_cli import _kernel
from tfrec_cli.records.framing import FOOTER, HEADER, frame, mask
from tfrec_cli.repair.content import Content, Gap
from tfrec_cli.repair.copies import REACH, Copies
from tfrec_cli.repair.losses import Loss
from tfrec_cli.repair.search import find_headers, header_length

WINDOW = 4 << 20
MEND = 4 << 20
"""How long a record with a damaged length may be to be mended."""

_FIRST = 1 << 12
_LEAST = 1 << 10
_GROWTH = 4
_CREDIT = 16 * MEND
_COST = 64
"""Behind damage the next may be near: looking starts with few bytes and goes on with more. A file
of much damage gets no more looks at all its bytes for being mended than a few."""

_CRC = struct.Struct("<I")
_FAR = 1 << 63


@dataclass(frozen=True, slots=True)
class Saved:
    """Frames to write: `records` of them end in `data`, `mended` with a length written anew.

    doubtful: it cannot be told whether damaged compressed data made them.
    """

    data: bytes
    records: int
    mended: int = 0
    doubtful: bool = False


def salvage(content: Content, window: int = WINDOW) -> Iterator[Saved | Loss]:
    """All intact records of `content` in order, and what lies between them.

    window: bytes read at a time. Memory is bounded by a few of them.
    """
    yield from _merged(_Salvage(content, window).pieces())


def _merged(pieces: Iterator[Saved | Loss]) -> Iterator[Saved | Loss]:
    """Losses that touch become one: the kind of the first, the records of both."""
    last: Loss | None = None
    for piece in pieces:
        if isinstance(piece, Saved):
            if last is not None:
                yield replace(last, doubtful=piece.records) if piece.doubtful else last
                last = None
            yield piece
        elif last is None or (last.unit, last.end) != (piece.unit, piece.start):
            if last is not None:
                yield last
            last = piece
        else:
            known = None not in (last.records, piece.records)
            records = (last.records or 0) + (piece.records or 0) if known else None
            last = Loss(
                last.file, last.kind, last.text, last.record, last.start, piece.end, last.unit,
                records,
            )  # fmt: skip
    if last is not None:
        yield last


class _Salvage:
    """One pass over the content."""

    def __init__(self, content: Content, window: int) -> None:
        self._content, self._window = content, window
        self._size = content.size
        self._breaks = [gap.at for gap in content.gaps]
        self._copies = Copies(content)
        self._credit = _CREDIT
        self._told = 0
        self._damaged = -1
        self._saved = 0

    def pieces(self) -> Iterator[Saved | Loss]:
        """See `salvage`."""
        at = 0
        while at < self._size:
            for piece, end in self._chained(at):
                yield from self._gaps(at)
                self._saved += piece.records if isinstance(piece, Saved) else 0
                yield piece
                at = end
            if at < self._size:
                begin, (mended, at, loss) = at, self._pass_damage(at)
                self._credit = min(_CREDIT, self._credit + 4 * (at - begin))
                yield from self._gaps(begin)
                if mended is not None:
                    self._saved += 1
                    yield mended
                if loss is not None:
                    self._damaged = begin
                    yield loss
        yield from self._gaps(self._size)

    def _chained(self, at: int) -> Iterator[tuple[Saved | Loss, int]]:
        """The intact records from `at` on, each run with the place just past it; without those
        that are known to be copies.
        """
        stream_end = self._copies.stream_end(self._damaged, at)
        if stream_end is None:
            for run, end in self._records(at):
                self._copies.learn(run.data)
                yield run, end
            return
        end = self._chain(at, at + REACH)
        if at < end < min(at + REACH, stream_end) and self._copies.are_copies(at, end):
            data = self._content.read(at, end - at)
            records = len(_kernel.scan(data).ends)
            if self._copies.are_told(at):
                text = "damaged data repeats what comes before it"
                yield self._loss(at, end, "compressed data", text, None), end
            else:
                yield Saved(data, records, doubtful=True), end
            return
        yield from self._records(at)

    def _gaps(self, until: int) -> Iterator[Loss]:
        """The gaps of the container up to a place in the content, each once."""
        gaps = self._content.gaps
        while self._told < len(gaps) and gaps[self._told].at <= until:
            gap = gaps[self._told]
            self._told += 1
            yield self._lost_gap(gap)

    def _lost_gap(self, gap: Gap) -> Loss:
        return Loss(self._content.path, gap.kind, gap.text, self._saved, gap.start, gap.end)

    def _records(self, at: int) -> Iterator[tuple[Saved, int]]:
        """The intact records from `at` on, each run with the place just past it."""
        size = min(_FIRST, self._window)
        while at < self._size:
            data = self._content.read(at, min(size, self._break_after(at) - at))
            found = _kernel.scan(data)
            is_cut = found.damage == "truncated" and len(data) == size
            if len(found.ends):
                end = int(found.ends[-1])
                at += end
                yield Saved(data[:end], len(found.ends)), at
            elif is_cut and size == self._window:
                length = header_length(data[:HEADER])
                if length is None or not self._is_intact(at, length):
                    return
                for run in self._long(at, length):
                    at += len(run.data)
                    yield run, at
            if found.damage and not is_cut:
                return
            size = min(size * _GROWTH, self._window)

    def _long(self, at: int, length: int) -> Iterator[Saved]:
        """One record that is longer than a window, in parts."""
        end = at + HEADER + length + FOOTER
        while at < end:
            data = self._content.read(at, min(self._window, end - at))
            at += len(data)
            yield Saved(data, int(at == end))

    def _is_intact(self, at: int, length: int) -> bool:
        """Whether the data of the record at `at` is what its checksum says."""
        end = at + HEADER + length
        if end + FOOTER > self._size:
            return False
        crc, place = 0, at + HEADER
        while place < end:
            data = self._content.read(place, min(self._window, end - place))
            crc, place = _kernel.crc32c(data, crc), place + len(data)
        return bool(_CRC.unpack(self._content.read(end, FOOTER))[0] == mask(crc))

    def _pass_damage(self, at: int) -> tuple[Saved | None, int, Loss | None]:
        """What is saved of the record that begins at `at`, where to go on, and what is lost."""
        length = header_length(self._content.read(at, HEADER))
        if length is None:
            mended = self._mend(at)
            if mended is not None:
                return Saved(frame(mended), 1, 1), at + HEADER + len(mended) + FOOTER, None
            place = self._next_intact(at + 1, self._size)
            kind, text = "length checksum", "its length is not the one written"
            if not at and place == self._size:
                text = "no intact record is in the file; it may never have been a TFRecord file"
            if self._size - at < HEADER:
                kind, text = "truncated", f"{self._size - at} of its 12 header bytes are there"
            return None, place, self._loss(at, place, kind, text, None)
        place = self._behind(at, length)
        text = f"its {length} bytes are not those written"
        kind = "data checksum"
        if at + HEADER + length + FOOTER > self._size:
            kind, text = "truncated", f"it has {length} bytes, and the content ends within it"
        return None, place, self._loss(at, place, kind, text, 1)

    def _loss(self, start: int, end: int, kind: str, text: str, records: int | None) -> Loss:
        unit = "file" if self._content.container == "none" else "content"
        path = self._content.path
        return Loss(path, kind, text, self._saved, start, end, unit, records)  # type: ignore[arg-type]

    def _behind(self, at: int, length: int) -> int:
        """Where to go on behind a record at `at` whose length is good and whose data is not."""
        claim = at + HEADER + length + FOOTER
        gap = self._break_after(at)
        if gap < claim:
            return gap
        is_placed = claim >= self._size or self._header(claim) is not None
        place, reach = at + 1, claim if claim <= self._size else self._size
        while (place := self._next_intact(place, reach)) < reach:
            if not is_placed:
                return place
            end = self._chain(place, reach)
            if end >= reach:
                return place
            place = end
        return reach

    def _break_after(self, at: int) -> int:
        """The first place past `at` where content is missing; far away where there is none."""
        number = bisect_right(self._breaks, at)
        return self._breaks[number] if number < len(self._breaks) else _FAR

    def _header(self, at: int) -> int | None:
        return header_length(self._content.read(at, HEADER))

    def _chain(self, at: int, reach: int) -> int:
        """The end of the intact records from `at` on, or some place from `reach` on."""
        for _, end in self._records(at):
            at = end
            if at >= reach:
                break
        return at

    def _mend(self, at: int) -> bytes | None:
        """The data of the record at `at`, whose length is damaged, where it is intact."""
        crc, place = 0, HEADER
        for data, end in self._ends(at):
            with memoryview(data) as view:
                crc, place = _kernel.crc32c(view[place : end - FOOTER], crc), end - FOOTER
            if _CRC.unpack_from(data, place)[0] == mask(crc):
                return data[HEADER:place]
        return None

    def _ends(self, at: int) -> Iterator[tuple[bytes, int]]:
        """Where the record at `at` may end, by what follows: the content from `at` on, and how
        far in it the end is. The longer one is looked for, the fewer others are.
        """
        limit = min(self._break_after(at), self._size) - at
        reach = min(limit, HEADER + max(_LEAST, min(MEND, self._credit)))
        size, searched = _FIRST // _GROWTH, HEADER + FOOTER
        while searched + HEADER <= reach or size < reach:
            size = min(size * _GROWTH, reach)
            data = self._content.read(at, size)
            found = find_headers(memoryview(data)[searched:], self._size - at - searched)
            for end in (found + searched).tolist():
                self._credit -= _COST
                yield data, end
            searched = max(searched, size - HEADER + 1)
            self._credit -= size
            if size == reach:
                break
        if at + reach == self._size and reach >= HEADER + FOOTER:
            yield self._content.read(at, reach), reach

    def _next_intact(self, start: int, stop: int) -> int:
        """The first place from `start` on, before `stop`, at which an intact record begins; `stop`
        where there is none.
        """
        size = min(_FIRST, self._window)
        while start < stop:
            data = self._content.read(start, min(size, stop - start) + HEADER - 1)
            places: list[int] = find_headers(data, self._size - start).tolist()
            for place in places:
                at = start + place
                if at >= stop:
                    return stop
                length = self._header(at)
                if length is not None and self._is_intact(at, length):
                    return at
            start += size
            size = min(size * _GROWTH, self._window)
        return stop
