"""How staged files take DEST's place, so that a kill at any instant can be made good.

A staging folder holds

    data/    the files that are to lie at DEST
    side/    for a single file: manifest and side files, which lie hidden beside it
    old/     what lay there before, where it has to be moved aside
    work/    scratch files of the run
    ready    written last, once all of data/ and side/ is complete and on the disk

From `ready` on the run is committed: `put` brings the files to their places, and can be called
again after a kill at any point of it. It never looks at what DEST holds; `may_put` does.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tfrec_cli.dataset import exchange as system
from tfrec_cli.dataset.leftovers import RECEIPTS, RUN
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.dataset.occupant import occupant
from tfrec_cli.errors import DatasetError

Mode = Literal["folder", "file", "inside"]
Identity = tuple[int, int, int]

# Of files by the thousand, a disk takes several in one go.
_SYNCED_AT_ONCE = 8
_IMMOVABLE = {errno.EACCES, errno.EPERM, errno.EBUSY}
_NO_FOLDER_SYNC = {errno.EACCES, errno.EINVAL, errno.ENOTSUP, errno.EBADF}


@dataclass(frozen=True, slots=True)
class Ready:
    """What `ready` says.

    dest: DEST's base name. mode: `folder` moves data/ as a whole, `file` the side folder and then
    the one file, `inside` file by file. staged: inode of data/ in mode `folder`. replaces: inode,
    size and mtime of a file that is replaced. new, old: for a folder, the names of the new and of
    the old dataset's files, the manifest last.
    """

    dest: str
    mode: Mode
    staged: int
    replaces: Identity | None = None
    new: tuple[str, ...] = ()
    old: tuple[str, ...] = ()


def write_ready(stage: Path, ready: Ready, sync: bool) -> None:
    """Commit: from here on the run counts as done. Atomic."""
    draft = stage / "ready.draft"
    with open(draft, "w") as file:
        json.dump(asdict(ready), file)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    os.rename(draft, stage / "ready")
    sync_folder(stage, sync)


def read_ready(stage: Path) -> Ready | None:
    """What `ready` of this staging folder says; None where it did not come so far."""
    try:
        entries: dict[str, Any] = json.loads((stage / "ready").read_text())
        replaces = entries.pop("replaces")
        names: dict[str, Any] = {key: tuple(entries.pop(key)) for key in ("new", "old")}
        return Ready(**entries, **names, replaces=None if replaces is None else (*replaces,))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def identity(path: Path) -> Identity | None:
    """What tells a file from any other that may come to lie at `path`; None where none does."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def pending(stage: Path, dest: Dest, ready: Ready) -> bool:
    """Whether anything of a committed run still waits to be put in place."""
    data = stage / "data"
    if ready.mode == "folder":
        # After an exchange data/ is the old dataset, and another inode.
        return (identity(data) or (None,))[0] == ready.staged
    if ready.mode == "file":
        return os.path.lexists(data / dest.path.name)
    return data.is_dir()


def may_put(stage: Path, dest: Dest, ready: Ready) -> bool:
    """Whether DEST still is what the committed run was to replace, or nothing."""
    if ready.dest != dest.path.name:
        return False
    if ready.mode == "file":
        return identity(dest.path) in (None, ready.replaces)
    if ready.mode == "inside":
        waiting = os.listdir(stage / "data")
        return not any(n not in ready.old and os.path.lexists(dest.path / n) for n in waiting)
    try:
        found = occupant(dest)
    except DatasetError:
        return False
    return found.kind in ("nothing", "empty", "dataset") and not found.strangers


def put(stage: Path, dest: Dest, ready: Ready, sync: bool) -> None:
    """Bring everything that still waits in `stage` to its place. Raises OSError.

    A folder that will not be renamed, though it may be written to, is filled file by file.
    """
    try:
        _put(stage, dest, ready)
    except OSError as error:
        if ready.mode != "folder" or error.errno not in _IMMOVABLE or not os.path.isdir(dest.path):
            raise
        ready = replace(ready, mode="inside")
        write_ready(stage, ready, sync)
        _put_inside(stage, dest, ready)
    sync_folder(dest.path if ready.mode == "inside" else dest.path.parent, sync)


def _put(stage: Path, dest: Dest, ready: Ready) -> None:
    if ready.mode == "folder":
        _put_folder(stage, dest, ready)
    elif ready.mode == "file":
        _put_file(stage, dest)
    else:
        _put_inside(stage, dest, ready)


def undo(stage: Path, dest: Dest, ready: Ready) -> None:
    """After a failed `put`: bring back what lay there before. Raises OSError."""
    if ready.mode == "folder":
        _move_back(stage / "old", dest.path)
    elif ready.mode == "file":
        waits = os.path.lexists(stage / "data" / dest.path.name)
        if waits and not os.path.lexists(stage / "side") and os.path.lexists(dest.home):
            os.rename(dest.home, stage / "side")
        _move_back(stage / "old", dest.home)
    else:
        _undo_inside(stage, dest, ready)


def discard(stage: Path) -> None:
    """Remove a staging folder; what cannot be removed is left to the next run.

    What the run was and `ready` go first: half a folder must count neither as one to go on with
    nor as committed.
    """
    for name in (f"{RECEIPTS}/{RUN}", "ready"):
        try:
            os.unlink(stage / name)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            return
    shutil.rmtree(stage, ignore_errors=True)


def sync_file(path: Path, sync: bool) -> None:
    """Have a file's bytes on the disk."""
    if sync:
        _sync(path, os.O_RDONLY)


def sync_folder(path: Path, sync: bool) -> None:
    """Have a folder's entries on the disk, where the file system can do that."""
    try:
        if sync:
            _sync(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


def sync_tree(top: Path, sync: bool) -> None:
    """Have a folder, and all files and folders in it, on the disk. Raises OSError."""
    if not sync:
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_SYNCED_AT_ONCE) as pool:
        for folder, _, names in os.walk(top, topdown=False):
            shares = [names[i::_SYNCED_AT_ONCE] for i in range(_SYNCED_AT_ONCE)]
            list(pool.map(partial(_sync_files, Path(folder)), shares))
            sync_folder(Path(folder), True)


def _sync_files(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        sync_file(folder / name, True)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put_folder(stage: Path, dest: Dest, ready: Ready) -> None:
    data, old = stage / "data", stage / "old"
    if not pending(stage, dest, ready):
        return
    if not os.path.lexists(dest.path) or not os.listdir(dest.path):
        os.rename(data, dest.path)
    elif not system.exchange(data, dest.path):
        os.rename(dest.path, old)
        os.rename(data, dest.path)


def _put_file(stage: Path, dest: Dest) -> None:
    """The side folder first: the file's own rename is what makes the new dataset the one."""
    side, file = stage / "side", stage / "data" / dest.path.name
    if not os.path.lexists(file):
        return
    if os.path.lexists(side):
        if os.path.lexists(dest.home):
            os.rename(dest.home, stage / "old")
        os.rename(side, dest.home)
    os.rename(file, dest.path)


def _put_inside(stage: Path, dest: Dest, ready: Ready) -> None:
    """File by file: the old manifest goes first and the new one comes last, so that a mixture
    never claims to be a dataset.
    """
    data, aside = stage / "data", stage / "old"
    aside.mkdir(exist_ok=True)
    waiting = set(os.listdir(data)) if data.is_dir() else set()
    for name in reversed(ready.old):
        replaced = name in waiting or name not in ready.new
        if waiting and replaced and os.path.lexists(dest.path / name):
            os.rename(dest.path / name, aside / name)
    for name in ready.new:
        if name in waiting:
            os.rename(data / name, dest.path / name)


def _undo_inside(stage: Path, dest: Dest, ready: Ready) -> None:
    data, aside = stage / "data", stage / "old"
    for name in reversed(ready.new):
        if not os.path.lexists(data / name) and os.path.lexists(dest.path / name):
            os.rename(dest.path / name, data / name)
    for name in ready.old:
        if os.path.lexists(aside / name):
            os.rename(aside / name, dest.path / name)


def _move_back(old: Path, place: Path) -> None:
    if os.path.lexists(old) and not os.path.lexists(place):
        os.rename(old, place)
