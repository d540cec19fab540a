"""Receipts: what finished tasks leave, so that a run that was killed can go on.

A folder of small files, one a task. A task is done when its receipt can be read: it is written
under another name and renamed, and holds a checksum of itself, so that half a receipt is none.
What a task made must be on the disk before its receipt is left. A receipt that a power cut takes
away costs nothing but the task; so receipts themselves are not synced.

    receipts = Receipts(folder, describe)
    if (found := receipts.done("shard-00003")) is None:
        receipts.leave("shard-00003", {"bytes": 12345})

A file holds two lines: the CRC32C of the second in hex, and the receipt as JSON. `run.json` beside
them, in the same form, says what the run was; it is there before the first receipt is. The
receipts of a run lie in its staging folder (`Stage.receipts`).
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfrec_cli._kernel import crc32c
from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.leftovers import RUN, entries

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class Receipts:
    """The receipts in `folder`, which is made when the first is left; None keeps none.

    describe: what the run is, asked for once, before the first receipt. Several threads may leave
    receipts at the same time. Values are what JSON knows; text may hold undecodable bytes of paths.
    """

    def __init__(
        self, folder: Path | None, describe: Callable[[], Mapping[str, Any]] | None = None
    ) -> None:
        self.folder = folder
        self._describe = describe
        self._begun = False
        self._lock = threading.Lock()

    def done(self, task: str) -> dict[str, Any] | None:
        """The receipt of `task`, None where it has none that is whole."""
        return None if self.folder is None else _read(_path(self.folder, task))

    def leave(self, task: str, receipt: Mapping[str, Any]) -> None:
        """Note that `task` is done; a receipt that it has is replaced.

        task: a file name of letters, digits, `.`, `_`, `-`. Raises DatasetError where the receipt
        cannot be written.
        """
        if self.folder is None:
            return
        path = _path(self.folder, task)
        self.begin()
        with writing(self.folder):
            _write(path, receipt)

    def begin(self) -> None:
        """Note what the run is, for other processes that leave receipts in the folder. Raises
        DatasetError where that cannot be written.
        """
        if self.folder is not None and not self._begun:
            with writing(self.folder), self._lock:
                self._begin(self.folder)

    def run(self) -> dict[str, Any] | None:
        """What the run was that left these receipts; None where there are none."""
        return None if self.folder is None else _read(self.folder / RUN)

    def drop(self, task: str) -> None:
        """Remove the receipt of `task`, if it has one. Raises DatasetError where that fails."""
        if self.folder is not None:
            with writing(self.folder):
                _path(self.folder, task).unlink(missing_ok=True)

    def tasks(self) -> list[str]:
        """The tasks that have a receipt, in order of name."""
        names = [] if self.folder is None else entries(self.folder)
        return [
            name.removesuffix(".json") for name in names if name.endswith(".json") and name != RUN
        ]

    def forget(self) -> None:
        """Remove all receipts: nothing is done."""
        if self.folder is not None and self.folder.is_dir():
            with writing(self.folder):
                # What the run was goes last: receipts without it are nobody's.
                names = sorted(os.listdir(self.folder), key=lambda name: name == RUN)
                for name in names:
                    os.unlink(self.folder / name)
        self._begun = False

    def _begin(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if self._describe is not None and _read(folder / RUN) is None:
            _write(folder / RUN, self._describe())
        self._begun = True


def _path(folder: Path, task: str) -> Path:
    if not _NAME.fullmatch(task):
        raise ValueError(f"{task!r} is not the name of a task")
    return folder / f"{task}.json"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        crc, _, text = path.read_bytes().partition(b"\n")
        if int(crc, 16) != crc32c(text):
            return None
        found = json.loads(text)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _write(path: Path, receipt: Mapping[str, Any]) -> None:
    text = json.dumps(receipt, separators=(",", ":"), allow_nan=False).encode()
    draft = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
    draft.write_bytes(b"%08x\n" % crc32c(text) + text)
    os.rename(draft, path)


def shard_task(number: int) -> str:
    """What the receipt of a shard is called. number: among all shards of the plan."""
    return f"shard-{number:05d}"
