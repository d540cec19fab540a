"""How many records each piece and each split gets, found by reading the rows.

That is needed where rows in error are left out, or columns decide on split, order or identity. In
the latter case only those columns are read.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfrec_cli.arrangement import Arrangement
from tfrec_cli.buffers import from_numpy
from tfrec_cli.checks import Checks, SplitCount, by_folder
from tfrec_cli.engines.base import Engine
from tfrec_cli.engines.threads import ordered_map
from tfrec_cli.errors import CellError, Location, Reject, SourceError, UsageError, shorten
from tfrec_cli.options import ConvertOptions
from tfrec_cli.placing import examine
from tfrec_cli.progress import Reporter
from tfrec_cli.schema.labels import sort_labels
from tfrec_cli.shuffle.identity import Identity
from tfrec_cli.shuffle.keys import Keys
from tfrec_cli.sources.base import Origin, SourceBatch
from tfrec_cli.splitting.asked import MOST_SPLITS, alike
from tfrec_cli.splitting.quota import HashFile, repeated, shares, thresholds
from tfrec_cli.splitting.splitter import Splitter
from tfrec_cli.tasks import Piece, Work, read_piece, readers

MOST_CLASSES = 100_000
# Sort keys taken from all rows, at the same distance, to cut the range of keys evenly.
SAMPLED_KEYS = 2**15
LONGEST_KEY = 256
_ROWS_AT_ONCE = 2**18
# Bytes that may be sent with each piece to other processes; long lists of files are more.
MOST_SENT = 2**20


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one piece holds: records, rejects, records of each split, and what exact splits, unique
    keys and sorts must know of its rows.
    """

    records: int
    rejects: tuple[Reject, ...]
    counts: tuple[int, ...] = ()
    values: tuple[str | None, ...] = ()
    codes: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))
    hashes: Keys = field(default_factory=lambda: np.zeros(0, np.uint64))
    digests: Keys = field(default_factory=lambda: np.zeros(0, np.uint64))
    sample: tuple[bytes, ...] = ()


def scan(
    work: Work,
    pieces: tuple[Piece, ...],
    options: ConvertOptions,
    reporter: Reporter,
    arrangement: Arrangement,
    engine: Engine | None = None,
) -> Checks:
    """How many records each piece of the source and each split will give, from its rows.

    engine: what reads the rows; None is threads. Raises CellError for the first row without a
    record or split, SourceError for two rows of the same identity, UsageError where there are too
    many splits or classes.
    """
    scanner = _Scanner(work, arrangement, _step(pieces))
    reporter.stage("check", sum(piece.rows for piece in pieces))
    with ExitStack() as files:
        memory = max(1, options.memory // 4)
        hashes = files.enter_context(HashFile(memory, options.temp_dir))
        digests = files.enter_context(HashFile(memory, options.temp_dir))
        found = _Gathered(hashes, digests)
        jobs = readers(pieces, options.jobs, options.memory)
        scanned = _scanned(scanner, pieces, jobs, engine)
        # Ended on an error too: no task goes on for nothing.
        with closing(cast("Generator[Scanned, None, None]", scanned)) as results:
            for result in results:
                found.add(result)
                reporter.advance(result.records + len(result.rejects), 0)
        if arrangement.keys:
            _refuse_repeated(scanner, pieces, repeated(digests, memory), options.jobs)
        return _settled(scanner, pieces, found)


def _step(pieces: Sequence[Piece]) -> int:
    return 1 + sum(piece.rows for piece in pieces) // SAMPLED_KEYS


@dataclass(frozen=True, slots=True)
class _Scanner:
    """Looks at pieces. step: the distance of the rows whose sort keys are sampled."""

    work: Work
    arrangement: Arrangement
    step: int

    @property
    def looking(self) -> Work:
        """The work with the columns that must be read."""
        if self.work.skips:
            return self.work
        return replace(self.work, features=(), columns=self.arrangement.columns)

    def __call__(self, piece: Piece) -> Scanned:
        """What the piece holds. Raises CellError for its first row in error, unless skipped."""
        parts = [self._part(piece, start, batch) for start, batch in self._batches(piece)]
        return _together(parts)

    def _batches(self, piece: Piece) -> Iterator[tuple[int, SourceBatch]]:
        """The batches of a piece with the columns to look at, and the number of their first row."""
        start = piece.start
        batches = read_piece(self.looking, piece) if self._reads else _numbered(piece)
        for batch in batches:
            yield start, batch
            start += batch.data.num_rows

    @property
    def _reads(self) -> bool:
        return self.work.skips or bool(self.arrangement.columns)

    def _part(self, piece: Piece, start: int, batch: SourceBatch) -> Scanned:
        splitter, order = self.arrangement.splitter, self.arrangement.order
        looking = self.looking
        seen = examine(looking, batch, piece.partition.split, start)
        kept, measured = seen.kept, seen.measured
        part = Scanned(len(kept), seen.rejects(batch))
        if measured is not None:
            codes, hashes = measured.codes[kept], measured.hashes[kept]
            part = replace(part, values=measured.values, codes=codes, hashes=hashes)
        elif splitter is not None:
            counts = np.bincount(seen.splits[kept], minlength=len(splitter.names))
            part = replace(part, counts=tuple(counts.tolist()))
        if self.arrangement.keys:
            by_keys = Identity(self.arrangement.keys)
            part = replace(part, digests=by_keys.digests(batch, looking.columns)[0][kept])
        if order is not None and order.kind == "sort" and seen.keys is not None:
            keys = seen.keys.take(from_numpy(kept[(start + kept) % self.step == 0]))
            part = replace(part, sample=tuple(key[:LONGEST_KEY] for key in keys.to_pylist()))
        return part


def _numbered(piece: Piece) -> Iterator[SourceBatch]:
    """Batches without columns, for what depends on the number of a row alone."""
    partition = piece.partition
    for first in range(0, piece.rows, _ROWS_AT_ONCE):
        rows = min(_ROWS_AT_ONCE, piece.rows - first)
        empty = pa.RecordBatch.from_struct_array(
            pa.StructArray.from_buffers(pa.struct([]), rows, [None])
        )
        files = partition.files and partition.files[first : first + rows]
        yield SourceBatch(empty, Origin(partition.file, partition.first_row + first, files=files))


def _together(parts: Sequence[Scanned]) -> Scanned:
    """The parts of a piece as one."""
    places: dict[str | None, int] = {}
    codes = []
    for part in parts:
        moved = np.array([places.setdefault(v, len(places)) for v in part.values], np.uint32)
        codes.append(moved[part.codes] if len(part.codes) else part.codes)
    counts = [part.counts for part in parts if part.counts]
    return Scanned(
        records=sum(part.records for part in parts),
        rejects=tuple(reject for part in parts for reject in part.rejects),
        counts=tuple(map(sum, zip(*counts, strict=True))),
        values=tuple(places),
        codes=_joined([*codes, np.zeros(0, np.uint32)]),
        hashes=_joined([*(part.hashes for part in parts), np.zeros(0, np.uint64)]),
        digests=_joined([*(part.digests for part in parts), np.zeros(0, np.uint64)]),
        sample=tuple(key for part in parts for key in part.sample),
    )


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(arrays)


def _scanned(
    scanner: _Scanner, pieces: Sequence[Piece], jobs: int, engine: Engine | None
) -> Iterator[Scanned]:
    try:
        if engine is not None and engine.remote and len(pickle.dumps(scanner)) <= MOST_SENT:
            yield from engine.map(scanner, pieces)
        else:
            yield from ordered_map(scanner, pieces, jobs)
    except CellError:
        # Columns that were not read may hold an error that comes before.
        for _ in ordered_map(partial(_all_columns, scanner.work), pieces, jobs):
            pass
        raise


def _all_columns(work: Work, piece: Piece) -> None:
    """Raise CellError for the first row of a piece that cannot become a record."""
    start = piece.start
    for batch in read_piece(work, piece):
        examine(work, batch, piece.partition.split, start)
        start += batch.data.num_rows


class _Gathered:
    """What all pieces hold together."""

    def __init__(self, hashes: HashFile, digests: HashFile) -> None:
        self.hashes, self.digests = hashes, digests
        self.records: list[int] = []
        self.rejects: list[Reject] = []
        self.counts = np.zeros(0, np.int64)
        self.classes: dict[str | None, int] = {}
        self.totals = np.zeros(0, np.int64)
        self.sample: list[bytes] = []

    def add(self, part: Scanned) -> None:
        """Take the next piece."""
        self.records.append(part.records)
        self.rejects += part.rejects
        if part.counts:
            counts = np.array(part.counts, np.int64)
            self.counts = counts + self.counts if len(self.counts) else counts
        self._add_codes(part)
        if len(part.digests):
            self.digests.add(np.zeros(len(part.digests), np.uint32), part.digests)
        self.sample += part.sample

    def _add_codes(self, part: Scanned) -> None:
        if not len(part.codes):
            return
        used = np.bincount(part.codes, minlength=len(part.values))
        # A value that only rejected rows have is no class.
        codes = np.zeros(len(part.values), np.uint32)
        for place in np.flatnonzero(used):
            codes[place] = self.classes.setdefault(part.values[place], len(self.classes))
        if len(self.classes) > MOST_CLASSES:
            raise UsageError(
                f"the column has more than {MOST_CLASSES:,} different values. Name a column of "
                "classes or splits, not one of numbers or ids."
            )
        codes = codes[part.codes]
        grown = np.bincount(codes, minlength=len(self.classes))
        grown[: len(self.totals)] += self.totals
        self.totals = grown
        self.hashes.add(codes, part.hashes)


def _settled(scanner: _Scanner, pieces: tuple[Piece, ...], found: _Gathered) -> Checks:
    """The checks of a run whose pieces have all been looked at."""
    splitter, records = scanner.arrangement.splitter, tuple(found.records)
    splits: tuple[SplitCount, ...] = ()
    if splitter is not None and splitter.form in ("one", "folders"):
        splits = by_folder(splitter, pieces, records)
    elif splitter is not None and splitter.form == "column" and splitter.measures:
        splitter = replace(splitter, names=_split_names(splitter, list(found.classes)))
        totals = found.totals.tolist()
        splits = tuple(map(SplitCount, splitter.names, totals))
    elif splitter is not None and splitter.measures:
        splitter, splits = _exact(splitter, found)
    elif splitter is not None:
        counts = found.counts.tolist() or [0] * len(splitter.names)
        asked: Sequence[float | None] = tuple(map(float, splitter.shares)) or [None] * len(counts)
        splits = tuple(map(SplitCount, splitter.names, counts, asked))
    sample = tuple(sorted(found.sample)) if _sorts(scanner) else None
    return Checks(pieces, records, tuple(found.rejects), splits, splitter, sample)


def _sorts(scanner: _Scanner) -> bool:
    order = scanner.arrangement.order
    return order is not None and order.kind == "sort"


def _split_names(splitter: Splitter, values: list[str | None]) -> tuple[str, ...]:
    names = tuple(value for value in values if value is not None)
    if len(names) > MOST_SPLITS:
        assert splitter.column is not None
        raise UsageError(
            f"--split-column {splitter.column.name}: the column has more than {MOST_SPLITS} "
            f'different values ("{shorten(names[0])}", "{shorten(names[1])}", …), too many for '
            "split names. Name another column."
        )
    if twins := alike(names):
        assert splitter.column is not None
        raise UsageError(
            f'--split-column {splitter.column.name}: "{twins[0]}" and "{twins[1]}" differ in case '
            "only. Correct the cells, or say which names are meant, as in --split train,test."
        )
    return names


def _exact(splitter: Splitter, found: _Gathered) -> tuple[Splitter, tuple[SplitCount, ...]]:
    """The splitter with its thresholds, and what each split gets."""
    texts = sort_labels(name for name in found.classes if name is not None)
    names: list[str | None] = [*texts, *([None] if None in found.classes else [])]
    quotas: list[tuple[int, ...]] = [()] * len(names)
    for number, name in enumerate(names):
        code = found.classes[name]
        quotas[code] = shares(int(found.totals[code]), splitter.cumulative, number)
    begins = thresholds(found.hashes, quotas) if quotas else []
    known = {name: begins[code] for name, code in found.classes.items()}
    splits = []
    for place, (split, asked) in enumerate(zip(splitter.names, splitter.shares, strict=True)):
        records = sum(quota[place] for quota in quotas)
        classes = {name: quotas[found.classes[name]][place] for name in names}
        shown = classes if splitter.form == "classes" else None
        splits.append(SplitCount(split, records, float(asked), shown))
    return replace(splitter, thresholds=known), tuple(splits)


def _refuse_repeated(scanner: _Scanner, pieces: Sequence[Piece], suspects: Keys, jobs: int) -> None:
    """Raise SourceError where two rows have the same identity. suspects: digests seen twice."""
    if not len(suspects):
        return
    first: dict[tuple[str, ...], Location] = {}
    for rows in ordered_map(partial(_keys_among, scanner, suspects), pieces, jobs):
        for values, where in rows:
            if values in first:
                names = ", ".join(key.name for key in scanner.arrangement.keys)
                raise SourceError(
                    f'{where}, column {names}: "{shorten(", ".join(values))}" is there before, '
                    f"in {first[values]}, but --key needs a value of its own in every row. Remove "
                    "one of the rows, or name more columns."
                )
            first[values] = where


def _keys_among(
    scanner: _Scanner, suspects: Keys, piece: Piece
) -> list[tuple[tuple[str, ...], Location]]:
    """The key values, and the places, of the rows of a piece whose digests are suspect."""
    keys = scanner.arrangement.keys
    looking = scanner.looking
    found = []
    start = piece.start
    for batch in read_piece(looking, piece):
        kept = examine(looking, batch, piece.partition.split, start).kept
        digests = Identity(keys).digests(batch, looking.columns)[0]
        rows = kept[np.isin(digests[kept], suspects)]
        texts = [key.texts(batch, looking.columns).take(from_numpy(rows)) for key in keys]
        values = zip(*(text.to_pylist() for text in texts), strict=True)
        found += [(v, batch.origin.locate(int(row))) for v, row in zip(values, rows, strict=True)]
        start += batch.data.num_rows
    return found
