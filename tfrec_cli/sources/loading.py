"""Cells that name files, and the bytes of those files (`load: file` in a schema).

A relative name starts at the folder of the table file that holds the cell; for a table without a
file (one given in memory) at the current folder. An absolute name is taken as it is. Separators
are the system's: a backslash is not one on Linux or macOS.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli._kernel import crc32c
from tfrec_cli.buffers import to_numpy
from tfrec_cli.sources.base import Fault, Fingerprint
from tfrec_cli.sources.files import as_found, display
from tfrec_cli.sources.imagefile import size_fault
from tfrec_cli.sources.readers import read_each

_REASONS = {
    errno.ENOENT: "names a file that does not exist",
    errno.ENOTDIR: "names a file that does not exist",
    errno.EISDIR: "names a folder, not a file",
    errno.EACCES: "names a file that may not be read",
    errno.ENAMETOOLONG: "is too long for a file name",
}


@dataclass(frozen=True, slots=True)
class LoadedCells:
    """The content of the files that a column's cells name.

    data: large_binary, one value a cell; null where the cell is null or faulty.
    faults: the cells whose file is missing, unreadable or empty, in row order.
    fingerprints: each file read, once, with the crc32c of its content.
    """

    data: pa.Array
    faults: tuple[Fault, ...]
    fingerprints: tuple[Fingerprint, ...]


@dataclass(frozen=True, slots=True)
class _Content:
    data: bytes | None
    print: Fingerprint | None = None
    reason: str = ""


def load_cells(cells: pa.Array, column: str, table: str) -> LoadedCells:
    """The bytes of the files that `cells` name, each file read once.

    cells: string or binary of any Arrow form, or a dictionary of them. column: its name, for the
    faults. table: path of the file that the cells came from. All content is held at once: cut
    long batches by `cell_sizes` first.
    """
    names, places = _distinct(cells)
    contents = read_each(lambda name: _content(_resolve(name, table)), names)
    faults = tuple(
        _fault(row, column, names[place], contents[place].reason, table)
        for row, place in enumerate(places.to_pylist())
        if place is not None and contents[place].reason
    )
    prints = tuple(c.print for c in contents if c.print is not None)
    return LoadedCells(_each_place([c.data for c in contents], places), faults, prints)


def _each_place(contents: list[bytes | None], places: pa.Array) -> pa.Array:
    """The content at each place, as large_binary. It may be large: as few copies as can be."""
    if len(contents) == 1 and contents[0] is not None:
        size = len(contents[0])
        ends = pa.py_buffer(np.array([0, size], np.int64))
        values = pa.Array.from_buffers(
            pa.large_binary(), 1, [None, ends, pa.py_buffer(contents[0])]
        )
    else:
        values = pa.array(contents, pa.large_binary())
    if places.null_count or not np.array_equal(to_numpy(places), np.arange(len(contents))):
        return values.take(places)
    return values


def cell_sizes(cells: pa.Array, table: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Size in bytes of the file that each cell names, 0 where there is none: int64, one a cell."""
    names, places = _distinct(cells)
    sizes = pa.array(read_each(lambda name: _size(_resolve(name, table)), names), "int64")
    filled = pc.fill_null(sizes.take(places), 0)
    return np.asarray(filled, np.int64)


def _distinct(cells: pa.Array) -> tuple[list[bytes], pa.Array]:
    """The different names among `cells`, and for each cell its place among them."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    encoded = cells.cast(pa.large_binary()).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices


def _resolve(name: bytes, table: str) -> bytes:
    return os.path.join(os.fsencode(os.path.dirname(table)), name) if name else b""


def _size(path: bytes) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


def _content(path: bytes) -> _Content:
    if not path:
        return _Content(None, reason="names no file")
    try:
        with open(path, "rb") as file:
            if fault := size_fault(os.fstat(file.fileno()).st_size):
                return _Content(None, reason=f"names a file that {fault}")
            data = file.read()
            found = os.fstat(file.fileno())
    except OSError as error:
        return _Content(None, reason=_REASONS.get(error.errno or 0) or _refusal(error))
    except ValueError:
        return _Content(None, reason="is not a file name")
    if not data:
        return _Content(None, reason="names a file that is empty")
    shown = os.fsdecode(path)
    return _Content(data, as_found(shown, found, crc32c(data)))


def _refusal(error: OSError) -> str:
    return f"names a file that cannot be read ({error.strerror or error})"


def _fault(row: int, column: str, name: bytes, reason: str, table: str) -> Fault:
    start = display(os.path.dirname(table)) or "the current folder"
    hint = f"Names are relative to {start}."
    return Fault(row, column, display(os.fsdecode(name)), reason, hint)
