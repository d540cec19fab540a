"""One pass over a CSV file: where its rows lie, and what its columns hold."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tfrec_cli.errors import SourceError
from tfrec_cli.schema.grammar import Cell, KindFacts, classify
from tfrec_cli.sources.base import Fingerprint, Needs, Partition
from tfrec_cli.sources.csv_cells import read_cells
from tfrec_cli.sources.csv_layout import Layout, find_layout
from tfrec_cli.sources.csv_options import CsvOptions
from tfrec_cli.sources.csv_stream import Block, Content, read_blocks
from tfrec_cli.sources.files import display

# A cell's position in the facts of a whole source: the file's number times this, plus the line.
_FILE = 2**44
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
    """What is known of one file after its scan. `facts` are empty where nobody asked for types."""

    layout: Layout
    partitions: tuple[Partition, ...]
    fingerprint: Fingerprint
    blank: int
    facts: Facts


@dataclass(slots=True)
class _Scan:
    """What the blocks of one file have told so far."""

    parts: list[Partition] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    blank: int = 0
    sound: bool = True
    facts: dict[str, KindFacts] = field(default_factory=dict)

    def add(self, block: Block, layout: Layout) -> None:
        count, sound = len(block.rows.starts), not len(block.rows.stray)
        if count:
            detail = CsvPart(layout, block.offset, block.line, sound)
            part = Partition(layout.path, self.rows, count, len(block.data), detail)
            if layout.framing.seekable:
                self.parts.append(part)
        self.rows += count
        self.size += len(block.data)
        self.blank += block.rows.blank
        self.sound &= sound

    def learn(self, facts: Facts) -> None:
        for name, later in facts.items():
            self.facts[name] = self.facts.get(name, KindFacts()).merge(later, 0)


def survey_files(paths: Sequence[str], options: CsvOptions, needs: Needs) -> Iterator[FileSurvey]:
    """Survey each file, several at a time; yields in the order of `paths`.

    Raises SourceError for the first of them that cannot be read.
    """
    if needs.jobs == 1:
        for number, path in enumerate(paths):
            yield _Surveyor(options, needs, None).survey(path, number)
        return
    with ThreadPoolExecutor(needs.jobs) as cells, ThreadPoolExecutor(needs.jobs) as scans:
        surveyor = _Surveyor(options, needs, cells)
        futures = [scans.submit(surveyor.survey, path, n) for n, path in enumerate(paths)]
        try:
            for future in futures:
                yield future.result()
        finally:
            surveyor.stop.set()
            scans.shutdown(cancel_futures=True)


class _Surveyor:
    """Surveys files; `cells` is where their blocks are divided and classified."""

    def __init__(self, options: CsvOptions, needs: Needs, cells: ThreadPoolExecutor | None) -> None:
        self._options, self._needs, self._cells = options, needs, cells
        self.stop = threading.Event()

    def survey(self, path: str, number: int) -> FileSurvey:
        """Scan the file at `path`, which is the source's file `number`."""
        layout = find_layout(path, self._options)
        lean = replace(layout, notices=())
        scan, learning = _Scan(), deque[Future[Facts]]()
        with Content(path, layout.framing) as content:
            content.skip(layout.start)
            for block in read_blocks(
                content, layout.dialect, self._options.block, layout.start, layout.line
            ):
                if self.stop.is_set():
                    break
                scan.add(block, lean)
                self._classify(block, lean, number, scan, learning)
            found = content.fingerprint()
        while learning:
            scan.learn(learning.popleft().result())
        if not scan.rows:
            raise _header_only(layout)
        parts = scan.parts or [_whole(lean, scan)]
        return FileSurvey(layout, tuple(parts), found, scan.blank, scan.facts)

    def _classify(
        self,
        block: Block,
        layout: Layout,
        number: int,
        scan: _Scan,
        learning: deque[Future[Facts]],
    ) -> None:
        """Learn what the block holds, now or in a thread; few blocks are in memory at a time."""
        if not self._needs.types or not len(block.rows.starts):
            return
        if self._cells is None:
            scan.learn(_facts(block, layout, self._options, number))
            return
        learning.append(self._cells.submit(_facts, block, layout, self._options, number))
        if len(learning) > self._needs.jobs:
            scan.learn(learning.popleft().result())


def place(facts: KindFacts, paths: Sequence[str]) -> str:
    """File and line of the cell that keeps a column from a narrower kind: `b.csv line 2`."""
    if facts.odd is None:
        return ""
    number, line = divmod(facts.odd.position, _FILE)
    return f"{display(paths[number])} line {line}"


def _facts(block: Block, layout: Layout, options: CsvOptions, number: int) -> dict[str, KindFacts]:
    """What the columns hold, broken rows left out; a cell's position tells file and line."""
    rows = block.rows if len(block.rows.stray) else len(block.rows.starts)
    quoted_empty = options.quoted_empty == "text"
    table = read_cells(block.data, rows, layout, layout.names, quoted_empty)
    lines = block.rows.lines + (block.line + number * _FILE)
    columns = table.columns
    broken = [fault.row for fault in table.faults if fault.column is None]
    if broken:
        sound = np.delete(np.arange(len(lines)), broken)
        lines, columns = lines[sound], tuple(c.take(pa.array(sound)) for c in columns)
    return {
        name: _placed(classify(column, options.rules), lines)
        for name, column in zip(layout.names, columns, strict=True)
    }


def _placed(facts: KindFacts, lines: np.ndarray) -> KindFacts:
    firsts = {m: Cell(int(lines[c.position]), c.text) for m, c in facts.firsts.items()}
    return KindFacts(facts.counts, firsts)


def _whole(layout: Layout, scan: _Scan) -> Partition:
    """The one partition of a file in which offsets cannot be looked up."""
    detail = CsvPart(layout, layout.start, layout.line, scan.sound)
    return Partition(layout.path, 0, scan.rows, scan.size, detail)


def _header_only(layout: Layout) -> SourceError:
    return SourceError(
        f"{display(layout.path)}, line {max(1, layout.line - 1)}: found a header and no row below, "
        "expected at least one. Leave the file out, or give -O header=false if line 1 is data."
    )
