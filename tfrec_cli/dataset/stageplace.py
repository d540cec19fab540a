"""Where the staging folder of a run lies: beside its DEST, or inside."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tfrec_cli.dataset.leftovers import entries
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.dataset.occupant import SYSTEM, Occupant


def name_stage(dest: Dest, inside: bool) -> Path:
    """A new name for a staging folder of `dest`, beside it or inside."""
    number = os.urandom(4).hex()
    name = f".tfrec-{number}" if inside else f"{dest.hidden}-{number}"
    return (dest.path if inside else dest.path.parent) / name


def make_stage(dest: Dest, folder: Path) -> None:
    """Make what is not there of a staging folder."""
    for path in (folder, folder / "data", folder / "work"):
        path.mkdir(exist_ok=True)
    if dest.kind == "file":
        (folder / "side").mkdir(exist_ok=True)


def must_be_inside(dest: Dest, found: Occupant) -> bool:
    """Whether DEST is a folder that cannot, or should not, become another one."""
    if dest.kind != "folder" or found.kind == "nothing":
        return False
    kept = found.kind == "empty" and any(name in SYSTEM for name in entries(dest.path))
    return kept or _is_mount(dest.path) or _is_working_folder(dest.path)


def _is_mount(path: Path) -> bool:
    """Mount points, bind mounts within one file system included where the system lists them."""
    if os.path.ismount(path):
        return True
    real = os.fsencode(os.path.realpath(path))
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return False
    octal = re.compile(rb"\\([0-7]{3})")
    points = (line.split(b" ")[4] for line in lines if line.count(b" ") > 4)
    return any(octal.sub(lambda m: bytes([int(m[1], 8)]), p) == real for p in points)


def _is_working_folder(path: Path) -> bool:
    try:
        return os.path.samefile(path, os.curdir)
    except OSError:
        return False
