"""The run: find the files, save what is intact, write it as a dataset."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfrec_cli.dataset.manifest import (
    SCHEMA,
    Manifest,
    Rows,
    Split,
    library_versions,
    manifest_path,
)
from tfrec_cli.dataset.naming import Dest, check_split, parse_dest
from tfrec_cli.dataset.recovery import recover
from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.dataset.staging import Stage, staging
from tfrec_cli.errors import DatasetError, SourceError, UsageError
from tfrec_cli.options import Compression, default_jobs
from tfrec_cli.progress import SILENT, Reporter
from tfrec_cli.reading.targets import Dataset, Target, find_datasets, roll_forward
from tfrec_cli.records.framing import Container, promised_compression
from tfrec_cli.records.streams import ContentStream
from tfrec_cli.repair.content import Content, open_content
from tfrec_cli.repair.losses import LOST, FileOutcome, Loss, RepairReport, loss_lines
from tfrec_cli.repair.salvage import Saved, salvage
from tfrec_cli.sourcefiles import source_file
from tfrec_cli.sources.files import fingerprint
from tfrec_cli.sources.foreign import refuse_foreign


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """One run of `tfrec repair`.

    paths: dataset folders, files, globs. dest: a folder or one file. name: of the dataset, None for
    that of the one read, or else by dest. compression: None for that of dest's suffix, or of what
    is read. overwrite: a dataset of tfrec's at dest may be replaced.
    """

    paths: tuple[str, ...]
    dest: str
    name: str | None = None
    compression: Compression | None = None
    overwrite: bool = False
    jobs: int = field(default_factory=default_jobs)


def repair(options: RepairOptions, reporter: Reporter = SILENT) -> RepairReport:
    """Write every intact record of the files that `options` name to dest; tell what was lost.

    Record bytes stay as they are. Each file becomes one shard, its split what its name or manifest
    says, or else `train`; a dest that is one file holds them all. dest is written whole or not at
    all. Raises DatasetError where there is nothing to read or dest cannot be written, UsageError
    for options that do not go together, SourceError for a file that cannot be read.
    """
    for path in options.paths:
        roll_forward(path)
    datasets = find_datasets(options.paths, is_sure=True)
    dest = _open_dest(options, datasets)
    targets = [target for dataset in datasets for target in dataset.files]
    if not targets:
        raise SourceError(f"{options.paths[0]}: none of its files is there. Nothing was written.")
    reporter.stage("repair", None)
    paths = [*options.paths, *(target.path for target in targets)]
    with staging(dest, options.overwrite, paths) as stage:
        return _Repair(options, datasets, dest, reporter).run(stage)


def _open_dest(options: RepairOptions, datasets: Sequence[Dataset]) -> Dest:
    """DEST, with the name and compression that fit what is read."""
    known = datasets[0].manifest if len(datasets) == 1 else None
    name = options.name or (known.name if known else None)
    dest = parse_dest(options.dest, options.compression, name, options.paths)
    if dest.kind == "stdout":
        raise UsageError("DEST is -, which tfrec repair does not write to. Give a file or folder.")
    recover(dest, writes=True)
    if dest.kind == "folder" and options.compression is None:
        dest = replace(dest, compression=_compression(datasets, known))
    return dest


def _compression(datasets: Sequence[Dataset], known: Manifest | None) -> Compression:
    """That of the manifest, or of the files where they agree."""
    if known is not None:
        return Compression.made(known.compression.kind)
    kinds = {_kind(target.path) for dataset in datasets for target in dataset.files}
    return Compression.made(kinds.pop() if len(kinds) == 1 else "none")


def _kind(path: str) -> Container:
    try:
        if not os.path.getsize(path):
            return promised_compression(path)
        with open(path, "rb") as file:
            return ContentStream(file, promised=promised_compression(path)).container
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}.") from None


class _Repair:
    """One run, DEST known."""

    def __init__(
        self,
        options: RepairOptions,
        datasets: Sequence[Dataset],
        dest: Dest,
        reporter: Reporter,
    ) -> None:
        self._options, self._datasets, self._dest = options, datasets, dest
        self._reporter = reporter
        self._losses: list[Loss] = []
        self._outcomes: list[FileOutcome] = []
        self._notices: list[str] = []

    def run(self, stage: Stage) -> RepairReport:
        """Read all files, write all shards, commit."""
        targets = [target for dataset in self._datasets for target in dataset.files]
        prints = [fingerprint(target.path) for target in targets]
        self._note_missing()
        splits = self._write(stage, _by_split(targets, self._dest))
        if not any(split.records for split in splits):
            # A file of which nothing is left is damage; one of another kind is a mistake.
            for target in targets:
                refuse_foreign(target.path, DatasetError)
        manifest = Manifest(
            name=self._dest.name,
            compression=self._dest.compression,
            splits=splits,
            rows=Rows(sum(s.records for s in splits), sum(s.records for s in splits)),
            libraries=library_versions(self._dest.compression),
            sources=tuple(map(source_file, prints)),
        )
        files: dict[str, str] = {}
        if len(self._datasets) == 1 and (known := self._datasets[0].manifest) is not None:
            manifest = replace(manifest, features=known.features)
            files = self._side_files(known)
        if self._losses:
            files[LOST] = loss_lines(self._losses)
        manifest = stage.commit(manifest, files)
        size = sum(shard.bytes for shard in manifest.shards)
        return RepairReport(
            self._options.dest, tuple(self._outcomes), tuple(self._losses), size,
            tuple(self._notices),
        )  # fmt: skip

    def _note_missing(self) -> None:
        """What is known to be wrong before a file is opened."""
        for finding in (f for dataset in self._datasets for f in dataset.findings):
            if finding.kind == "missing shard":
                text = finding.text
                self._losses.append(
                    Loss(finding.file, finding.kind, text, 0, 0, 0, records=finding.records)
                )
            else:
                self._notices.append(str(finding))

    def _write(self, stage: Stage, splits: dict[str, list[Target]]) -> tuple[Split, ...]:
        done = []
        with ThreadPoolExecutor(self._options.jobs, thread_name_prefix="tfrec-compress") as pool:
            executor = pool if self._options.jobs > 1 else None
            for split, targets in splits.items():
                one_each = self._dest.kind == "folder"
                groups = [[target] for target in targets] if one_each else [targets]
                names = self._dest.shards(split, len(groups))
                shards = []
                for name, group in zip(names, groups, strict=True):
                    with stage.writer(name, self._dest.compression, executor) as writer:
                        for target in group:
                            outcome = self._save(target, stage.work, writer)
                            outcome = replace(outcome, split=split, shard=name)
                            self._outcomes.append(outcome)
                    shards.append(writer.close())
                done.append(Split(split, tuple(shards)))
        return tuple(done)

    def _save(self, target: Target, scratch: Path, writer: ShardWriter) -> FileOutcome:
        """Write the intact records of one file."""
        records = mended = 0
        losses: list[Loss] = []
        with open_content(target.path, promised_compression(target.path), scratch) as content:
            for piece in salvage(content):
                if isinstance(piece, Saved):
                    writer.write(piece.data, piece.records)
                    records, mended = records + piece.records, mended + piece.mended
                    self._reporter.advance(piece.records, len(piece.data))
                else:
                    losses.append(piece)
            container = content.container
        self._losses += losses
        if count := _unexplained(content, losses):
            self._notices.append(
                f"{target.path}: compressed streams whose checksum does not hold: {count}, yet "
                "all records in them are intact; some may be copies of others"
            )
        lost = sum(loss.bytes for loss in losses)
        return FileOutcome(target.path, "", container, records, mended, lost, "")

    def _side_files(self, known: Manifest) -> dict[str, str]:
        """The schema and the labels of the dataset that is read, as far as they are there."""
        home = manifest_path(self._datasets[0].owner).parent
        files = {}
        for file in known.files:
            if file.name == SCHEMA or file.name.endswith(".labels.txt"):
                try:
                    files[file.name] = (home / file.name).read_bytes().decode()
                except (OSError, ValueError):
                    self._notices.append(f"{home / file.name}: not there any more, or no text")
        return files


def _unexplained(content: Content, losses: Iterable[Loss]) -> int:
    """How many compressed streams end with a wrong checksum, and lost nothing."""
    faults = [gap.at for gap in content.gaps]
    faults += [loss.start for loss in losses if loss.unit == "content"]
    faults.sort()
    places = (bisect_left(faults, start) for start, _ in content.doubtful)
    return sum(
        place == len(faults) or faults[place] > end
        for place, (_, end) in zip(places, content.doubtful, strict=True)
    )


def _by_split(targets: Iterable[Target], dest: Dest) -> dict[str, list[Target]]:
    """The files of each split, in order. One file as DEST has one split."""
    splits: dict[str, list[Target]] = {}
    for target in targets:
        split = "train" if dest.kind == "file" else target.split or "train"
        splits.setdefault(check_split(split), []).append(target)
    return splits


__all__ = ["RepairOptions", "repair"]
