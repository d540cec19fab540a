"""A dataset is written beside DEST and takes its place in one step, whole or not at all.

A run holds a lock and writes into a hidden folder on DEST's file system: `.NAME.tfrec-<id>` beside
DEST. Where that cannot be (the parent is not writable, DEST is a mount point or the working
folder), it is `.tfrec-<id>` inside DEST, and the files are moved one by one, the manifest last.

Killed at any instant, DEST is the old dataset, the new one, or briefly absent. What a killed run
left is finished, resumed or removed by the next one.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfrec_cli._kernel import crc32c
from tfrec_cli.dataset.commit import (
    Ready,
    discard,
    identity,
    put,
    read_ready,
    sync_file,
    sync_folder,
    sync_tree,
    undo,
    write_ready,
)
from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.leftovers import RECEIPTS, is_resumable, leftovers
from tfrec_cli.dataset.locking import locked_dest
from tfrec_cli.dataset.manifest import INDEXES, MANIFEST, Manifest, SideFile, read_manifest
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.dataset.occupant import Occupant, check_dest
from tfrec_cli.dataset.recovery import settle
from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.dataset.stageplace import make_stage, must_be_inside, name_stage
from tfrec_cli.errors import DatasetError, shorten
from tfrec_cli.interruption import Terminated, unbroken
from tfrec_cli.options import Compression
from tfrec_cli.records.framing import sniff_file

SideFiles = Iterable[tuple[str, bytes | Iterable[bytes]]]
"""Names of side files and their data, as `Stage.add` takes them."""


class Stage:
    """The staging folder of one run. Files are written to `path(name)`, then `commit` is called.

    kept: whether a run that fails can be resumed like one that was killed. work: a folder for
    scratch files; nothing of it reaches the dataset. receipts: where those of
    finished tasks are left, by which a run that was killed can be resumed.
    """

    def __init__(self, dest: Dest, folder: Path, found: Occupant, sync: bool) -> None:
        self.dest = dest
        self.work, self.receipts = folder / "work", folder / RECEIPTS
        self._folder, self._data = folder, folder / "data"
        self._side = folder / "side" if dest.kind == "file" else self._data
        self._found, self._sync = found, sync
        self._was = identity(dest.path)
        self._files: dict[str, SideFile] = {}
        self.committed = self.kept = False

    def path(self, name: str) -> Path:
        """Where to write the data file, or the folder of such, that is to be called `name`."""
        if os.path.basename(name) != name or name == "..":
            raise DatasetError(f'{self.dest.text}: "{shorten(name)}" is not a file name.')
        return self._data / name

    def writer(
        self,
        name: str,
        compression: Compression,
        executor: Executor | None = None,
        ahead: int = 4,
    ) -> ShardWriter:
        """A writer of the shard `name`; the arguments are those of ShardWriter."""
        shown = self.dest.text if self.dest.kind == "file" else f"{self.dest.text}: {name}"
        path = self.path(name)
        with writing(shown), suppress(FileNotFoundError):
            # What the run that is resumed had begun of it.
            os.unlink(path)
        return ShardWriter(path, compression, executor, ahead=ahead, sync=self._sync, shown=shown)

    def commit(
        self, manifest: Manifest, files: Mapping[str, str] | None = None, made: int | None = None
    ) -> Manifest:
        """Put the dataset in DEST's place, and return its manifest as written.

        manifest: names every shard that was written. files: the side files, name to text; their
        entries in the manifest are made here. made: the manifest's mtime, in ns since 1970: when
        the files that it lists were last known to be as it says. Raises DatasetError where a shard
        is not as the manifest says, or where the system refuses; DEST is then what it was.
        """
        with writing(self.dest.text):
            for name, text in (files or {}).items():
                self.add(name, text.encode("utf-8", "surrogateescape"))
            manifest = replace(manifest, files=tuple(self._files.values()))
            self.add(MANIFEST, manifest.to_json().encode())
            if made is not None:
                # Without it the manifest is dated by when it was written, some ms later.
                with suppress(OSError):
                    os.utime(self._side / MANIFEST, ns=(made, made))
            self._check_shards(manifest)
            self._settle(manifest)
            if self.dest.kind == "folder" or identity(self.dest.path) != self._was:
                check_dest(self.dest, overwrite=self._found.kind == "dataset")
            self._put_unbroken(self._ready(manifest))
        return manifest

    def publish(self) -> None:
        """Put all files that were written in DEST's place, as they are: they are no dataset, so
        there is no manifest, and nothing at DEST is replaced. Raises DatasetError.
        """
        with writing(self.dest.text):
            sync_tree(self._data, self._sync)
            if self._side != self._data:
                self._side.rmdir()
            check_dest(self.dest)
            name, staged = self.dest.path.name, os.stat(self._data).st_ino
            ready = Ready(name, "file", staged)
            if self.dest.kind == "folder":
                inside = self._folder.parent == self.dest.path
                new = tuple(sorted(os.listdir(self._data)))
                ready = Ready(name, "inside" if inside else "folder", staged, new=new)
            self._put_unbroken(ready)

    def amend(self, manifest: Manifest, files: SideFiles) -> Manifest:
        """Put side files into the dataset that is at DEST, whose manifest is `manifest`, one by
        one; return its new manifest, which goes last. Raises DatasetError.
        """
        home, names = self.dest.home, []
        self._files = {file.name: file for file in manifest.files}
        for name, data in files:
            self.add(name, data)
            names.append(name)
        manifest = replace(manifest, files=tuple(self._files.values()))
        self.add(MANIFEST, manifest.to_json().encode())
        with writing(self.dest.text):
            for name in (*names, MANIFEST):
                sync_file(self._side / name, self._sync)
                (home / name).parent.mkdir(exist_ok=True)
                os.replace(self._side / name, home / name)
            sync_folder(home, self._sync)
        return manifest

    def add(self, name: str, data: bytes | Iterable[bytes]) -> None:
        """Write a side file, whose entry the manifest will have. name: its own, or `index/…`. data:
        its bytes, or pieces of them, which are written as they come.
        """
        path, size, crc = self._side / name, 0, 0
        with writing(f"{self.dest.text}: {name}"):
            path.parent.mkdir(exist_ok=True)
            with path.open("wb") as file:
                for piece in (data,) if isinstance(data, bytes) else data:
                    file.write(piece)
                    size, crc = size + len(piece), crc32c(piece, crc)
        self._files[name] = SideFile(name, size, crc)

    def _check_shards(self, manifest: Manifest) -> None:
        """What the disk holds is what was written, in the compression that was asked."""
        names = [shard.name for shard in manifest.shards]
        if len(set(names)) < len(names):
            # Each would have been written over the one before.
            raise DatasetError(
                f"{self.dest.text}: two shards have one name. Nothing was put there."
            )
        for shard in manifest.shards:
            path = self._data / shard.name
            size = path.stat().st_size if path.exists() else None
            if size != shard.bytes:
                found = "is not there" if size is None else f"has {size} bytes"
                raise DatasetError(
                    f"{self.dest.text}: {shard.name} {found}, but {shard.bytes} were written. "
                    "Another program interferes, or the disk is broken; run again."
                )
            if size and (kind := sniff_file(path)) != manifest.compression.kind:
                raise DatasetError(
                    f"{self.dest.text}: {shard.name} is {kind}, not {manifest.compression.kind}."
                )

    def _settle(self, manifest: Manifest) -> None:
        """Only the dataset's files, all on the disk."""
        for folder in {self._data, self._side}:
            _keep(folder, set(manifest.entries), self._sync)
        if INDEXES in manifest.entries:
            names = {os.path.basename(name) for name in manifest.names}
            _keep(self._side / INDEXES, names, self._sync)

    def _ready(self, manifest: Manifest) -> Ready:
        name, staged = self.dest.path.name, os.stat(self._data).st_ino
        if self.dest.kind == "file":
            return Ready(name, "file", staged, replaces=identity(self.dest.path))
        old = self._found.manifest.entries if self._found.manifest else ()
        if self._folder.parent == self.dest.path:
            return Ready(name, "inside", staged, new=manifest.entries, old=old)
        with suppress(FileNotFoundError):
            _open_to_as_many(self._data, os.stat(self.dest.path).st_mode)
        return Ready(name, "folder", staged, new=manifest.entries, old=old)

    def _put_unbroken(self, ready: Ready) -> None:
        with unbroken() as arrived:
            self._put(ready)
            self.committed = True
            # Too late to stop what is done.
            arrived.clear()

    def _put(self, ready: Ready) -> None:
        try:
            write_ready(self._folder, ready, self._sync)
            put(self._folder, self.dest, ready, self._sync)
        except BaseException:
            # Where even this fails, `ready` stays, and the next run finishes the work.
            undo(self._folder, self.dest, read_ready(self._folder) or ready)
            discard(self._folder)
            raise


def _open_to_as_many(folder: Path, mode: int) -> None:
    """Give a folder the rights that `mode` has. Raises OSError where it would stay open to more."""
    try:
        os.chmod(folder, stat.S_IMODE(mode))
    except OSError:
        if stat.S_IMODE(os.stat(folder).st_mode) & ~mode:
            raise


def _keep(folder: Path, names: set[str], sync: bool) -> None:
    """Remove all entries of a folder but `names`, and have those on the disk."""
    for entry in os.scandir(folder):
        if entry.name not in names:
            shutil.rmtree(entry.path) if entry.is_dir() else os.unlink(entry.path)
        elif not entry.is_dir():
            sync_file(Path(entry.path), sync)
    sync_folder(folder, sync)


@contextmanager
def staging(
    dest: Dest,
    overwrite: bool = False,
    sources: Iterable[Any] = (),
    sync: bool = True,
    resume: Path | None = None,
) -> Iterator[Stage]:
    """A stage for one run onto `dest`, a folder or a file. Without a commit, nothing remains.

    overwrite: a finished dataset may be replaced. sources: paths of the source files, which must
    not lie in DEST. sync: see to it that what is committed survives a power cut. resume: the
    staging folder of a killed run, as `recover` found it, to go on in; it is removed otherwise.

    Raises DatasetError where something is in the way or another run is at work.
    """
    sources = list(sources)
    with ExitStack() as after:
        if dest.kind == "folder" and not leftovers(dest):
            check_dest(dest, overwrite, sources)
        with writing(dest.path.parent):
            made = after.enter_context(_parents(dest.path.parent, sync))
        inside = after.enter_context(locked_dest(dest))
        with writing(dest.text):
            kept = settle(dest, sync, {resume})
        found = check_dest(dest, overwrite, sources)
        with writing(dest.text):
            inside = inside or must_be_inside(dest, found)
        with _staged(dest, found, sync, kept[0] if kept else name_stage(dest, inside)) as stage:
            yield stage
        if stage.committed:
            made.clear()


@contextmanager
def _staged(dest: Dest, found: Occupant, sync: bool, folder: Path) -> Iterator[Stage]:
    """A stage in `folder`, which is made where it is not there, and removed afterwards."""
    stage: Stage | None = None
    try:
        with unbroken():
            with writing(dest.text):
                make_stage(dest, folder)
            stage = Stage(dest, folder, found, sync)
        yield stage
    except Terminated:
        # Schedulers of clusters end what they mean to start again.
        if stage is not None:
            stage.kept = True
        raise
    finally:
        with unbroken() as arrived:
            done = stage is not None and stage.committed
            resumable = stage is not None and stage.kept and is_resumable(folder)
            if done or (read_ready(folder) is None and not resumable):
                discard(folder)
            if done:
                arrived.clear()


@contextmanager
def _parents(folder: Path, sync: bool) -> Iterator[list[Path]]:
    """The missing folders above DEST, made; those of them left in the list are removed again."""
    missing = [folder, *folder.parents]
    missing = missing[: next(i for i, path in enumerate(missing) if os.path.lexists(path))]
    made: list[Path] = []
    try:
        for path in reversed(missing):
            with suppress(FileExistsError), unbroken():
                path.mkdir()
                made.append(path)
                sync_folder(path.parent, sync)
        yield made
    finally:
        with suppress(OSError):
            for path in reversed(made):
                path.rmdir()


def amend(dest: Dest, make: Callable[[Path], SideFiles], sync: bool = True) -> Manifest:
    """Add side files to the finished dataset at `dest`; return its manifest, which names them.

    make: the files, which take the place of those of the same names; it is given a folder for
    scratch files that is there meanwhile. None is put in its place before all are there; a run that
    is killed while they are leaves the dataset with some of them and its manifest as it was. Raises
    DatasetError where there is no dataset of ours, or another run is at work.
    """
    with locked_dest(dest) as inside:
        with writing(dest.text):
            settle(dest, sync, set())
        manifest = read_manifest(dest.home / MANIFEST)
        if manifest is None:
            raise DatasetError(f"{dest.text} holds no dataset that tfrec wrote.")
        found = Occupant("dataset", manifest)
        with writing(dest.text):
            folder = name_stage(dest, inside or must_be_inside(dest, found))
        with _staged(dest, found, sync, folder) as stage:
            return stage.amend(manifest, make(stage.work))


@contextmanager
def workplace(dest: Dest, sync: bool = True) -> Iterator[Path]:
    """A hidden folder on the file system of `dest`, which is there for the block; meanwhile no run
    is at work on `dest`. What killed ones left is removed, unless it can be resumed.

    Raises DatasetError where another run is at work, or the folder cannot be made.
    """
    with locked_dest(dest) as inside:
        with writing(dest.text):
            settle(dest, sync, set(leftovers(dest)))
            folder = name_stage(dest, inside)
        try:
            with writing(dest.text), unbroken():
                folder.mkdir()
            yield folder
        finally:
            with unbroken():
                discard(folder)
