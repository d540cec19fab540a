"""The adapter protocol: what a source gives to the rest of tfrec.

A source turns its inputs into Arrow record batches and knows nothing of TFRecord (but for the one
that reads TFRecord files, whose `Survey.records` says so). It is a class
with an options model and two methods; an instance, its partitions and its surveys are picklable.
Installed sources are found through the entry point group `tfrec_cli.sources`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import pyarrow as pa
from pydantic import BaseModel

from tfrec_cli.errors import Fault as Fault
from tfrec_cli.errors import Location
from tfrec_cli.schema.binding import BoundFeature
from tfrec_cli.schema.grammar import TextRules


@dataclass(frozen=True, slots=True)
class Needs:
    """What a run wants to learn from a survey.

    types: settle what text columns hold, over all rows of all files (`Column.kind`, `nulls`).
    temp_dir: where streams may be spooled; None is the system's.
    jobs: how many threads the survey may use.
    skips: whether rows that the schema of the run cannot take are left out.
    """

    types: bool = True
    temp_dir: str | None = None
    jobs: int = 1
    skips: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a source, the same for all its files.

    type: the Arrow type that `read` yields for it.
    nulls: whether any row lacks a value; None where nobody looked.
    text: set where cells are text whose meaning the grammar decides (CSV).
    kind: with `text` and `Needs.types`: what all cells are, `int64`, `float`, `bytes`, or `null`
        where no row has a value.
    reason: why `kind` is not narrower, where that is not obvious; names file, line and value.
    absent: the files that lack this column (`read` yields nulls for them).
    """

    name: str
    type: pa.DataType
    nulls: bool | None = None
    text: TextRules | None = None
    kind: str | None = None
    reason: str = ""
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelHint:
    """An integer label that an inferred schema should hold: `feature` numbers `column` by `names`,
    the first of which has the number `first`.
    """

    feature: str
    column: str
    names: tuple[str, ...]
    first: int = 0


@dataclass(frozen=True, slots=True)
class Partition:
    """What one task reads: a run of rows of one file (or of one folder of small files).

    first_row: number of its first row within `file`, from 0.
    size: bytes of source behind it (uncompressed where known), for estimates.
    split: the split that all its rows belong to, where the source's layout says so.
    detail: whatever the source needs to read it.
    files: the file of each row, as in `Origin.files`, where a row is a file of its own.
    sizes: for estimates, of columns that hold long texts or lists, where it is known: the bytes of
        all texts, or eight for each value of the lists.
    first: for estimates, the bytes of source behind a row of its first batch, where that is known.
    """

    file: str
    first_row: int
    rows: int
    size: int
    detail: Any = None
    split: str | None = None
    files: tuple[str, ...] | None = None
    sizes: Mapping[str, int] | None = None
    first: float | None = None


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a source file looked like: size in bytes, mtime in ns, crc32c of its content if read.

    state: its inode, when the system last changed anything of it, in ns, which unlike the mtime
    nobody can set back, and its number of links, mode, user and group; empty where nobody looked.
    """

    path: str
    size: int
    mtime_ns: int
    crc32c: int | None = None
    state: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WholeRecords:
    """Records that a source holds ready-made: a run without a schema writes them as they are.

    column: the name by which `read` gives them, framed, as large_binary; no column of the survey is
    called so. features: what is known of them, each read as the column of its key. sure: whether
    all records are Examples of just these. arrow: for features that were made of a typed column,
    its Arrow type, as schemas spell it; empty where the type of the feature says it. refused: why a
    schema cannot make features of them, without the full stop; empty where it can. as_they_stand:
    what a run without a schema should tell of that; empty for nothing.
    """

    column: str
    features: tuple[BoundFeature, ...] = ()
    sure: bool = True
    arrow: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""
    as_they_stand: str = ""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a source holds.

    partitions: in source order; together they are the whole source.
    notices: lines for the summary (what was detected, skipped, odd).
    options: the source options as found or asked, to be saved in the schema so that a later
        run with it reads the same way.
    records: where the source holds whole records. Its splits then give way to those asked for.
    """

    columns: tuple[Column, ...]
    partitions: tuple[Partition, ...]
    fingerprints: tuple[Fingerprint, ...] = ()
    notices: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[LabelHint, ...] = ()
    records: WholeRecords | None = None

    @property
    def rows(self) -> int:
        """All rows of all partitions."""
        return sum(p.rows for p in self.partitions)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the rows of a batch came from.

    first_row: number of the batch's first row within `file`, from 0.
    lines: called only for error messages; gives the line (from 1) of each row of the batch.
    files: the file of each row, where a row is a file of its own (images).
    place: where a row is made of several places: gives that of a value, from the row, its column
        and the value as text; before all the others.
    """

    file: str
    first_row: int
    lines: Callable[[], Sequence[int]] | None = None
    files: Sequence[str] | None = None
    place: Callable[[int, str | None, str | None], Location] | None = None

    def after(self, rows: int) -> Origin:
        """The origin of the batch without its first `rows` rows."""
        if not rows:
            return self
        lines, place = self.lines, self.place
        return Origin(
            self.file,
            self.first_row + rows,
            None if lines is None else lambda: lines()[rows:],
            None if self.files is None else self.files[rows:],
            None if place is None else lambda row, *cell: place(row + rows, *cell),
        )

    def locate(self, row: int, column: str | None = None, value: str | None = None) -> Location:
        """The place of the batch's row `row`, counted from 0; of `value` in `column`, if given."""
        if self.place is not None:
            return self.place(row, column, value)
        if self.files is not None:
            return Location(self.files[row])
        line = None if self.lines is None else int(self.lines()[row])
        return Location(self.file, self.first_row + row, line)


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Rows of one partition: the columns asked for, in that order, with the surveyed types.

    fingerprints: files that were read whole for these rows, with their checksums, so that nobody
    need read them again for that.
    """

    data: pa.RecordBatch
    origin: Origin
    faults: tuple[Fault, ...] = ()
    fingerprints: tuple[Fingerprint, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """What a source finds without reading it: the paths of the files that a survey would name, in
    that order, and the labels.
    """

    paths: tuple[str, ...]
    labels: tuple[LabelHint, ...] = ()


class Source(Protocol):
    """What an adapter implements.

    It may also have `files(temp_dir) -> Listing`, by which it is soon told whether a dataset is up
    to date; without it a survey is made for that.

    name: how `--source` calls it. suffixes: file endings it takes, lower case, with the dot.
    Options: a pydantic model; each field has a description and a default.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    Options: ClassVar[type[BaseModel]]

    def __init__(self, inputs: Sequence[Any], options: BaseModel) -> None:
        """`inputs` as the user gave them: paths, globs, folders, `-`, or tables. Opens nothing."""

    def survey(self, needs: Needs) -> Survey:
        """Find out what is there. Raises SourceError where it cannot be read at all."""

    def read(self, partition: Partition, columns: Sequence[str]) -> Iterator[SourceBatch]:
        """The rows of `partition`, in order, in batches bounded in bytes; exactly
        `partition.rows` rows together, faulty ones included.
        """
