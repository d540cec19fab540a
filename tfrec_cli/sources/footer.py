"""What a Parquet footer tells: schema, row groups, null counts, pandas' index columns.

The format: https://parquet.apache.org/docs/file-format/metadata/. The index columns are in the
key `pandas` of the schema's metadata:
https://pandas.pydata.org/docs/development/developer.html#storing-pandas-dataframe-objects-in-apache-parquet-format
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tfrec_cli.errors import SourceError, first_line
from tfrec_cli.sources.files import display, unreadable
from tfrec_cli.sources.magic import ENCRYPTED, PARQUET

LARGE_GROUP = 32 * 2**20
LARGE_BUFFER = 2**20

UNLIKE = 16
"""Times the size of a row by which row groups differ that one partition should not have."""

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")


# The last bytes of a file: the length of the footer in four of them, PAR1.
_TAIL = 8
# After a footer in a file of encrypted columns: a nonce and a tag.
# https://github.com/apache/parquet-format/blob/master/Encryption.md#55-plaintext-footer-mode
_SIGNATURE = 12 + 16

# Mean bytes in a row from which on the size of a column is worth knowing.
LONG = 16
# Bytes of a dictionary page (writers give them up at one MiB) and of what refers to it.
MOST_DICTIONARY = 2 * 2**20


@dataclass(frozen=True, slots=True)
class RowGroup:
    """rows: how many. size: bytes of its columns before compression. nulls: the null count of
    each leaf column, None where the file does not say. long: the bytes of text, or eight for each
    value of a list, in those leaf columns where it is known and much.
    """

    rows: int
    size: int
    nulls: tuple[int | None, ...]
    long: dict[int, int]

    def is_like(self, other: RowGroup) -> bool:
        """Whether rows are as large as those of another, more or less."""
        mine, its = (group.size / max(1, group.rows) for group in (self, other))
        return not self.rows or not other.rows or max(mine, its) <= UNLIKE * min(mine, its)


@dataclass(frozen=True, slots=True)
class Footer:
    """One file's footer. shown: the path for messages. int96: whether it has INT96 times.
    leaves: for each column its leaf columns in the row groups: first, and last excluded.
    """

    path: str
    schema: pa.Schema
    groups: tuple[RowGroup, ...]
    leaves: dict[str, tuple[int, int]]
    int96: bool

    @property
    def shown(self) -> str:
        """The path as it can be shown anywhere."""
        return display(self.path)

    @property
    def rows(self) -> int:
        """Rows of all row groups."""
        return sum(group.rows for group in self.groups)


@contextmanager
def open_parquet(path: str, **options: Any) -> Iterator[pq.ParquetFile]:
    """The Parquet file at `path`, whatever characters its name has (pyarrow takes some for a URL
    and refuses others), without reading ahead. `options` are those of `pq.ParquetFile`.
    """
    with pa.OSFile(os.fsencode(path)) as file:
        yield pq.ParquetFile(file, pre_buffer=False, **options)


@contextmanager
def open_row_groups(path: str, size: int, **options: Any) -> Iterator[pq.ParquetFile]:
    """A Parquet file, to read row groups of `size` bytes before compression. Of large ones the
    compressed pages are read one at a time, and what was taken is given back in the end.
    """
    if size <= LARGE_GROUP:
        with open_parquet(path, **options) as file:
            yield file
        return
    options["buffer_size"] = LARGE_BUFFER
    try:
        with pa.OSFile(os.fsencode(path)) as file:
            yield pq.ParquetFile(file, pre_buffer=False, **options)
    finally:
        # Else the allocator keeps it for a while, and the next row group is read beside it.
        pa.default_memory_pool().release_unused()


def read_footer(path: str, int96: str = "us") -> Footer:
    """The footer of the Parquet file at `path`; `int96` is the unit of old timestamps.

    Raises SourceError naming the file where it is missing, empty, cut off, encrypted or not
    Parquet, and naming the column where two have one name.
    """
    try:
        with open_parquet(path, coerce_int96_timestamp_unit=int96) as file:
            schema, metadata = file.schema_arrow, file.metadata
            if _is_signed(path, metadata):
                raise _encrypted(path)
            physical = [file.schema.column(i).physical_type for i in range(metadata.num_columns)]
            groups = tuple(_row_groups(metadata))
    except OSError as error:
        if error.errno:
            raise unreadable(path, error) from error
        raise _not_parquet(path, error) from error
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError) as error:
        raise _not_parquet(path, error) from error
    _refuse_duplicates(path, schema)
    return Footer(path, schema, groups, _leaves(schema), "INT96" in physical)


def _is_signed(path: str, metadata: pq.FileMetaData) -> bool:
    """Whether columns of the file are encrypted though its footer is not. Such a footer alone has
    a signature after it. To be asked before anything of a column is: where that is encrypted,
    Arrow ends the process.
    """
    with open(path, "rb", buffering=0) as file:
        end = file.seek(-_TAIL, os.SEEK_END)
        size = int.from_bytes(os.pread(file.fileno(), 4, end), "little")
    return size - int(metadata.serialized_size) == _SIGNATURE


def _encrypted(path: str) -> SourceError:
    return SourceError(
        f"{display(path)}: is an encrypted Parquet file, which cannot be read. Write it without "
        "encryption."
    )


def _not_parquet(path: str, error: Exception) -> SourceError:
    shown = display(path)
    size = os.path.getsize(path)
    if not size:
        return SourceError(f"{shown}: is empty (0 bytes), not a Parquet file. Write it again.")
    with open(path, "rb") as file:
        head = file.read(4)
    if head == ENCRYPTED:
        return _encrypted(path)
    if head != PARQUET:
        return SourceError(
            f'{shown}: is not a Parquet file: it begins with {head!r}, not b"PAR1". '
            "Choose its format with --source."
        )
    return SourceError(
        f"{shown}: is cut off or damaged ({first_line(error)}). Copy or write it again."
    )


def _row_groups(metadata: pq.FileMetaData) -> Iterator[RowGroup]:
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        nulls = tuple(_null_count(group.column(leaf)) for leaf in range(group.num_columns))
        long = {leaf: size for leaf, size in _long(group) if size > LONG * group.num_rows}
        yield RowGroup(group.num_rows, group.total_byte_size, nulls, long)


def _long(group: pq.RowGroupMetaData) -> Iterator[tuple[int, int]]:
    """The bytes of the texts in leaf columns, and eight for each value of lists."""
    for leaf in range(group.num_columns):
        chunk = group.column(leaf)
        if chunk.physical_type != "BYTE_ARRAY":
            if chunk.num_values != group.num_rows:
                yield leaf, 8 * chunk.num_values
            continue
        # Four bytes before each text give its length. A dictionary holds a text once, and is given
        # up when it becomes large: then nearly all texts are there as they are.
        size = chunk.total_uncompressed_size - 4 * chunk.num_values
        if not chunk.has_dictionary_page or size > MOST_DICTIONARY:
            yield leaf, size


def _null_count(chunk: pq.ColumnChunkMetaData) -> int | None:
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is None or not statistics.has_null_count:
        return None
    return int(statistics.null_count)


def _refuse_duplicates(path: str, schema: pa.Schema) -> None:
    twice = [name for name, times in Counter(schema.names).items() if times > 1]
    if twice:
        raise SourceError(
            f"{display(path)}, column {twice[0]}: two columns have this name. "
            "Rename one of them where the file is written."
        )


def _leaves(schema: pa.Schema) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    at = 0
    for field in schema:
        found[field.name] = (at, at := at + _leaf_count(field.type))
    return found


def _leaf_count(kind: pa.DataType) -> int:
    if isinstance(kind, pa.BaseExtensionType):
        return _leaf_count(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _leaf_count(kind.value_type)
    if kind.num_fields:
        return sum(_leaf_count(kind.field(i).type) for i in range(kind.num_fields))
    return 1


def column_nulls(footer: Footer, name: str) -> bool | None:
    """Whether column `name` holds nulls as far as the footer tells, None where it does not."""
    field = footer.schema.field(name)
    if not field.nullable:
        return False
    first, last = footer.leaves[name]
    counts = [count for group in footer.groups for count in group.nulls[first:last]]
    if not counts or None in counts:
        return None
    if not any(counts):
        return False
    # In a list or struct a leaf's null may lie deeper than the column itself.
    return None if field.type.num_fields else True


def index_columns(schema: pa.Schema, unnamed_only: bool) -> set[str]:
    """The columns of `schema` that were a pandas index; those without a name are called
    `__index_level_0__` and so on, and are known by that alone.
    """
    unnamed = {name for name in schema.names if _UNNAMED_INDEX.fullmatch(name)}
    return unnamed if unnamed_only else unnamed | _pandas_index(schema)


def _pandas_index(schema: pa.Schema) -> set[str]:
    try:
        listed = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
    except (ValueError, KeyError, TypeError):
        return set()
    return {name for name in listed if isinstance(name, str) and name in schema.names}
