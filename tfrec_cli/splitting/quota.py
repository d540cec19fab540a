"""Exact shares: the hashes at which one split ends and the next begins, within each class.

The hashes of all rows go through a file that stays in memory while it is small, so that memory does
not grow with the rows. Two passes over it give every threshold: the first counts hashes in buckets,
the second looks into the buckets that hold a threshold.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import floor
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from tfrec_cli.errors import DatasetError
from tfrec_cli.shuffle.keys import Keys
from tfrec_cli.splitting.splitter import END

_ENTRY = np.dtype([("code", "<u4"), ("hash", "<u8")])
_BLOCK = 2**18
_BUCKETS = 2**20
# The fractional part of the golden ratio: multiples of it, modulo 1, lie evenly.
_GOLDEN = Fraction(2654435769, 2**32)


class HashFile:
    """The hash of each row and a code that goes with it, in memory up to `memory` bytes, then in a
    nameless file in `folder`.
    """

    def __init__(self, memory: int, folder: str | None = None) -> None:
        self._file = tempfile.SpooledTemporaryFile(max(1, memory), dir=folder)  # noqa: SIM115
        self._folder = folder
        self.rows = 0

    def add(self, codes: npt.NDArray[np.uint32], hashes: Keys) -> None:
        """Append rows."""
        entries = np.empty(len(hashes), _ENTRY)
        entries["code"], entries["hash"] = codes, hashes
        try:
            self._file.write(entries.tobytes())
        except OSError as error:
            raise DatasetError(
                f"{self._folder or tempfile.gettempdir()}: the hashes of rows cannot be kept there "
                f"({error.strerror or error}). Choose another folder by --temp-dir."
            ) from error
        self.rows += len(hashes)

    def blocks(self) -> Iterator[tuple[npt.NDArray[np.uint32], Keys]]:
        """All rows in the order in which they came, some at a time."""
        self._file.seek(0)
        while data := self._file.read(_BLOCK * _ENTRY.itemsize):
            entries = np.frombuffer(data, _ENTRY)
            yield entries["code"].astype(np.uint32), entries["hash"].astype(np.uint64)

    def __enter__(self) -> HashFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def shares(total: int, cumulative: Sequence[Fraction], number: int = 0) -> tuple[int, ...]:
    """How many of `total` rows each split gets: its fraction of them, rounded up or down.

    number: of the class. Classes round each in its own way, so that many small ones together do
    not leave a split short.
    """
    lift = (Fraction(1, 2) + number * _GOLDEN) % 1
    ends = [min(total, floor(share * total + lift)) for share in cumulative[:-1]] + [total]
    return tuple(end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True))


def thresholds(file: HashFile, quotas: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """For each class the hashes at which the second and all later splits begin.

    quotas: for each class (code) the rows that each split gets, in order of their hashes.
    """
    ranks = np.cumsum(np.array(quotas, np.int64), axis=1)
    totals, ranks = ranks[:, -1], ranks[:, :-1]
    bits = max(1, (_BUCKETS // len(quotas)).bit_length() - 1)
    ends = np.cumsum(_counted(file, len(quotas), bits), axis=1)
    wanted = np.zeros(ends.shape, bool)
    places = np.empty(ranks.shape, np.int64)
    for code in range(len(quotas)):
        places[code] = np.searchsorted(ends[code], ranks[code], side="right")
        wanted[code, places[code][ranks[code] < totals[code]]] = True
    codes, hashes = _within(file, wanted, bits)
    found = []
    for code, row in enumerate(ranks):
        mine = hashes[np.searchsorted(codes, code) : np.searchsorted(codes, code, side="right")]
        found.append(tuple(_begin(r, totals[code], ends[code], mine, bits) for r in row))
    return found


def _counted(file: HashFile, classes: int, bits: int) -> npt.NDArray[np.int64]:
    """How many hashes of each class begin with each of the 2**bits bit patterns."""
    counts = np.zeros(classes << bits, np.int64)
    for codes, hashes in file.blocks():
        counts += np.bincount(_cells(codes, hashes, bits), minlength=len(counts))
    return counts.reshape(classes, -1)


def _within(
    file: HashFile, wanted: npt.NDArray[np.bool_], bits: int
) -> tuple[npt.NDArray[np.uint32], Keys]:
    """The rows in the wanted buckets, sorted by class, then hash."""
    flat = wanted.ravel()
    kept = [
        (codes[inside], hashes[inside])
        for codes, hashes in file.blocks()
        for inside in [flat[_cells(codes, hashes, bits)]]
    ]
    codes = np.concatenate([np.zeros(0, np.uint32), *(pair[0] for pair in kept)])
    hashes = np.concatenate([np.zeros(0, np.uint64), *(pair[1] for pair in kept)])
    order = np.lexsort((hashes, codes))
    return codes[order], hashes[order]


def _begin(rank: int, total: int, ends: npt.NDArray[np.int64], hashes: Keys, bits: int) -> int:
    """The hash with this rank in its class. hashes: those of the class in wanted buckets."""
    if rank >= total:
        return END
    bucket = int(np.searchsorted(ends, rank, side="right"))
    before = int(ends[bucket - 1]) if bucket else 0
    first = int(np.searchsorted(hashes, np.uint64(bucket << (64 - bits))))
    return int(hashes[first + rank - before])


def _cells(codes: npt.NDArray[np.uint32], hashes: Keys, bits: int) -> npt.NDArray[np.int64]:
    return (codes.astype(np.int64) << bits) | (hashes >> np.uint64(64 - bits)).astype(np.int64)


def repeated(file: HashFile, memory: int) -> Keys:
    """The hashes that more than one row has, holding at most about `memory` bytes at a time."""
    parts = max(1, -(-file.rows * 24 // max(1, memory)))
    found: list[Any] = [np.zeros(0, np.uint64)]
    width = 2**64 // parts + 1
    for part in range(parts):
        low, high = np.uint64(part * width), np.uint64(min(END, (part + 1) * width - 1))
        held = [hashes[(hashes >= low) & (hashes <= high)] for _, hashes in file.blocks()]
        ordered = np.sort(np.concatenate([np.zeros(0, np.uint64), *held]))
        found.append(np.unique(ordered[1:][ordered[1:] == ordered[:-1]]))
    return np.concatenate(found)
