"""`tfrec plan`: what convert would do, told from a sample; writes nothing."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import click

from tfrec_cli.cli import convert
from tfrec_cli.cli.common import human_size, say
from tfrec_cli.cli.footprints import WIDTH, footprint_lines, saving_lines
from tfrec_cli.cli.progress import TerminalReporter
from tfrec_cli.errors import counted
from tfrec_cli.options import ConvertOptions

if TYPE_CHECKING:
    from tfrec_cli.estimates.comparison import Trial
    from tfrec_cli.estimates.forecast import Comparison, Forecast, SplitForecast

# Shards of a split that are listed one by one.
SHOWN_SHARDS = 4
# A share of the size from which on it is told that the size may be off by it.
SHOWN_MARGIN = 0.05

# Of the options of convert those that a run is told; the others are about what follows it.
_FIELDS = {field.name for field in fields(ConvertOptions)}


@click.command(
    "plan",
    short_help="What convert would do: rows, shards, bytes, time; writes nothing.",
    params=list(convert.command.params),
)
@click.option(
    "--compare-compression",
    "compare",
    is_flag=True,
    help="Try all compressions on the sample: size, time to write, time to read.",
)
def command(
    paths: tuple[str, ...], compare: bool, as_json: bool, quiet: bool, **given: Any
) -> None:
    r"""Tell what `tfrec convert SOURCE... DEST` would do, with the same options. Writes nothing.

    Rows, records, splits and shards are those of the conversion. Bytes and time are estimated from
    a sample, which is all rows of a small source; those of single shards are left out where
    records are sorted, which may put large ones together. Options that say how to write, or what to
    tell of it (--verify, --rejects, --resume, --force, --no-fsync, --profile and its kin), change
    nothing here.

    \b
    tfrec plan penguins.csv dataset
    tfrec plan 'logs/*.parquet' dataset --compare-compression
    """
    from tfrec_cli.estimates.forecast import forecast

    known = {name: value for name, value in given.items() if name in _FIELDS}
    options = convert.options_of(paths, known, "plan")
    reporter = TerminalReporter(bar=not quiet and not as_json)
    try:
        found = forecast(options, compare, reporter)
    finally:
        reporter.close()
    if as_json:
        click.echo(json.dumps(_document(found, reporter.notices), indent=2))
    elif not quiet:
        say(*_lines(found))
        for notice in reporter.notices:
            say(f"note: {notice}", err=True)
        if found.problem:
            line = f"note: convert would stop now: {found.problem}"
            say(line, err=True)


def _document(found: Forecast, notices: list[str]) -> dict[str, Any]:
    """The forecast as JSON: bytes as whole numbers, times in seconds."""
    print_ = found.footprint
    document: dict[str, Any] = asdict(found)
    document["footprint"] |= {
        "values": print_.values, "names": print_.names, "protobuf": print_.protobuf,
        "total": print_.total,
    }  # fmt: skip
    rounded: dict[str, Any] = _rounded(document)
    return rounded | {"notices": notices}


def _rounded(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _rounded(item, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, float):
        return (
            round(value, 7 if "seconds" in key else 4)
            if "seconds" in key or key in ("ratio", "margin", "unseen")
            else round(value)
        )
    return value


def _lines(found: Forecast) -> Iterator[str]:
    shards = sum(len(split.shards) for split in found.splits)
    source = f" from {human_size(found.source_bytes)}" if found.source_bytes else ""
    yield (
        f"{found.dest}: {counted(found.records, 'record')} in {counted(shards, 'shard')}, "
        f"{human_size(found.bytes)}{source}, about {_seconds(found.seconds)} with "
        f"{counted(found.jobs, 'job')}"
    )
    for split in found.splits:
        yield from _split_lines(split)
    how = "inferred" if found.inferred else "given"
    if features := len(found.footprint.features):
        yield f"  schema   {how}, {counted(features, 'feature')}"
    else:
        yield "  schema   none: the records are no tf.train.Examples"
    if found.rejected:
        yield f"  skipped  {counted(found.rejected, 'row')} in error"
    yield f"  sample   {_sample(found)}"
    if found.margin >= SHOWN_MARGIN:
        yield f"  sizes    {_margin(found)}: {_doubt(found)}"
    yield ""
    yield from footprint_lines(found.footprint)
    yield from saving_lines(found.savings, found.plain_bytes)
    yield ""
    for split in found.splits:
        yield from textwrap.wrap(split.advice, WIDTH, subsequent_indent="  ")
    if found.comparison is not None:
        yield ""
        yield from _comparison_lines(found.comparison)


def _margin(found: Forecast) -> str:
    """How sure the size is."""
    if found.margin < 1:
        return f"give or take {found.margin:.0%}"
    return "at most, perhaps far fewer" if found.thin else "can hardly be told"


def _doubt(found: Forecast) -> str:
    """Why the size is not sure."""
    if found.thin:
        return "sorted rows lie nearer to each other than those of a sample"
    if round(found.unseen, 2):
        return f"{found.unseen:.0%} of the rows are too large to try, or too deep in the source"
    return "not all rows compress alike"


def _split_lines(split: SplitForecast) -> Iterator[str]:
    yield f"  {split.name:<8} {counted(split.records, 'record')}, {human_size(split.bytes)}"
    shown = list(split.shards)
    if len(shown) > SHOWN_SHARDS:
        shown = [*shown[: SHOWN_SHARDS - 1], shown[-1]]
    width = max(len(shard.name) for shard in shown)
    for position, shard in enumerate(shown):
        if position == SHOWN_SHARDS - 1 and len(split.shards) > SHOWN_SHARDS:
            yield "    …"
        size = "" if shard.bytes is None else f", {human_size(shard.bytes)}"
        facts = counted(shard.records, "record") + size
        yield f"    {shard.name:<{width}}  {facts}"


def _sample(found: Forecast) -> str:
    untimed = "the time of disk and ordering" if found.ordered else "disk time"
    rows = f"all {counted(found.sampled_rows, 'row')}"
    if not found.sample_whole:
        rows = f"{found.sampled_rows:,} of {counted(found.rows, 'row')}, from all over the source"
    return f"{rows}; {untimed} is not counted"


def _comparison_lines(found: Comparison) -> Iterator[str]:
    head = f"{'compression':<14}{'compressor':<12}{'size':>10}{'of none':>9}"
    head += f"{'write':>12}{'read':>12}"
    yield head
    for trial in found.trials:
        yield _trial_line(trial)
    if found.absent:
        names = " and ".join(found.absent)
        yield f"not installed: {names} (pip install 'tfrec-cli[fast]')"
    yield from textwrap.wrap(found.sentence, WIDTH, subsequent_indent="  ")


def _trial_line(trial: Trial) -> str:
    way = trial.compression
    plain = way.kind == "none"
    name = "none" if plain else f"{way.kind}:{way.level}"
    times = f"{_fine_seconds(trial.write_seconds):>12}"
    times += f"{_fine_seconds(trial.read_seconds):>12}"
    compressor = "" if plain else way.compressor
    return f"{name:<14}{compressor:<12}{human_size(trial.bytes):>10}{trial.ratio:>9.0%}{times}"


def _fine_seconds(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds:.4f} s" if seconds < 0.1 else _seconds(seconds)


def _seconds(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
