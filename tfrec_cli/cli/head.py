"""`tfrec head`: the first records, as a table or as JSON lines."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tfrec_cli.cli.common import PATH, columns_option, debug_option, quiet_option, say, split_option
from tfrec_cli.errors import alike, group_name, key_text, shorten

if TYPE_CHECKING:
    from tfrec_cli.inspection.head import HeadRecord

# Characters of a value in a table, and of one that has a line of its own.
CELL = 32
LINE = 76
# Features of a record beyond which numbered ones share a line.
MANY = 50
MISSING = "(none)"
# Characters of JSON that are printed at a time.
PART = 1 << 16


@click.command("head", short_help="The first records, as a table or as JSON lines.")
@click.argument("dataset", type=PATH)
@click.option(
    "-n", "--records", "count", metavar="N", type=click.IntRange(0), default=5,
    help="How many records. Default: 5.",
)  # fmt: skip
@split_option
@columns_option
@click.option("--json", "as_json", is_flag=True, help="Print each record as a line of JSON.")
@click.option(
    "--base64", "as_base64", is_flag=True,
    help="Print all bytes in base64 (with --json), whole and without guessing what they are.",
)  # fmt: skip
@quiet_option
@debug_option
def command(
    dataset: str,
    count: int,
    split: str | None,
    columns: tuple[str, ...] | None,
    as_json: bool,
    as_base64: bool,
    quiet: bool,  # noqa: ARG001 - there is nothing but the records
) -> int:
    r"""Print the first records of DATASET: a folder or TFRecord file of any origin, or a pattern.

    Bytes are shown as text where they are UTF-8, else by what they are: <jpeg 640×480, 31.2 kB>.
    In JSON, features that a record lacks are left out. Exit code 3 where files are missing.

    \b
    tfrec head dataset
    tfrec head 'shards/train-*' -n 1000 --json | jq .label
    """
    from tfrec_cli.errors import UsageError
    from tfrec_cli.inspection.head import (
        first_records,
        json_of,
        list_features,
        missing_files,
        shown_of,
    )
    from tfrec_cli.reading import open_dataset

    if as_base64 and not as_json:
        raise UsageError("--base64 goes with --json.")
    opened = open_dataset(dataset, jobs=1)
    lists = list_features(opened, count, split)
    found = first_records(opened, count, split, columns)
    if as_json:
        for record in found:
            for text in _in_parts(json_of(record, lists, as_base64)):
                click.echo(_escaped(text), nl=False)
    elif count:
        # Each value takes a character, so that no more of a list is ever shown.
        rows = [(record, shown_of(record, lists, LINE)) for record in found]
        for line in _lines(rows, shutil.get_terminal_size((100, 24)).columns):
            say(line)
    missing = missing_files(opened, split)
    for text in missing:
        say(f"tfrec: {text}", err=True)
    return 3 if missing else 0


def _in_parts(pieces: Iterable[str]) -> Iterator[str]:
    """A line of some pieces, in parts of about PART characters."""
    waiting, size = list[str](), 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size > PART:
            yield "".join(waiting)
            waiting, size = [], 0
    yield "".join(waiting) + "\n"


def _escaped(text: str) -> str:
    """A part of a line of JSON in which all that a terminal might obey is escaped."""
    line, end = (text[:-1], "\n") if text.endswith("\n") else (text, "")
    if line.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line) + end


def _lines(rows: Sequence[tuple[HeadRecord, dict[str, Any]]], width: int) -> Iterator[str]:
    """A table where it fits in `width`, else a block of lines for each record."""
    if not rows:
        yield "no records"
        return
    keys = list(dict.fromkeys(key for _, values in rows for key in values))
    table = [[key_text(key, CELL) for key in keys]]
    table += [[_cell(values, key, CELL) for key in keys] for _, values in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    if keys and sum(widths) + 2 * (len(widths) - 1) <= width:
        right = [all(_is_number(values.get(key)) for _, values in rows) for key in keys]
        for row in table:
            yield "  ".join(map(_pad, row, widths, right)).rstrip()
        return
    for number, (record, values) in enumerate(rows):
        if number:
            yield ""
        yield from _block(record, values)


def _block(record: HeadRecord, values: dict[str, Any]) -> Iterator[str]:
    yield f"{record.file}, record {record.number}"
    values = _grouped(values) if len(values) > MANY else values
    names = [key_text(key, 60) for key in values]
    width = max(map(len, names), default=0)
    for name, key in zip(names, values, strict=True):
        yield f"  {name:<{width}}  {_cell(values, key, LINE)}"


def _grouped(values: dict[str, Any]) -> dict[str, Any]:
    """Numbered features as one, `first … last (count)`, with all their values."""
    found: dict[str, Any] = {}
    for keys in alike(values):
        if len(keys) == 1:
            found[keys[0]] = values[keys[0]]
        else:
            found[group_name(keys)] = [values[key] for key in keys]
    return found


def _pad(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, int | float)


def _cell(values: dict[str, Any], key: str, limit: int) -> str:
    """One value in at most `limit` characters; of a list as many as fit, and how many there are."""
    value = values.get(key)
    if value is None:
        return MISSING
    if not isinstance(value, list):
        return shorten(str(value), limit)
    return _list(value, limit)


def _list(items: Sequence[Any], limit: int) -> str:
    from tfrec_cli.inspection.head import Few

    shown: list[str] = []
    count = items.whole if isinstance(items, Few) else len(items)
    room = limit - len(f"[… {count:,} values]")
    for item in items:
        text = shorten(str(item), limit)
        room -= len(text) + 2
        if room < 0:
            break
        shown.append(text)
    if len(shown) == count:
        return f"[{', '.join(shown)}]"
    whole = f"[{', '.join(str(item) for item in items[:limit])}]"
    if count <= limit and len(whole) <= limit and whole.isprintable():
        return whole
    return f"[{''.join(f'{text}, ' for text in shown)}… {count:,} values]"
