"""`tfrec metadata`: what other loaders want to know of a dataset."""

from __future__ import annotations

import json

import click

from tfrec_cli.cli.common import PATH, Parsed, debug_option, json_option, quiet_option, say
from tfrec_cli.options import MetadataFormat, parse_metadata

FORMATS = Parsed("formats", parse_metadata)
"""The parameter type of `--format` here, and of `tfrec convert --metadata`."""


@click.command("metadata", short_help="Metadata for TFDS, TFX and the Object Detection API.")
@click.argument("dataset", type=PATH)
@click.option(
    "--format", "formats", metavar="tfds,tfmd,label-map", type=FORMATS, required=True,
    help="Which files to write; see above.",
)  # fmt: skip
@json_option
@quiet_option
@debug_option
def command(dataset: str, formats: tuple[MetadataFormat, ...], as_json: bool, quiet: bool) -> None:
    r"""Write files that other programs know DATASET by, beside its shards.

    \b
    tfds       features.json and dataset_info.json, for tfds.builder_from_directory; the
               shards must be uncompressed and called NAME-SPLIT.tfrecord-00000-of-00010
    tfmd       schema.pbtxt of TensorFlow Metadata, for TFX, TFDV and TensorFlow Transform
    label-map  label_map.pbtxt of the Object Detection API; labels must count from 1

    Without a manifest of tfrec's, what the features are is found by a look at all records.

    \b
    tfrec metadata dataset --format tfds,tfmd
    """
    from tfrec_cli.metadata import write_metadata

    done = write_metadata(dataset, formats)
    if as_json:
        click.echo(json.dumps(done.document(), indent=2))
    elif not quiet:
        for path in done.files:
            say(path)
        for notice in done.notices:
            say(f"note: {notice}", err=True)
