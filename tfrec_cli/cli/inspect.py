"""`tfrec inspect`: what datasets hold, and where their bytes go."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from tfrec_cli.cli.common import (
    PATH,
    debug_option,
    human_size,
    jobs_option,
    json_option,
    quiet_option,
    say,
)
from tfrec_cli.cli.footprints import WIDTH, footprint_lines, saving_lines
from tfrec_cli.cli.payloads import payload_lines
from tfrec_cli.cli.progress import TerminalReporter
from tfrec_cli.errors import alike, counted, group_name, key_text, shorten
from tfrec_cli.options import default_jobs

if TYPE_CHECKING:
    from tfrec_cli.inspection.run import FeatureReport, Inspection, SplitFacts

# Files of a split, and features, that are listed one by one.
SHOWN_FILES = 4
SHOWN_FEATURES = 50
# Parquet is worth a word where it takes at most this share of the bytes.
PARQUET = 0.8
_WORDS = {"none": "not compressed", "gzip": "GZIP", "zlib": "ZLIB"}


@click.command("inspect", short_help="Features, files, and where the bytes go.")
@click.argument("paths", metavar="DATASET...", nargs=-1, required=True, type=PATH)
@jobs_option
@json_option
@quiet_option
@debug_option
def command(paths: tuple[str, ...], jobs: int | None, as_json: bool, quiet: bool) -> int:
    r"""Tell what DATASET... hold: folders, TFRecord files of any origin, patterns of them; plain,
    GZIP or ZLIB. All records are read, and their checksums checked.

    Features with kind, shape, and the share of records that have them; records, bytes and
    compression of the files; where the bytes go, and what would save some. Records that are no
    tf.train.Example are told by what they are. Exit code 3 where files are missing or damaged.

    \b
    tfrec inspect dataset
    tfrec inspect 'shards/train-*' --json
    """
    from tfrec_cli.inspection.run import document, inspect

    reporter = TerminalReporter(bar=not quiet and not as_json)
    try:
        found = inspect(paths, jobs or default_jobs(), reporter)
    finally:
        reporter.close()
    if as_json:
        click.echo(json.dumps({"datasets": [document(one) for one in found]}, indent=2))
    else:
        for number, one in enumerate(found):
            lines = [*([""] if number else []), *_lines(one)]
            say(*lines)
            for problem in one.problems:
                say(f"tfrec: {problem}", err=True)
    return 3 if any(one.problems for one in found) else 0


def _lines(found: Inspection) -> Iterator[str]:
    yield _title(found)
    for split in found.splits:
        yield from _split_lines(split)
    yield from payload_lines(found.payloads, found.records)
    if found.features:
        yield ""
        yield from _feature_lines(found)
    elif found.examples:
        yield "  the records have no features"
    if found.footprint is not None:
        yield ""
        yield from footprint_lines(found.footprint)
        yield from saving_lines(found.savings, found.content_bytes)
        yield from _parquet_lines(found)
    advice = [split.advice for split in found.splits if split.advice]
    if advice:
        yield ""
    for text in advice:
        yield from textwrap.wrap(text, WIDTH, subsequent_indent="  ")


def _title(found: Inspection) -> str:
    counts = f"{counted(found.records, 'record')} in {counted(len(found.files), 'file')}"
    kinds = found.compression
    if len(kinds) == 1:
        packed = _WORDS[next(iter(kinds))]
    else:
        packed = ", ".join(f"{count:,} {_WORDS[kind]}" for kind, count in kinds.items())
    size = human_size(found.bytes)
    if found.bytes != found.content_bytes:
        size += f" ({human_size(found.content_bytes)} of records)"
    by = f", written by tfrec {found.version}" if found.version else ""
    return f"{shorten(found.path, 1000)}: {counts}, {size}, {packed}{by}"


def _split_lines(split: SplitFacts) -> Iterator[str]:
    name = split.name or "files"
    counts = f"{counted(split.records, 'record')}, {human_size(split.bytes)}"
    yield f"  {name:<8} {counts}"
    shown = list(split.files)
    if len(shown) > SHOWN_FILES:
        shown = [*shown[: SHOWN_FILES - 1], shown[-1]]
    names = [shorten(file.target.path.rpartition("/")[2], 80) for file in shown]
    width = max(map(len, names))
    for position, (file, text) in enumerate(zip(shown, names, strict=True)):
        if position == SHOWN_FILES - 1 and len(split.files) > SHOWN_FILES:
            yield "    …"
        facts = f"{counted(file.records, 'record')}, {human_size(file.bytes)}"
        yield f"    {text:<{width}}  {facts}"


def _feature_lines(found: Inspection) -> Iterator[str]:
    ordered = sorted(found.features, key=_natural)
    groups = [[one] for one in ordered]
    if len(ordered) > SHOWN_FEATURES:
        groups = list(_groups(ordered))
    shown = groups[:SHOWN_FEATURES]
    rows = [("feature", "type", "present", "values")]
    rows += [_group_row(group, found.records) for group in shown]
    widths = [max(len(row[at]) for row in rows) for at in range(3)]
    for key, kind, present, values in rows:
        line = f"{key:<{widths[0]}}  {kind:<{widths[1]}}  {present:>{widths[2]}}  {values}"
        yield line.rstrip()
    if more := sum(map(len, groups[SHOWN_FEATURES:])):
        yield f"… and {counted(more, 'more feature')}; --json lists all"


def _groups(ordered: Sequence[FeatureReport]) -> Iterator[list[FeatureReport]]:
    """Numbered features of one type together, where they come to what is listed."""
    kinds: dict[str, list[FeatureReport]] = {}
    for one in ordered:
        kinds.setdefault(f"{one.info.kind} {one.info.layout()}", []).append(one)
    known = {one.info.key: one for one in ordered}
    groups = [keys for same in kinds.values() for keys in alike(one.info.key for one in same)]
    for keys in sorted(groups, key=lambda keys: _natural(known[keys[0]])):
        yield [known[key] for key in keys]


def _group_row(group: Sequence[FeatureReport], records: int) -> tuple[str, str, str, str]:
    first = group[0]
    key, kind, present, values = _feature_row(first, records)
    if len(group) == 1:
        return key, kind, present, values
    fewest, most = (pick(one.present for one in group) for pick in (min, max))
    if fewest != most:
        present = f"{_share(fewest, records)} to {_share(most, records)}"
    lows = [one.low for one in group if one.low is not None]
    highs = [one.high for one in group if one.high is not None]
    values = f"{min(lows)} to {max(highs)}" if lows and highs else ""
    return key_text(group_name([one.info.key for one in group]), 50), kind, present, values


def _natural(report: FeatureReport) -> list[tuple[int, str]]:
    """A key to sort by that puts `pixel2` before `pixel10`."""
    parts = re.split(r"([0-9]+)", report.info.key)
    return [(int(part) if number % 2 else -1, part) for number, part in enumerate(parts)]


def _feature_row(report: FeatureReport, records: int) -> tuple[str, str, str, str]:
    info = report.info
    kind = f"{info.kind} {info.layout()}".rstrip()
    said = []
    if report.low is not None and report.high is not None:
        low, high = report.low, report.high
        said.append(str(low) if low == high else f"{low} to {high}")
    if info.labels is not None:
        said.append(counted(len(info.labels), "label"))
    if report.kinds is not None:
        kinds = [f"{name} in {counted(count, 'record')}" for name, count in report.kinds.items()]
        said.append("; ".join(kinds))
    return key_text(info.key, 50), kind, _share(report.present, records), ", ".join(said)


def _share(part: int, whole: int) -> str:
    """`100%` for all and `0%` for none only."""
    share = 100 * part / max(1, whole)
    if part and part < whole:
        return f"{min(max(share, 0.01), 99.99):.2f}%" if not 0.5 < share < 99.5 else f"{share:.1f}%"
    return f"{share:.0f}%"


def _parquet_lines(found: Inspection) -> Sequence[str]:
    size = found.parquet_bytes
    if size is None or not found.bytes or size > PARQUET * found.bytes:
        return []
    text = (
        f"as Parquet the same would take about {human_size(size)} ({size / found.bytes:.0%} of the "
        "files), for what does not need TFRecord"
    )
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ")
