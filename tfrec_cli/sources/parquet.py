"""Parquet files as a source: files, folders and Hive partitions.

A survey reads the files' footers only; columns are read where a footer does not tell whether
they have nulls and the run asks. A partition is one row group, or several small ones in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar, Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from tfrec_cli.buffers import rows_without_columns
from tfrec_cli.errors import SourceError, first_line
from tfrec_cli.sources.base import (
    Column,
    Fault,
    Listing,
    Needs,
    Origin,
    Partition,
    SourceBatch,
    Survey,
)
from tfrec_cli.sources.common_type import (
    common_type,
    conform,
    misfit_faults,
    null_count,
    value_type,
)
from tfrec_cli.sources.decoded import BatchRows, Dictionaries
from tfrec_cli.sources.files import counted, display, expand_inputs, fingerprint, some, unreadable
from tfrec_cli.sources.footer import (
    Footer,
    column_nulls,
    index_columns,
    open_parquet,
    open_row_groups,
    read_footer,
)
from tfrec_cli.sources.hive import hive_array, hive_types, hive_values
from tfrec_cli.sources.suffixes import PARQUET_SUFFIXES

T = TypeVar("T")
# A batch may hold no more rows than this, however small they are.
MOST_ROWS = 32768
LOOK_BYTES = 16 * 2**20
MOST_LINES = 10
# Files whose dictionaries are remembered from one partition to the next.
KNOWN_FILES = 16


class Options(BaseModel):
    """The options of the parquet source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    index: Literal["named", "keep", "drop"] = Field(
        "named",
        description="Which pandas index columns are kept: those with a name, all, or none.",
    )
    hive: Literal["auto", "off"] = Field(
        "auto", description="Whether folders such as year=2024 become columns."
    )
    int96: Literal["us", "ns"] = Field(
        "us",
        description="Unit in which old INT96 timestamps are read; ns holds 1678 to 2262 only.",
    )


@dataclass(frozen=True, slots=True)
class RowGroups:
    """What reading a partition takes.

    first, last: its row groups, `last` excluded. types: the surveyed type of every column.
    hive: the text of the columns that the file's folders name. threads: whether columns are
    decoded in parallel, which pays where there are fewer partitions than processors.
    """

    first: int
    last: int
    types: Mapping[str, pa.DataType]
    hive: Mapping[str, str | None]
    threads: bool


class ParquetSource:
    """Reads Parquet files (see `tfrec_cli.sources.base.Source`)."""

    name: ClassVar[str] = "parquet"
    summary: ClassVar[str] = "Parquet files, folders of them, and Hive partitions."
    suffixes: ClassVar[tuple[str, ...]] = PARQUET_SUFFIXES
    Options: ClassVar[type[BaseModel]] = Options

    def __init__(self, inputs: Sequence[Any], options: BaseModel) -> None:
        self.inputs = tuple(str(item) for item in inputs)
        self.options = Options.model_validate(options.model_dump())
        self.partition_bytes = 16 * 2**20
        self.batch_bytes = 6 * 2**20
        self._dictionaries: dict[str, Dictionaries] = {}

    def survey(self, needs: Needs) -> Survey:
        """Columns, row groups and nulls of all files.

        Raises SourceError naming the file that is missing, damaged or does not fit the others.
        """
        listed = expand_inputs(self.inputs, self.suffixes, needs.temp_dir)
        footers = _parallel(partial(read_footer, int96=self.options.int96), listed.files, needs)
        _refuse_empty(footers)
        dropped = self._dropped(footers)
        folders = hive_values(listed.files, self.inputs) if self.options.hive == "auto" else []
        tables = [_Table(f, dropped, folders[i] if folders else {}) for i, f in enumerate(footers)]
        merged = _merge(tables)
        if not merged.types:
            raise SourceError(f"{footers[0].shown}: has no columns to read.")
        nulls = self._nulls(tables, merged, needs)
        return Survey(
            columns=tuple(
                Column(name, kind, nulls[name], absent=merged.absent(name, tables))
                for name, kind in merged.types.items()
            ),
            partitions=tuple(self._partitions(tables, merged.types, needs.jobs)),
            fingerprints=tuple(fingerprint(file) for file in listed.files),
            notices=(*listed.notices, *_notices(tables, merged, dropped)),
            options=self.options.model_dump(),
        )

    def files(self, temp_dir: str | None) -> Listing:
        """The files that a survey would read."""
        return Listing(expand_inputs(self.inputs, self.suffixes, temp_dir).files)

    def _dropped(self, footers: Sequence[Footer]) -> frozenset[str]:
        if self.options.index == "keep":
            return frozenset()
        unnamed_only = self.options.index == "named"
        return frozenset(n for f in footers for n in index_columns(f.schema, unnamed_only))

    def _nulls(
        self, tables: Sequence[_Table], merged: _Merged, needs: Needs
    ) -> dict[str, bool | None]:
        known = {name: _any(t.nulls(name) for t in tables) for name in merged.types}
        unsure = [name for name, answer in known.items() if answer is None]
        if unsure and needs.types:
            looked = _parallel(partial(_look_for_nulls, names=unsure), tables, needs)
            for name in unsure:
                known[name] = any(name in found for found in looked)
        return known

    def _partitions(
        self, tables: Sequence[_Table], types: Mapping[str, pa.DataType], jobs: int
    ) -> Iterator[Partition]:
        planned = [(table, run) for table in tables for run in table.runs(self.partition_bytes)]
        threads = len(planned) < jobs
        for table, (first, last) in planned:
            groups = table.footer.groups[first:last]
            yield Partition(
                table.footer.path,
                table.starts[first],
                sum(group.rows for group in groups),
                sum(group.size for group in groups),
                RowGroups(first, last, types, table.hive, threads),
                sizes=table.sizes(first, last),
            )

    def read(self, partition: Partition, columns: Sequence[str]) -> Iterator[SourceBatch]:
        """The rows of some row groups, in batches of about `batch_bytes`.

        Raises SourceError naming the file where its data is damaged.
        """
        detail: RowGroups = partition.detail
        row = partition.first_row
        with _named(partition.file), self._open(partition) as file:
            own = set(file.schema_arrow.names)
            names = [c for c in columns if c in own]
            rows = BatchRows(file, partition.file, names, self.batch_bytes, self._seen(partition))
            for group in range(detail.first, detail.last):
                for batch in _batches(file, group, names, rows, detail.threads):
                    yield _settled(batch, columns, Origin(partition.file, row), detail)
                    row += batch.num_rows
        if row != partition.first_row + partition.rows:
            raise SourceError(
                f"{display(partition.file)}: has {row - partition.first_row:,} rows where its "
                f"footer tells of {partition.rows:,}. The file is damaged."
            )

    def _seen(self, partition: Partition) -> Dictionaries:
        """What was seen of the dictionaries of the partition's file."""
        if len(self._dictionaries) > KNOWN_FILES:
            self._dictionaries.clear()
        return self._dictionaries.setdefault(partition.file, {})

    def _open(self, partition: Partition) -> AbstractContextManager[pq.ParquetFile]:
        unit = self.options.int96
        return open_row_groups(partition.file, partition.size, coerce_int96_timestamp_unit=unit)


def _batches(
    file: pq.ParquetFile, group: int, names: list[str], rows: BatchRows, threads: bool
) -> Iterator[pa.RecordBatch]:
    if not names:
        count = file.metadata.row_group(group).num_rows
        for start in range(0, count, MOST_ROWS):
            yield rows_without_columns(min(MOST_ROWS, count - start))
        return
    most = min(MOST_ROWS, rows.of(group))
    yield from file.iter_batches(most, row_groups=[group], columns=names, use_threads=threads)


class _Table:
    """One file as the survey sees it: its footer, its folders' columns, without index columns.

    starts: the first row of each row group.
    """

    def __init__(self, footer: Footer, dropped: frozenset[str], hive: dict[str, str | None]):
        self.footer = footer
        own = [f for f in footer.schema if f.name not in dropped or len(footer.schema) == 1]
        self.types = {field.name: value_type(field.type) for field in own}
        self.starts = list(accumulate((group.rows for group in footer.groups), initial=0))
        self.hidden = [name for name in hive if name in self.types]
        self.hive = {name: text for name, text in hive.items() if name not in self.types}

    def nulls(self, name: str) -> bool | None:
        """Whether the column has nulls in this file, None where the footer does not tell."""
        if not self.footer.rows:
            return False
        if name in self.hive:
            return self.hive[name] is None
        return column_nulls(self.footer, name) if name in self.types else True

    def sizes(self, first: int, last: int) -> dict[str, int] | None:
        """What is known of the sizes of columns in these row groups (see `Partition.sizes`)."""
        groups = self.footer.groups[first:last]
        known = set.intersection(*(set(group.long) for group in groups))
        if not known:
            return None
        # A column of several leaves has a size of each: not those that its values will have.
        of_leaf = {at: n for n, (at, end) in self.footer.leaves.items() if end == at + 1}
        return {of_leaf[leaf]: sum(group.long[leaf] for group in groups)
                for leaf in known if leaf in of_leaf} or None  # fmt: skip

    def runs(self, size: int) -> Iterator[tuple[int, int]]:
        """Neighbouring row groups of about `size` bytes together: first, and last excluded."""
        first, held, groups = 0, 0, self.footer.groups
        for at, group in enumerate(groups):
            if held and (held + group.size > size or not group.is_like(groups[first])):
                yield first, at
                first, held = at, 0
            held += max(1, group.size)
        if held and any(group.rows for group in self.footer.groups[first:]):
            yield first, len(self.footer.groups)


@dataclass(frozen=True, slots=True)
class _Merged:
    """The columns of all files with rows.

    changed: those whose type differs between files, with what was found where.
    """

    types: dict[str, pa.DataType]
    hive: dict[str, pa.DataType]
    changed: dict[str, str]

    def absent(self, name: str, tables: Sequence[_Table]) -> tuple[str, ...]:
        """The files with rows but without the column."""
        return tuple(
            t.footer.shown
            for t in tables
            if t.footer.rows and name not in t.types and name not in t.hive
        )


def _merge(tables: Sequence[_Table]) -> _Merged:
    types: dict[str, pa.DataType] = {}
    first: dict[str, tuple[str, pa.DataType]] = {}
    changed: dict[str, str] = {}
    filled = [table for table in tables if table.footer.rows]
    for table in filled:
        for name, kind in table.types.items():
            where, before = first.setdefault(name, (table.footer.shown, kind))
            merged = common_type(types.get(name, kind), kind)
            if merged is None:
                raise SourceError(
                    f"{table.footer.shown}, column {name}: is {kind}, but {before} in {where}. "
                    "Write both with one type, or convert the files apart."
                )
            types[name] = merged
            if not kind.equals(before) and name not in changed:
                changed[name] = f"{before} in {where}, {kind} in {table.footer.shown}"
    hive = {n: k for n, k in hive_types(t.hive for t in filled).items() if n not in types}
    return _Merged(types | hive, hive, changed)


def _notices(tables: Sequence[_Table], merged: _Merged, dropped: frozenset[str]) -> Iterator[str]:
    for name, found in list(merged.changed.items())[:MOST_LINES]:
        yield f"column {name}: {found}; read as {merged.types[name]}"
    if len(merged.changed) > MOST_LINES:
        more = counted(len(merged.changed) - MOST_LINES, "more column")
        yield f"{more} of different types between files, read as the wider one"
    left_out = sorted(n for n in dropped if n not in merged.types)
    if left_out:
        yield (f"pandas index left out: {', '.join(left_out)}. Keep it with -O index=keep")
    if merged.hive:
        yield f"columns from folder names: {', '.join(merged.hive)}"
    hidden = sorted({name for table in tables for name in table.hidden})
    if hidden:
        yield f"folders name columns that the files have themselves, which are read: {hidden[0]}"
    empty = [t.footer.path for t in tables if not t.footer.rows]
    if empty:
        yield f"{counted(len(empty), 'file')} without rows: {some(empty)}"
    lacking: dict[tuple[str, ...], list[str]] = {}
    for name in merged.types:
        lacking.setdefault(merged.absent(name, tables), []).append(name)
    for files, names in lacking.items():
        if files:
            yield f"{_listed(names)} missing in {some(files)}"
    if any(t.footer.int96 for t in tables):
        yield "INT96 timestamps are read in the unit of -O int96"


def _listed(names: Sequence[str]) -> str:
    """`column a is`, `columns a, b are`, the first few of many."""
    shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    return f"column {shown} is" if len(names) == 1 else f"{len(names):,} columns ({shown}) are"


def _refuse_empty(footers: Sequence[Footer]) -> None:
    if not any(footer.rows for footer in footers):
        more = f" (nor have {len(footers) - 1:,} others)" if len(footers) > 1 else ""
        raise SourceError(
            f"{footers[0].shown}: has no rows{more}, so there is nothing to convert. "
            "Check what wrote it."
        )


def _any(answers: Iterator[bool | None]) -> bool | None:
    """True where any is, None where any is unknown, else False."""
    found = list(answers)
    return True if True in found else None if None in found else False


def _look_for_nulls(table: _Table, names: Sequence[str]) -> set[str]:
    """The columns among `names` that hold a null in this file, found by reading them."""
    unsure = [n for n in names if table.nulls(n) is None]
    found = {n for n in names if table.nulls(n)}
    if not unsure:
        return found
    with _named(table.footer.path), open_parquet(table.footer.path) as file:
        found |= {name for name in unsure if _has_null(file, table.footer.path, name)}
    return found


def _has_null(file: pq.ParquetFile, path: str, name: str) -> bool:
    sizes = BatchRows(file, path, [name], LOOK_BYTES)
    for group in range(file.metadata.num_row_groups):
        rows = min(MOST_ROWS // 4, sizes.of(group))
        batches = file.iter_batches(rows, [group], columns=[name], use_threads=False)
        if any(null_count(batch.column(name)) for batch in batches):
            return True
    return False


def _settled(
    batch: pa.RecordBatch, columns: Sequence[str], origin: Origin, detail: RowGroups
) -> SourceBatch:
    """The columns asked for, in their order and surveyed types."""
    arrays: list[pa.Array] = []
    faults: list[Fault] = []
    own = set(batch.schema.names)
    for name in columns:
        kind = detail.types[name]
        if name in own:
            found = batch.column(name)
            conformed = conform(found, kind)
            arrays.append(conformed.array)
            faults += misfit_faults(name, found, conformed)
        else:
            arrays.append(hive_array(detail.hive.get(name), kind, batch.num_rows))
    data = (
        pa.RecordBatch.from_arrays(arrays, list(columns))
        if arrays
        else rows_without_columns(batch.num_rows)
    )
    return SourceBatch(data, origin, tuple(sorted(faults, key=lambda fault: fault.row)))


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Give pyarrow's errors the name of the file."""
    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno:
            raise unreadable(path, error) from error
        raise SourceError(
            f"{display(path)}: the data cannot be read ({first_line(error)}). "
            "The file is damaged; write or copy it again."
        ) from error


def _parallel(work: Callable[[Any], T], items: Sequence[Any], needs: Needs) -> list[T]:
    if len(items) < 2 or needs.jobs < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(needs.jobs) as pool:
        return list(pool.map(work, items))
