"""`tfrec index`: random-access index files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from tfrec_cli.cli.common import Parsed, debug_option, plural

if TYPE_CHECKING:
    from tfrec_cli.options import IndexFormat


def _formats(text: str) -> tuple[IndexFormat, ...]:
    from tfrec_cli.records.index import parse_formats

    return parse_formats(text)


FORMATS = Parsed("formats", _formats)
"""The parameter type of `--format` here, and of `tfrec convert --index`."""


@click.command("index", short_help="Random-access index files for DALI and the tfrecord package.")
@click.argument("paths", metavar="DATASET...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--format", "formats", metavar="dali,tfindex", type=FORMATS, default="dali,tfindex",
    help="dali: NAME.idx for NVIDIA DALI. tfindex: NAME.tfindex for the tfrecord package. Default: "
    "both.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@debug_option
def command(
    paths: tuple[str, ...], formats: tuple[IndexFormat, ...], as_json: bool, quiet: bool
) -> None:
    r"""Write index files for DATASET... (dataset folders, TFRecord files of any origin, patterns):
    where each record begins and how long it is, so that readers can jump to it. Whatever the
    records hold; compressed files cannot be indexed.

    They lie in a folder `index` beside the files; in their names `.tfrecord` has become
    `-tfrecord`, so that no pattern for data matches them.

    \b
    tfrec index dataset
    tfrec index 'shards/*.tfrecord' --format tfindex
    """
    from tfrec_cli.indexing import write_indexes

    done = write_indexes(paths, formats)
    if as_json:
        click.echo(json.dumps({"datasets": [one.document() for one in done]}, indent=2))
    elif not quiet:
        for one in done:
            folders = ", ".join(sorted({os.path.dirname(path) for path in one.indexes}))
            text = (
                f"{one.path}: {plural(one.records, 'record')} in {plural(one.files, 'file')}, "
                f"{plural(len(one.indexes), 'index file')} in {folders}"
            )
            click.echo(text.encode("utf-8", "backslashreplace"))
