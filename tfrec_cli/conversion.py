"""The main path: sources in, a committed dataset out."""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfrec_cli.dataset.failures import writing
from tfrec_cli.dataset.locking import BusyError
from tfrec_cli.dataset.manifest import SCHEMA, Manifest, Split, side_files
from tfrec_cli.dataset.naming import Dest
from tfrec_cli.dataset.occupant import check_dest, finished
from tfrec_cli.dataset.recovery import recover
from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.dataset.staging import Stage, staging
from tfrec_cli.engines.base import Engine
from tfrec_cli.engines.opening import open_engine
from tfrec_cli.errors import (
    CellError,
    DamageError,
    DatasetError,
    EngineError,
    SchemaError,
    SourceError,
    UsageError,
    counted,
)
from tfrec_cli.options import ConvertOptions
from tfrec_cli.pipeline import write_splits
from tfrec_cli.preparation import Run, checked, choose_dest, paths_of, prepare, tell
from tfrec_cli.progress import SILENT, Reporter, teller
from tfrec_cli.receipts import Receipts
from tfrec_cli.settlement import Opened, explain_unknown_label, open_given, settle
from tfrec_cli.shardlog import ShardLog
from tfrec_cli.sourcefiles import all_files, refuse_changed
from tfrec_cli.stages import recording

if TYPE_CHECKING:
    from tfrec_cli.resumption import Interrupted

# Rooms that few runs enter are imported where they do: a run's start is a good part of it.

# The clock that files are dated by lags behind by some ms, in ns.
CLOCK = 20_000_000

Check = Callable[[Callable[[str], Path], Manifest, str, int], None]
"""Looks at a dataset before it is committed: where each shard is, the manifest, the schema's text,
and how many files may be read at a time. Raises where it is not to be committed.
"""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The dataset that is now at DEST. is_new: whether it was written; else it was up to date."""

    manifest: Manifest
    is_new: bool = True


def convert(
    options: ConvertOptions, reporter: Reporter = SILENT, check: Check | None = None
) -> Conversion:
    """Write the dataset that `options` asks for, unless just that is there.

    check: called before the commit, and with a dataset that is up to date. Nothing is at DEST
    before everything is: a run that fails or is interrupted leaves DEST as it was. Raises
    TfrecError of the kind that fits (see `tfrec_cli.errors`).
    """
    began = time.time_ns()
    dest, interrupted, found = _open_dest(options)
    if check is not None and dest.kind == "stdout":
        raise UsageError("--verify: DEST is - and cannot be read again. Leave one of them out.")
    opened = None
    if found is not None:
        opened = open_given(options)
        if (kept := _up_to_date(dest, found, opened, options, check)) is not None:
            _touch(dest, found, kept, began - CLOCK, options.fsync, reporter)
            return Conversion(kept, is_new=False)
    where = options.engine, options.scheduler, options.jobs
    with open_engine(*where, teller(reporter)) as engine:
        if engine.remote:
            _join(engine, dest)
        placed, here = _placed(options)
        opened = opened if placed.sources == options.sources else None
        run = replace(prepare(dest, placed, reporter, engine, opened), here=here)
        if options.metadata:
            from tfrec_cli.dataset.metadata import check_metadata

            check_metadata(options.metadata, run.planned, dest.kind)
        if interrupted is not None:
            from tfrec_cli.resumption import refuse_other

            refuse_other(dest.text, interrupted, run.planned, run.settled)
            run = replace(run, resumes=interrupted)
        try:
            writes = _to_stdout(run) if dest.kind == "stdout" else _to_dataset(run, check)
            return Conversion(writes)
        except CellError as error:
            raise explain_unknown_label(error, run.settled, options) from None
        except SourceError:
            # What looks like damage may be a file that is being written.
            refuse_changed(run.settled)
            raise
        finally:
            for notice in engine.notices:
                reporter.notice(notice)


def _up_to_date(
    dest: Dest,
    found: Manifest,
    opened: Opened,
    options: ConvertOptions,
    check: Check | None,
) -> Manifest | None:
    """The manifest of the dataset that is there, if it is what a run would write. Else None; raises
    DatasetError where it is not to be replaced.
    """
    from tfrec_cli.freshness import look

    looked = look(dest, found, opened, checked(options, dest))
    if reason := looked.reason or _damage(dest, found, check, options.jobs):
        check_dest(dest, options.overwrite, paths_of(options), reason)
        return None
    return looked.manifest


def _touch(
    dest: Dest, found: Manifest, now: Manifest, when: int, sync: bool, reporter: Reporter
) -> None:
    """As `tfrec_cli.dataset.touch` does it; where the place is not ours to write to, the dataset is
    up to date all the same.
    """
    from tfrec_cli.dataset.touch import touch

    try:
        touch(dest, found, now, when, sync)
    except BusyError:
        raise
    except DatasetError as error:
        why = str(error).partition(". ")[0]
        reporter.notice(f"the dataset keeps the time that it has, which make goes by: {why}")


def _placed(options: ConvertOptions) -> tuple[ConvertOptions, str]:
    """The options with paths that mean the same to workers of a scheduler, which have working
    folders of their own; and what those begin with that were given without it (see `Run.here`).
    """
    here = os.path.join(os.getcwd(), "")
    if options.engine == "dask" and options.scheduler is None:
        # Its processes share the memory of this machine.
        return replace(options, memory=max(1, options.memory // options.jobs)), ""
    if options.scheduler is None:
        return options, ""
    sources = tuple(map(partial(_at, here), options.sources))
    # Where absolute paths lie there as well, nobody could tell them from the others.
    mixed = any(isinstance(item, str) and item.startswith(here) for item in options.sources)
    temp_dir = options.temp_dir and os.path.join(here, options.temp_dir)
    return replace(options, sources=sources, temp_dir=temp_dir), "" if mixed else here


def _at(here: str, item: object) -> object:
    """A source, if it is a path, as an absolute one."""
    if not isinstance(item, str) or "://" in item or item == "-":
        return item
    return os.path.join(here, item)


def _join(engine: Engine, dest: Dest) -> None:
    """See to it that the workers of an engine are such as this process."""
    from tfrec_cli.cluster.probes import require_versions

    require_versions(engine, dest.compression)
    if (profile := recording()) is not None:
        profile.elsewhere = engine.threads()[0]


def infer(options: ConvertOptions, reporter: Reporter = SILENT) -> str:
    """The schema of the sources in `options` as YAML text; what it rests on is noticed."""
    reporter.stage("survey", None)
    settled = settle(options)
    for notice in (*settled.survey.notices, *settled.notes):
        reporter.notice(notice)
    if not settled.text:
        why = settled.records.refused if settled.records is not None else ""
        raise SchemaError(f"{why or 'the records have no features that a schema could name'}.")
    return settled.text


def _open_dest(
    options: ConvertOptions,
) -> tuple[Dest, Interrupted | None, Manifest | None]:
    """DEST, refused now where it would be refused after all the work; the killed run onto it that
    this one goes on with; or the dataset there that may be up to date.
    """
    dest = choose_dest(options)
    if dest.kind == "stdout":
        if sys.stdout is None:
            raise UsageError("DEST is - but standard output is closed.")
        if sys.stdout.isatty():
            raise UsageError("DEST is - but standard output is a terminal. Pipe it somewhere.")
        return dest, None, None
    stage = recover(dest, options.fsync, writes=True)
    if options.overwrite:
        # What cannot be replaced is refused before a killed run is given up for it.
        check_dest(dest, True, paths_of(options))
        stage = recover(dest, options.fsync, keep=False)
    interrupted = None if stage is None else _interrupted(stage, dest, options)
    if interrupted is None and not options.force and (found := finished(dest)) is not None:
        return dest, None, found
    overwrite = options.overwrite or (interrupted is not None and interrupted.overwrite)
    check_dest(dest, overwrite, paths_of(options))
    return dest, interrupted, None


def _interrupted(stage: Path, dest: Dest, options: ConvertOptions) -> Interrupted | None:
    """The killed run that left `stage`. Raises where the options do not go on with it."""
    from tfrec_cli.resumption import read_interrupted, refuse_plain

    interrupted = read_interrupted(stage)
    if interrupted is not None and not options.resume:
        refuse_plain(dest.text, interrupted)
    return interrupted


def _damage(dest: Dest, found: Manifest, check: Check | None, jobs: int) -> str:
    """What is wrong with the dataset that is there, looked at as one that is to be committed."""
    if check is None:
        return ""
    data = dest.path if dest.kind == "folder" else dest.path.parent
    with writing(dest.text):
        text = (dest.home / SCHEMA).read_text("utf-8")
    try:
        check(lambda name: data / name, found, text, jobs)
    except DamageError:
        return "it is damaged (tfrec verify tells where)"
    return ""


def _to_dataset(run: Run, check: Check | None) -> Manifest:
    """Write shards into a stage, have them checked, and commit it."""
    sources = [print.path for print in run.settled.survey.fingerprints]
    paths = [*paths_of(run.options), *sources]
    resume = None if run.resumes is None else run.resumes.stage
    sync = run.options.fsync
    with staging(run.dest, run.overwrite, paths, sync=sync, resume=resume) as stage:
        tell(run)
        # What this run goes on with is there for the next, should it fail.
        stage.kept = run.resumes is not None
        log = _shard_log(run, stage)
        splits = _write_staged(run, stage, log)
        made = time.time_ns() - CLOCK
        manifest = _manifest(run, splits, log)
        labels = {f.key: f.labels for f in run.settled.features if f.labels is not None}
        if check is not None:
            check(stage.path, manifest, run.settled.text, run.options.jobs)
        _add_extras(run, stage, manifest, log.indexes)
        return stage.commit(manifest, side_files(run.settled.text, labels), made)


def _add_extras(run: Run, stage: Stage, manifest: Manifest, indexes: Path | None) -> None:
    """Write metadata and index files as they were asked for. indexes: as ShardLog has it; shards
    that an earlier run has done are read for theirs.
    """
    if run.options.metadata:
        from tfrec_cli.dataset.metadata import describe

        made = describe(manifest, run.options.metadata)
        for name, text in made.files.items():
            stage.add(name, text.encode("utf-8", "surrogateescape"))
        for notice in made.notices:
            run.reporter.notice(notice)
    if indexes is not None:
        from tfrec_cli.dataset.indexes import index_files

        names = [shard.name for shard in manifest.shards]
        for name, pieces in index_files(names, stage.path, run.options.index, indexes):
            stage.add(name, pieces)


def _write_staged(run: Run, stage: Stage, log: ShardLog) -> tuple[Split, ...]:
    """Write all splits into the stage, where the engine runs."""
    if not run.engine.remote:
        return write_splits(run, stage.writer, stage.work, log)
    from tfrec_cli.cluster.driver import ClusterRun, write_on_cluster

    cluster = ClusterRun(run.engine, run.options, run.dest, run.work, run.plan, run.reporter, log)
    try:
        return write_on_cluster(cluster, stage)
    except EngineError:
        # What is done is no worse for a cluster that is gone.
        stage.kept = True
        raise


def _to_stdout(run: Run) -> Manifest:
    """Write one shard to standard output; the manifest is not kept anywhere."""
    tell(run)
    stdout, log = sys.stdout.buffer, ShardLog(Receipts(None))
    splits = write_splits(run, lambda _, *how: ShardWriter(stdout, *how), None, log)
    return _manifest(run, splits, log)


def _shard_log(run: Run, stage: Stage) -> ShardLog:
    """The shards of a run; those that are done already, where it goes on with one."""
    # A single one that is done would be committed at once; sorted records are worth keeping.
    several = bool(run.shards[1:]) or run.engine.remote
    folder = stage.receipts if several or run.work.order is not None else None
    receipts = Receipts(folder, partial(_record, run))
    log = ShardLog(receipts, run.shards if several else ())
    if run.options.index:
        # Not those of a run that was killed: nothing of them is synced, so that a machine that went
        # down may have left them half.
        log.indexes = stage.work / f"indexes-{secrets.token_hex(8)}"
    if run.resumes is not None:
        done = log.find(stage.path, run.options.jobs)
        total = counted(len(run.shards), "shard")
        run.reporter.notice(f"went on with an interrupted run: {done:,} of {total} were done")
    return log


def _record(run: Run) -> dict[str, Any]:
    """What a run that goes on with this one must be like."""
    from tfrec_cli.resumption import run_record

    return run_record(run.planned, run.settled.text, run.overwrite)


def _manifest(run: Run, splits: tuple[Split, ...], log: ShardLog) -> Manifest:
    files = all_files(run.settled, log.loaded.values(), run.options)
    return replace(run.planned, splits=splits, sources=run.as_given(files))
