"""`tfrec loader`: prints the code that reads a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tfrec_cli.cli.common import debug_option
from tfrec_cli.errors import DatasetError

if TYPE_CHECKING:
    from tfrec_cli.loaders import Framework


@click.command("loader", short_help="The code that reads a dataset: tf.data, PyTorch, Grain.")
@click.argument("dataset", type=click.Path())
@click.option(
    "--framework", type=click.Choice(["tf", "torch", "grain"]), default="tf",
    help="tf.data, PyTorch, or Grain (for JAX). Default: tf.",
)  # fmt: skip
@debug_option
def command(dataset: str, framework: Framework) -> None:
    r"""Print a complete script that reads DATASET: a folder or file that tfrec wrote.

    The scripts for PyTorch and Grain read through tfrec-cli, without TensorFlow, and share the
    records among workers and processes. Grain needs uncompressed shards.

    \b
    tfrec loader dataset > load.py
    python load.py
    tfrec loader dataset --framework torch > load.py
    """
    from tfrec_cli.dataset.manifest import load_manifest
    from tfrec_cli.loaders import FRAMEWORKS

    manifest = load_manifest(dataset)
    if manifest is None:
        from tfrec_cli.reading import open_datasets

        # Says what is wrong where nothing is there, or no TFRecord.
        open_datasets(dataset)
        raise DatasetError(
            f"{dataset}: TFRecord without a manifest of tfrec's, which tells the features and "
            f"files that a script names. `tfrec convert {dataset} DEST` writes the same records "
            "with one; then name DEST."
        )
    click.echo(FRAMEWORKS[framework](manifest, dataset), nl=False)
