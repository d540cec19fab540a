"""What goes through the kernel's door, the same for both bodies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tfrec_cli.errors import TfrecError

MAX_RECORD_BYTES = 2**31 - 1


class RecordSizeError(TfrecError):
    """A record longer than protobuf and TensorFlow read.

    number: its position, from 0, among the rows that were asked for. size: in bytes.
    """

    def __init__(self, number: int, size: int, limit: int) -> None:
        super().__init__(number, size, limit)
        self.number = number
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"record {self.number}: {self.size} bytes are more than the {self.limit} "
            "that a record may hold."
        )


@dataclass(frozen=True, slots=True)
class FeatureColumn:
    """One feature of a run of records.

    array: int64, float32, binary or large_binary values, or a list, large_list or fixed_size_list
    of one of those. A null row leaves the key out of its record; an empty list writes an empty
    list of the feature's kind. There are no nulls inside lists. Slices are allowed.
    """

    key: str
    array: pa.Array


@dataclass(frozen=True, slots=True)
class Encoded:
    """Framed records, back to back.

    data: bytes-like. ends: int64, for each record the offset just past its last byte, so that
    record i is `data[ends[i-1]:ends[i]]`.
    """

    data: pa.Buffer | bytes | memoryview
    ends: np.ndarray


@dataclass(frozen=True, slots=True)
class Scan:
    """The records found in a buffer of framed records.

    ends: int64, offsets just past each intact record. damage: `""` where the buffer ends at a
    record's end, else what is wrong with the record that begins at `ends[-1]` (or 0):
    `length`, `length checksum`, `data checksum` or `truncated`.
    """

    ends: np.ndarray
    damage: str = ""


EXAMPLE_FACTS = np.dtype(
    [
        ("present", "<i8"),
        ("absent", "<i8"),
        ("repeated", "<i8"),
        ("kind_records", "<i8", 4),
        ("kind_first", "<i8", 4),
        ("fewest", "<i8"),
        ("most", "<i8"),
        ("values", "<i8"),
        ("low", "<i8"),
        ("high", "<i8"),
        ("bytes", "<i8"),
        ("payload", "<i8"),
    ]
)
"""What a run of records says of one feature. Records are numbers from 0, -1 where there is none.

present: records that have it. absent: the first Example without it. repeated: the first with its
key twice, of which the last counts. kind_records, kind_first: how many records hold it with no
kind at all, as bytes, float and int64, and the first of each. fewest, most: values in a record, of
those with a kind, -1 without any. values: all of them. low, high: least and greatest int64.
bytes: of its map entries on the wire, with their tags and lengths; payload: of its values alone.
"""


@dataclass(frozen=True, slots=True)
class ExampleSurvey:
    """What a run of records holds, taken as `tf.train.Example` messages.

    keys: of their features, as they first appear. facts: EXAMPLE_FACTS of each. invalid: int64,
    the records that are no Example. sequences: how many have the second field of a
    SequenceExample, which is skipped, and `sequence` the first of them or -1.
    """

    keys: list[bytes]
    facts: np.ndarray
    invalid: np.ndarray
    sequences: int = 0
    sequence: int = -1


FILE_FACTS = np.dtype([("size", "<i8"), ("mtime_ns", "<i8"), ("crc32c", "<u4"), ("error", "<i4")])
"""What reading a file told.

size, mtime_ns: of the open file. crc32c: of the bytes read. error: 0, or the system's number of the
error, or -1 where the file does not have as many bytes as were asked for.
"""

OTHER_SIZE = -1


@dataclass(frozen=True, slots=True)
class FilesRead:
    """Bytes of several files, back to back.

    ends: int64, for each file the offset just past its bytes in `data`; where a file could not be
    read, what lies there means nothing. facts: FILE_FACTS of each.
    """

    data: pa.Buffer
    ends: np.ndarray
    facts: np.ndarray


@dataclass(frozen=True, slots=True)
class Wanted:
    """A feature that is to be decoded.

    kind: `int64`, `float` or `bytes`. is_list: whether a record may have any number of values of
    it; else it has one.
    """

    key: bytes
    kind: str
    is_list: bool = False


DECODE_FAULTS = np.dtype(
    [
        ("kind_records", "<i8"),
        ("kind_first", "<i8"),
        ("kind_found", "<i8"),
        ("count_records", "<i8"),
        ("count_first", "<i8"),
        ("count_found", "<i8"),
    ]
)
"""The records whose values of one feature are not as wanted: how many, the first of them or -1,
and what it has, or -1. kind: of another kind (1 bytes, 2 float, 3 int64). count: not one value,
where one is wanted.
"""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The values of the wanted features, in a run of records.

    columns: for each, in their order, an array with a place for each record: int64, float32, binary
    or a list of one of these. Null where a record has no value: the key is not there, has no kind,
    has a fault, or the record is no Example. faults: DECODE_FAULTS of each. unknown: the other
    keys, sorted, with the first record that has each. invalid, sequences, sequence: as in
    `ExampleSurvey`, but what is within features that are not wanted is not looked at.
    """

    columns: tuple[pa.Array, ...]
    faults: np.ndarray
    unknown: list[tuple[bytes, int]]
    invalid: np.ndarray
    sequences: int = 0
    sequence: int = -1


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The bytes that give CSV its structure: one ASCII byte each, or None.

    escape: inside and outside quotes, takes the next byte's meaning away.
    single: whether rows have one column, so that a blank line is a row with a missing value.
    """

    delimiter: bytes = b","
    quote: bytes | None = b'"'
    escape: bytes | None = None
    single: bool = False


@dataclass(frozen=True, slots=True)
class CsvRows:
    """The rows found in a buffer that begins at a row's start.

    starts, ends: int64, offsets of each complete row, its line end left out. lines: int64, the
    line within the buffer (from 0) on which it starts. Blank lines are not rows, unless the
    dialect is `single`. stray: int64, the rows that hold a quote inside a quoted field which is
    neither doubled nor before a delimiter or line end. quoted: whether any row has a quote.
    blank: how many blank lines were skipped.
    consumed: offset where the first incomplete row begins, and `consumed_lines` its line.
    open_quote: offset of the quote that opened a field which the buffer does not close, or -1.
    """

    starts: np.ndarray
    ends: np.ndarray
    lines: np.ndarray
    stray: np.ndarray
    quoted: bool
    consumed: int
    consumed_lines: int
    open_quote: int = -1
    blank: int = 0
