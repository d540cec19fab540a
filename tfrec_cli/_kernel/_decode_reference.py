"""Framed Examples to columns, in plain Python: the specification of the decoder.

The messages are those of `_examples_reference`, with its rules of what is no Example; of what is
within a feature that is not wanted, nothing is looked at. Of two entries with one key the last
counts, as for TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tfrec_cli._kernel._examples_reference import (
    BYTES,
    FLOAT,
    INT64,
    NO_KIND,
    Entry,
    NoExampleError,
    read_key,
    records,
    walk_example,
)
from tfrec_cli._kernel._examples_reference import read_entry as read_whole
from tfrec_cli._kernel.model import DECODE_FAULTS, Decoded, Wanted
from tfrec_cli.buffers import from_numpy, from_values

_KINDS = {"bytes": BYTES, "float": FLOAT, "int64": INT64}
_ARROW = {"bytes": pa.binary(), "float": pa.float32(), "int64": pa.int64()}
_MAX_BYTES = 2**31 - 1 + 16


def decode_examples(buffer: Any, ends: np.ndarray, wanted: Sequence[Wanted]) -> Decoded:
    """See `tfrec_cli._kernel.decode_examples`."""
    if memoryview(buffer).nbytes > _MAX_BYTES:
        raise OverflowError("more than 2 GiB of records in one go")
    keys = {one.key for one in wanted}
    rows: list[dict[bytes, Entry]] = []
    unknown: dict[bytes, int] = {}
    invalid, sequences = [], []
    for number, (data, start, end) in enumerate(records(buffer, ends)):
        entries: dict[bytes, Entry] = {}
        others: set[bytes] = set()
        try:
            sequence = _read(data, (start, end), keys, entries, others)
        except NoExampleError:
            invalid.append(number)
            rows.append({})
            continue
        rows.append(entries)
        unknown = dict.fromkeys(others, number) | unknown
        sequences += [number] if sequence else []
    cells = [_Column(one, (row.get(one.key) for row in rows)) for one in wanted]
    return Decoded(
        tuple(column.array() for column in cells),
        np.array([tuple(column.faults) for column in cells], DECODE_FAULTS),
        sorted(unknown.items()),
        np.array(invalid, np.int64),
        len(sequences),
        sequences[0] if sequences else -1,
    )


def _read(
    data: memoryview,
    place: tuple[int, int],
    keys: set[bytes],
    entries: dict[bytes, Entry],
    others: set[bytes],
) -> bool:
    """Put the wanted entries of an Example into `entries`, the keys of others into `others`.

    Returns whether it has the second field of a SequenceExample. Raises NoExampleError.
    """
    sequence = False
    for is_entry, start, end in walk_example(data, *place):
        if not is_entry:
            sequence = True
            continue
        key = read_key(data, start, end)
        if key in keys:
            entries[key] = read_whole(data, start, end)
        else:
            others.add(key)
    return sequence


class _Column:
    """The values of one feature in all records: a list for each, or None."""

    def __init__(self, wanted: Wanted, entries: Iterable[Entry | None]) -> None:
        self._wanted = wanted
        self.faults = [0, -1, -1, 0, -1, -1]
        self._cells = [self._cell(row, entry) for row, entry in enumerate(entries)]

    def _cell(self, row: int, entry: Entry | None) -> Any:
        if entry is None or entry.kind == NO_KIND:
            return None
        if entry.kind != _KINDS[self._wanted.kind]:
            self._fault(0, row, entry.kind)
            return None
        if not self._wanted.is_list and len(entry.values) != 1:
            self._fault(3, row, len(entry.values))
            return None
        return entry.values

    def _fault(self, at: int, row: int, found: int) -> None:
        if not self.faults[at]:
            self.faults[at + 1 : at + 3] = row, found
        self.faults[at] += 1

    def array(self) -> pa.Array:
        """The values as Arrow has them."""
        kind = _ARROW[self._wanted.kind]
        if self._wanted.kind == "float":
            flat = np.frombuffer(b"".join(bytes(cell or b"") for cell in self._cells), "<f4")
            items = pa.Array.from_buffers(kind, len(flat), [None, pa.py_buffer(flat)])
        else:
            items = from_values([value for cell in self._cells for value in cell or ()], kind)
        lengths = [len(cell or ()) for cell in self._cells]
        offsets = pa.py_buffer(np.cumsum([0, *lengths], dtype=np.int32))
        gone = [cell is None for cell in self._cells]
        bits = pa.py_buffer(np.packbits(~np.array(gone, np.bool_), bitorder="little"))
        lists = pa.Array.from_buffers(
            pa.list_(kind), len(gone), [bits if any(gone) else None, offsets], children=[items]
        )
        if self._wanted.is_list:
            return lists
        places = np.cumsum([0, *lengths], dtype=np.int64)[:-1]
        return items.take(from_numpy(places, np.array(gone, np.bool_)))
