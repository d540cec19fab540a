"""`tfrec loader`: prints the code that reads a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tfrec_cli.cli.common import PATH, debug_option, say

if TYPE_CHECKING:
    from tfrec_cli.loaders import Framework


@click.command("loader", short_help="The code that reads a dataset: tf.data, PyTorch, Grain.")
@click.argument("dataset", type=PATH)
@click.option(
    "--framework", type=click.Choice(["tf", "torch", "grain"]), default="tf",
    help="tf.data, PyTorch, or Grain (for JAX). Default: tf.",
)  # fmt: skip
@debug_option
def command(dataset: str, framework: Framework) -> None:
    r"""Print a complete script that reads DATASET: a folder, a TFRecord file of any origin, or a
    pattern of files in one folder. What no manifest tells of their features, the records do.

    The scripts for PyTorch and Grain read through tfrec-cli, without TensorFlow, and share the
    records among workers and processes. Grain needs uncompressed shards.

    \b
    tfrec loader dataset > load.py
    python load.py
    tfrec loader dataset --framework torch > load.py
    """
    from tfrec_cli.loaders import loader_script

    script = loader_script(dataset, framework)
    click.echo(script.text, nl=False)
    for notice in script.notices:
        say(f"note: {notice}", err=True)
