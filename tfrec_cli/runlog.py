"""Which rows are sorted already, so that an order that was killed need not sort them again.

Receipts (see `tfrec_cli.receipts`) of what lies in the folder of runs:

    runs         how keys are cut into segments, which must stay the same, and where the runs are:
                 {folder, counts, sample: the CRC32C of the keys}
    rows-A-B     of the rows from number A to before B: {runs: [[name, bytes, CRC32C], …], files}

Runs need not be on the disk itself before their receipt is left: what a power cut takes away is
found by the checksum, which is that of a run and its index.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tfrec_cli._kernel import crc32c
from tfrec_cli.engines.threads import ordered_map
from tfrec_cli.errors import DatasetError
from tfrec_cli.receipts import Receipts
from tfrec_cli.shardlog import are_unchanged, file_entries, fingerprints
from tfrec_cli.shuffle.merge import Sorted
from tfrec_cli.shuffle.segments import Segments
from tfrec_cli.shuffle.spills import is_run, leave_index, remove, run_at, run_content

_ALL = "runs"
"""The receipt that says what all runs have in common."""

_ROWS = re.compile(r"rows-(\d+)-(\d+)")


class RunLog:
    """The sorted runs in `folder`, as `receipts` have them; without receipts none are kept."""

    def __init__(self, receipts: Receipts, folder: str) -> None:
        self._receipts, self._folder = receipts, folder
        self._noted, self._begun = False, dict[str, Any]()
        self._all, self._key = range(0), pa.uint64()

    def begin(self, wanted: Segments, jobs: int) -> tuple[Segments, list[Sorted]]:
        """The segments of the run that is resumed, and the rows that it has sorted, in order;
        else those `wanted`, and none. What is in the folder otherwise is removed.
        """
        if self._receipts.folder is None:
            return wanted, []
        sample = crc32c(b"".join(b"%d:%b" % (len(key), key) for key in wanted.sample or ()))
        known = self._receipts.done(_ALL) or {}
        counts = tuple(known.get("counts", ()))
        place = os.path.abspath(self._folder)
        was, now = (known.get("sample"), known.get("folder"), len(counts)), (sample, place)
        if same := was == (*now, len(wanted.counts)):
            wanted = Segments(counts, wanted.sample)
        else:
            for task in self._tasks():
                self._receipts.drop(task)
        self._noted = same
        self._all = range(wanted.total)
        self._key = pa.uint64() if wanted.sample is None else pa.large_binary()
        self._begun = {"folder": place, "counts": wanted.counts, "sample": sample}
        found = list(self._find(jobs))
        kept = {os.path.basename(run.path) for each in found for run in each.runs}
        for name in os.listdir(self._folder):
            if name.startswith("run-") and name.removesuffix(".index") not in kept:
                os.unlink(os.path.join(self._folder, name))
        return wanted, found

    def note(self, found: Sorted) -> None:
        """Rows are sorted. Those held in memory are not noted: they go with the process.

        Raises DatasetError where a receipt or an index cannot be written.
        """
        if self._receipts.folder is None or not found.in_files:
            return
        if not self._noted:
            self._receipts.leave(_ALL, self._begun)
            self._noted = True
        for run in found.runs:
            leave_index(run)
        runs = [[os.path.basename(r.path), *run_content(r.path, r.crc)] for r in found.runs]
        files = file_entries(found.fingerprints)
        self._receipts.leave(_task(found), {"runs": runs, "files": files})

    def merged(self, new: Sorted, old: Sequence[Sorted]) -> None:
        """The runs of `old` were merged into that of `new`, and are removed."""
        self.note(new)
        for each in old:
            # Where the runs of one stretch of rows are made into one, its receipt is that of `new`.
            if _task(each) != _task(new):
                self._receipts.drop(_task(each))
            for run in each.runs:
                if run.path:
                    remove(run.path)

    def _tasks(self) -> list[str]:
        return [task for task in self._receipts.tasks() if _ROWS.fullmatch(task)]

    def _find(self, jobs: int) -> Iterator[Sorted]:
        """What can be relied on, in order. Rows whose runs were merged may also be there unmerged:
        the larger stretch comes first.
        """
        stop = 0
        tasks = sorted(self._tasks(), key=lambda task: (_rows(task)[0], -_rows(task)[1]))
        for task, found in zip(tasks, ordered_map(self._read, tasks, jobs), strict=True):
            if found is None or found.start < stop:
                self._receipts.drop(task)
            else:
                stop = found.stop
                yield found

    def _read(self, task: str) -> Sorted | None:
        """What a task has left; None where something is not as it was left."""
        receipt: Mapping[str, Any] = self._receipts.done(task) or {}
        start, stop = _rows(task)
        try:
            left = [(os.path.join(self._folder, name), *of) for name, *of in receipt["runs"]]
            if not all(is_run(path, size, crc) for path, size, crc in left):
                return None
            files = fingerprints(receipt["files"])
            runs = tuple(run_at(path, self._all, self._key) for path, *_ in left)
        except (KeyError, TypeError, ValueError, OSError, DatasetError):
            return None
        return Sorted(start, stop - start, runs, files) if are_unchanged(files) else None


def gaps(rows: range, done: Sequence[Sorted]) -> list[range]:
    """Those of the `rows` that are not done, as ranges in order. done: in order, apart."""
    found, start = [], rows.start
    first = max(0, bisect_right(done, rows.start, key=lambda each: each.start) - 1)
    for each in done[first:]:
        if each.start >= rows.stop:
            break
        if each.start > start:
            found.append(range(start, each.start))
        start = max(start, each.stop)
    if start < rows.stop:
        found.append(range(start, rows.stop))
    return found


def runs_folder(receipts: Receipts) -> str | None:
    """Where the runs are that these receipts tell of."""
    folder = (receipts.done(_ALL) or {}).get("folder")
    return folder if isinstance(folder, str) else None


def _task(found: Sorted) -> str:
    return f"rows-{found.start:015d}-{found.stop:015d}"


def _rows(task: str) -> tuple[int, int]:
    match = _ROWS.fullmatch(task)
    assert match is not None
    return int(match[1]), int(match[2])
