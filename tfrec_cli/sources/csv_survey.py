"""One pass over a CSV file: where its rows lie, and what its columns hold."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tfrec_cli.buffers import from_numpy
from tfrec_cli.errors import Location, Reject, SourceError
from tfrec_cli.schema.grammar import Cell, KindFacts, Meaning, classify
from tfrec_cli.sources.base import Fault, Fingerprint, Needs, Partition
from tfrec_cli.sources.csv_cells import broken_hint, read_cells
from tfrec_cli.sources.csv_layout import Layout, find_layout
from tfrec_cli.sources.csv_options import CsvOptions
from tfrec_cli.sources.csv_stream import Block, Content, read_blocks, status
from tfrec_cli.sources.files import display

# A cell's position in the facts of a whole source: the file's number times this, plus the line.
_FILE = 2**44
_SHOWN = 2**12
# So many cells at the head of a column tell whether it is text; twice what `_is_text` asks for.
_HEAD = 2000
Facts = Mapping[str, KindFacts]


@dataclass(frozen=True, slots=True)
class CsvPart:
    """What reading a partition takes, beside its size and rows.

    offset, line: where in the file's text it begins. sound: whether no row has a stray quote.
    """

    layout: Layout
    offset: int
    line: int
    sound: bool


@dataclass(frozen=True, slots=True)
class FileSurvey:
    """What is known of one file after its scan.

    blank: blank lines passed over; empty: those that are rows, in a file of one column.
    facts, broken: what the columns hold, and the first row that could not be told apart into
    cells; empty and None where nobody asked for types.
    """

    layout: Layout
    partitions: tuple[Partition, ...]
    fingerprint: Fingerprint
    blank: int
    empty: int
    facts: Facts
    broken: Reject | None


@dataclass(frozen=True, slots=True)
class _Learned:
    """What the cells of one block have told; the first broken row, if any."""

    facts: Facts
    broken: Reject | None


@dataclass(slots=True)
class _Scan:
    """What the blocks of one file have told so far."""

    parts: list[Partition] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    first: float | None = None
    blank: int = 0
    empty: int = 0
    sound: bool = True
    facts: dict[str, KindFacts] = field(default_factory=dict)
    broken: Reject | None = None

    def add(self, block: Block, layout: Layout) -> None:
        count, sound = len(block.rows.starts), not len(block.rows.stray)
        if count:
            self.first = self.first or len(block.data) / count
            detail = CsvPart(layout, block.offset, block.line, sound)
            part = Partition(layout.path, self.rows, count, len(block.data), detail)
            if layout.framing.seekable:
                self.parts.append(part)
        self.rows += count
        self.size += len(block.data)
        self.blank += block.rows.blank
        if layout.dialect.single:
            self.empty += int((block.rows.starts == block.rows.ends).sum())
        self.sound &= sound

    def learn(self, learned: _Learned) -> None:
        for name, later in learned.facts.items():
            self.facts[name] = self.facts.get(name, KindFacts()).merge(later, 0)
        self.broken = self.broken or learned.broken


def survey_files(paths: Sequence[str], options: CsvOptions, needs: Needs) -> Iterator[FileSurvey]:
    """Survey each file, several at a time; yields in the order of `paths`.

    Raises SourceError for the first of them that cannot be read.
    """
    if needs.jobs == 1:
        for number, path in enumerate(paths):
            yield _Surveyor(options, needs, None).survey(path, number)
        return
    with ThreadPoolExecutor(needs.jobs) as helpers, ThreadPoolExecutor(needs.jobs) as scans:
        surveyor = _Surveyor(options, needs, helpers)
        futures = [scans.submit(surveyor.survey, path, n) for n, path in enumerate(paths)]
        try:
            for future in futures:
                yield future.result()
        finally:
            surveyor.stop.set()
            scans.shutdown(cancel_futures=True)


class _Surveyor:
    """Surveys files; `helpers` divide and classify blocks beside the thread that scans a file.

    Whoever works on a block, a scan or a helper, holds one of as many permits as there are jobs.
    So there are no more blocks in memory than jobs, however many files are scanned at once.
    """

    def __init__(
        self, options: CsvOptions, needs: Needs, helpers: ThreadPoolExecutor | None
    ) -> None:
        self._options, self._needs, self._helpers = options, needs, helpers
        self._permits = threading.Semaphore(needs.jobs)
        self.stop = threading.Event()

    def survey(self, path: str, number: int) -> FileSurvey:
        """Scan the file at `path`, which is the source's file `number`."""
        with self._permits:
            return self._survey(path, number)

    def _survey(self, path: str, number: int) -> FileSurvey:
        options = self._options
        before = status(path)
        layout = find_layout(path, options)
        lean = replace(layout, notices=())
        scan, learner = _Scan(), _Learner(lean, options, number)
        learning: deque[Future[_Learned]] = deque()
        with Content(path, layout.framing) as content:
            content.skip(layout.start)
            start, size = (layout.start, layout.line), options.block_of(layout.width)
            for block in read_blocks(content, layout.dialect, size, *start):
                if self.stop.is_set():
                    break
                scan.add(block, lean)
                if self._needs.types and len(block.rows.starts):
                    self._learn(block, learner, scan, learning)
                del block  # the next one takes its place
            found = content.fingerprint(before)
        while learning:
            scan.learn(learning.popleft().result())
        if not scan.rows:
            raise _header_only(layout)
        parts = scan.parts or [_whole(lean, scan)]
        return FileSurvey(
            layout, tuple(parts), found, scan.blank, scan.empty, scan.facts, scan.broken
        )

    def _learn(
        self, block: Block, learner: _Learner, scan: _Scan, learning: deque[Future[_Learned]]
    ) -> None:
        """Learn what the block holds, in a helper if one is free, else here."""
        if not scan.facts:
            scan.learn(learner.learn(block))
            learner.texts = frozenset(name for name, f in scan.facts.items() if _is_text(f))
        elif self._helpers is not None and self._permits.acquire(blocking=False):
            learning.append(self._helpers.submit(self._help, learner, block))
        else:
            here: Future[_Learned] = Future()
            here.set_result(learner.learn(block))
            learning.append(here)
        while learning and learning[0].done():
            scan.learn(learning.popleft().result())

    def _help(self, learner: _Learner, block: Block) -> _Learned:
        try:
            return learner.learn(block)
        finally:
            self._permits.release()


@dataclass(slots=True)
class _Learner:
    """Classifies the cells of one file, the source's file `number`.

    texts: columns that are text by their first cells, None before the first block. The rest of
    such a column can change nothing but the count of its nulls, so its cells are not looked at.
    """

    layout: Layout
    options: CsvOptions
    number: int
    texts: frozenset[str] | None = None

    def learn(self, block: Block) -> _Learned:
        """What the columns hold, broken rows left out; a cell's position tells file and line."""
        rows = block.rows if len(block.rows.stray) else len(block.rows.starts)
        quoted_empty = self.options.quoted_empty == "text"
        table = read_cells(block.data, rows, self.layout, self.layout.names, quoted_empty)
        lines = block.rows.lines + (block.line + self.number * _FILE)
        columns = table.columns
        broken = [fault for fault in table.faults if fault.column is None]
        if broken:
            sound = np.delete(np.arange(len(lines)), [fault.row for fault in broken])
            lines, columns = lines[sound], tuple(c.take(from_numpy(sound)) for c in columns)
        named = zip(self.layout.names, columns, strict=True)
        facts = {name: self._column(name, cells, lines) for name, cells in named}
        return _Learned(facts, self._reject(block, broken[0]) if broken else None)

    def _reject(self, block: Block, fault: Fault) -> Reject:
        """The broken row as an error names it."""
        where = Location(self.layout.path, None, block.line + int(block.rows.lines[fault.row]))
        start, end = int(block.rows.starts[fault.row]), int(block.rows.ends[fault.row])
        hint = broken_hint(block.data[start : min(end, start + _SHOWN)], fault, self.layout)
        return Reject(where, None, None, fault.reason, hint)

    def _column(self, name: str, cells: pa.Array, lines: np.ndarray) -> KindFacts:
        few = self.texts is None and len(cells) <= _HEAD
        if few or self.options.null_words is not None:
            return self._classified(cells, lines)
        if self.texts is None:
            head = self._classified(cells[:_HEAD], lines)
            return head.merge(self._rest(_is_text(head), cells[_HEAD:], lines[_HEAD:]), 0)
        return self._rest(name in self.texts, cells, lines)

    def _rest(self, is_text: bool, cells: pa.Array, lines: np.ndarray) -> KindFacts:
        if not is_text:
            return self._classified(cells, lines)
        counts = [0] * len(Meaning)
        counts[Meaning.NULL] = cells.null_count
        counts[Meaning.TEXT] = len(cells) - cells.null_count
        return KindFacts(tuple(counts))

    def _classified(self, cells: pa.Array, lines: np.ndarray) -> KindFacts:
        facts = classify(cells, self.options.rules)
        firsts = {m: Cell(int(lines[c.position]), c.text) for m, c in facts.firsts.items()}
        return KindFacts(facts.counts, firsts)


def _is_text(facts: KindFacts, enough: int = 1000) -> bool:
    """Whether a column's first cells leave no doubt: they are texts alone, or numbers too, so that
    the first text is what keeps the column from being one of numbers, whatever follows.
    """
    texts = facts.counts[Meaning.TEXT]
    numbers = sum(facts.counts[m] for m in (Meaning.INTEGER, Meaning.FLOAT, Meaning.SPECIAL))
    alone = texts + facts.counts[Meaning.NULL] == facts.cells
    return texts >= enough and (alone or numbers > 0)


def place(facts: KindFacts, paths: Sequence[str]) -> str:
    """File and line of the cell that keeps a column from a narrower kind: `b.csv line 2`."""
    if facts.odd is None:
        return ""
    number, line = divmod(facts.odd.position, _FILE)
    return f"{display(paths[number])} line {line}"


def _whole(layout: Layout, scan: _Scan) -> Partition:
    """The one partition of a file in which offsets cannot be looked up."""
    detail = CsvPart(layout, layout.start, layout.line, scan.sound)
    return Partition(layout.path, 0, scan.rows, scan.size, detail, first=scan.first)


def _header_only(layout: Layout) -> SourceError:
    return SourceError(
        f"{display(layout.path)}, line {layout.header}: found a header and no row below, "
        "expected at least one. Leave the file out, or give -O header=false if it is data."
    )
