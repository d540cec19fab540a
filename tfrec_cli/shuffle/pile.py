"""Records of several runs in one piece of memory, so that they can be put in order.

Room for all is made once; files are read straight into it, and nothing is copied between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli.buffers import from_numpy, offsets_of, to_numpy
from tfrec_cli.shuffle.runfile import (
    NUMBER,
    Offsets,
    Stretch,
    check_offsets,
    data_of,
    fill,
    numbers_at,
)


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be piled. runs: how many it comes from. pieces: segments of them, or parts of
    segments. rows: records. size: their bytes, with their keys and two numbers each. files:
    whether any of it is in a file. key: the type of the keys.
    """

    runs: int
    pieces: int
    rows: int
    size: int
    files: bool
    key: pa.DataType


class Pile:
    """Records with their keys, in the order in which they were put here."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self._held: list[pa.RecordBatch] = []
        self._binary = load.key != pa.uint64()
        numbers = (2 * load.rows + load.pieces * (1 + self._binary)) if load.files else 0
        # Of each piece where its records begin and end, then its keys, or where those do.
        self._index = np.empty(numbers, np.int64)
        self._numbers = self._index.data
        self._index_bytes = self._numbers.cast("B") if numbers else self._numbers
        size = load.size - 2 * NUMBER * load.rows if load.files else 0
        self._records = np.empty(size, np.uint8)
        self._data = self._records.data
        self._texts: list[npt.NDArray[np.uint8]] = []
        self._counts: list[int] = []
        self._bases: list[int] = []
        self._filled = self._end = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Put records on the pile that are in memory."""
        if not self.load.files:
            self._held.append(batch)
            return
        keys, records = batch.columns
        self._place(batch.num_rows, offsets_of(records), offsets_of(keys) if self._binary else
                    to_numpy(keys).view(np.int64))  # fmt: skip
        if self._binary:
            self._texts.append(np.frombuffer(data_of(keys), np.uint8))
        data = data_of(records)
        self._records[self._end : self._end + data.nbytes] = np.frombuffer(data, np.uint8)
        self._piled(batch.num_rows, data.nbytes)

    def read(self, file: int, segment: Stretch) -> None:
        """Read a segment of a run's file.

        Raises OSError, EOFError where the file is not what was written.
        """
        at, size, rows = segment.at, segment.size, segment.rows
        first = self._filled
        count = 2 * rows + 1 + self._binary
        head = self._index_bytes[first * NUMBER : (first + count) * NUMBER]
        size -= count * NUMBER
        if self._binary:
            fill(file, at, [head])
            texts = self._numbers[first + count - 1]
            self._make_room_for_texts(texts, size)
            size -= texts
            parts = [self._texts[-1].data, self._data[self._end : self._end + size]]
            fill(file, at + count * NUMBER, parts)
        else:
            parts = [self._data[self._end : self._end + size]]
            fill(file, at, [head, *parts])
        segment.check(head, *parts)
        middle, data = first + rows + 1, self._numbers[first + rows]
        if self._numbers[first] or not 0 <= size - data < NUMBER:
            raise EOFError
        check_offsets(self._index[first:middle], size)
        if self._binary:
            check_offsets(self._index[middle : first + count], len(self._texts[-1]))
        self._piled(rows, data)

    def read_part(self, file: int, at: int, rows: int, part: tuple[int, int]) -> None:
        """Read the records from one number to before another of a segment of `rows` records, which
        is in a run's file from `at` on. Raises as `read` does.
        """
        first, last = part
        bounds = numbers_at(file, at + first * NUMBER, last - first + 1)
        keys_at = at + (rows + 1) * NUMBER
        places = numbers_at(file, keys_at + first * NUMBER, last - first + self._binary)
        after = keys_at + (rows + self._binary) * NUMBER
        if self._binary:
            check_offsets(places, self.load.size)
            self._make_room_for_texts(int(places[-1] - places[0]), self.load.size)
            fill(file, after + int(places[0]), [self._texts[-1].data])
            after += int(numbers_at(file, after - NUMBER, 1)[0])
        check_offsets(bounds, len(self._records) - self._end)
        self._place(last - first, bounds, places)
        size = int(bounds[-1] - bounds[0])
        fill(file, after + int(bounds[0]), [self._data[self._end : self._end + size]])
        self._piled(last - first, size)

    def batch(self) -> pa.RecordBatch:
        """All of it (`key`, `record`), once: what was held is let go."""
        schema = run_schema(self.load.key)
        if not self.load.files:
            held, self._held = self._held, []
            columns = ([batch.column(place) for batch in held] for place in (0, 1))
            arrays = [c[0] if len(c) == 1 else pa.concat_arrays(c) for c in columns]
            return pa.RecordBatch.from_arrays(arrays, schema=schema)
        counts = np.array(self._counts, np.int64)
        # Where in the index the numbers of each row are: rows are as many places on as there are
        # numbers of other kinds before them.
        ends = np.cumsum(counts)
        skipped = (ends - counts) + np.arange(len(counts)) * (1 + self._binary)
        rows = np.arange(self.load.rows) + np.repeat(skipped, counts)
        keys = rows + np.repeat(counts + 1, counts)
        records = binary_array(self._joined(rows, self._bases, counts), self._records)
        if self._binary:
            sizes = np.array([len(text) for text in self._texts], np.int64)
            bases = [*(np.cumsum(sizes) - sizes).tolist(), int(sizes.sum())]
            texts = np.concatenate(self._texts)
            array = binary_array(self._joined(keys, bases, counts), texts)
        else:
            array = from_numpy(self._index[keys].view(np.uint64))
        return pa.RecordBatch.from_arrays([array, records], schema=schema)

    def _joined(self, places: Offsets, bases: list[int], counts: Offsets) -> Offsets:
        """Where the values at these places of the index begin, and where the last one ends."""
        found = np.empty(len(places) + 1, np.int64)
        found[:-1] = self._index[places] + np.repeat(np.array(bases[: len(counts)]), counts)
        found[-1] = self._end if bases is self._bases else bases[-1]
        return found

    def _place(self, rows: int, bounds: Offsets, keys: Offsets) -> None:
        """Put the numbers of a piece into the index."""
        first, middle = self._filled, self._filled + rows + 1
        self._index[first:middle] = bounds - bounds[0]
        base = keys[0] if self._binary else 0
        self._index[middle : middle + rows + self._binary] = keys - base

    def _make_room_for_texts(self, size: int, most: int) -> None:
        if not 0 <= size <= most:
            raise EOFError
        self._texts.append(np.empty(size, np.uint8))

    def _piled(self, rows: int, size: int) -> None:
        self._counts.append(rows)
        self._bases.append(self._end)
        self._filled += 2 * rows + 1 + self._binary
        self._end += size


def binary_array(offsets: Offsets, data: npt.NDArray[np.uint8]) -> pa.Array:
    """Values that lie in `data`, one behind the other."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def run_schema(key: pa.DataType) -> pa.Schema:
    """The columns of a run."""
    return pa.schema([("key", key), ("record", pa.large_binary())])
