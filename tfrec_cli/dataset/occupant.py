"""What lies at DEST before a run, and whether the run may write there.

Nothing that tfrec did not write is ever replaced or removed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tfrec_cli.checksums import file_crc32c
from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.manifest import INDEXES, MANIFEST, Manifest, is_broken, read_manifest
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.errors import DamageError, DatasetError, listed, shorten

INSIDE = re.compile(r"\.tfrec-([0-9a-f]{8}|lock)")
"""What a run that stages inside DEST calls its own."""

SYSTEM = frozenset((".DS_Store", "lost+found"))
"""What the system puts into folders; it belongs to nobody."""


@dataclass(frozen=True, slots=True)
class Occupant:
    """What lies at DEST.

    kind: `nothing`; `empty`, a folder without files of anybody; `dataset`, a finished dataset of
    ours; `foreign`, anything else. manifest: of a dataset. strangers: names of what tfrec did not
    write, beside a dataset too.
    """

    kind: Literal["nothing", "empty", "dataset", "foreign"]
    manifest: Manifest | None = None
    strangers: tuple[str, ...] = ()


def occupant(dest: Dest) -> Occupant:
    """What lies at `dest`. Raises DatasetError where it cannot be looked at."""
    with writing(dest.text):
        try:
            mode = os.lstat(dest.path).st_mode
        except FileNotFoundError:
            return Occupant("nothing")
        if stat.S_ISLNK(mode):
            raise DatasetError(_link(dest))
        return _folder(dest, mode) if dest.kind == "folder" else _file(dest, mode)


def finished(dest: Dest) -> Manifest | None:
    """The manifest of what seems to be a finished dataset of ours at `dest`, told by its manifest
    alone; None where there is none. Raises DatasetError where that is broken.
    """
    with writing(dest.text):
        if not os.path.isdir(dest.path) if dest.kind == "folder" else not dest.path.is_file():
            return None
        return None if dest.path.is_symlink() else _manifest(dest)


def check_dest(
    dest: Dest, overwrite: bool = False, sources: Iterable[Any] = (), reason: str = ""
) -> Occupant:
    """What lies at `dest`, where a run may write there; writes nothing.

    sources: paths of the source files (what is no path is passed over). reason: why a finished
    dataset is not what the run would write, the part of a sentence. Raises DatasetError that says
    what is in the way and what to do.
    """
    found = occupant(dest)
    if found.kind in ("dataset", "foreign"):
        _refuse_holding(dest, sources)
    if found.kind == "foreign":
        raise DatasetError(_foreign(dest, found))
    if found.kind == "dataset" and not overwrite:
        records = found.manifest.records if found.manifest else 0
        raise DatasetError(
            f"{dest.text} holds a finished dataset ({records:,} records)"
            f"{reason and ', but '}{reason}. Use --overwrite to replace it, or choose another DEST."
        )
    if found.strangers:
        raise DatasetError(
            f"{dest.text} holds, beside the dataset, what tfrec did not write: "
            f"{_some(found.strangers)}. Move that away, then use --overwrite; nothing was touched."
        )
    return found


def _folder(dest: Dest, mode: int) -> Occupant:
    if not stat.S_ISDIR(mode):
        return Occupant("foreign")
    entries = {n for n in os.listdir(dest.path) if n not in SYSTEM and not INSIDE.fullmatch(n)}
    manifest = _manifest(dest) if MANIFEST in entries else None
    if manifest is None:
        return Occupant("foreign" if entries else "empty", None, tuple(sorted(entries)))
    return Occupant("dataset", manifest, _strangers(dest.path, entries, manifest))


def _strangers(folder: Path, entries: set[str], manifest: Manifest) -> tuple[str, ...]:
    """What lies in a dataset's folder, or in that of its indexes, and is not of the dataset.

    The index of a shard is, listed or not: a run that adds it may have been killed.
    """
    from tfrec_cli.records.index import INDEX_FORMATS, index_name

    if INDEXES in entries and os.path.isdir(folder / INDEXES):
        entries = entries - {INDEXES}
        entries |= {f"{INDEXES}/{name}" for name in os.listdir(folder / INDEXES)}
    own = {index_name(s.name, kind) for s in manifest.shards for kind in INDEX_FORMATS}
    known = {*manifest.names, *(f"{INDEXES}/{name}" for name in own)}
    return tuple(sorted(name for name in entries - known if os.path.basename(name) not in SYSTEM))


def _file(dest: Dest, mode: int) -> Occupant:
    """A single file is a dataset of ours where it is, byte for byte, what its manifest says."""
    manifest = _manifest(dest) if stat.S_ISREG(mode) else None
    if manifest is None or not _is_as_written(dest.path, manifest):
        return Occupant("foreign")
    home = {n for n in os.listdir(dest.home) if n not in SYSTEM and not INSIDE.fullmatch(n)}
    strangers = (f"{dest.home.name}/{name}" for name in _strangers(dest.home, home, manifest))
    return Occupant("dataset", manifest, tuple(strangers))


def _manifest(dest: Dest) -> Manifest | None:
    try:
        return read_manifest(dest.home / MANIFEST)
    except DamageError as error:
        raise DatasetError(
            f"{dest.text} cannot be replaced, for its manifest does not say which files are "
            f"tfrec's: {error}"
        ) from None


def _is_as_written(path: Path, manifest: Manifest) -> bool:
    shards = manifest.shards
    if len(shards) != 1 or os.stat(path).st_size != shards[0].bytes:
        return False
    return file_crc32c(path) == shards[0].crc32c


def _link(dest: Dest) -> str:
    target = os.readlink(dest.path)
    if os.path.exists(dest.path):
        return (
            f"{dest.text} is a symbolic link to {target}, which cannot be replaced safely. Give "
            "what it points to as DEST, or remove the link."
        )
    return f"{dest.text} is a symbolic link to {target}, which does not exist. Remove the link."


def _foreign(dest: Dest, found: Occupant) -> str:
    way_out = "Choose another DEST, or move it away; nothing was touched."
    if dest.kind == "file":
        what = "is a folder" if dest.path.is_dir() else "is not as tfrec wrote it, if it ever did"
        return f"{dest.text} exists and {what}. {way_out}"
    if not found.strangers:
        return f"{dest.text} exists and is not a folder. {way_out}"
    if is_broken(dest.home / MANIFEST):
        return (
            f"{dest.text} has a {MANIFEST} that is damaged, so that nothing tells whether tfrec "
            f"wrote what lies there. {way_out}"
        )
    return f"{dest.text} holds what tfrec did not write: {_some(found.strangers)}. {way_out}"


def _refuse_holding(dest: Dest, sources: Iterable[Any]) -> None:
    """A folder that holds a source is never written to, whatever else it holds."""
    real = os.path.realpath(dest.path)
    folders: dict[str, bool] = {}
    for source in sources:
        if not isinstance(source, str | os.PathLike):
            continue
        folder, name = os.path.split(os.fspath(source))
        if folder not in folders:
            where = os.path.realpath(folder or ".")
            folders[folder] = os.path.commonpath((real, where)) == real
        if folders[folder] or os.path.realpath(os.path.join(folder, name)) == real:
            raise DatasetError(
                f"{dest.text} holds the source {shorten(os.fspath(source))}. Choose a DEST that "
                "holds none."
            )


def _some(names: tuple[str, ...]) -> str:
    return listed([shorten(name) for name in names], 3)
