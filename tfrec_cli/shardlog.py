"""Which shards of a run are done: those that a killed run left, and those that get done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfrec_cli.checksums import is_file
from tfrec_cli.dataset.leftovers import FILES
from tfrec_cli.dataset.manifest import Shard
from tfrec_cli.engines.threads import ordered_map
from tfrec_cli.errors import SourceError
from tfrec_cli.receipts import Receipts, shard_task
from tfrec_cli.sources.base import Fingerprint
from tfrec_cli.sources.fingerprints import gather, is_unchanged

if TYPE_CHECKING:
    from tfrec_cli.dataset.indexes import IndexDraft

Files = Iterable[Fingerprint]
_FILES = FILES.removesuffix(".json")


class ShardLog:
    """The shards of a run, and the files that the cells of their rows named.

    receipts: where those of shards that are done are left. loaded: by path, the files that were
    read for the shards that are done, whichever run did them. indexes: the folder for the lines of
    the indexes of those that get done, which is this run's alone; None where nobody wants any.
    """

    def __init__(self, receipts: Receipts, names: Sequence[str] = (), first: int = 0) -> None:
        """names: of all shards, in the order of the plan, or of those from number `first` on."""
        self.receipts = receipts
        self._tasks = {name: shard_task(number) for number, name in enumerate(names, first)}
        self._done: dict[str, Shard] = {}
        self.loaded: dict[str, Fingerprint] = {}
        self.indexes: Path | None = None

    def index(self, name: str) -> IndexDraft | None:
        """What takes the index of the shard `name` while it is written. Raises DatasetError."""
        if self.indexes is None:
            return None
        from tfrec_cli.dataset.indexes import IndexDraft

        return IndexDraft(self.indexes / name)

    def find(self, path: Callable[[str], Path], jobs: int) -> int:
        """Find the shards that an earlier run has left done; returns how many.

        One counts if its file is, byte for byte, what its receipt says, and if the files that its
        cells named are unchanged; none does if one of `note_files` is not. path: where the file of
        a shard is.
        """
        if not self._find_files():
            return 0
        left = [(name, self.receipts.done(task)) for name, task in self._tasks.items()]
        known = [(name, receipt) for name, receipt in left if receipt is not None]
        found = ordered_map(partial(_found, path), known, jobs)
        for (name, receipt), shard in zip(known, found, strict=True):
            if shard is not None:
                self._done[name] = shard
                self._load(fingerprints(receipt["files"]))
        return len(self._done)

    def note_files(self, files: Files) -> None:
        """All rows are read, any of which may become a record of any shard. files: those that their
        cells named; where one changes, no shard is done.
        """
        self._load(files)
        if self._tasks and self.loaded:
            self.receipts.leave(_FILES, {"files": file_entries(self.loaded.values())})

    def done(self, name: str) -> Shard | None:
        """What the shard `name` holds, where it is done."""
        return self._done.get(name)

    def note(self, shard: Shard, files: Files) -> None:
        """A shard is done, its file closed and synced. files: those that its cells named."""
        files = tuple(files)
        self.take(shard, files)
        if shard.name in self._tasks:
            self.receipts.leave(self._tasks[shard.name], shard_receipt(shard, files))

    def take(self, shard: Shard, files: Files) -> None:
        """As `note`, where another process has left the receipt."""
        self._done[shard.name] = shard
        self._load(files)

    def _find_files(self) -> bool:
        """Whether the files of `note_files` are unchanged; else the receipts of all shards go."""
        receipt = self.receipts.done(_FILES)
        if receipt is None:
            return True
        files = fingerprints(receipt["files"])
        if same := are_unchanged(files):
            self._load(files)
        else:
            for task in self._tasks.values():
                self.receipts.drop(task)
        return same

    def _load(self, files: Files) -> None:
        gather(self.loaded, files)


def shard_receipt(shard: Shard, files: Files) -> dict[str, Any]:
    """The receipt of a shard: its entry in the manifest, and the files that its cells named."""
    entry = {"name": shard.name, "records": shard.records, "bytes": shard.bytes}
    return entry | {"crc32c": shard.crc32c, "files": file_entries(files)}


def file_entries(files: Files) -> list[list[Any]]:
    """Fingerprints as JSON knows them: path, size, mtime, CRC32C, state."""
    return [[file.path, file.size, file.mtime_ns, file.crc32c, file.state] for file in files]


def fingerprints(entries: Iterable[Sequence[Any]]) -> tuple[Fingerprint, ...]:
    """What `file_entries` made of them."""
    return tuple(
        Fingerprint(path, size, mtime_ns, crc, tuple(state))
        for path, size, mtime_ns, crc, state in entries
    )


def are_unchanged(files: Files) -> bool:
    """Whether the files are there and are what they were."""
    try:
        return all(map(is_unchanged, files))
    except SourceError:
        return False


def _found(path: Callable[[str], Path], known: tuple[str, Mapping[str, Any]]) -> Shard | None:
    name, receipt = known
    try:
        shard = Shard(*(receipt[key] for key in ("name", "records", "bytes", "crc32c")))
        files = fingerprints(receipt["files"])
    except (KeyError, TypeError):
        return None
    same = shard.name == name and is_file(path(name), shard.bytes, shard.crc32c)
    return shard if same and are_unchanged(files) else None
