"""`tfrec sources`: the installed source adapters and their options."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from tfrec_cli.cli.common import debug_option, json_option


@click.command("sources", short_help="The installed source adapters, with their options.")
@json_option
@debug_option
def command(as_json: bool) -> None:
    """List the source adapters and the options that -O KEY=VALUE sets."""
    from tfrec_cli.sources.registry import list_sources

    found = list_sources()
    if as_json:
        click.echo(json.dumps([asdict(info) for info in found], indent=2, default=str))
        return
    for info in found:
        suffixes = f"  ({' '.join(info.suffixes)})" if info.suffixes else ""
        click.echo(f"{click.style(info.name, bold=True)}{suffixes}\n    {info.summary}")
        for option in info.options:
            default = "" if option.default in (None, "") else f" Default: {option.default}."
            click.echo(f"    -O {option.name}={option.type}\n        {option.description}{default}")
        click.echo()
