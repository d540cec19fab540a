"""The rows of box tables by picture."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli.sources.base import Fault, Fingerprint
from tfrec_cli.sources.box_pictures import Finder, Found
from tfrec_cli.sources.box_table import BoxTable


@dataclass(frozen=True, slots=True)
class PictureRows:
    """Pictures and their rows in the box tables: what reading a partition takes.

    names: as the table writes them, None for a row without one. files: None where there is none.
    tables: the box tables. rows: as in BoxTable, those of picture `i` at starts[i] to
    starts[i + 1]. faults: of rows, in order; `row` is the position in `rows`.
    """

    names: tuple[str | None, ...]
    files: tuple[Fingerprint | None, ...]
    tables: tuple[str, ...]
    rows: pa.RecordBatch
    starts: tuple[int, ...]
    faults: tuple[Fault, ...]

    @property
    def sizes(self) -> list[int]:
        """Bytes of each picture's file."""
        return [0 if file is None else file.size for file in self.files]

    def part(self, first: int, last: int) -> PictureRows:
        """The pictures `first` to `last`, `last` excluded, with memory of their own."""
        start, stop = self.starts[first], self.starts[last]
        low, high = (bisect_left(self.faults, row, key=lambda f: f.row) for row in (start, stop))
        return PictureRows(
            self.names[first:last],
            self.files[first:last],
            self.tables,
            self.rows.take(pa.array(range(start, stop), pa.int64())),
            tuple(at - start for at in self.starts[first : last + 1]),
            tuple(replace(fault, row=fault.row - start) for fault in self.faults[low:high]),
        )

    def per_row(self, sizes: Sequence[tuple[float, float] | None]) -> npt.NDArray[np.float64]:
        """The size of each picture, for each of its rows; nan for None."""
        of_picture = [(np.nan, np.nan) if size is None else size for size in sizes]
        return np.repeat(np.asarray(of_picture, np.float64), np.diff(self.starts), axis=0)

    def picture_of(self, row: int) -> int:
        """The picture that the row at this position belongs to."""
        return bisect_right(self.starts, row) - 1


def gather(table: BoxTable, finder: Finder, column: str) -> PictureRows:
    """The rows of all tables by picture, pictures in the order of their first row.

    Rows belong together where their names lead to the same file, or are the same name of no
    file. A row without a name stands alone. column: the one that holds the names, for faults.
    """
    firsts, inverse = _same_names(table.rows)
    names = table.rows.column("filename").take(pa.array(firsts)).to_pylist()
    files = table.rows.column("file").take(pa.array(firsts)).to_pylist()
    faults = dict(table.faults)
    pictures: dict[Any, tuple[int, str | None, Fingerprint | None]] = {}
    ids = []
    for row, name, file in zip(firsts.tolist(), names, files, strict=True):
        found = Found() if name is None else finder.find(name, table.files[file])
        if found.reason:
            fault = Fault(row, column, name, found.reason, found.hint)
            faults.setdefault(row, fault)
        key = os.path.abspath(found.file.path) if found.file else (file, name or row)
        ids.append(pictures.setdefault(key, (len(pictures), name, found.file))[0])
    return _arranged(table, np.asarray(ids, np.int64)[inverse], list(pictures.values()), faults)


def _same_names(rows: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The first row of each name in each table, in order, and for each row which of them is its."""
    encoded = rows.column("filename").dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    keys = rows.column("file").to_numpy() * np.int64(len(encoded.dictionary)) + codes
    keys = np.where(codes < 0, -1 - np.arange(len(codes)), keys)
    _, firsts, inverse = np.unique(keys, return_index=True, return_inverse=True)
    by_sight = np.argsort(firsts)
    rank = np.empty(len(firsts), np.int64)
    rank[by_sight] = np.arange(len(firsts))
    return firsts[by_sight], rank[inverse.reshape(-1)]


def _arranged(
    table: BoxTable,
    of_row: npt.NDArray[np.int64],
    pictures: Sequence[tuple[int, str | None, Fingerprint | None]],
    faults: Mapping[int, Fault],
) -> PictureRows:
    """The rows sorted by the picture that each belongs to."""
    order = np.argsort(of_row, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    moved = [replace(fault, row=int(place[row])) for row, fault in faults.items()]
    starts = np.searchsorted(of_row[order], np.arange(len(pictures) + 1))
    return PictureRows(
        tuple(name for _, name, _ in pictures),
        tuple(file for _, _, file in pictures),
        table.files,
        table.rows.take(pa.array(order)),
        tuple(starts.tolist()),
        tuple(sorted(moved, key=lambda fault: fault.row)),
    )
