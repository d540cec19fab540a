"""The CSV source: text tables of any size, also compressed or in another encoding.

Cells are text; the schema and the grammar of types decide later what they mean. An empty cell is
missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import cache, partial
from typing import Any, ClassVar, cast

import numpy as np
import pyarrow as pa
from pydantic import BaseModel

from tfrec_cli._kernel import CsvDialect, CsvRows, split_csv
from tfrec_cli.errors import CellError, shorten
from tfrec_cli.schema.grammar import KindFacts
from tfrec_cli.sources.base import Column, Listing, Needs, Origin, Partition, SourceBatch, Survey
from tfrec_cli.sources.csv_cells import read_cells
from tfrec_cli.sources.csv_options import CsvOptions
from tfrec_cli.sources.csv_stream import Block, Content, read_blocks
from tfrec_cli.sources.csv_survey import CsvPart, FileSurvey, place, survey_files
from tfrec_cli.sources.files import counted, display, expand_inputs
from tfrec_cli.sources.fingerprints import changed
from tfrec_cli.sources.suffixes import CSV_SUFFIXES, TSV_SUFFIXES


class CsvSource:
    """Reads CSV files; see `tfrec_cli.sources.base.Source` for what the methods promise."""

    name: ClassVar[str] = "csv"
    summary: ClassVar[str] = "CSV and TSV files, plain or packed as gz, bz2, zst, xz"
    suffixes: ClassVar[tuple[str, ...]] = (*CSV_SUFFIXES, *TSV_SUFFIXES)
    Options: ClassVar[type[BaseModel]] = CsvOptions

    def __init__(self, inputs: Sequence[Any], options: BaseModel) -> None:
        assert isinstance(options, CsvOptions)
        self._inputs = tuple(inputs)
        self._options = options

    def survey(self, needs: Needs) -> Survey:
        """Scan all files once.

        Raises SourceError for one that is missing, empty or no CSV, and CellError for the first
        broken row where no sound row holds a value.
        """
        files = expand_inputs(self._inputs, self.suffixes, needs.temp_dir)
        found = list(survey_files(files.files, self._options, needs))
        columns, dropped = _columns(found, self._options, needs.types)
        if all(column.kind == "null" for column in columns):
            _refuse_broken(found)
        delimiters = {file.layout.dialect.delimiter.decode() for file in found}
        return Survey(
            columns=columns,
            partitions=tuple(part for file in found for part in file.partitions),
            fingerprints=tuple(file.fingerprint for file in found),
            notices=(*files.notices, *_notices(found, columns, dropped)),
            options=self._options.saved(delimiters.pop() if len(delimiters) == 1 else None),
        )

    def files(self, temp_dir: str | None) -> Listing:
        """The files that a survey would read."""
        return Listing(expand_inputs(self._inputs, self.suffixes, temp_dir).files)

    def read(self, partition: Partition, columns: Sequence[str]) -> Iterator[SourceBatch]:
        """The rows of `partition` as text columns. Raises SourceError where the file has changed
        since the survey, or cannot be read.
        """
        part: CsvPart = partition.detail
        first_row = partition.first_row
        with Content(partition.file, part.layout.framing) as content:
            content.seek(part.offset)
            for block, rows in _blocks(
                content, partition, self._options.block_of(part.layout.width)
            ):
                batch = self._batch(block, rows, part, first_row, columns)
                first_row += batch.data.num_rows
                yield batch
        if first_row != partition.first_row + partition.rows:
            raise changed(partition.file)

    def _batch(
        self,
        block: Block,
        rows: CsvRows | int,
        part: CsvPart,
        first_row: int,
        columns: Sequence[str],
    ) -> SourceBatch:
        known = [name for name in columns if name in part.layout.places]
        quoted_empty = self._options.quoted_empty == "text"
        table = read_cells(block.data, rows, part.layout, known, quoted_empty)
        cells = dict(zip(known, table.columns, strict=True))
        data = _record_batch(columns, cells, rows if isinstance(rows, int) else len(rows.starts))
        # Every reject of the block asks for its line; the answer is found once.
        lines = cache(partial(_lines, block.data, part.layout.dialect, block.line))
        return SourceBatch(data, Origin(part.layout.path, first_row, lines), table.faults)


def _blocks(
    content: Content, partition: Partition, size: int
) -> Iterator[tuple[Block, CsvRows | int]]:
    """The blocks of a partition, each with its rows; their number is enough for sound ones."""
    part: CsvPart = partition.detail
    dialect = part.layout.dialect
    if not part.layout.framing.seekable:
        for block in read_blocks(content, dialect, size, part.offset, part.line):
            if len(block.rows.starts):
                yield block, block.rows if len(block.rows.stray) else len(block.rows.starts)
        return
    data = content.read_all(partition.size)
    if len(data) != partition.size:
        raise changed(partition.file)
    rows = None if part.sound else split_csv(data, dialect, True)
    empty = np.zeros(0, np.int64)
    unscanned = CsvRows(empty, empty, empty, empty, False, len(data), 0)
    block = Block(data, part.offset, part.line, rows or unscanned)
    yield block, partition.rows if rows is None else rows


def _record_batch(columns: Sequence[str], cells: dict[str, pa.Array], rows: int) -> pa.RecordBatch:
    """The columns in the order asked for, null where the file lacks one."""
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    rows = len(next(iter(cells.values()))) if cells else rows
    lacking = pa.nulls(rows, pa.string())
    return pa.RecordBatch.from_arrays(
        [cells.get(name, lacking) for name in columns],
        schema=pa.schema([(name, pa.string()) for name in columns]),
    )


def _lines(data: bytes, dialect: CsvDialect, line: int) -> Sequence[int]:
    """The line of each row in `data`, whose first is `line`."""
    return cast(Sequence[int], split_csv(data, dialect, True).lines + line)


def _columns(
    found: Sequence[FileSurvey], options: CsvOptions, types: bool
) -> tuple[tuple[Column, ...], frozenset[str]]:
    """The union of all files' columns in the order of first sight, and the names left out: those
    of columns that have neither a name nor a value.
    """
    facts: dict[str, KindFacts] = {}
    for file in found:
        for name in file.layout.names:
            facts[name] = facts.get(name, KindFacts()).merge(file.facts.get(name, KindFacts()), 0)
    paths = [file.layout.path for file in found]
    named = {n for file in found for n in file.layout.names if n not in file.layout.nameless}
    columns = []
    dropped = []
    for name, fact in facts.items():
        if types and fact.kind == "null" and name not in named:
            dropped.append(name)
            continue
        column = Column(name, pa.string(), text=options.rules, absent=_absent(name, found))
        columns.append(_typed(column, fact, paths) if types else column)
    return tuple(columns), frozenset(dropped)


def _refuse_broken(found: Sequence[FileSurvey]) -> None:
    """Raise CellError for the first broken row, where no sound row holds a value."""
    for file in found:
        if file.broken is not None:
            raise CellError(file.broken)


def _typed(column: Column, facts: KindFacts, paths: Sequence[str]) -> Column:
    return Column(
        column.name,
        column.type,
        nulls=facts.nulls > 0,
        text=column.text,
        kind=facts.kind,
        reason=facts.why(place(facts, paths)),
        absent=column.absent,
    )


def _absent(name: str, found: Sequence[FileSurvey]) -> tuple[str, ...]:
    return tuple(file.layout.path for file in found if name not in file.layout.places)


def _notices(
    found: Sequence[FileSurvey], columns: Sequence[Column], dropped: Set[str]
) -> Iterator[str]:
    """What was detected, skipped or odd; one line for all files that share it."""
    files: dict[str, list[str]] = {}
    for file in found:
        for text in _file_notices(file, dropped):
            files.setdefault(text, []).append(file.layout.path)
    for text, paths in files.items():
        yield f"{_some(paths)}: {text}"
    yield from _drift(found, columns)


def _drift(found: Sequence[FileSurvey], columns: Sequence[Column]) -> Iterator[str]:
    """Where files differ in their columns; one line for all columns that the same files lack."""
    absent: dict[tuple[str, ...], list[str]] = {}
    for column in columns:
        if column.absent:
            absent.setdefault(column.absent, []).append(f'"{shorten(column.name)}"')
    for paths, names in absent.items():
        more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
        noun, verb = ("column", "is") if len(names) == 1 else ("columns", "are")
        yield f"{noun} {', '.join(names[:3])}{more} {verb} absent from {_some(paths)}"
    first = found[0].layout
    strangers = [
        f.layout.path for f in found[1:] if not {*f.layout.names}.intersection(first.names)
    ]
    if strangers:
        yield (
            f"{_some(strangers)}: no column in common with {display(first.path)}; "
            "give -O header=false if the first row is data"
        )


def _file_notices(file: FileSurvey, dropped: Set[str]) -> Iterator[str]:
    yield from file.layout.notices
    for name in file.layout.nameless:
        number = name.removeprefix("column_")
        if name in dropped:
            yield f"column {number} has neither a name nor a value; left out"
        else:
            yield f"column {number} has no name in the header; called {name}"
    if file.blank:
        yield f"{counted(file.blank, 'blank line')} skipped"
    if file.empty:
        yield f"{counted(file.empty, 'blank line')} read as a row with a missing value"


def _some(paths: Sequence[str]) -> str:
    """`a.csv`, or `a.csv and 41 more`."""
    first = display(paths[0])
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1:,} more"
