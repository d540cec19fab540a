"""Paths in words and in order: how they are shown, sorted, told apart and said to be unreadable."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from functools import cache

from tfrec_cli.errors import SourceError, did_you_mean, shorten

_NUMBERED_TEXT = ("csv", "tsv", "txt", "json", "jsonl", "ndjson", "parquet", "avro", "orc")


def display(path: str) -> str:
    """`path` as it can be shown anywhere: undecodable bytes and control characters escaped."""
    if path.isascii():
        return shorten(path, 4096)
    return shorten(os.fsencode(path).decode("utf-8", "backslashreplace"), 4096)


def byte_order(path: str) -> bytes:
    """The sort key of paths, which does not depend on the locale."""
    return os.fsencode(path)


def sorted_paths(paths: Iterable[str]) -> list[str]:
    """Paths in byte order."""
    paths = list(paths)
    # For these it is the order of characters, which takes no key.
    return sorted(paths, key=None if all(map(str.isascii, paths)) else byte_order)


def is_hidden(name: str) -> bool:
    """Whether a file or folder of this base name is passed over: `.cache`, `_SUCCESS`."""
    return name.startswith((".", "_"))


def some(paths: Iterable[str], limit: int = 3) -> str:
    """The first base names of `paths`, for notices: `a.txt, b.txt, …`."""
    names = list(dict.fromkeys(display(os.path.basename(p) or p) for p in paths))
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")


def has_suffix(path: str, suffixes: Sequence[str]) -> bool:
    """Whether `path` ends in one of `suffixes` (lower case) in any case of letters.

    `#` in a suffix stands for digits: `-#-of-#` is how numbered parts end. The ending before such
    numbers counts where it is one of text or tables: `a.csv-00000-of-00002` is no TFRecord file.
    """
    name, suffixes = path.lower(), tuple(suffixes)
    if name.endswith(suffixes):
        return True
    numbered = _numbered(suffixes)
    return numbered is not None and numbered.search(name) is not None


@cache
def _numbered(suffixes: tuple[str, ...]) -> re.Pattern[str] | None:
    """What names end in that end in one of `suffixes` with `#`; None where none has it."""
    numbered = [suffix for suffix in suffixes if "#" in suffix]
    if not numbered:
        return None
    endings = "|".join(re.escape(suffix).replace(r"\#", "[0-9]+") for suffix in numbered)
    other = "".join(rf"(?<!\.{ending})" for ending in _NUMBERED_TEXT)
    return re.compile(f"{other}(?:{endings})$")


def no_file(path: str) -> str | None:
    """What is at `path` where no file is, as in `a pipe`; None for a file, links followed, and
    where the system does not tell. Only a file may be opened: another thing may never end, or
    never begin.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if not os.path.islink(path):
            return "nothing"
        return f"a link to {display(os.readlink(path))}, which is not there"
    except (OSError, ValueError):
        return None
    named = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    return None if stat.S_ISREG(mode) else named.get(stat.S_IFMT(mode), "a device")


def unreadable(path: str, error: OSError) -> SourceError:
    """The error for a file or folder that the system refuses; a missing one gets a suggestion."""
    if isinstance(error, FileNotFoundError):
        return missing(path)
    reason = os.strerror(error.errno) if error.errno else str(error)
    return SourceError(f"{display(path)}: cannot be read ({reason}).")


def missing(path: str) -> SourceError:
    """The error for a file or folder that is not there, with the name of one like it."""
    return SourceError(f"{display(path)}: no such file or folder.{_sibling(path)}")


def _sibling(path: str) -> str:
    folder, name = os.path.split(path.rstrip("/"))
    while folder and not os.path.isdir(folder):
        folder, name = os.path.split(folder)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return ""
    return did_you_mean(display(name), [display(n) for n in names if not is_hidden(n)])
