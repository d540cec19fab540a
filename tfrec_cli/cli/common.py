"""What several commands share: options, parameter types, size and count formats."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfrec_cli import __version__
from tfrec_cli.errors import UsageError, printable
from tfrec_cli.errors import human_size as human_size

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    # Not generic at run time before click 8.4.
    _ParamType = click.ParamType

Function = TypeVar("Function", bound=Callable[..., Any])


class Parsed(_ParamType):
    """An option value that a function of ours parses; its UsageError becomes click's."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self._parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


def _columns(text: str) -> tuple[str, ...]:
    """Names as in a line of CSV: one with a comma stands in quotes."""
    try:
        names = tuple(next(csv.reader([text], strict=True), ()))
    except csv.Error:
        raise UsageError(
            f"{text} is not a list of columns. Put a name with a comma in double quotes, as in "
            "'\"size, cm\",weight'."
        ) from None
    if not names or not all(names):
        raise UsageError(f'"{text}" names a column without a name. Give names with commas between.')
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f'"{text}" names column "{twice}" twice. Name it once.')
    return names


PATH = click.Path(readable=False)
"""A path of any kind. Whoever opens it says in words what is wrong with it."""

COLUMNS = Parsed("columns", _columns)
"""A type for options that take names of columns, with commas between."""

columns_option = click.option(
    "--columns", metavar="NAME[,...]", type=COLUMNS, help="These features only, in this order."
)
split_option = click.option("--split", metavar="NAME", help="Records of this split only.")
overwrite_option = click.option(
    "--overwrite", is_flag=True, help="Replace a dataset that tfrec wrote, as a whole."
)


def _remember_jobs(ctx: click.Context, _param: click.Parameter, value: int | None) -> int | None:
    """Keep how many jobs were asked for: where memory runs out, advice depends on it."""
    if isinstance(ctx.obj, dict):
        from tfrec_cli.options import default_jobs

        ctx.obj["jobs"] = value or default_jobs()
    return value


jobs_option = click.option(
    "-j", "--jobs", metavar="N", type=click.IntRange(1), callback=_remember_jobs,
    help="Threads at work at a time. Default: as many as there are processors.",
)  # fmt: skip
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as one JSON document."
)
fsync_option = click.option(
    "--fsync/--no-fsync", default=True,
    help="Whether DEST must survive a power cut. --no-fsync does not wait for the disk.",
)  # fmt: skip
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Print no progress, summary or notices."
)


def say(*lines: str, err: bool = False) -> None:
    """Print lines for people. What is in them of keys, paths and values can neither end a line nor
    reach the terminal as anything but text: all that is not printable is escaped. err: to standard
    error; where that is a terminal that has gone, nothing else is lost.
    """
    if lines:
        text = "\n".join(map(printable, lines)).encode("utf-8", "backslashreplace")
        with suppress(*([OSError] if err else [])):
            click.echo(text, err=err)


def print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    """Print the version and the kernel's live body, then exit."""
    if value and not ctx.resilient_parsing:
        from tfrec_cli import _kernel

        click.echo(f"tfrec {__version__} ({_kernel.BODY} kernel)")
        ctx.exit()


def debug_option(function: Function) -> Function:
    """`--debug`: tracebacks instead of one-line errors."""

    def remember(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        if isinstance(ctx.obj, dict):
            ctx.obj["debug"] = ctx.obj["debug"] or value

    return click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=remember,
        help="Show a traceback where something fails.",
    )(function)


def source_options(function: Function) -> Function:
    """`--source` and `-O`: which adapter reads the source, and how."""
    function = click.option(
        "-O",
        "--source-option",
        "source_options",
        metavar="KEY=VALUE",
        multiple=True,
        help="Option of the source adapter, as in delimiter=';'. Repeatable; see `tfrec sources`.",
    )(function)
    return click.option(
        "--source",
        metavar="NAME",
        help="Source adapter: csv, parquet, images, boxes, tfrecord or an installed one. "
        "Default: by suffix.",
    )(function)


def parse_source_options(pairs: Sequence[str]) -> dict[str, str]:
    """`key=value` pairs as a mapping. Raises UsageError for a pair without `=` or given twice."""
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f'-O {pair}: expected KEY=VALUE, such as -O delimiter=";".')
        if key in options:
            raise UsageError(f"-O {key} is given twice.")
        options[key] = value
    return options
