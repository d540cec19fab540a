"""`tfrec loader`: prints the code that reads a dataset."""

from __future__ import annotations

import click

from tfrec_cli.cli.common import debug_option
from tfrec_cli.errors import DatasetError


@click.command("loader", short_help="The code that reads a dataset with tf.data.")
@click.argument("dataset", type=click.Path())
@debug_option
def command(dataset: str) -> None:
    r"""Print a complete tf.data script that reads DATASET: a folder or file that tfrec wrote.

    \b
    tfrec loader dataset > load.py
    python load.py
    """
    from tfrec_cli.dataset.manifest import load_manifest
    from tfrec_cli.loaders import tensorflow_script

    manifest = load_manifest(dataset)
    if manifest is None:
        raise DatasetError(
            f"{dataset}: no manifest.json of tfrec's is here. Name the dataset folder or the "
            ".tfrecord file that `tfrec convert` wrote."
        )
    click.echo(tensorflow_script(manifest, dataset), nl=False)
