"""The kernel: Arrow columns to framed records, records and CSV rows found in buffers.

One door, two bodies that give the same bytes: `_native`, compiled where a compiler was at hand,
and `_reference`, plain Python. `BODY` names the one in use; the environment variable
TFREC_KERNEL=native|reference asks for one.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tfrec_cli._kernel.model import (
    DECODE_FAULTS,
    EXAMPLE_FACTS,
    FILE_FACTS,
    MAX_RECORD_BYTES,
    OTHER_SIZE,
    CsvDialect,
    CsvRows,
    Decoded,
    Encoded,
    ExampleSurvey,
    FeatureColumn,
    FilesRead,
    RecordSizeError,
    Scan,
    Wanted,
)
from tfrec_cli.errors import TfrecError, UsageError
from tfrec_cli.kinds import is_viewless_list
from tfrec_cli.stages import timed

__all__ = [
    "BODY",
    "DECODE_FAULTS",
    "EXAMPLE_FACTS",
    "FILE_FACTS",
    "MAX_RECORD_BYTES",
    "OTHER_SIZE",
    "CsvDialect",
    "CsvRows",
    "Decoded",
    "Encoded",
    "ExampleSurvey",
    "FeatureColumn",
    "FilesRead",
    "RecordSizeError",
    "Scan",
    "Spread",
    "Wanted",
    "crc32c",
    "decode_examples",
    "encode",
    "find_feature",
    "masked_crc32c",
    "read_files",
    "scan",
    "split_csv",
    "survey_examples",
    "text_facts",
    "text_to_float64",
    "text_to_int64",
]

_NATIVE = "tfrec_cli._kernel._native"
# Enough to make a call worth while, few enough for slow disks to be asked for several at a time.
_FILES_AT_ONCE = 32


def _load(wanted: str) -> tuple[str, Any]:
    """The body that `wanted` names, or the compiled one where there is one; its name first."""
    if wanted not in ("", "native", "reference"):
        raise UsageError(f'TFREC_KERNEL is "{wanted}". Set it to native or reference, or unset it.')
    if wanted != "reference":
        try:
            return "native", importlib.import_module("tfrec_cli._kernel._bridge")
        except ImportError as error:
            _refuse(error, wanted)
    return "reference", importlib.import_module("tfrec_cli._kernel._reference")


def _refuse(error: ImportError, wanted: str) -> None:
    """Raise for a native body that was asked for or that is broken; return where it was just not
    built, which is the only reason to go on without it.
    """
    if not isinstance(error, ModuleNotFoundError) or error.name != _NATIVE:
        raise TfrecError(
            f"the native kernel is there but cannot be loaded ({error}). Install tfrec-cli again, "
            "or set TFREC_KERNEL=reference to go on without it, slower."
        ) from error
    if wanted == "native":
        raise UsageError(
            f"TFREC_KERNEL asks for the native kernel, which was not built ({error}). "
            "Install tfrec-cli again with a C compiler at hand, or unset TFREC_KERNEL."
        ) from error


BODY, _body = _load(os.environ.get("TFREC_KERNEL", ""))


@timed("encode", lambda encoded: memoryview(encoded.data).nbytes)
def encode(
    columns: Sequence[FeatureColumn],
    rows: range | np.ndarray | None = None,
    limit: int = MAX_RECORD_BYTES,
) -> Encoded:
    """Serialize rows as `tf.train.Example` records, framed as TFRecord files hold them.

    columns: the features, in any order, with arrays of one length. rows: the row numbers to
    encode, in the order wanted; None is all of them. limit: the longest record allowed, in bytes
    without framing.

    Features are sorted by the UTF-8 bytes of their keys; a null leaves its key out; lists of
    numbers are packed. Raises RecordSizeError for a record beyond `limit`, IndexError for a row
    that is not there, TypeError for another Arrow type, ValueError for arrays of different
    lengths, a key given twice and a null inside a list.
    """
    _check(columns)
    length = len(columns[0].array) if columns else None
    chosen = _rows(rows, length)
    return _body.encode(sorted(columns, key=_utf8), chosen, limit)  # type: ignore[no-any-return]


def scan(buffer: Any) -> Scan:
    """Find the intact records at the start of bytes-like `buffer`, up to the first damage."""
    return _body.scan(buffer)  # type: ignore[no-any-return]


def survey_examples(buffer: Any, ends: np.ndarray) -> ExampleSurvey:
    """What the features of framed records are. The frames' checksums are not looked at.

    buffer: bytes-like, framed records back to back. ends: int64, the offset just past each, as
    `scan` gives them. Raises ValueError where `ends` do not fit the buffer.
    """
    return _body.survey_examples(buffer, ends)  # type: ignore[no-any-return]


def find_feature(buffer: Any, ends: np.ndarray, key: bytes) -> np.ndarray:
    """Where the feature `key` is in each of the framed records of `buffer`.

    Returns int64 of shape [records, 3]: start and end of the map entry (key and Feature, as
    `decoding.decode_entry` takes it) in the buffer, and its number of values; -1 where the record
    has none or is no Example. Raises ValueError where `ends` do not fit the buffer.
    """
    return _body.find_feature(buffer, ends, key)  # type: ignore[no-any-return]


def decode_examples(buffer: Any, ends: np.ndarray, wanted: Sequence[Wanted]) -> Decoded:
    """The values of features of framed records, as Arrow columns. Releases the GIL.

    buffer: bytes-like, at most 2 GiB (and 15 bytes) of framed records back to back, whose checksums
    are not looked at. ends: int64, the offset just past each, as `scan` gives them. Raises
    ValueError where `ends` do not fit the buffer and for a key that is wanted twice, OverflowError
    for a larger buffer.
    """
    keys = [one.key for one in wanted]
    if len(set(keys)) < len(keys):
        raise ValueError(f"key wanted twice: {next(k for k in keys if keys.count(k) > 1)!r}")
    return _body.decode_examples(buffer, ends, wanted)  # type: ignore[no-any-return]


def split_csv(buffer: Any, dialect: CsvDialect, final: bool) -> CsvRows:
    """Find the rows in bytes-like `buffer`, which begins at a row's start.

    final: nothing follows the buffer, so that its last row needs no line end.
    """
    return _body.split_csv(buffer, dialect, final)  # type: ignore[no-any-return]


def text_facts(cells: pa.Array) -> np.ndarray | None:
    """What text cells (string or large_string) mean, by the grammar's plain dialect.

    Returns int64 of shape [2, meanings], in the order of `schema.cells.Meaning`: how many cells
    have each, and the position of the first that has (0 where none has). None where the body in
    use has no such shortcut; `schema.cells` then reads them its own way, to the same end.
    """
    return _body.text_facts(cells)  # type: ignore[no-any-return]


def text_to_int64(cells: pa.Array) -> pa.Array | None:
    """Text cells that are all null or `-?[0-9]+` within int64, as int64.

    None where one is anything else, or the body in use has no such shortcut.
    """
    return _body.text_to_int64(cells)


def text_to_float64(cells: pa.Array) -> pa.Array | None:
    """Text cells that are all null or plain numbers, rounded to the nearest float64.

    None where one is no number, or has more digits or a larger exponent than can be rounded
    without much ado, or where the body in use has no such shortcut.
    """
    return _body.text_to_float64(cells)


def crc32c(data: Any, value: int = 0) -> int:
    """The crc32c (Castagnoli, RFC 3720) of bytes-like `data`, unmasked.

    value: the crc32c of what comes before, to go on from there.
    """
    return _body.crc32c(data, value)  # type: ignore[no-any-return]


def masked_crc32c(data: Any) -> int:
    """The crc32c of bytes-like `data`, masked as TFRecord wants it."""
    return _body.masked_crc32c(data)  # type: ignore[no-any-return]


Spread = Callable[[Callable[[slice], None], Sequence[slice]], object]
"""Calls a function with each of several slices, perhaps some at a time."""


def read_files(
    paths: Sequence[bytes], sizes: Sequence[int], whole: bool, spread: Spread
) -> FilesRead:
    """Read many small files.

    sizes: the bytes of each to read. whole: a file must have just these, not more. spread: how
    portions of the files are gone through. Files that cannot be read, or have another size, are
    told in the facts; nothing is raised for them.
    """
    bounds = np.cumsum(np.array([0, *sizes], np.int64))
    data = pa.allocate_buffer(int(bounds[-1]))
    facts = np.zeros(len(paths), FILE_FACTS)

    def read(portion: slice) -> None:
        ends = bounds[portion.start : portion.stop + 1]
        part = memoryview(data)[ends[0] : ends[-1]]
        _body.read_files(tuple(paths[portion]), np.diff(ends), whole, part, facts[portion])

    step = _FILES_AT_ONCE
    spread(read, [slice(at, min(at + step, len(paths))) for at in range(0, len(paths), step)])
    return FilesRead(data, bounds[1:], facts)


def _utf8(column: FeatureColumn) -> bytes:
    return column.key.encode()


def _check(columns: Sequence[FeatureColumn]) -> None:
    keys = [column.key for column in columns]
    if len(set(keys)) < len(keys):
        raise ValueError(f"key given twice: {next(k for k in keys if keys.count(k) > 1)}")
    if len({len(column.array) for column in columns}) > 1:
        raise ValueError("columns of different lengths")
    for column in columns:
        _check_type(column)


def _check_type(column: FeatureColumn) -> None:
    kind = column.array.type
    item = kind.value_type if is_viewless_list(kind) else kind
    known = (pa.int64(), pa.float32(), pa.binary(), pa.large_binary())
    if item not in known:
        raise TypeError(f"{column.key}: {kind} is none of the kernel's types")
    if (
        is_viewless_list(kind)
        and column.array.values.null_count
        and column.array.flatten().null_count
    ):
        raise ValueError(f"{column.key}: a null inside a list")


def _rows(rows: range | np.ndarray | None, length: int | None) -> range | np.ndarray:
    """`rows` as a range with step 1 or an int64 array; all below `length`, if it is known."""
    if rows is None:
        return range(length or 0)
    if isinstance(rows, range) and rows.step == 1:
        low, high = (rows.start, rows.stop - 1) if len(rows) else (0, -1)
    else:
        rows = np.ascontiguousarray(rows, np.int64)
        low, high = (int(rows.min()), int(rows.max())) if len(rows) else (0, -1)
    if low < 0 or (length is not None and high >= length):
        raise IndexError(f"rows {low} to {high} of columns with {length} rows")
    return rows
