"""`tfrec schema`: infers the schema of a source and prints it, ready to edit."""

from __future__ import annotations

import json
from typing import Any

import click

from tfrec_cli.cli.common import (
    PATH,
    debug_option,
    jobs_option,
    parse_source_options,
    quiet_option,
    say,
    source_options,
)
from tfrec_cli.cli.progress import TerminalReporter
from tfrec_cli.errors import UsageError
from tfrec_cli.options import ConvertOptions, default_jobs


@click.command("schema", short_help="Infer the YAML schema, to stdout, ready to edit.")
@click.argument("sources", metavar="SOURCE...", nargs=-1, type=PATH)
@source_options
@click.option("--json-schema", is_flag=True, help="Print the JSON Schema of schema files instead.")
@jobs_option
@quiet_option
@debug_option
def command(sources: tuple[str, ...], json_schema: bool, quiet: bool, **given: Any) -> None:
    r"""Infer the schema of SOURCE... over all rows and files, and print it as YAML.

    \b
    tfrec schema penguins.csv > schema.yaml
    tfrec convert penguins.csv dataset --schema schema.yaml
    tfrec schema --json-schema > tfrec.schema.json     for editors
    """
    if json_schema:
        from tfrec_cli.schema import json_schema as document

        click.echo(json.dumps(document(), indent=2))
        return
    if not sources:
        raise UsageError("SOURCE is missing. Usage: tfrec schema SOURCE...")
    from tfrec_cli.conversion import infer

    given["source_options"] = parse_source_options(given["source_options"])
    given["jobs"] = given["jobs"] or default_jobs()
    reporter = TerminalReporter(bar=not quiet)
    try:
        text = infer(ConvertOptions(sources=sources, dest="", **given), reporter)
    finally:
        reporter.close()
    click.echo(text.encode(), nl=False)
    for notice in reporter.notices if not quiet else ():
        say(f"note: {notice}", err=True)
