"""`tfrec verify`: every checksum, count and kind; exit 3 where something is wrong."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from tfrec_cli.cli.common import (
    PATH,
    debug_option,
    human_size,
    jobs_option,
    json_option,
    quiet_option,
    say,
)
from tfrec_cli.cli.progress import TerminalReporter
from tfrec_cli.errors import counted
from tfrec_cli.options import default_jobs

if TYPE_CHECKING:
    from tfrec_cli.verification import DatasetSummary, Report

# Findings that are listed; the JSON document has all.
SHOWN_FINDINGS = 50


@click.command("verify", short_help="Every checksum, count and kind of TFRecord files.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=PATH)
@click.option(
    "--schema", metavar="FILE", type=PATH,
    help="YAML schema that records must follow. Default: that of the dataset, if it has one.",
)  # fmt: skip
@click.option(
    "--leak", metavar="FEATURE", multiple=True,
    help="Find values of FEATURE (a patient, a user) that occur in two splits. Repeatable.",
)  # fmt: skip
@jobs_option
@json_option
@quiet_option
@debug_option
def command(
    paths: tuple[str, ...],
    schema: str | None,
    leak: tuple[str, ...],
    jobs: int | None,
    as_json: bool,
    quiet: bool,
) -> int:
    r"""Read all of PATH... and tell what is wrong: dataset folders, TFRecord files of any origin,
    patterns of them, which are held to what they would match; plain, GZIP or ZLIB, whatever the
    names say.

    Each finding names the file, the record (from 0), its byte in the decompressed content, and a
    kind: length checksum, data checksum, truncated (records); compressed data, header, trailer,
    empty member, trailing data, compression (GZIP and ZLIB around them); kind, shape, presence,
    label, repeated feature, unknown feature, key (features against the schema); missing shard,
    extra shard, swapped shards, record count, file size, file checksum, side file, manifest (files
    against the manifest); leak. Exit code: 0 nothing is wrong, 3 something is, 1 a file cannot be
    read.

    \b
    tfrec verify dataset
    tfrec verify 'shards/train-*' --schema schema.yaml --json
    tfrec verify dataset --leak patient
    """
    from tfrec_cli.verification import VerifyOptions, verify

    options = VerifyOptions(paths, schema, leak, jobs or default_jobs())
    reporter = TerminalReporter(bar=not quiet and not as_json)
    began = time.monotonic()
    try:
        report = verify(options, reporter)
    finally:
        reporter.close()
    seconds = time.monotonic() - began
    if as_json:
        document: dict[str, Any] = report.document() | {"seconds": round(seconds, 3)}
        click.echo(json.dumps(document, indent=2))
        return report.exit_code
    _print(report, seconds, quiet)
    return report.exit_code


def _print(report: Report, seconds: float, quiet: bool) -> None:
    """Findings and a summary on standard output, notices and what was not read beside it."""
    for finding in report.findings[:SHOWN_FINDINGS]:
        say(str(finding))
    more = len(report.findings) - SHOWN_FINDINGS
    if more > 0:
        say(f"… and {counted(more, 'more finding')}; --json lists all")
    if not quiet:
        for dataset in report.datasets:
            say(_summary(dataset))
        say(_result(report, seconds))
        for notice in report.notices:
            say(f"note: {notice}", err=True)
    for text in report.unread:
        say(f"tfrec: {text}", err=True)


def _summary(dataset: DatasetSummary) -> str:
    from tfrec_cli.verification.findings import words_of

    checked = ["checksums"]
    if dataset.manifest:
        checked.append("manifest")
    if dataset.schema:
        checked.append(f"features by {words_of(dataset.schema)}")
    else:
        checked.append("kinds of features")
    counts = f"{counted(dataset.records, 'record')} in {counted(dataset.files, 'file')}"
    return f"{dataset.path}: {counts}; checked: {', '.join(checked)}"


def _result(report: Report, seconds: float) -> str:
    rate = human_size(report.bytes / seconds) if seconds else ""
    said = counted(len(report.findings), "finding") if report.findings else "nothing is wrong"
    if report.unread:
        said = said if report.findings else "nothing is wrong in what was read"
        said += f", {counted(len(report.unread), 'file')} not read"
    return f"{said} ({human_size(report.bytes)}, {seconds:.2f} s, {rate}/s)"
