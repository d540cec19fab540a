"""Tables in memory as a source: pandas DataFrames, Arrow tables, record batches, readers.

Whatever has the Arrow stream interface (`__arrow_c_stream__`) is taken as well. NaN in a pandas
column counts as a missing value, as it does in pandas; NaN in an Arrow column is a number. A
pandas index is kept as Parquet's is: by name, or not at all. A reader is copied to a temporary
file, since it can be read once only.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from tfrec_cli.buffers import byte_size, rows_without_columns
from tfrec_cli.errors import SourceError, UsageError
from tfrec_cli.scratch import Scratch
from tfrec_cli.sources.base import Column, Fault, Needs, Origin, Partition, SourceBatch, Survey
from tfrec_cli.sources.common_type import (
    common_type,
    conform,
    misfit_faults,
    null_count,
    value_type,
)
from tfrec_cli.sources.decoded import cut_decoded
from tfrec_cli.sources.footer import index_columns

_MOST_ROWS = 2**20
_BATCH_BYTES = 16 * 2**20


class Options(BaseModel):
    """The options of the table source."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    index: Literal["named", "keep", "drop"] = Field(
        "named",
        description="Which pandas index columns are kept: those with a name, all, or none.",
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """What reading a partition takes: the table's number, and the surveyed column types."""

    table: int
    types: dict[str, pa.DataType]


def is_table(item: Any) -> bool:
    """Whether `item` is something this source reads."""
    return (
        isinstance(item, (pa.Table, pa.RecordBatch, pa.RecordBatchReader))
        or _is_frame(item)
        or hasattr(item, "__arrow_c_stream__")
    )


def _is_frame(item: Any) -> bool:
    # Where nobody imported pandas, nothing can be a DataFrame.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(item, pandas.DataFrame)


class TableSource:
    """Reads tables in memory (see `tfrec_cli.sources.base.Source`)."""

    name: ClassVar[str] = "table"
    summary: ClassVar[str] = "pandas DataFrames and Arrow tables, given to the library call."
    suffixes: ClassVar[tuple[str, ...]] = ()
    Options: ClassVar[type[BaseModel]] = Options

    def __init__(self, inputs: Sequence[Any], options: BaseModel) -> None:
        self.inputs: tuple[Any, ...] = tuple(inputs)
        self.options = Options.model_validate(options.model_dump())
        self.partition_bytes = 16 * 2**20
        self._tables: list[pa.Table | _Spooled] | None = None

    def survey(self, needs: Needs) -> Survey:
        """Columns and rows of all tables. Raises SourceError for tables that do not fit."""
        if self._tables is None:
            self._tables = [
                _arrow(item, name, self.options.index, needs.temp_dir)
                for item, name in zip(self.inputs, self._names(), strict=True)
            ]
            # What was given is not needed again, and a reader or a frame may not travel.
            self.inputs = (None,) * len(self.inputs)
        names = self._names()
        tables = list(self._opened())
        _refuse_odd(tables, names)
        dropped = self._dropped(tables)
        types = _types(tables, names, dropped)
        notices = [f"pandas index left out: {n}. Keep it with index=keep" for n in dropped]
        return Survey(
            columns=tuple(_column(n, kind, tables, names) for n, kind in types.items()),
            partitions=tuple(self._partitions(tables, names, types)),
            notices=tuple(notices),
            options=self.options.model_dump(),
        )

    def _names(self) -> list[str]:
        count = len(self.inputs)
        return ["table"] if count == 1 else [f"table {i}" for i in range(1, count + 1)]

    def _opened(self) -> Iterator[pa.Table]:
        for table in self._tables or ():
            yield table.open() if isinstance(table, _Spooled) else table

    def _dropped(self, tables: Sequence[pa.Table]) -> list[str]:
        if self.options.index == "keep":
            return []
        unnamed_only = self.options.index == "named"
        return sorted({n for t in tables for n in index_columns(t.schema, unnamed_only)})

    def _partitions(
        self, tables: Sequence[pa.Table], names: Sequence[str], types: dict[str, pa.DataType]
    ) -> Iterator[Partition]:
        for number, (table, name) in enumerate(zip(tables, names, strict=True)):
            size = byte_size(table) / max(1, table.num_rows)
            rows = max(1, min(_MOST_ROWS, int(self.partition_bytes / max(1.0, size))))
            for first in range(0, table.num_rows, rows):
                count = min(rows, table.num_rows - first)
                yield Partition(name, first, count, int(size * count), Rows(number, types))

    def read(self, partition: Partition, columns: Sequence[str]) -> Iterator[SourceBatch]:
        """The rows of a slice of one table, a batch for each chunk that lies in it."""
        detail: Rows = partition.detail
        table = list(self._opened())[detail.table].slice(partition.first_row, partition.rows)
        own = [name for name in columns if name in table.schema.names]
        row = partition.first_row
        for batch in _batches(table, own):
            yield _settled(batch, columns, detail.types, Origin(partition.file, row))
            row += batch.num_rows


@dataclass(frozen=True, slots=True)
class _Spooled:
    """A reader's rows in a temporary Arrow file, which lives as long as `folder`."""

    path: str
    folder: Scratch | None

    def open(self) -> pa.Table:
        """The rows, mapped and not loaded."""
        with pa.memory_map(self.path) as file:
            return pa.ipc.open_file(file).read_all()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Spooled, (self.path, None)


def _arrow(item: Any, name: str, index: str, temp_dir: str | None) -> pa.Table | _Spooled:
    try:
        if isinstance(item, pa.Table):
            return item
        if isinstance(item, pa.RecordBatch):
            return pa.Table.from_batches([item])
        if _is_frame(item):
            return _from_pandas(item, index)
        if not isinstance(item, pa.RecordBatchReader):
            item = pa.RecordBatchReader.from_stream(item)
        return _spool(item, temp_dir)
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError, TypeError, OSError) as error:
        raise SourceError(f"{name}: cannot be read as a table ({_one_line(error)}).") from error


def _from_pandas(frame: Any, index: str) -> pa.Table:
    twice = [str(n) for n, times in Counter(map(str, frame.columns)).items() if times > 1]
    if twice:
        raise ValueError(f"column {twice[0]} is there more than once")
    return pa.Table.from_pandas(frame, preserve_index=True if index == "keep" else None)


def _one_line(error: Exception) -> str:
    return "; ".join(str(part) for part in error.args).replace("\n", " ") or type(error).__name__


def _spool(reader: pa.RecordBatchReader, temp_dir: str | None) -> _Spooled:
    folder = Scratch(temp_dir)
    path = os.path.join(folder.path, "table.arrow")
    _refuse_twice(reader.schema.names, "table")
    # An Arrow file holds one dictionary a column; a stream may change it from batch to batch.
    fields = [f.with_type(value_type(f.type)) for f in reader.schema]
    schema = pa.schema(fields, reader.schema.metadata)
    with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:
        for batch in (part for whole in reader for part in cut_decoded(whole, _BATCH_BYTES)):
            arrays = [conform(batch.column(f.name), f.type).array for f in schema]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return _Spooled(path, folder)


def _refuse_odd(tables: Sequence[pa.Table], names: Sequence[str]) -> None:
    for table, name in zip(tables, names, strict=True):
        _refuse_twice(table.schema.names, name)
    if not any(table.num_rows for table in tables):
        raise SourceError(f"{names[0]}: has no rows, so there is nothing to convert.")


def _refuse_twice(columns: Sequence[str], name: str) -> None:
    twice = [column for column, times in Counter(columns).items() if times > 1]
    if twice:
        raise SourceError(f"{name}, column {twice[0]}: two columns have this name. Rename one.")


def _types(
    tables: Sequence[pa.Table], names: Sequence[str], dropped: Sequence[str]
) -> dict[str, pa.DataType]:
    types: dict[str, pa.DataType] = {}
    for table, where in zip(tables, names, strict=True):
        kept = [f for f in table.schema if f.name not in dropped and table.num_rows]
        for field in kept:
            merged = common_type(types.get(field.name, field.type), field.type)
            if merged is None:
                raise SourceError(
                    f"{where}, column {field.name}: is {field.type}, but {types[field.name]} in a "
                    "table before it. Give both one type."
                )
            types[field.name] = merged
    if not types:
        raise SourceError(f"{names[0]}: has no columns to read.")
    return types


def _column(
    name: str, kind: pa.DataType, tables: Sequence[pa.Table], names: Sequence[str]
) -> Column:
    lacking = tuple(
        where
        for table, where in zip(tables, names, strict=True)
        if table.num_rows and name not in table.schema.names
    )
    nulls = bool(lacking) or any(
        null_count(table.column(name)) > 0 for table in tables if name in table.schema.names
    )
    return Column(name, kind, nulls, absent=lacking)


def _batches(table: pa.Table, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if names:
        for batch in table.select(names).to_batches():
            yield from cut_decoded(batch, _BATCH_BYTES)
    elif table.num_rows:
        yield rows_without_columns(table.num_rows)


def _settled(
    batch: pa.RecordBatch, columns: Sequence[str], types: dict[str, pa.DataType], origin: Origin
) -> SourceBatch:
    arrays: list[pa.Array] = []
    faults: list[Fault] = []
    for name in columns:
        if name not in batch.schema.names:
            arrays.append(pa.nulls(batch.num_rows, types[name]))
            continue
        found = batch.column(name)
        conformed = conform(found, types[name])
        arrays.append(conformed.array)
        faults += misfit_faults(name, found, conformed)
    data = pa.RecordBatch.from_arrays(arrays, list(columns)) if arrays else batch
    return SourceBatch(data, origin, tuple(sorted(faults, key=lambda fault: fault.row)))


def refuse_mixture(inputs: Sequence[Any]) -> None:
    """Raises UsageError where some of `inputs` are neither tables nor paths, or they are mixed."""
    odd = [item for item in inputs if not is_table(item)]
    if odd:
        path = isinstance(odd[0], (str, bytes, os.PathLike))
        found = "a path beside a table" if path else f"a source of type {type(odd[0]).__name__}"
        raise UsageError(
            f"found {found}. Give paths alone, or tables alone: pandas DataFrames, Arrow tables, "
            "record batches or readers."
        )
