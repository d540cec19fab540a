"""The command line: one module a command, and nothing else prints.

Heavy imports happen inside the commands, so that `tfrec --help` starts at once.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click

from tfrec_cli.cli import signals
from tfrec_cli.cli.common import print_version, say
from tfrec_cli.errors import TfrecError
from tfrec_cli.interruption import HungUp, Terminated

# Each is a module of this room; only that of the command that runs is imported.
_COMMANDS = (
    *("convert", "plan", "schema", "inspect", "head", "stats", "export"),
    *("verify", "repair", "index"),
    *("metadata", "loader", "bench", "sources"),
)


class _PipeClosed(Exception):
    """Nobody reads on. Of a BrokenPipeError itself click makes an exit with code 1."""


class _Interrupted(BaseException):
    """Ctrl-C. For a KeyboardInterrupt itself click prints an empty line, wherever that goes."""


class _Commands(click.Group):
    """The commands, in the order in which they are met."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _PipeClosed from error
        except KeyboardInterrupt as error:
            raise _Interrupted from error

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002
        cmd_name: str,
    ) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"tfrec_cli.cli.{cmd_name}")
        return _with_breaks(module.command)


def _with_breaks(command: click.Command) -> click.Command:
    """Docstrings are raw; click wants the character that keeps the next lines as they are."""
    command.help = (command.help or "").replace(r"\b", "\b")
    return command


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=print_version,
    help="Show the version and the live kernel, then exit.",
)
def cli() -> None:
    r"""Turn CSV and Parquet tables, image folders, boxes and TFRecord files into TFRecord datasets,
    ready to train on.

    \b
    tfrec plan penguins.csv dataset        what convert would do, without writing
    tfrec convert penguins.csv dataset     write a dataset, types inferred
    tfrec schema penguins.csv > s.yaml     see and edit what was inferred
    tfrec loader dataset > load.py         the code that reads it
    tfrec inspect dataset                  features, files, where the bytes go
    tfrec head dataset                     its first records
    tfrec stats dataset                    what its features hold, class balance, drift
    tfrec verify dataset                   every checksum, count and kind of it
    tfrec repair dataset repaired          the good records of damaged files
    tfrec export dataset table.parquet     back to Parquet, CSV, JSON lines or image files
    """


_with_breaks(cli)

# `tfrec` alone: an exception with the help as its message, from click 8.2 on.
_HELP_WANTED: tuple[type[BaseException], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])
)

# As a shell has it of a program that SIGPIPE ends: 128 and the signal's number.
PIPE_CLOSED = 141

_KEPT = "nothing half-written was left behind, and convert keeps what it finished for --resume."

# What Python and the system's loader say where a thread or a library finds no room.
_NO_MEMORY = ("can't start new thread", "failed to map segment", "annot allocate memory")


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run `tfrec` and exit: 0 done, 1 failed, 2 wrong usage, 3 damage, 130/143/129 interrupted,
    141 nobody reads on.

    args: None is the command line itself; the process then ends here and now.
    """
    code = _run(args)
    if args is None:
        _leave(code)
    sys.exit(_flushed(code))


def _run(args: Sequence[str] | None) -> int:
    """Run a command; what it leaves for the process to exit with."""
    state: dict[str, Any] = {"debug": False}
    try:
        _prepare(args)
        result = cli.main(args=args, prog_name="tfrec", standalone_mode=False, obj=state)
        signals.is_over = args is None
        code = result if isinstance(result, int) else 0
    except BaseException as error:
        signals.is_over = args is None
        if state["debug"] and not isinstance(error, SystemExit):
            raise
        code = _report(error, state)
    return code


def _prepare(args: Sequence[str] | None) -> None:
    if args is None:
        # Imports make objects by the hundred thousand, none of them garbage.
        gc.set_threshold(100_000)
        signals.watch()
    if not sys.warnoptions:
        # Warnings of libraries are for programmers; users get notices and errors.
        warnings.simplefilter("ignore")


def _leave(code: int) -> NoReturn:
    """Exit without taking the interpreter apart, which takes longer than many a command.

    What was registered to run at exit runs: temporary files go away, logs are closed.
    """
    atexit._run_exitfuncs()
    signals.exit_at_once()
    os._exit(_flushed(code))


def _flushed(code: int) -> int:
    """The exit code, once what is buffered is written out."""
    return code if _flush() or code else PIPE_CLOSED


def _report(error: BaseException, state: Mapping[str, Any]) -> int:
    """Say what went wrong in one line; return the exit code. state: what the options said."""
    # What a signal raised may have come out as something else.
    error = signals.caught() or error
    if isinstance(error, _PipeClosed | BrokenPipeError):
        return PIPE_CLOSED
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, HungUp):
        return _say(f"hung up on (SIGHUP); {_KEPT}", 129)
    if isinstance(error, Terminated):
        return _say(f"terminated; {_KEPT}", 143)
    if isinstance(error, (KeyboardInterrupt, _Interrupted, click.Abort)):
        _leave_line()
        return _say("interrupted; nothing half-written was left behind.", 130)
    if isinstance(error, _HELP_WANTED):
        click.echo(error.format_message(), err=True)  # type: ignore[attr-defined]
        return 2
    if isinstance(error, click.UsageError):
        return _say(f"{error.format_message()} {_see_help(error)}", 2)
    if isinstance(error, click.ClickException):
        return _say(error.format_message(), error.exit_code)
    if isinstance(error, TfrecError):
        return _say(str(error), error.exit_code)
    if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
        return _say(_out_of_memory(state), 1)
    if isinstance(error, OSError):
        return _say(_system(error), 1)
    return _say(f"{type(error).__name__}: {error} (a fault in tfrec: --debug shows where)", 1)


def _out_of_memory(state: Mapping[str, Any]) -> str:
    """What helps then. state: `jobs`, where the command has any."""
    more = "Use fewer jobs (-j 1)" if state.get("jobs", 1) > 1 else "Give it more"
    return f"out of memory. {more}; where Parquet is converted, smaller row groups help too."


def _say(message: str, code: int) -> int:
    line = " ".join(message.split())
    say(f"tfrec: {line}", err=True)
    return code


def _leave_line() -> None:
    """End the line in which a terminal has put `^C`."""
    if sys.stderr is not None and sys.stderr.isatty():
        click.echo(err=True)


def _see_help(error: click.UsageError) -> str:
    return f"See `{error.ctx.command_path} --help`." if error.ctx else ""


def _system(error: OSError) -> str:
    name = f"{error.filename}: " if error.filename is not None else ""
    return f"{name}{error.strerror or error}"


def _flush() -> bool:
    """Write out what is buffered; whether the reader of standard output is still there."""
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr)
    is_whole = True
    for stream in filter(None, streams):
        try:
            stream.flush()
        except BrokenPipeError:
            is_whole = is_whole and stream is not sys.stdout
            sys.stdout = None  # else the interpreter tries again
    return is_whole
