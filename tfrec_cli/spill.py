"""Where sorted runs go on the disk, and whether there is room for them and for the dataset."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.errors import DatasetError
from tfrec_cli.options import ConvertOptions
from tfrec_cli.receipts import Receipts

if TYPE_CHECKING:
    from tfrec_cli.scratch import Scratch

RUNS = "runs"
"""Where in the stage's folder for scratch files sorted runs are."""

# What columns of a Parquet file that repeat themselves may be more as records, of each row.
_LARGEST_GROWTH = 16 << 10


@contextmanager
def spill_folder(
    options: ConvertOptions, work: Path | None, receipts: Receipts | None = None
) -> Iterator[str]:
    """A folder for runs, removed afterwards: in `--temp-dir`, else `work`, else the system's.

    receipts: of the runs in it, by which a run that was killed is gone on with, in its folder.
    """
    if options.temp_dir is None and work is not None and receipts is not None:
        path = os.path.abspath(work / RUNS)
        with writing(path):
            os.makedirs(path, exist_ok=True)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
        return
    try:
        folder = _scratch(options.temp_dir or (None if work is None else os.fspath(work)), receipts)
    except OSError as error:
        raise DatasetError(
            f"{options.temp_dir or work}: sorted records cannot be kept there "
            f"({error.strerror or error}). Choose another folder by --temp-dir."
        ) from error
    try:
        yield folder.path
    finally:
        folder.remove()


def _scratch(parent: str | None, receipts: Receipts | None) -> Scratch:
    """A folder in `parent`: that of the run which is gone on with, or a new one."""
    from tfrec_cli.runlog import runs_folder
    from tfrec_cli.scratch import Scratch

    if receipts is None or receipts.folder is None or parent is None:
        return Scratch(parent)
    before = runs_folder(receipts)
    if before is not None and os.path.dirname(before) == os.path.abspath(parent):
        adopted = Scratch.adopted(before)
        if adopted is not None:
            return adopted
    return Scratch(parent, os.fspath(receipts.folder))


@dataclass(frozen=True, slots=True)
class Disks:
    """Where a run writes.

    spill: the folder of its runs, None where it has none. dest: a folder on the dataset's disk;
    None where it goes to standard output. compressed: whether the dataset is, so that its size is
    not known before. shown: what messages call the two.
    """

    spill: str | None
    dest: str | None
    compressed: bool
    shown: tuple[str, str]

    @classmethod
    def of(cls, options: ConvertOptions, dest: Dest, spill: str | None, work: Path | None) -> Disks:
        """Those of a run. spill: the folder of its runs. work: a folder on the dataset's disk."""
        shown = options.temp_dir or os.path.dirname(spill or ""), dest.text
        plain = dest.compression.kind == "none"
        return cls(spill, None if work is None else os.fspath(work), not plain, shown)

    def is_scarce(self, sources: int, records: int) -> bool:
        """Whether there may be no room for a dataset of so many records, made of files of so many
        bytes.
        """
        if self.compressed or self.dest is None:
            return False
        return shutil.disk_usage(self.dest).free < 2 * sources + _LARGEST_GROWTH * records

    def check(self, runs: float, dataset: float) -> None:
        """Raise DatasetError where a disk has no room for so many bytes of runs, of the dataset
        before compression, or of both.
        """
        dataset = 0.0 if self.compressed or self.dest is None else dataset
        if self.spill is None:
            runs = 0.0
        elif runs:
            runs = 1.02 * runs + 2**20
        together = self.spill is not None and self.dest is not None
        if together and runs and os.stat(self.dest).st_dev == os.stat(self.spill).st_dev:  # type: ignore[arg-type]
            self._check_both(runs, dataset)
            return
        if self.spill is not None and (free := shutil.disk_usage(self.spill).free) < runs:
            raise DatasetError(self._refusal(runs, 0.0, free))
        if self.dest is not None and (free := shutil.disk_usage(self.dest).free) < dataset:
            raise DatasetError(
                f"{self.shown[1]}: {_gigabytes(dataset)} are needed for the dataset, but "
                f"{_gigabytes(free)} are free there. Free some space, choose another DEST, or "
                "compress it (--compression gzip)."
            )

    def _check_both(self, runs: float, dataset: float) -> None:
        assert self.spill is not None
        free = shutil.disk_usage(self.spill).free
        if free < runs + dataset:
            raise DatasetError(self._refusal(runs, dataset, free))

    def _refusal(self, runs: float, dataset: float, free: int) -> str:
        both = f" and {_gigabytes(dataset)} for the dataset" if dataset else ""
        return (
            f"{self.shown[0]}: {_gigabytes(runs)} are needed for sorted records{both}, but "
            f"{_gigabytes(free)} are free. Name a folder on another disk by --temp-dir, or let the "
            f"records fit in memory: --memory {int(1.5 * runs / 2**20) + 64}MiB."
        )


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB"
