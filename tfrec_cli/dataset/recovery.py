"""What killed runs left at a DEST, finished or removed."""

from __future__ import annotations

import os
from pathlib import Path

from tfrec_cli.dataset.commit import discard, may_put, pending, put, read_ready
from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.leftovers import RECEIPTS, is_resumable, leftovers
from tfrec_cli.dataset.locking import BusyError, locked_dest
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.errors import DatasetError


def recover(dest: Dest, sync: bool = True, keep: bool = True, writes: bool = False) -> Path | None:
    """Finish or remove what killed runs onto `dest` left, unless a run is at work on it now.

    Cheap where there is nothing. For commands that read, too: what cannot be done is left as it
    is. keep: a run that can be resumed is not removed; its staging folder is returned. writes: for
    a command that is to write there itself; raises BusyError where another run is at work.
    """
    if not leftovers(dest):
        return None
    kept: list[Path] = []
    try:
        with locked_dest(dest), writing(dest.text):
            resumable = [stage for stage in leftovers(dest) if keep and is_resumable(stage)]
            # There may be several where one was kept beside DEST and one inside.
            resumable.sort(key=lambda stage: os.stat(stage / RECEIPTS).st_mtime_ns)
            kept = settle(dest, sync, set(resumable[-1:]))
    except DatasetError as error:
        if writes and isinstance(error, BusyError):
            raise
    return kept[0] if kept else None


def settle(dest: Dest, sync: bool, keep: set[Path | None]) -> list[Path]:
    """Finish what was committed, remove the rest; the resumable ones among `keep` are returned."""
    kept = []
    for stage in leftovers(dest):
        ready = read_ready(stage)
        if ready and pending(stage, dest, ready):
            if not may_put(stage, dest, ready):
                # Something else has come to DEST; the only copy of the data is not thrown away.
                continue
            put(stage, dest, ready, sync)
        elif ready is None and stage in keep and is_resumable(stage):
            kept.append(stage)
            continue
        discard(stage)
    return kept
