"""Box tables: one row a box, read whole.

A row without class and edges says that its picture holds no object.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from tfrec_cli import compute as pc
from tfrec_cli.buffers import nulled, to_numpy
from tfrec_cli.errors import Location, SourceError, shorten
from tfrec_cli.schema.grammar import TextRules, null_declared, parse_float
from tfrec_cli.sources.base import Column, Fault, Fingerprint, Needs, Source, SourceBatch
from tfrec_cli.sources.box_options import EDGES, ROLES, SIZES, BoxSettings
from tfrec_cli.sources.csv import CsvSource
from tfrec_cli.sources.csv_layout import find_layout
from tfrec_cli.sources.files import display, expand_inputs, has_suffix
from tfrec_cli.sources.suffixes import PARQUET_SUFFIXES

_WORDS = ("filename", "class")
# Other names that people give these columns, in lower case.
_SPELLINGS = {
    "filename": "file file_name filepath file_path path image image_name image_path img imagename "
    "image_id picture frame",
    "width": "w img_width image_width imgwidth",
    "height": "h img_height image_height imgheight",
    "class": "label labels name category class_name classname cls object type",
    "xmin": "x1 x_min x0 left bbox_xmin x_1 minx xtl",
    "ymin": "y1 y_min y0 top bbox_ymin y_1 miny ytl",
    "xmax": "x2 x_max right bbox_xmax x_2 maxx xbr",
    "ymax": "y2 y_max bottom bbox_ymax y_2 maxy ybr",
}
_SCHEMA = pa.schema(
    [
        ("file", pa.int32()),
        ("row", pa.int64()),
        ("line", pa.int64()),
        *((role, pa.string() if role in _WORDS else pa.float64()) for role in ROLES),
    ]
)


@dataclass(frozen=True, slots=True)
class BoxTable:
    """All rows of all box tables, in source order.

    files: the tables. rows: one row a box: `file` (its number), `row` (from 0) and `line` (from
    1, null where the file has no lines), filename and class (string), the sizes and edges
    (float64); null where the cell is missing or at fault. faults: the first of each row that has
    one; `row` is the position in `rows`. options: what reads the same tables again.
    """

    files: tuple[str, ...]
    rows: pa.RecordBatch
    faults: Mapping[int, Fault]
    fingerprints: tuple[Fingerprint, ...]
    notices: tuple[str, ...]
    options: Mapping[str, Any]


@dataclass(slots=True)
class _Reading:
    files: dict[str, int] = field(default_factory=dict)
    batches: list[pa.RecordBatch] = field(default_factory=list)
    faults: dict[int, Fault] = field(default_factory=dict)
    rows: int = 0
    prints: list[Fingerprint] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    options: Mapping[str, Any] = field(default_factory=dict)


def place_of(files: Sequence[str], rows: pa.RecordBatch, position: int) -> Location:
    """Where the row at `position` of BoxTable's rows stands; `files` as there."""
    file, row, line = (rows.column(name)[position].as_py() for name in ("file", "row", "line"))
    return Location(display(files[file]), row, line)


def read_tables(inputs: Sequence[str], options: BoxSettings, needs: Needs) -> BoxTable:
    """Read all rows of the tables that `inputs` mean: CSV, and by their endings Parquet.

    Raises SourceError for a table that cannot be read or lacks a column.
    """
    reading = _Reading(options=options.saved(options.delimiter))
    for parquet, group in groupby(inputs, key=lambda item: has_suffix(item, PARQUET_SUFFIXES)):
        _read(list(group), parquet, options, needs, reading)
    rows = pa.Table.from_batches(reading.batches, _SCHEMA).combine_chunks().to_batches()
    whole = rows[0] if rows else pa.RecordBatch.from_pylist([], _SCHEMA)
    _refuse_relative(tuple(reading.files), whole, options)
    return BoxTable(
        tuple(reading.files),
        whole,
        reading.faults,
        tuple(reading.prints),
        tuple(reading.notices),
        reading.options,
    )


def _read(
    inputs: list[str], parquet: bool, options: BoxSettings, needs: Needs, reading: _Reading
) -> None:
    source = _open(inputs, parquet, options, needs)
    survey = source.survey(Needs(False, needs.temp_dir, needs.jobs))
    paths = [found.path for found in survey.fingerprints]
    if parquet:
        for path in paths:
            held = [c.name for c in survey.columns if path not in c.absent]
            _require_columns(path, held, options)
    else:
        reading.options = survey.options
    for path in paths:
        reading.files.setdefault(path, len(reading.files))
    reading.prints += survey.fingerprints
    reading.notices += (*survey.notices, *_unused(survey.columns, options, paths))
    roles = _roles(survey.columns, options)
    for partition in survey.partitions:
        for batch in source.read(partition, [column.name for column in roles.values()]):
            _add(batch, roles, options, reading)


def _open(inputs: list[str], parquet: bool, options: BoxSettings, needs: Needs) -> Source:
    if parquet:
        from tfrec_cli.sources.parquet import ParquetSource

        return ParquetSource(inputs, ParquetSource.Options())
    for path in expand_inputs(inputs, CsvSource.suffixes, needs.temp_dir).files:
        _require_columns(path, _header(path, options), options)
    return CsvSource(inputs, options)


def _roles(columns: Iterable[Column], options: BoxSettings) -> dict[str, Column]:
    table = {column.name: column for column in columns}
    return {role: table[name] for role in ROLES if (name := options.column(role)) in table}


def _unused(columns: Sequence[Column], options: BoxSettings, paths: Sequence[str]) -> Iterator[str]:
    used = {options.column(role) for role in ROLES}
    names = [shorten(column.name) for column in columns if column.name not in used]
    if names:
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        yield f"{display(paths[0])}: columns not used for boxes: {', '.join(names[:8])}{more}"


# Columns -----------------------------------------------------------------------------------------


def _header(path: str, options: BoxSettings) -> Sequence[str]:
    """The names of a CSV file's columns; where its first row makes no header, that row."""
    try:
        return find_layout(path, options).names
    except SourceError:
        bare = options.model_copy(update={"header": False, "names": None})
        try:
            source = CsvSource([path], bare)
            survey = source.survey(Needs(False))
            columns = [column.name for column in survey.columns]
            batch = next(source.read(survey.partitions[0], columns)).data
        except SourceError:
            batch = None
        first = [] if batch is None else [str(column[0]) for column in batch.columns]
        if not first or any(options.column(role) in first for role in ROLES):
            raise
        return first


def _require_columns(path: str, found: Sequence[str], options: BoxSettings) -> None:
    """Raise SourceError where the table at `path`, which has the columns `found`, lacks some."""
    wanted = {role: str(options.column(role)) for role in ROLES if options.asks(role)}
    lacking = {role: name for role, name in wanted.items() if name not in found}
    if not lacking:
        return
    noun = "column" if len(lacking) == 1 else "columns"
    shown = [shorten(name) for name in found]
    raise SourceError(
        f"{display(path)}: has no {noun} {', '.join(lacking.values())}. Found: "
        f"{', '.join(shown[:20])}{', …' if len(shown) > 20 else ''}; a table of boxes needs "
        f"{', '.join(wanted.values())}. {_advice(lacking, found, options)}"
    )


def _advice(lacking: Mapping[str, str], found: Sequence[str], options: BoxSettings) -> str:
    if any(_is_number(name) for name in found) and options.has_header:
        names = ",".join(ROLES) if len(found) == len(ROLES) else "filename,class,…"
        return f"Line 1 looks like data: give -O header=false -O names={names}, or add a header."
    roles = [*lacking, *(role for role in SIZES if options.column(role) not in (None, *found))]
    renames = [f"-O {role}={near}" for role in roles if (near := _spelling(role, found))]
    return (
        f"Say which are which: {' '.join(renames)}."
        if renames
        else f"Name yours with -O {next(iter(lacking))}=COLUMN, or correct the header."
    )


def _is_number(text: str) -> bool:
    return text.strip().lstrip("+-").replace(".", "", 1).isdigit()


def _spelling(role: str, found: Sequence[str]) -> str:
    """The column that looks like `role` under another name, quoted for a shell; empty if none."""
    known = (role, *_SPELLINGS[role].split())
    by_name = {name.strip().lower().replace(" ", "_").replace("-", "_"): name for name in found}
    near = next((by_name[name] for name in known if name in by_name), "")
    return f"'{near}'" if " " in near else near


# Cells -------------------------------------------------------------------------------------------


def _add(
    batch: SourceBatch, roles: Mapping[str, Column], options: BoxSettings, reading: _Reading
) -> None:
    """Add the batch's rows, and what is wrong with them."""
    rows = batch.data.num_rows
    known = {fault.row: fault for fault in batch.faults}
    found = _Cells(batch.origin.file, roles, options, known)
    cells: dict[str, Any] = {}
    for position, role in enumerate(roles):
        column = batch.data.column(position)
        cells[role] = found.words(role, column) if role in _WORDS else found.numbers(role, column)
    found.require(cells, rows)
    first = batch.origin.first_row
    cells["file"] = pa.array([reading.files[batch.origin.file]] * rows, pa.int32())
    cells["row"] = pa.array(np.arange(first, first + rows), pa.int64())
    lines = batch.origin.lines
    cells["line"] = pa.nulls(rows, pa.int64()) if lines is None else pa.array(lines(), pa.int64())
    arrays = [cells.get(name, pa.nulls(rows, kind)) for name, kind in _columns()]
    reading.batches.append(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA))
    for position, fault in found.faults.items():
        moved = Fault(position, fault.column, fault.value, fault.reason, fault.hint)
        reading.faults[reading.rows + position] = moved
    reading.rows += rows


def _columns() -> Iterator[tuple[str, pa.DataType]]:
    return ((item.name, item.type) for item in _SCHEMA)


@dataclass(slots=True)
class _Cells:
    """Reads the columns of one batch of a file; keeps the first fault of each row."""

    file: str
    roles: Mapping[str, Column]
    options: BoxSettings
    faults: dict[int, Fault]

    def blame(self, row: int, role: str, value: str | None, reason: str, hint: str) -> None:
        self.faults.setdefault(row, Fault(row, self.roles[role].name, value, reason, hint))

    def words(self, role: str, cells: pa.Array) -> pa.Array:
        """Text, null where there is none."""
        try:
            texts = pc.cast(cells, pa.string())
        except MemoryError:
            raise
        except pa.ArrowException:
            raise self._wrong_type(role, cells, "text") from None
        texts = null_declared(texts, self.options.rules)
        blank = pc.equal(pc.utf8_trim_whitespace(texts), "")
        texts = nulled(texts, to_numpy(blank))
        odd = pc.match_substring_regex(texts, r"[\r\n\x00]")
        for row in _true(odd):
            hint = "Take it out of the cell."
            self.blame(row, role, texts[row].as_py(), "holds a line break or NUL", hint)
        return nulled(texts, to_numpy(odd))

    def numbers(self, role: str, cells: pa.Array) -> pa.Array:
        """Finite float64, null where there is none or the cell is at fault."""
        hint = "Correct the row, or leave its picture out with --on-error skip."
        if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
            rules = self.options.rules if self.roles[role].text else TextRules()
            parsed = parse_float(cells, rules)
            values = parsed.values
            for row in (*parsed.bad.tolist(), *parsed.beyond.tolist()):
                self.blame(row, role, cells[row].as_py(), "is not a number", hint)
        else:
            try:
                values = pc.cast(cells, pa.float64(), safe=False)
            except MemoryError:
                raise
            except pa.ArrowException:
                raise self._wrong_type(role, cells, "numbers") from None
        odd = pc.invert(pc.is_finite(values))
        for row in _true(odd):
            self.blame(row, role, str(cells[row].as_py()), "is not a number", hint)
        return pc.if_else(odd, pa.scalar(None, pa.float64()), values)

    def require(self, cells: Mapping[str, pa.Array], rows: int) -> None:
        """Blame rows that lack a name, or a part of their box."""
        for row in np.flatnonzero(~_valid(cells["filename"])).tolist():
            self.blame(row, "filename", None, "has no value", "Write the name of the picture.")
        parts = ("class", *EDGES)
        given = np.zeros(rows, bool)
        for role in parts:
            given |= _valid(cells[role])
        for role in parts:
            hint = "A row is one box; leave class and edges all empty for a picture without any."
            for row in np.flatnonzero(given & ~_valid(cells[role])).tolist():
                self.blame(row, role, None, "has no value", hint)

    def _wrong_type(self, role: str, cells: pa.Array, wanted: str) -> SourceError:
        name = shorten(self.roles[role].name)
        return SourceError(
            f"{display(self.file)}, column {name}: is {cells.type}, expected {wanted} for the "
            f"{role} of boxes. Name another column with -O {role}=COLUMN, or cast it."
        )


def _valid(array: pa.Array) -> np.ndarray:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _true(mask: pa.Array) -> list[int]:
    found: list[int] = np.flatnonzero(
        pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    ).tolist()
    return found


def _refuse_relative(files: Sequence[str], rows: pa.RecordBatch, options: BoxSettings) -> None:
    """Raise SourceError where edges are surely no pixels, and nobody said that they are."""
    if options.coordinates is not None:
        return
    edges = np.concatenate([rows.column(role).drop_null().to_numpy() for role in EDGES])
    if len(edges) and edges.min() >= 0 and edges.max() <= 1 and (edges % 1).any():
        shown = display(os.fspath(files[0]))
        raise SourceError(
            f"{shown}: all edges lie between 0 and 1, which no pixels do. If they are relative to "
            "the picture's size, give -O coordinates=relative, else -O coordinates=pixels."
        )
