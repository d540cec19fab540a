"""`tfrec index`: random-access index files."""

from __future__ import annotations

import json
import os

import click

from tfrec_cli.cli.common import PATH, Parsed, debug_option, json_option, quiet_option, say
from tfrec_cli.errors import counted
from tfrec_cli.options import IndexFormat, parse_index

FORMATS = Parsed("formats", parse_index)
"""The parameter type of `--format` here, and of `tfrec convert --index`."""


@click.command("index", short_help="Random-access index files for DALI and the tfrecord package.")
@click.argument("paths", metavar="DATASET...", nargs=-1, required=True, type=PATH)
@click.option(
    "--format", "formats", metavar="dali,tfindex", type=FORMATS, default="dali,tfindex",
    help="dali: NAME.idx for NVIDIA DALI. tfindex: NAME.tfindex for the tfrecord package. Default: "
    "both.",
)  # fmt: skip
@json_option
@quiet_option
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
                f"{one.path}: {counted(one.records, 'record')} in {counted(one.files, 'file')}, "
                f"{counted(len(one.indexes), 'index file')} in {folders}"
            )
            say(text)
