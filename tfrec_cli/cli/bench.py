"""`tfrec bench`: how fast a dataset is read."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

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
    from tfrec_cli.throughput import Benchmark

WIDTH = 100
_READERS = {
    "records": "tfrec, bytes of records",
    "columns": "tfrec, Arrow columns",
    "tf.data": "tf.data, bytes of records",
}


@click.command("bench", short_help="How fast a dataset is read, and what would be faster.")
@click.argument("dataset", type=PATH)
@jobs_option
@click.option(
    "--seconds", metavar="S", type=click.FloatRange(0.01, 3600), default=1.0,
    help="How long each measurement takes. Default: 1.",
)  # fmt: skip
@click.option("--no-tensorflow", is_flag=True, help="Leave tf.data out, though it is installed.")
@json_option
@quiet_option
@debug_option
def command(
    dataset: str,
    jobs: int | None,
    seconds: float,
    no_tensorflow: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    r"""Measure how fast DATASET is read: a dataset folder or TFRecord files of any origin.

    tfrec's own reader and, where TensorFlow is installed, tf.data read it for some seconds, one
    file at a time and more. The files are read once before, so that they lie in memory where they
    fit: what is measured is the work of readers, not the disk. MB are of decompressed content.

    \b
    tfrec bench dataset
    tfrec bench 'shards/train-*' --seconds 5 --json
    """
    from tfrec_cli.throughput import BenchOptions, measure

    options = BenchOptions(dataset, jobs or default_jobs(), seconds, not no_tensorflow)
    reporter = TerminalReporter(bar=not quiet and not as_json)
    try:
        found = measure(options, reporter)
    finally:
        reporter.close()
    if as_json:
        click.echo(json.dumps(found.document(), indent=2))
        return
    for line in _lines(found):
        say(line)


def _lines(found: Benchmark) -> list[str]:
    how = {"none": "uncompressed", "mixed": "of several compressions"}
    size = human_size(found.bytes)
    if found.content_bytes != found.bytes:
        size += f", {human_size(found.content_bytes)} decompressed"
    compression = how.get(found.compression, found.compression.upper())
    lines = [
        f"{found.path}: {counted(found.records, 'record')} in {counted(found.files, 'file')}, "
        f"{compression}, {size}",
        f"{'reader':<26}  parallel     records/s        MB/s",
    ]
    for rate in found.rates:
        each = f"{rate.records_per_second:>14,.0f}{rate.bytes_per_second / 1e6:>12,.0f}"
        lines.append(f"{_READERS[rate.reader]:<26}{rate.parallel:>10}{each}")
    return [*lines, *(line for text in found.advice for line in _wrapped(text))]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
