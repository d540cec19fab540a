"""`tfrec stats`: what the features of a dataset hold, split by split."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tfrec_cli.cli.common import (
    PATH,
    columns_option,
    debug_option,
    human_size,
    jobs_option,
    json_option,
    quiet_option,
    say,
    split_option,
)
from tfrec_cli.cli.footprints import WIDTH
from tfrec_cli.cli.payloads import payload_lines
from tfrec_cli.cli.progress import TerminalReporter
from tfrec_cli.errors import abridge, counted, key_text, shorten

if TYPE_CHECKING:
    from tfrec_cli.reading.features import FeatureInfo
    from tfrec_cli.statistics.columns import FeatureStatistics
    from tfrec_cli.statistics.run import Statistics

# Rows of the table of classes, and words that are listed for bytes.
SHOWN_CLASSES = 20
SHOWN_WORDS = 3
# Of values that were not all counted, those are listed that are this share or more.
RARE = 0.01
NAME = 40
_BARS = "▁▂▃▄▅▆▇█"
_CLASS = re.compile(r"(^|[/_.-])(label|class|category|target)s?([/_.-]|$)", re.IGNORECASE)
_FEW = 10


@click.command("stats", short_help="What the features hold; class balance and drift of splits.")
@click.argument("dataset", type=PATH)
@split_option
@columns_option
@jobs_option
@json_option
@quiet_option
@debug_option
def command(
    dataset: str,
    split: str | None,
    columns: tuple[str, ...] | None,
    jobs: int | None,
    as_json: bool,
    quiet: bool,
) -> None:
    r"""Tell what the features of DATASET hold: a folder or TFRecord file of any origin, a pattern.

    Numbers with extremes, quartiles, mean and distribution; bytes with lengths and their most
    frequent values; lists with their lengths; classes and how many records of each split they have;
    and where splits differ by more than chance. Values are counted one by one while there are at
    most 1,000 different ones of a feature, or 100 floats, and none of more than 64 bytes. Bars span
    the 1st to the 99th percentile; the outermost two hold the rest.

    \b
    tfrec stats dataset
    tfrec stats 'shards/train-*' --columns label,weight --json
    """
    from tfrec_cli.reading import open_dataset
    from tfrec_cli.statistics.run import document, statistics

    opened = open_dataset(dataset, jobs)
    reporter = TerminalReporter(bar=not quiet and not as_json)
    try:
        found = statistics(opened, columns, split, reporter)
    finally:
        reporter.close()
    if as_json:
        click.echo(json.dumps(document(found), indent=2, allow_nan=False))
        return
    say(*_lines(found))


def _lines(found: Statistics) -> Iterator[str]:
    names = [f"{s.name} {s.records:,}" for s in found.splits if s.name is not None]
    by = f" ({', '.join(names)})" if len(names) > 1 else ""
    size = f"{human_size(found.bytes)} of records"
    total = counted(found.records + found.skipped, "record")
    if found.skipped:
        total = f"{total}, {found.records:,} of them described here"
    yield f"{shorten(found.path, 1000)}: {total}{by}, {size}"
    yield from payload_lines(found.payloads, found.records + found.skipped)
    if found.skipped:
        text = f"  left out {counted(found.skipped, 'record')}; the first: {found.misfit}"
        yield from textwrap.wrap(text, WIDTH, subsequent_indent="    ")
    if found.records and not found.features and not found.payloads:
        yield "  the records have no features"
    rows = list(_rows(found))
    yield from _table(_numbers(rows), 2)
    yield from _table(_lists(rows), 2)
    yield from _table(_bytes(rows), 2)
    for place, feature in enumerate(found.features):
        yield from _classes(feature, found, place)
    yield from _drift(found)


_Row = tuple[str, str, "FeatureStatistics"]


def _rows(found: Statistics) -> Iterator[_Row]:
    """Name of the feature (with its first split only), of the split, and what it holds there."""
    several = len(found.splits) > 1
    for place, feature in enumerate(found.features):
        for number, split in enumerate(found.splits):
            name = key_text(feature.key, NAME) if not number else ""
            yield name, (split.name or "others") if several else "", split.features[place]


def _table(lines: Sequence[Sequence[str]], text_columns: int) -> Iterator[str]:
    """Lines as a table below an empty line: the first columns, and the last, as text, the others
    as numbers; columns without any cell are left out. Nothing where there is only a heading.
    """
    if len(lines) < 2:
        return
    kept = [c for c in range(len(lines[0])) if any(line[c] for line in lines[1:])]
    widths = {c: max(len(line[c]) for line in lines) for c in kept}
    last = len(lines[0]) - 1
    yield ""
    for line in lines:
        cells = [
            line[c].ljust(widths[c]) if c < text_columns or c == last else line[c].rjust(widths[c])
            for c in kept
        ]
        yield "  ".join(cells).rstrip()


def _numbers(rows: Iterable[_Row]) -> list[list[str]]:
    from tfrec_cli.statistics.run import quantiles

    names = ["missing", "min", "25%", "median", "75%", "max", "mean", "std", "zero", "odd"]
    lines = [["numbers", "split", *names, "distribution"]]
    for name, split, found in rows:
        if found.feature.kind not in ("int64", "float"):
            continue
        own, between = found.numbers, quantiles(found)
        middle = [_exact(between.get(share)) for share in ("0.25", "0.5", "0.75")]
        mean = own.mean if own.count else None
        odd = [
            f"{own.nan:,} nan" if own.nan else "",
            f"{own.infinite:,} inf" if own.infinite else "",
        ]
        lines.append(
            [
                name, split, _share(found.missing, found.records), _exact(own.low), *middle,
                _exact(own.high), _mean(mean, found), _short(own.deviation),
                _share(own.zeros, own.count), " ".join(filter(None, odd)), _bars(found),
            ]
        )  # fmt: skip
    return lines


def _lists(rows: Iterable[_Row]) -> list[list[str]]:
    lines = [["lists", "split", "missing", "empty", "fewest", "mean", "most", ""]]
    for name, split, found in rows:
        if (own := found.counts) is not None and found.feature.kind != "no kind":
            empty = _share(own.zeros, own.count)
            sizes = [_short(own.low), _short(own.mean if own.count else None), _short(own.high)]
            missing = _share(found.missing, found.records)
            lines.append([name, split, missing, empty, *sizes, "values a record"])
    return lines


def _bytes(rows: Iterable[_Row]) -> list[list[str]]:
    lines = [
        ["bytes", "split", "missing", "shortest", "mean", "longest", "different", "most frequent"]
    ]
    for name, split, found in rows:
        if found.feature.kind == "bytes":
            own = found.numbers
            sizes = [own.low, own.mean if own.count else None, own.high]
            distinct = "many" if found.classes is None else f"{len(found.classes):,}"
            distinct = distinct if own.count else ""
            missing = _share(found.missing, found.records)
            lines.append([name, split, missing, *map(_short, sizes), distinct, _words(found)])
        elif found.feature.kind == "no kind":
            lines.append([name, split, "100%", *[""] * 4, "no value anywhere"])
    return lines


def _words(found: FeatureStatistics) -> str:
    """The most frequent values with their shares, or what they are."""
    from tfrec_cli.statistics.run import image_of, label

    if (image := image_of(found)) is not None:
        return f"<{image}, …>"
    top, total = found.top(SHOWN_WORDS), max(1, found.numbers.count)
    about = "" if found.classes is not None else "about "
    words = [
        f"{abridge(label(found.feature, value), 24) or '(empty)'} {about}{_part(count / total)}"
        for value, count in top
        if (
            count >= RARE * total
            if found.classes is None
            else len(found.classes) <= max(SHOWN_WORDS, total // 2)
        )
    ]
    if words or not found.numbers.count:
        return ", ".join(words)
    is_long = found.classes is None and found.sample.seen * 2 < found.numbers.count
    return "too long to be counted" if is_long else "nearly all different"


def _classes(feature: FeatureInfo, found: Statistics, place: int) -> Iterator[str]:
    """How many records of each split each class has."""
    own = [split.features[place] for split in found.splits]
    if not _is_class(feature, own):
        return
    from tfrec_cli.statistics.run import label

    values = {value for one in own for value in one.classes or ()}
    totals = {v: sum((one.classes or {}).get(v, 0) for one in own) for v in values}
    order = sorted(values, key=lambda value: (-totals[value], value))
    head = [split.name or "others" for split in found.splits] if len(own) > 1 else ["values"]
    lines = [
        [key_text(feature.key, NAME), *(cell for name in head for cell in (name, "share")), ""]
    ]
    for value in order[:SHOWN_CLASSES]:
        cells = []
        for one in own:
            count, total = (one.classes or {}).get(value, 0), max(1, one.numbers.count)
            cells += [f"{count:,}", f"{count / total:.1%}"]
        lines.append([abridge(label(feature, value), NAME) or "(empty)", *cells, ""])
    yield from _table(lines, 1)
    if len(order) > SHOWN_CLASSES:
        yield f"… and {counted(len(order) - SHOWN_CLASSES, 'smaller class')}"


def _is_class(feature: FeatureInfo, own: Sequence[FeatureStatistics]) -> bool:
    """Whether a feature is a label by its name or the manifest, or has very few values."""
    if any(one.classes is None for one in own):
        return False
    distinct = len({value for one in own for value in one.classes or ()})
    if feature.labels is not None:
        return True
    if _CLASS.search(feature.key) and not feature.key.endswith("/text"):
        return distinct > 0
    return feature.kind in ("int64", "float") and 1 < distinct <= _FEW


def _drift(found: Statistics) -> Iterator[str]:
    if found.base is None:
        return
    from tfrec_cli.statistics.drift import LEAST_DISTANCE, LEAST_SHARE

    yield ""
    if not found.drift:
        yield from textwrap.wrap(
            f"no feature differs from {found.base.name} by more than chance and by at least "
            f"{LEAST_DISTANCE:.0%} of its distribution or {LEAST_SHARE:.0%} of its records or "
            "values",
            WIDTH,
        )
    for drift in found.drift:
        text = f"drift: {key_text(drift.feature, NAME)}: {drift.text}"
        yield from textwrap.wrap(text, WIDTH, subsequent_indent="  ")


def _part(share: float) -> str:
    """In whole per cent, but nothing that is there as 0%."""
    return f"{share:.0%}" if share >= 0.01 else f"{share:.1%}" if share >= 0.001 else "<0.1%"


def _share(part: int, whole: int) -> str:
    """Nothing for none, and `<0.1%` for little."""
    if not part:
        return ""
    share = 100 * part / max(1, whole)
    return "<0.1%" if share < 0.1 else f"{share:.1f}%" if part < whole else "100%"


def _exact(value: Any) -> str:
    """An extreme: integers, which may be ids or times, to the last digit."""
    return str(value) if isinstance(value, int) else _short(value)


def _mean(value: float | None, found: FeatureStatistics) -> str:
    """That of integers, which may be large and close together, to the last digit before the point,
    as far as floating point has it.
    """
    if value is not None and found.feature.kind == "int64" and 1e5 <= abs(value) < 2**53:
        return f"{value:.0f}"
    return _short(value)


def _short(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and abs(value) < 10**9:
        return str(value)
    if isinstance(value, float) and 1e5 <= abs(value) < 1e9:
        return f"{value:.0f}"
    # Minus zero is zero, as a quantile is.
    return f"{float(value) + 0.0:.5g}" if not isinstance(value, str) else value


def _bars(found: FeatureStatistics) -> str:
    from tfrec_cli.statistics.run import histogram

    _, counts = histogram(found)
    most = max(counts, default=0)
    return "".join(_BARS[min(7, count * 8 // most)] if count else " " for count in counts)
