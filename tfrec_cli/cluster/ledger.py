"""Which sorted runs of an order are done, so that a run that was killed need not sort them again.

Receipts (see `tfrec_cli.receipts`) of what lies in the folder of runs:

    layout       how the run was cut into tasks, which must stay the same: {run, segment, most}
    map-ROW      the runs of the map task that begins at this row: {runs: [[path, bytes], …], files}
    merged-…     the run of a merge task, the same way
    pass-N       all runs in order, after N passes of merging, whose inputs may then be gone
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tfrec_cli.cluster.layout import Layout
from tfrec_cli.dataset.failures import writing
from tfrec_cli.receipts import Receipts
from tfrec_cli.shardlog import are_unchanged, file_entries, fingerprints
from tfrec_cli.shuffle.spills import index_path
from tfrec_cli.sources.base import Fingerprint


@dataclass(frozen=True, slots=True)
class Left:
    """Sorted runs, and the files that the cells of their rows named."""

    paths: tuple[str, ...]
    files: tuple[Fingerprint, ...]


class Ledger:
    """The receipts of an order. folder: where they are; None keeps none.

    sync: have runs on the disk before their receipt.
    """

    def __init__(self, folder: str | None, sync: bool = True) -> None:
        self._receipts = Receipts(None if folder is None else Path(folder))
        self._sync = sync

    def layout(self, wanted: Layout) -> Layout:
        """The layout of the run that is resumed, with `wanted` lots; else `wanted` itself."""
        known = self._receipts.done("layout")
        if known is None:
            self._receipts.leave("layout", asdict(wanted))
            return wanted
        return Layout(wanted.lot, known["run"], known["segment"], known["most"])

    def knows(self, task: str) -> bool:
        """Whether a task has a receipt, whatever became of its runs."""
        return self._receipts.done(task) is not None

    def runs(self, task: str) -> Left | None:
        """What a task left; None where it did not, or where something is not as it was left."""
        receipt = self._receipts.done(task)
        if receipt is None or _sizes(path for path, _ in receipt["runs"]) != receipt["runs"]:
            return None
        files = fingerprints(receipt["files"])
        paths = tuple(path for path, _ in receipt["runs"])
        return Left(paths, files) if are_unchanged(files) else None

    def leave(
        self,
        task: str,
        runs: Sequence[str],
        files: Iterable[Fingerprint] = (),
        settled: bool = False,
    ) -> None:
        """Note the runs that a task has made. settled: they are on the disk already.

        Raises DatasetError where that fails.
        """
        if self._receipts.folder is None:
            return
        for path in runs if self._sync and not settled else ():
            _settle(path)
        self._receipts.leave(task, {"runs": _sizes(runs), "files": file_entries(files)})


def _sizes(paths: Iterable[str]) -> list[list[object]]:
    """Each path with the bytes of the run and its index, -1 where one of them is missing."""
    found: list[list[object]] = []
    for path in paths:
        try:
            size = os.stat(path).st_size + os.stat(index_path(path)).st_size
        except OSError:
            size = -1
        found.append([path, size])
    return found


def _settle(path: str) -> None:
    """Have a run and its index on the disk."""
    for name in (path, index_path(path)):
        with writing(name), open(name, "rb") as file:
            os.fsync(file.fileno())
