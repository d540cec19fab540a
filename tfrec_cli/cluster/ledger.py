"""Which sorted runs of an order are done, so that a run that was killed need not sort them again.

Receipts (see `tfrec_cli.receipts`) of what lies in the folder of runs:

    layout       how the run was cut into tasks, which must stay the same: {run, segment, most}
    map-ROW      the runs of the map task that begins at this row:
                 {cut: [run, segment, most], runs: [[path, bytes, CRC32C], …], files}
    merged-…     the run of a merge task, the same way
    pass-N       {cut, tasks, files}: the tasks that have left all runs, in order, after N passes of
                 merging, whose inputs may then be gone, and the files that cells of any named

Bytes and CRC32C are those of a run and then its index. A receipt that says anything else, or is of
a run that was cut in another way, is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tfrec_cli.cluster.layout import Layout
from tfrec_cli.dataset.failures import writing
from tfrec_cli.receipts import Receipts
from tfrec_cli.shardlog import are_unchanged, file_entries, fingerprints
from tfrec_cli.shuffle.spills import is_run, run_content, sync_run
from tfrec_cli.sources.base import Fingerprint


@dataclass(frozen=True, slots=True)
class Left:
    """Sorted runs, and the files that the cells of their rows named."""

    paths: tuple[str, ...]
    files: tuple[Fingerprint, ...]


class Ledger:
    """The receipts of an order. folder: where they are; None keeps none.

    layout: how the run is cut. sync: have runs on the disk before their receipt.
    """

    def __init__(self, folder: str | None, layout: Layout, sync: bool = True) -> None:
        self._receipts = Receipts(None if folder is None else Path(folder))
        self._cut = [layout.run, layout.segment, layout.most]
        self._sync = sync

    def knows(self, task: str) -> bool:
        """Whether a task has a receipt, whatever became of its runs."""
        return bool(self._receipt(task))

    def runs(self, task: str) -> Left | None:
        """What a task left; None where it did not, or where something is not as it was left, to
        the byte.
        """
        receipt = self._receipt(task)
        try:
            runs = [(path, size, crc) for path, size, crc in receipt["runs"]]
            files = fingerprints(receipt["files"])
        except (KeyError, TypeError, ValueError):
            return None
        whole = all(is_run(*run) for run in runs) and are_unchanged(files)
        return Left(tuple(path for path, _, _ in runs), files) if whole else None

    def leave(self, task: str, runs: Sequence[str], files: Iterable[Fingerprint] = ()) -> None:
        """Note the runs that a task has made. Raises DatasetError where that fails."""
        if self._receipts.folder is not None:
            entries = [[path, *self._content(path)] for path in runs]
            receipt = {"cut": self._cut, "runs": entries, "files": file_entries(files)}
            self._receipts.leave(task, receipt)

    def passed(self, number: int) -> tuple[tuple[str, ...], tuple[Fingerprint, ...]] | None:
        """The tasks that have left all runs after a pass, and the files that cells named; None
        where the pass is not known to be done.
        """
        receipt = self._receipt(f"pass-{number}")
        try:
            return tuple(map(str, receipt["tasks"])), fingerprints(receipt["files"])
        except (KeyError, TypeError):
            return None

    def leave_pass(self, number: int, tasks: Sequence[str], files: Iterable[Fingerprint]) -> None:
        """Note that a pass is done (see `passed`). Raises DatasetError where that fails."""
        receipt = {"cut": self._cut, "tasks": list(tasks), "files": file_entries(files)}
        self._receipts.leave(f"pass-{number}", receipt)

    def _content(self, path: str) -> tuple[int, int]:
        """Bytes and CRC32C of a run, which is on the disk then where that is asked for."""
        with writing(path):
            if self._sync:
                sync_run(path)
            return run_content(path)

    def _receipt(self, task: str) -> dict[str, Any]:
        """The receipt of a task of a run that was cut in this way; empty where there is none."""
        receipt = self._receipts.done(task) or {}
        return receipt if receipt.get("cut") == self._cut else {}


def settled_layout(folder: str | None, wanted: Layout) -> Layout:
    """The layout of the run that is resumed, with `wanted` lots; else `wanted` itself, which is
    noted. folder: of receipts. Raises DatasetError where that fails.
    """
    receipts = Receipts(None if folder is None else Path(folder))
    known = receipts.done("layout") or {}
    numbers = [known.get(name) for name in ("run", "segment", "most")]
    if all(isinstance(number, int) and number > 0 for number in numbers):
        return replace(wanted, run=known["run"], segment=known["segment"], most=known["most"])
    receipts.leave("layout", asdict(wanted))
    return wanted
