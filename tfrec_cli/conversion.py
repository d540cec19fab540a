"""The main path: sources in, a committed dataset out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tfrec_cli._kernel.model import Encoded
from tfrec_cli.arrangement import arrange
from tfrec_cli.dataset.manifest import (
    FeatureFacts,
    Manifest,
    Rows,
    Split,
    library_versions,
    side_files,
    source_files,
)
from tfrec_cli.dataset.naming import Dest, parse_dest
from tfrec_cli.dataset.occupant import check_dest
from tfrec_cli.dataset.shards import ShardWriter
from tfrec_cli.dataset.staging import Stage, recover, staging
from tfrec_cli.engines.base import Engine
from tfrec_cli.engines.opening import open_engine
from tfrec_cli.engines.threads import Threads, ordered_flat_map
from tfrec_cli.errors import CellError, SourceError, UsageError, counted
from tfrec_cli.options import Compression, ConvertOptions
from tfrec_cli.ordering import Ordered, check_space, spill_folder
from tfrec_cli.placing import route_batch
from tfrec_cli.plan import Plan, make_plan
from tfrec_cli.progress import SILENT, Reporter
from tfrec_cli.records.compressors import compressor
from tfrec_cli.rejects import check_rejects, write_rejects
from tfrec_cli.scanning import check_rows
from tfrec_cli.schema.binding import BoundFeature
from tfrec_cli.schema.infer import row_lengths
from tfrec_cli.settlement import Settled, explain_unknown_label, settle
from tfrec_cli.sources.base import Fingerprint, SourceBatch
from tfrec_cli.sources.files import fingerprint
from tfrec_cli.splitting.asked import check_combinations, parse_splits
from tfrec_cli.stages import recording
from tfrec_cli.tasks import EncodedBatch, Piece, Work, encode_batch, read_piece
from tfrec_cli.writing import SplitWriter, route, write_split

Check = Callable[[Callable[[str], Path], Manifest, str], None]
"""Looks at a dataset before it is committed: where each shard is, the manifest, the schema's text.
Raises where it is not to be committed.
"""


def convert(
    options: ConvertOptions, reporter: Reporter = SILENT, check: Check | None = None
) -> Manifest:
    """Write the dataset that `options` asks for; return its manifest.

    check: called before the commit. Nothing is at DEST before everything is: a run that fails or
    is interrupted leaves DEST as it was. Raises TfrecError of the kind that fits (see
    `tfrec_cli.errors`).
    """
    if options.scheduler is not None:
        options = _absolute(options)
    dest = _open_dest(options)
    if check is not None and dest.kind == "stdout":
        raise UsageError("--verify: DEST is - and cannot be read again. Leave one of them out.")
    with open_engine(options.engine, options.scheduler, options.jobs) as engine:
        if engine.remote:
            _join(engine, dest)
        run = prepare(dest, options, reporter, engine)
        try:
            return _to_stdout(run) if dest.kind == "stdout" else _to_dataset(run, check)
        except CellError as error:
            raise explain_unknown_label(error, run.settled, options) from None
        finally:
            for notice in engine.notices:
                reporter.notice(notice)


def _absolute(options: ConvertOptions) -> ConvertOptions:
    """The options with paths that mean the same to workers, which have working folders."""
    here = os.getcwd()
    sources = (
        os.path.join(here, item) if isinstance(item, str) and "://" not in item and item != "-"
        else item
        for item in options.sources
    )  # fmt: skip
    temp_dir = options.temp_dir and os.path.join(here, options.temp_dir)
    return replace(options, sources=tuple(sources), temp_dir=temp_dir)


def _join(engine: Engine, dest: Dest) -> None:
    """See to it that the workers of an engine are such as this process."""
    from tfrec_cli.cluster.probes import require_versions

    require_versions(engine, dest.compression)
    if (profile := recording()) is not None:
        profile.elsewhere = engine.threads()[0]


def prepare(
    dest: Dest, options: ConvertOptions, reporter: Reporter, engine: Engine | None = None
) -> Run:
    """All that is settled before the first byte is written. Writes nothing but the rejects.

    engine: where tasks will run; None is threads.
    """
    options = _checked(options, dest)
    engine = engine or Threads(options.jobs)
    reporter.stage("survey", None)
    settled = settle(options)
    if engine.remote:
        from tfrec_cli.cluster.probes import require_files

        require_files(engine, settled.survey.fingerprints)
    arrangement = arrange(options, settled.survey, settled.features)
    columns = tuple(dict.fromkeys((*settled.columns, *arrangement.columns)))
    work = Work(
        settled.source, settled.features, columns, options.on_error,
        arrangement.splitter, arrangement.order,
    )  # fmt: skip
    checks = check_rows(work, settled.survey, options, reporter, arrangement)
    if options.rejects is not None:
        write_rejects(options.rejects, checks.rejects, _read_files(options, settled))
    work = replace(work, splitter=checks.splitter)
    plan = make_plan(work, checks, options)
    run = Run(options, dest, settled, work, plan, reporter, engine)
    if dest.kind != "folder":
        _refuse_splits(run)
    return run


def infer(options: ConvertOptions, reporter: Reporter = SILENT) -> str:
    """The schema of the sources in `options` as YAML text; what it rests on is noticed."""
    reporter.stage("survey", None)
    settled = settle(options)
    for notice in (*settled.survey.notices, *settled.notes):
        reporter.notice(notice)
    return settled.text


@dataclass(frozen=True, slots=True)
class Run:
    """One run, settled and planned."""

    options: ConvertOptions
    dest: Dest
    settled: Settled
    work: Work
    plan: Plan
    reporter: Reporter
    engine: Engine


def _open_dest(options: ConvertOptions) -> Dest:
    """DEST, refused now where it would be refused after all the work."""
    dest = choose_dest(options)
    if dest.kind == "stdout":
        if sys.stdout is None:
            raise UsageError("DEST is - but standard output is closed.")
        if sys.stdout.isatty():
            raise UsageError("DEST is - but standard output is a terminal. Pipe it somewhere.")
    else:
        recover(dest)
        check_dest(dest, options.overwrite, _paths(options))
    return dest


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


def _checked(options: ConvertOptions, dest: Dest) -> ConvertOptions:
    """The options with what DEST implies. Raises UsageError where two exclude each other."""
    asked = parse_splits(options.split)
    check_combinations(options, asked)
    for name in ("rejects", "max_errors"):
        if getattr(options, name) is not None and options.on_error != "skip":
            flag = name.replace("_", "-")
            raise UsageError(f"--{flag} needs --on-error skip: without it no row is left out.")
    if options.rejects is not None:
        check_rejects(options.rejects, dest, _paths(options))
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


def _paths(options: ConvertOptions) -> list[str]:
    return [item for item in options.sources if isinstance(item, str) and item != "-"]


def _read_files(options: ConvertOptions, settled: Settled) -> list[str]:
    """The files that a run reads, as far as they are known before it begins."""
    prints = (*settled.survey.fingerprints, *settled.fingerprints)
    schema = [options.schema] if isinstance(options.schema, str) else []
    return [*_paths(options), *(print.path for print in prints), *schema]


def _to_dataset(run: Run, check: Check | None) -> Manifest:
    """Write shards into a stage, have them checked, and commit it."""
    sources = [print.path for print in run.settled.survey.fingerprints]
    loaded: dict[str, Fingerprint] = {}
    with staging(run.dest, run.options.overwrite, [*_paths(run.options), *sources]) as stage:
        splits = _write_staged(run, stage, loaded)
        fingerprints = _unchanged(run, loaded)
        manifest = _manifest(run, splits, fingerprints)
        labels = {f.key: f.labels for f in run.settled.features if f.labels is not None}
        if check is not None:
            check(stage.path, manifest, run.settled.text)
        return stage.commit(manifest, side_files(run.settled.text, labels))


def _write_staged(run: Run, stage: Stage, loaded: dict[str, Fingerprint]) -> tuple[Split, ...]:
    """Write all splits into the stage, where the engine runs."""
    if not run.engine.remote:
        return _write(run, stage.writer, stage.work, loaded)
    from tfrec_cli.cluster.driver import ClusterRun, write_on_cluster

    _notice(run)
    cluster = ClusterRun(
        run.engine, run.options, run.dest, run.work, run.plan, run.reporter, loaded
    )
    return write_on_cluster(cluster, stage)


def _to_stdout(run: Run) -> Manifest:
    """Write one shard to standard output; the manifest is not kept anywhere."""
    loaded: dict[str, Fingerprint] = {}
    stdout = sys.stdout.buffer
    splits = _write(run, lambda _, *how: ShardWriter(stdout, *how), None, loaded)
    return _manifest(run, splits, _unchanged(run, loaded))


def _refuse_splits(run: Run) -> None:
    if len(run.plan.splits) > 1:
        names = ", ".join(split.name for split in run.plan.splits)
        raise UsageError(f"{run.dest.text} is one file, but the source has splits ({names}). "
                         "Give a folder as DEST.")  # fmt: skip


def _write(
    run: Run,
    writer: Callable[..., ShardWriter],
    scratch: Path | None,
    loaded: dict[str, Fingerprint],
) -> tuple[Split, ...]:
    """Write all splits. The files that cells named are added to `loaded`.

    writer: makes that of a shard. scratch: a folder on DEST's disk.
    """
    _notice(run)
    with ThreadPoolExecutor(run.options.jobs, thread_name_prefix="tfrec-compress") as pool:
        executor = pool if run.options.jobs > 1 else None
        how = run.dest.compression, executor
        writers = []
        for split in run.plan.splits:
            names = run.dest.shards(split.name, len(split.shards))
            writers.append(SplitWriter(split, (writer(name, *how) for name in names)))
        if run.work.order is not None:
            return _write_ordered(run, scratch, writers, loaded)
        run.reporter.stage("convert", run.plan.records)
        if run.work.splitter is not None:
            encode = partial(route_batch, run.work)
            return route(writers, _batches(run, run.plan.pieces, encode, loaded))
        encode = partial(encode_batch, run.work)
        return tuple(
            write_split(writer, (b.records for b in _batches(run, split.pieces, encode, loaded)))
            for writer, split in zip(writers, run.plan.splits, strict=True)
        )


def _write_ordered(
    run: Run, scratch: Path | None, writers: list[SplitWriter], loaded: dict[str, Fingerprint]
) -> tuple[Split, ...]:
    """Write splits whose records are shuffled or sorted."""
    with spill_folder(run.options, scratch) as folder:
        ordered = Ordered(run.work, run.plan, run.options, folder)
        if ordered.spills:
            plain = run.dest.compression.kind == "none"
            check_space(run.options, folder, scratch if plain else None, run.plan)
        run.reporter.stage(run.work.order.kind if run.work.order else "", run.plan.records)
        loaded.update(ordered.map(run.reporter))
        run.reporter.stage("convert", run.plan.records)
        return tuple(
            write_split(writer, _reported(run, ordered.split(number)))
            for number, writer in enumerate(writers)
        )


def _reported(run: Run, batches: Iterator[Encoded]) -> Iterator[Encoded]:
    for records in batches:
        run.reporter.advance(len(records.ends), memoryview(records.data).nbytes)
        yield records


def _batches(
    run: Run,
    pieces: tuple[Piece, ...],
    encode: Callable[[SourceBatch], EncodedBatch],
    loaded: dict[str, Fingerprint],
) -> Iterator[EncodedBatch]:
    """The encoded batches of some pieces, in order."""
    read = partial(read_piece, run.work)
    for batch in ordered_flat_map(read, encode, pieces, run.options.jobs):
        loaded.update((print.path, print) for print in batch.fingerprints)
        ends = batch.records.ends
        run.reporter.advance(len(ends), int(ends[-1]) if len(ends) else 0)
        yield batch


def _notice(run: Run) -> None:
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


def _unchanged(run: Run, loaded: dict[str, Fingerprint]) -> list[Fingerprint]:
    """All files that records came from. Raises SourceError where one changed meanwhile."""
    prints = [*run.settled.survey.fingerprints, *run.settled.fingerprints, *loaded.values()]
    for known in prints:
        now = fingerprint(known.path)
        if (now.size, now.mtime_ns) != (known.size, known.mtime_ns):
            raise SourceError(f"{known.path}: changed while it was being read. Run again.")
    return prints


def _manifest(run: Run, splits: tuple[Split, ...], prints: list[Fingerprint]) -> Manifest:
    return Manifest(
        name=run.dest.name,
        compression=run.dest.compression,
        splits=splits,
        features=tuple(_facts(feature) for feature in run.settled.features),
        rows=Rows(run.plan.rows, run.plan.records, 0, run.plan.rejected),
        options=_output_options(run.options),
        libraries=library_versions(run.dest.compression),
        notices=tuple(run.settled.survey.notices),
        sources=source_files(prints),
    )


def _facts(feature: BoundFeature) -> FeatureFacts:
    return FeatureFacts(
        feature.key,
        feature.type,
        feature.shape,
        feature.ragged,
        row_lengths(feature.key, feature.ragged),
        _missing(feature),
        feature.labels,
        feature.first_label,
    )


def _missing(feature: BoundFeature) -> str:
    """What a reader meets where there is no value; an unknown label may be left out as well."""
    omits = "omit" in (feature.missing.action, feature.unknown.action)
    return "omit" if omits else feature.missing.action


def _output_options(options: ConvertOptions) -> dict[str, Any]:
    """The options that the output depends on."""
    names = (
        "split", "split_exact", "split_by", "stratify", "split_column", "split_seed",
        "shuffle", "seed", "sort_by", "key", "shards", "shard_size", "limit", "on_error",
    )  # fmt: skip
    found = {name: getattr(options, name) for name in names}
    found["seed"] = options.seed or 0 if options.shuffle else None
    found["split_seed"] = options.split_seed or 0 if "=" in (options.split or "") else None
    return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}
