"""How large rows become once dictionaries and runs are spread out.

A dictionary holds a long text once, however many rows have it: what is small in a file or in
memory can be many gigabytes of values. Batches are cut by what they will be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tfrec_cli import compute as pc
from tfrec_cli.buffers import from_numpy, lengths, to_numpy
from tfrec_cli.kinds import is_binary, is_packed, is_text, is_viewless_list
from tfrec_cli.sources.footer import open_row_groups
from tfrec_cli.sources.pageheader import read_dictionary_page
from tfrec_cli.wrappings import values_and_places

Sizes = npt.NDArray[np.int64]
# What a batch may become where some values of a dictionary are far longer than most.
MOST_BYTES = 256 * 2**20
# Batches may be smaller by this where it spares reading a dictionary beforehand; and where that is
# larger than a batch, which takes time and memory.
LEAST_FILLED = 2
LEAST_FILLED_OF_LARGE = 32


def cut_decoded(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """The rows of `batch` in parts whose text and bytes take up to `most` bytes when they are
    spread out, at least one row in each.
    """
    sizes = sum(map(_packed_sizes, batch.columns), np.zeros(batch.num_rows, np.int64))
    ends = np.cumsum(sizes)
    first, held = 0, 0
    while first < batch.num_rows:
        last = max(first + 1, int(np.searchsorted(ends, held + most, side="right")))
        yield batch.slice(first, last - first)
        first, held = last, int(ends[last - 1])


def _packed_sizes(array: pa.Array) -> Sizes:
    """Bytes of text and bytes that each row has in dictionaries and runs."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _packed_sizes(array.storage)
    if is_packed(kind):
        values, places = values_and_places(array)
        lengths = _lengths(values)
        return _int64(to_numpy(from_numpy(lengths).take(places))) if lengths.any() else _none(array)
    if pa.types.is_struct(kind):
        children = (_packed_sizes(array.field(at)) for at in range(kind.num_fields))
        return _int64(np.sum([*children, _none(array)], axis=0))
    if is_viewless_list(kind) and _holds_packed(kind.value_type):
        ends = np.concatenate([[0], np.cumsum(_packed_sizes(array.flatten()))])
        bounds = np.cumsum(to_numpy(pc.fill_null(pc.list_value_length(array), 0)))
        return _int64(np.diff(ends[bounds], prepend=0))
    return _none(array)


def _none(array: pa.Array) -> Sizes:
    return np.zeros(len(array), np.int64)


def _int64(sizes: npt.NDArray[Any]) -> Sizes:
    return sizes.astype(np.int64, copy=False)


def _holds_packed(kind: pa.DataType) -> bool:
    children = (kind.field(at).type for at in range(kind.num_fields))
    return is_packed(kind) or any(map(_holds_packed, children))


def _lengths(values: pa.Array) -> Sizes:
    """Bytes of each value, 0 for what is neither text nor bytes."""
    if pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        return np.array([len(v.as_buffer() or b"") for v in values], np.int64)
    if is_text(values.type) or is_binary(values.type):
        return lengths(values)
    return _none(values)


class BatchRows:
    """How many rows of a row group come to about `most` bytes once they are decoded.

    file: open at `path`. names: the columns that are read of it. known: what was seen of the
    dictionaries of this file, added to; several threads may share it.
    """

    def __init__(
        self,
        file: pq.ParquetFile,
        path: str,
        names: Sequence[str],
        most: int,
        known: Dictionaries | None = None,
    ) -> None:
        self._file, self._path, self._most = file, path, most
        self._wanted = {name.split(".")[0] for name in names}
        self._known: Dictionaries = {} if known is None else known

    def of(self, group: int) -> int:
        """The rows, at least 1, going by the footer and the dictionaries of the columns."""
        about = self._file.metadata.row_group(group)
        row = _decoded_row(about, self._hiding(group, about))
        return max(1, int(min(self._most / row.usual, self._most_decoded / row.longest)))

    @property
    def _most_decoded(self) -> int:
        return max(self._most, MOST_BYTES)

    def _hiding(self, group: int, about: pq.RowGroupMetaData) -> list[Hiding]:
        """The columns that may become far more than the file shows, and what their values are."""
        chunks = (about.column(leaf) for leaf in range(about.num_columns))
        hiding = {
            chunk.path_in_schema: chunk
            for chunk in chunks
            if chunk.path_in_schema.split(".")[0] in self._wanted
            and _may_hide(chunk, 4 * self._most)
        }
        values = self._values(group, about, hiding)
        return [(chunk, values[leaf]) for leaf, chunk in hiding.items() if leaf in values]

    def _values(
        self, group: int, about: pq.RowGroupMetaData, hiding: Mapping[str, pq.ColumnChunkMetaData]
    ) -> Dictionaries:
        """What is in the dictionaries of `hiding`: as in a row group before, as their headers tell
        where that is enough, or as reading them tells.
        """
        # A row group like the one before it in all that the footer tells is taken to have values
        # like it.
        shapes = {leaf: _shape(chunk) for leaf, chunk in hiding.items()}
        before = {leaf: self._known.get(leaf) for leaf in hiding}
        known = {n: seen for n, seen in before.items() if seen and seen.is_like(shapes[n])}
        bounds = {n: _bound(self._path, hiding[n], shapes[n]) for n in hiding if n not in known}
        found = {n: bound for n, bound in bounds.items() if bound}
        row = _decoded_row(about, [(hiding[n], values) for n, values in (known | found).items()])
        for leaf in sorted(found, key=lambda leaf: found[leaf].longest, reverse=True):
            if self._suffices(about, row, found[leaf].longest):
                break
            row = row.with_values(hiding[leaf], found.pop(leaf), -1)
        unlike = [leaf for leaf in bounds if leaf not in found]
        read = _dictionary_lengths(self._path, self._file.metadata, group, unlike)
        for leaf, sizes in zip(unlike, read, strict=False):
            found[leaf] = DictionaryValues.of(shapes[leaf], sizes)
        self._known.update(found)
        return known | found

    def _suffices(self, about: pq.RowGroupMetaData, row: DecodedRow, largest: int) -> bool:
        """Whether batches are large enough even if the longest values are as long as can be, so
        that a dictionary of `largest` bytes need not be read.
        """
        wanted = min(about.num_rows, self._most / row.usual)
        least = LEAST_FILLED if largest <= self._most else LEAST_FILLED_OF_LARGE
        return bool(self._most_decoded / row.longest >= wanted / least)


@dataclass(frozen=True, slots=True)
class DictionaryValues:
    """The bytes of the values of a dictionary, and the shape of the chunk that it was in."""

    shape: tuple[int, ...]
    mean: float
    longest: int

    @classmethod
    def of(cls, shape: tuple[int, ...], lengths: Sizes) -> DictionaryValues:
        """Those of a dictionary with values of these lengths."""
        if not len(lengths):
            return cls(shape, 0.0, 0)
        return cls(shape, float(lengths.mean()), int(lengths.max()))

    def is_like(self, shape: tuple[int, ...]) -> bool:
        """Whether another chunk is within a tenth of this one's shape."""
        pairs = zip(self.shape, shape, strict=True)
        return all(10 * abs(mine - other) <= mine for mine, other in pairs)


Dictionaries = dict[str, DictionaryValues]
"""What is known of the dictionaries of a file, by the path of the column in its schema."""
Hiding = tuple[pq.ColumnChunkMetaData, DictionaryValues]


@dataclass(frozen=True, slots=True)
class DecodedRow:
    """Bytes of a usual row of `rows` once it is decoded, and of one with the longest values."""

    rows: int
    usual: float
    longest: float

    def with_values(
        self, chunk: pq.ColumnChunkMetaData, values: DictionaryValues, times: int = 1
    ) -> DecodedRow:
        """The row with what is in a dictionary; `times` is -1 to take it away again."""
        items = times * max(1.0, chunk.num_values / self.rows)
        usual, longest = self.usual + items * values.mean, self.longest + items * values.longest
        return DecodedRow(self.rows, usual, longest)


def _decoded_row(about: pq.RowGroupMetaData, hiding: Iterable[Hiding]) -> DecodedRow:
    rows = max(1, about.num_rows)
    size = max(1.0, about.total_byte_size / rows)
    row = DecodedRow(rows, size, size)
    for chunk, values in hiding:
        row = row.with_values(chunk, values)
    return row


def _shape(chunk: pq.ColumnChunkMetaData) -> tuple[int, ...]:
    """Values, bytes, and the compressed bytes of the dictionary and of what refers to it."""
    dictionary = max(0, chunk.data_page_offset - (chunk.dictionary_page_offset or 0))
    rest = max(0, chunk.total_compressed_size - dictionary)
    return (chunk.num_values, chunk.total_uncompressed_size, dictionary, rest)


def _may_hide(chunk: pq.ColumnChunkMetaData, most: int) -> bool:
    """Whether the column can become more than `most` bytes, whatever the file shows: a dictionary
    could hold one value of the whole size, which is that of every row.
    """
    return (
        chunk.physical_type == "BYTE_ARRAY"
        and any("DICTIONARY" in encoding for encoding in chunk.encodings)
        and chunk.total_uncompressed_size * chunk.num_values > most
    )


def _bound(
    path: str, chunk: pq.ColumnChunkMetaData, shape: tuple[int, ...]
) -> DictionaryValues | None:
    """What the header of a chunk's dictionary tells of its values, where it tells any: the longest
    may have all their bytes.
    """
    try:
        at = chunk.dictionary_page_offset
        page = None if at is None else read_dictionary_page(path, at)
    except OSError:
        return None
    if page is None or not page.values:
        return None
    size = page.size - 4 * page.values
    return DictionaryValues(shape, size / page.values, size)


def _dictionary_lengths(
    path: str, metadata: pq.FileMetaData, group: int, leaves: list[str]
) -> list[Sizes]:
    """Bytes of each value in the dictionaries of column chunks; none where they cannot be told."""
    if not leaves:
        return []
    try:
        size = metadata.row_group(group).total_byte_size
        with open_row_groups(path, size, metadata=metadata, read_dictionary=leaves) as file:
            batches = file.iter_batches(1, [group], columns=leaves, use_threads=False)
            return [found for column in next(batches).columns for found in _first_lengths(column)]
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError, StopIteration):
        # Types that are stored as bytes but cannot be read as a dictionary, and damage, of which
        # reading itself tells in words.
        return []


def _first_lengths(array: pa.Array) -> list[Sizes]:
    """The lengths of each dictionary in `array`, in the order of its leaves."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _first_lengths(array.storage)
    if pa.types.is_dictionary(kind):
        return [_lengths(array.dictionary)]
    if pa.types.is_struct(kind):
        return [sizes for child in array.flatten() for sizes in _first_lengths(child)]
    if is_viewless_list(kind):
        return _first_lengths(array.values)
    return [_none(array)]
