"""Staging folders that runs onto one DEST have left: where they are, and which can be resumed."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tfrec_cli.dataset.naming import Dest
from tfrec_cli.dataset.occupant import INSIDE

RECEIPTS = "work/receipts"
"""Where in a staging folder the receipts of finished tasks are (see `tfrec_cli.receipts`)."""

RUN = "run.json"
"""What the run was, beside its receipts."""


FILES = "files.json"
"""The files that rows of all shards name, beside the receipts; it says of no task that it is done.
"""


def leftovers(dest: Dest) -> list[Path]:
    """Staging folders of runs onto `dest`; all dead where the lock is held."""
    beside = re.compile(rf"{re.escape(dest.hidden)}-[0-9a-f]{{8}}")
    found = [dest.path.parent / n for n in entries(dest.path.parent) if beside.fullmatch(n)]
    if dest.kind == "folder":
        found += [dest.path / n for n in entries(dest.path) if INSIDE.fullmatch(n)]
    return [path for path in found if path.is_dir() and not path.is_symlink()]


def is_resumable(stage: Path) -> bool:
    """Whether the run that left this staging folder finished any task that need not be redone."""
    names = entries(stage / RECEIPTS)
    return RUN in names and any(n.endswith(".json") and n not in (RUN, FILES) for n in names)


def entries(folder: Path) -> list[str]:
    """The names in a folder in order; none where it cannot be listed."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
