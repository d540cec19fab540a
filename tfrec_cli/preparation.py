"""All that is settled of a run before the first byte is written."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfrec_cli.arrangement import Arrangement
from tfrec_cli.checks import Checks, need_scan, surveyed
from tfrec_cli.dataset.manifest import MANIFEST, Manifest, SourceFile, read_manifest
from tfrec_cli.dataset.naming import Dest, parse_dest
from tfrec_cli.description import described
from tfrec_cli.engines.base import Engine
from tfrec_cli.engines.threads import Threads
from tfrec_cli.errors import UsageError, counted
from tfrec_cli.options import Compression, ConvertOptions
from tfrec_cli.plan import Plan, make_plan
from tfrec_cli.progress import Reporter
from tfrec_cli.records.compressors import compressor
from tfrec_cli.settlement import Opened, Settled, settle
from tfrec_cli.sources.base import Survey
from tfrec_cli.splitting.asked import check_combinations, parse_splits
from tfrec_cli.tasks import Work, limited_pieces

if TYPE_CHECKING:
    from tfrec_cli.resumption import Interrupted

# Rows left out that are told one by one, where no file lists them.
SHOWN_REJECTS = 3


@dataclass(frozen=True, slots=True)
class Run:
    """One run, settled and planned. resumes: the killed run that it goes on with.

    here: what paths begin with that were given without it; manifests have them as they were given.
    """

    options: ConvertOptions
    dest: Dest
    settled: Settled
    work: Work
    plan: Plan
    reporter: Reporter
    engine: Engine
    resumes: Interrupted | None = None
    here: str = ""

    @property
    def planned(self) -> Manifest:
        """The manifest before anything is written."""
        found = described(self.dest, self.settled, self.plan, self.options)
        given = [item and item.removeprefix(self.here) for item in found.options["sources"]]
        options = {**found.options, "sources": given}
        return replace(found, options=options, sources=self.as_given(found.sources))

    def as_given(self, files: Iterable[SourceFile]) -> tuple[SourceFile, ...]:
        """Files by the paths that they were given by."""
        if not self.here:
            return tuple(files)
        return tuple(replace(file, path=file.path.removeprefix(self.here)) for file in files)

    @property
    def overwrite(self) -> bool:
        """Whether a finished dataset may be replaced."""
        return self.options.overwrite or (self.resumes is not None and self.resumes.overwrite)

    @property
    def shards(self) -> list[str]:
        """The names of all shards, split by split."""
        return [n for s in self.plan.splits for n in self.dest.shards(s.name, len(s.shards))]


def prepare(
    dest: Dest,
    options: ConvertOptions,
    reporter: Reporter,
    engine: Engine | None = None,
    opened: Opened | None = None,
) -> Run:
    """All that is settled before the first byte is written. Writes nothing but the rejects.

    engine: where tasks will run; None is threads. opened: the source, if it is known.
    """
    options = checked(options, dest)
    if options.temp_dir is not None:
        from tfrec_cli.scratch import clean

        clean(options.temp_dir)
    engine = engine or Threads(options.jobs)
    reporter.stage("survey", None)
    settled = settle(options, opened)
    if engine.remote:
        from tfrec_cli.cluster.probes import require_files

        require_files(engine, settled.survey.fingerprints)
    _refuse_last_source(options, dest, settled)
    arrangement = _arranged(options, settled)
    columns = tuple(dict.fromkeys((*settled.columns, *arrangement.columns)))
    work = Work(
        settled.source, () if settled.records else settled.features, columns, options.on_error,
        arrangement.splitter, arrangement.order, settled.records,
    )  # fmt: skip
    checks = _check_rows(work, settled.survey, options, reporter, arrangement, engine)
    if options.rejects is not None:
        from tfrec_cli.rejects import write_rejects

        write_rejects(options.rejects, checks.rejects, _read_files(options, settled))
    for reject in checks.rejects[: 0 if options.rejects else SHOWN_REJECTS]:
        reporter.notice(f"left out: {replace(reject, hint='')}")
    work = replace(work, splitter=checks.splitter)
    plan = make_plan(work, checks, options)
    run = Run(options, dest, settled, work, plan, reporter, engine)
    if dest.kind != "folder":
        _refuse_splits(run)
    return run


def _arranged(options: ConvertOptions, settled: Settled) -> Arrangement:
    """The splits and the order that are asked for; without any, those of the source."""
    if not options.arranges:
        return Arrangement()
    from tfrec_cli.rowrules import arrange

    return arrange(options, settled.survey, settled.features)


def _check_rows(
    work: Work,
    survey: Survey,
    options: ConvertOptions,
    reporter: Reporter,
    arrangement: Arrangement,
    engine: Engine,
) -> Checks:
    """How many records each piece of the source and each split will give."""
    pieces = tuple(limited_pieces(survey.partitions, options.limit))
    if not need_scan(work, arrangement):
        return surveyed(pieces, arrangement.splitter)
    from tfrec_cli.scanning import scan

    return scan(work, pieces, options, reporter, arrangement, engine)


def choose_dest(options: ConvertOptions) -> Dest:
    """DEST with the compression that its suffix and the options agree on, by an installed
    compressor.
    """
    dest = parse_dest(options.dest, options.compression, options.name, options.sources)
    if options.compression is None:
        chosen = Compression.made(dest.compression.kind, compressor=options.compressor)
        dest = replace(dest, compression=chosen)
    compressor(dest.compression.compressor)
    return dest


def checked(options: ConvertOptions, dest: Dest) -> ConvertOptions:
    """The options with what DEST implies. Raises UsageError where two exclude each other."""
    asked = parse_splits(options.split)
    check_combinations(options, asked)
    if options.index:
        from tfrec_cli.dataset.indexes import check_index

        check_index(options.index, dest.compression.kind, dest.kind == "stdout")
    for name in ("rejects", "max_errors"):
        if getattr(options, name) is not None and options.on_error != "skip":
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} needs --on-error skip: without it no row is left out.")
    if options.rejects is not None:
        from tfrec_cli.accounts import check_account
        from tfrec_cli.rejects import rejects_account

        check_account(rejects_account(options.rejects), dest, paths_of(options))
    if dest.kind == "stdout" and options.engine != "threads":
        raise UsageError(
            f"--engine {options.engine}: DEST is - and workers cannot write there. Give a folder, "
            "or a file, that all of them see."
        )
    if dest.kind == "folder":
        return options
    one = options.shards if options.shard_size is None else options.shard_size
    if one not in (None, 1):
        flag = "--shards" if options.shard_size is None else "--shard-size"
        raise UsageError(f"{flag} {one}: DEST {dest.text} is one file. Give a folder as DEST.")
    if asked.fractions[1:]:
        raise UsageError(
            f"--split {options.split}: DEST {dest.text} is one file. Give a folder as DEST."
        )
    return replace(options, shards=1)


def paths_of(options: ConvertOptions) -> list[str]:
    """The SOURCEs that are paths, patterns or addresses."""
    return [item for item in options.sources if isinstance(item, str) and item != "-"]


def _read_files(options: ConvertOptions, settled: Settled) -> list[str]:
    """The files that a run reads, as far as they are known before it begins."""
    prints = (*settled.survey.fingerprints, *settled.fingerprints)
    schema = [options.schema] if isinstance(options.schema, str) else []
    return [*paths_of(options), *(print.path for print in prints), *schema]


def _refuse_last_source(options: ConvertOptions, dest: Dest, settled: Settled) -> None:
    """Raise UsageError where --overwrite would replace one TFRecord file by those beside it, of
    which it was not made: it is the last source of a command without DEST.
    """
    if settled.survey.records is None or dest.kind != "file" or not options.overwrite:
        return
    sources = {os.path.realpath(file.path) for file in settled.survey.fingerprints}
    manifest = read_manifest(dest.home / MANIFEST)
    folder = os.path.realpath(dest.path.parent)
    if manifest is None or not any(os.path.dirname(path) == folder for path in sources):
        return
    if not sources & {os.path.realpath(file.path) for file in manifest.sources}:
        raise UsageError(
            f"{dest.text} looks like a source, for it lies beside the others and was not made of "
            "them. Add a DEST as last argument; if it is meant, remove it first."
        )


def _refuse_splits(run: Run) -> None:
    if len(run.plan.splits) > 1:
        names = ", ".join(split.name for split in run.plan.splits)
        way_out = ", or --split NAME for all records" if run.settled.survey.records else ""
        raise UsageError(f"{run.dest.text} is one file, but the source has splits ({names}). "
                         f"Give a folder as DEST{way_out}.")  # fmt: skip


def tell(run: Run) -> None:
    """Tell what was detected and decided."""
    for notice in (*run.settled.survey.notices, *run.settled.notes):
        run.reporter.notice(notice)
    for split in run.plan.splits:
        if split.records < len(split.shards):
            empty = len(split.shards) - split.records
            run.reporter.notice(
                f"split {split.name}: {len(split.shards)} shards for {split.records} records, "
                f"so {counted(empty, 'shard')} {'is' if empty == 1 else 'are'} empty"
            )
