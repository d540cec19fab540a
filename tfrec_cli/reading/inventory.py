"""The files of a dataset against what its manifest, or their names, promise: what is wrong before
one of them is opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tfrec_cli import _kernel
from tfrec_cli.dataset.manifest import Manifest, Shard, SideFile, manifest_path
from tfrec_cli.errors import DamageError, counted
from tfrec_cli.reading.finding import Finding
from tfrec_cli.sources.paths import no_file

_NUMBERED = re.compile(r"(.*)-(\d{5,})-of-(\d{5,})(.*)", re.DOTALL)
_LOST = "reads the files that are there, without an error"
_MOST_GAPS = 1000


@dataclass(frozen=True, slots=True)
class Coverage:
    """The patterns that name files, each with the folders in which it found some."""

    patterns: tuple[tuple[str, frozenset[str]], ...]

    @classmethod
    def of(cls, matches: Iterable[tuple[str, Iterable[str]]]) -> Coverage:
        """Of patterns, and what each matches; a path that is none matches itself."""
        found = [
            (os.path.basename(pattern), frozenset(map(os.path.dirname, paths)))
            for pattern, paths in matches
            if [pattern] != list(paths)
        ]
        return cls(tuple(found))

    def covers(self, path: str) -> bool:
        """Whether a file at `path` would be named, were it there."""
        folder, name = os.path.split(path)
        return any(folder in folders and fnmatchcase(name, p) for p, folders in self.patterns)


@dataclass(frozen=True, slots=True)
class Series:
    """Files of one name with numbers, as `-00000-of-00004` is one of four. name: with stars for
    the number. gaps: the first of the others, by their names.
    """

    name: str
    count: int
    found: int
    gaps: tuple[str, ...]


def series(files: Iterable[str]) -> Iterator[Series]:
    """The numbered files among `files`, where some of their numbers are not there."""
    groups: dict[tuple[str, int, str], set[int]] = {}
    for file in files:
        if match := _NUMBERED.fullmatch(file):
            groups.setdefault((match[1], int(match[3]), match[4]), set()).add(int(match[2]))
    for (stem, count, suffix), numbers in groups.items():
        wanted = range(count)
        lacking = (number for number in wanted if number not in numbers)
        names = [
            f"{stem}-{number:05d}-of-{count:05d}{suffix}"
            for number, _ in zip(lacking, range(_MOST_GAPS), strict=False)
        ]
        if names:
            found = sum(number in wanted for number in numbers)
            yield Series(f"{stem}-*-of-{count:05d}{suffix}", count, found, tuple(names))


def gap(path: str, count: int) -> Finding:
    """A file that the names of others promise, `count` together."""
    text = f"the names of the others say that there are {count}"
    return Finding(path, "missing shard", text, tensorflow=_LOST)


def missing(path: str, shard: Shard, found: str) -> Finding:
    """A shard that is not there. found: what is in its place."""
    return Finding(
        path,
        "missing shard",
        f"it {_in_place(found)}, but the manifest has it with {counted(shard.records, 'record')}",
        tensorflow=_LOST,
        records=shard.records,
    )


def extra(path: str) -> Finding:
    """A file beside the shards that looks like one of them."""
    text = "the manifest has no such shard; it was not written with the others"
    return Finding(path, "extra shard", text, tensorflow="reads it where a pattern matches")


def broken(dataset: str, error: DamageError) -> Finding:
    """A manifest that is damaged."""
    return Finding(os.fspath(manifest_path(dataset)), "manifest", str(error).rstrip("."))


def side_files(folder: Path, manifest: Manifest) -> list[Finding]:
    """What is wrong with the files that lie beside the shards."""
    places = [(os.fspath(folder / file.name), file) for file in manifest.files]
    faults = [(path, _side_fault(path, file)) for path, file in places]
    return [Finding(path, "side file", text) for path, text in faults if text is not None]


def _side_fault(path: str, file: SideFile) -> str | None:
    if (found := no_file(path)) is not None:
        return f"it {_in_place(found)}, but the manifest has it"
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    if (len(data), _kernel.crc32c(data)) == (file.bytes, file.crc32c):
        return None
    return "it is not the file that was written with the shards"


def _in_place(found: str) -> str:
    return "is not there" if found == "nothing" else f"is {found}"
