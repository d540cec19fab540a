"""`tfrec export`: datasets back as Parquet, CSV, JSON lines or image files."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Literal

import click

from tfrec_cli.cli.common import (
    PATH,
    columns_option,
    debug_option,
    fsync_option,
    human_size,
    jobs_option,
    json_option,
    quiet_option,
    say,
    split_option,
)
from tfrec_cli.cli.progress import TerminalReporter
from tfrec_cli.errors import UsageError, counted, key_text
from tfrec_cli.options import default_jobs

if TYPE_CHECKING:
    from tfrec_cli.export import ExportReport

SHOWN_COLUMNS = 20


@click.command("export", short_help="Back to Parquet, CSV, JSON lines or image files.")
@click.argument("paths", metavar="DATASET... DEST", nargs=-1, type=PATH)
@click.option(
    "--to", metavar="parquet|csv|jsonl|images",
    help="The format. Default: by DEST's suffix. With it DEST may be a folder: a file for each "
    "split, or pictures in folders by class.",
)  # fmt: skip
@split_option
@columns_option
@click.option("--label-names", is_flag=True, help="Names of labels instead of their numbers.")
@click.option("--split-column", metavar="NAME", help="Add a column that tells each record's split.")
@click.option(
    "--plain-types", "plain", is_flag=True,
    help="Features as int64, float and bytes, whatever columns the schema says they were made of.",
)  # fmt: skip
@click.option(
    "--on-error", type=click.Choice(["fail", "skip"]), default="fail",
    help="skip leaves out records that are no tf.train.Example, or not as the others, and counts "
    "them. Damage is an error all the same. Default: fail.",
)  # fmt: skip
@jobs_option
@fsync_option
@json_option
@quiet_option
@debug_option
def command(
    paths: tuple[str, ...],
    to: str | None,
    split: str | None,
    columns: tuple[str, ...] | None,
    label_names: bool,
    split_column: str | None,
    plain: bool,
    on_error: Literal["fail", "skip"],
    jobs: int | None,
    fsync: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    r"""Write the records of DATASET... (a dataset folder, TFRecord files of any origin, patterns of
    them) to DEST: a .parquet, .csv or .jsonl file (the last two also with .gz), a folder, or - for
    standard output.

    Columns get back the Arrow types that the schema of the dataset records: times, booleans, narrow
    integers, nested lists. Features that a record lacks are null. DEST is written whole or not at
    all, and nothing that is there is replaced.

    \b
    tfrec export dataset table.parquet --split train
    tfrec export dataset tables --to parquet
    tfrec export dataset pictures --to images
    tfrec export 'shards/*.tfrecord' - --to jsonl | jq .label
    """
    from tfrec_cli.export import ExportOptions, export
    from tfrec_cli.export.options import STDOUT

    if len(paths) < 2:
        what = "DATASET and DEST are" if not paths else "DEST is"
        raise UsageError(f"{what} missing. Usage: tfrec export DATASET... DEST")
    to_stdout = paths[-1] in STDOUT
    if to_stdout and as_json:
        raise UsageError("--json and DEST - both want standard output; leave one out.")
    options = ExportOptions(
        paths[:-1], paths[-1], to, split, columns, label_names, split_column, plain,
        jobs or default_jobs(), fsync, on_error,
    )  # fmt: skip
    reporter = TerminalReporter(bar=not quiet and not as_json)
    began = time.monotonic()
    try:
        report = export(options, reporter)
    finally:
        reporter.close()
    seconds = time.monotonic() - began
    if as_json:
        click.echo(json.dumps(report.document() | {"seconds": round(seconds, 3)}, indent=2))
    elif not quiet:
        _print(report, seconds, to_stdout)


def _print(report: ExportReport, seconds: float, to_stdout: bool) -> None:
    rate = report.records / seconds if seconds else 0
    size = f", {human_size(report.bytes)}" if report.bytes else ""
    lines = [
        f"{report.dest}: {counted(report.records, 'record')}{size}, {seconds:.2f} s "
        f"({rate:,.0f} records/s)"
    ]
    if len(report.files) > 1:
        for file in report.files:
            where = f"{file.name}/" if report.to == "images" else file.name
            lines.append(f"  {file.split or 'files':<8} {counted(file.records, 'record')}: {where}")
    shown = [(key_text(name), kind) for name, kind in report.columns[:SHOWN_COLUMNS]]
    width = max((len(name) for name, _ in shown), default=0)
    lines += [f"    {name:<{width}}  {kind}" for name, kind in shown]
    if more := len(report.columns) - len(shown):
        lines.append(f"    … and {more:,} more")
    for line in lines:
        say(line, err=to_stdout)
    for notice in report.notices:
        say(f"note: {notice}", err=True)
