"""`tfrec repair`: the good records of damaged files, and a list of what was lost."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import click

from tfrec_cli.cli.common import (
    PATH,
    debug_option,
    human_size,
    jobs_option,
    json_option,
    overwrite_option,
    quiet_option,
    say,
)
from tfrec_cli.cli.progress import TerminalReporter
from tfrec_cli.errors import UsageError, counted, shorten
from tfrec_cli.options import Compression, default_jobs

if TYPE_CHECKING:
    from tfrec_cli.repair import Loss, RepairReport

# Losses that are listed; `lost.jsonl` and the JSON document have all.
SHOWN_LOSSES = 30


@click.command("repair", short_help="The good records of damaged TFRecord files.")
@click.argument("paths", metavar="FILE... DEST", nargs=-1, type=PATH)
@click.option(
    "--name", metavar="NAME", help="Dataset name in shard names. Default: as it was, or by DEST."
)
@click.option(
    "--compression", metavar="none|gzip|zlib[:LEVEL]",
    help="Compression of shards. Default: by DEST's suffix, or as the files are.",
)  # fmt: skip
@jobs_option
@overwrite_option
@json_option
@quiet_option
@debug_option
def command(
    paths: tuple[str, ...],
    name: str | None,
    compression: str | None,
    jobs: int | None,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    r"""Save every intact record of FILE... (TFRecord files of any origin, patterns of them, dataset
    folders) to DEST, a folder or one file, and list what was lost. FILE is not changed.

    Behind damage, records go on at the next one whose checksums both hold, whatever lies between.
    Of compressed files comes what can still be inflated; behind a fault that is the next GZIP
    member, or the next block that stands by itself (tfrec's shards have one every 4 MiB). Record
    bytes stay as they are; no checksum is made up for data that has none.

    The list is printed, and lies as lost.jsonl with the manifest of DEST. Exit code: 0 nothing
    was lost, 3 something was, 1 a file cannot be read or DEST not be written.

    \b
    tfrec repair damaged.tfrecord saved.tfrecord
    tfrec repair dataset repaired
    tfrec repair 'shards/train-*' repaired --json
    """
    from tfrec_cli.repair import RepairOptions, repair

    if len(paths) < 2:
        what = "FILE and DEST are" if not paths else "DEST is"
        raise UsageError(f"{what} missing. Usage: tfrec repair FILE... DEST")
    asked = None if compression is None else Compression.parse(compression)
    options = RepairOptions(paths[:-1], paths[-1], name, asked, overwrite, jobs or default_jobs())
    reporter = TerminalReporter(bar=not quiet and not as_json)
    began = time.monotonic()
    try:
        report = repair(options, reporter)
    finally:
        reporter.close()
    seconds = time.monotonic() - began
    if as_json:
        click.echo(json.dumps(report.document() | {"seconds": round(seconds, 3)}, indent=2))
    elif not quiet:
        _print(report, seconds)
    return report.exit_code


def _print(report: RepairReport, seconds: float) -> None:
    rate = report.records / seconds if seconds else 0
    shards = len({file.shard for file in report.files})
    say(
        f"{report.dest}: {counted(report.records, 'record')} saved in {counted(shards, 'shard')}, "
        f"{human_size(report.bytes)}, {seconds:.2f} s ({rate:,.0f} records/s)"
    )
    if report.mended:
        say(f"  mended   {counted(report.mended, 'record')} whose length was damaged, data intact")
    if report.losses:
        say(f"  lost     {_total(report)}, listed in {_list_file(report)}")
    for line in _table(report.losses[:SHOWN_LOSSES]):
        say(line)
    more = len(report.losses) - SHOWN_LOSSES
    if more > 0:
        say(f"… and {counted(more, 'more range')}")
    if not report.losses:
        say("  lost     nothing")
    for notice in report.notices:
        say(f"note: {notice}", err=True)


def _total(report: RepairReport) -> str:
    """What is lost, as far as that is known."""
    known = sum(loss.records or 0 for loss in report.losses)
    ranges = [loss for loss in report.losses if loss.bytes]
    missing = len(report.losses) - len(ranges)
    open_end = any(loss.records is None for loss in report.losses)
    parts = [f"{'at least ' if open_end else ''}{counted(known, 'record')}"] if known else []
    if ranges:
        size = human_size(sum(loss.bytes for loss in ranges))
        parts.append(f"{size} in {counted(len(ranges), 'range')}")
    if missing:
        parts.append(counted(missing, "shard"))
    return ", ".join(parts)


def _list_file(report: RepairReport) -> str:
    from tfrec_cli.dataset.manifest import manifest_path
    from tfrec_cli.repair.losses import LOST

    return os.fspath(manifest_path(report.dest).with_name(LOST))


def _table(losses: tuple[Loss, ...]) -> list[str]:
    """One aligned line a loss, with a heading."""
    if not losses:
        return []
    rows = [("file", "after record", "bytes", "reason")]
    for loss in losses:
        unit = " of content" if loss.unit == "content" else ""
        place = f"{loss.start:,} to {loss.end:,}{unit}" if loss.bytes else "all"
        count = f" ({counted(loss.records, 'record')})" if loss.records else ""
        reason = f"{loss.kind}: {loss.text}{count}"
        if loss.doubtful:
            saved = counted(loss.doubtful, "record")
            reason += f"; {saved} saved behind it may be copies of earlier ones"
        rows.append((shorten(loss.file, 1000), f"{loss.record:,}", place, reason))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:<{widths[2]}}  {d}" for a, b, c, d in rows]
