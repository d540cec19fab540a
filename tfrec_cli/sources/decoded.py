"""How large rows become once dictionaries and runs are spread out.

A dictionary holds a long text once, however many rows have it: what is small in a file or in
memory can be many gigabytes of values. Batches are cut by what they will be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tfrec_cli.buffers import from_numpy, to_numpy
from tfrec_cli.kinds import is_binary, is_packed, is_text, is_viewless_list
from tfrec_cli.sources.footer import open_parquet
from tfrec_cli.wrappings import values_and_places

Sizes = npt.NDArray[np.int64]
# What a batch may become where some values of a dictionary are far longer than most.
MOST_BYTES = 256 * 2**20


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
        return _int64(to_numpy(pc.binary_length(values)))
    return _none(values)


def rows_of_batches(
    file: pq.ParquetFile, path: str, group: int, names: Sequence[str], most: int
) -> int:
    """How many rows of a row group come to about `most` bytes once they are decoded, going by the
    footer and the dictionaries of the columns `names`; at least 1.

    file: open at `path`.
    """
    about = file.metadata.row_group(group)
    rows = max(1, about.num_rows)
    row_bytes = max(1.0, about.total_byte_size / rows)
    usual, longest = row_bytes, row_bytes
    chunks = [about.column(leaf) for leaf in range(about.num_columns)]
    wanted = {name.split(".")[0] for name in names}
    hiding = [
        c for c in chunks if _may_hide(c, 4 * most) and c.path_in_schema.split(".")[0] in wanted
    ]
    lengths = _dictionary_lengths(path, file.metadata, group, [c.path_in_schema for c in hiding])
    for chunk, found in zip(hiding, lengths, strict=False):
        if len(found):
            items = max(1.0, chunk.num_values / rows)
            usual += items * float(found.mean())
            longest += items * int(found.max())
    return max(1, int(min(most / usual, max(most, MOST_BYTES) / longest)))


def _may_hide(chunk: pq.ColumnChunkMetaData, most: int) -> bool:
    """Whether the column can become more than `most` bytes, whatever the file shows: a dictionary
    could hold one value of the whole size, which is that of every row.
    """
    return (
        chunk.physical_type == "BYTE_ARRAY"
        and any("DICTIONARY" in encoding for encoding in chunk.encodings)
        and chunk.total_uncompressed_size * chunk.num_values > most
    )


def _dictionary_lengths(
    path: str, metadata: pq.FileMetaData, group: int, leaves: list[str]
) -> list[Sizes]:
    """Bytes of each value in the dictionaries of column chunks; none where they cannot be told."""
    if not leaves:
        return []
    try:
        with open_parquet(path, metadata=metadata, read_dictionary=leaves) as file:
            batches = file.iter_batches(1, [group], columns=leaves, use_threads=False)
            return [found for column in next(batches).columns for found in _first_lengths(column)]
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
