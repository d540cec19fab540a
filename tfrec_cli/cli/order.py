"""Options of order and splits, and what the summary says of splits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tfrec_cli.cli.common import COLUMNS, Parsed
from tfrec_cli.options import parse_size

if TYPE_CHECKING:
    from tfrec_cli.dataset.manifest import Split

Function = TypeVar("Function", bound=Callable[..., Any])

# Classes that the summary lists one by one.
SHOWN_CLASSES = 20
# What it calls the rows without a class.
NO_CLASS = "no value"


_SEED = click.IntRange(0, 2**64 - 1)
_OPTIONS = (
    click.option(
        "--shuffle", is_flag=True,
        help="Put the records of each split in random order, over all files at once.",
    ),
    click.option(
        "--seed", metavar="N", type=_SEED,
        help="With --shuffle: another number is another order. Default: 0.",
    ),
    click.option(
        "--sort-by", metavar="COLUMN[,...]", type=COLUMNS, default=(),
        help="Sort the records of each split by columns, missing values last.",
    ),
    click.option(
        "--split", metavar="NAME[=FRACTION][,...]",
        help="The split's name, or fractions, as in train=0.8,test=0.2, which each row is drawn "
        "into by itself. Default: train.",
    ),
    click.option(
        "--split-exact", is_flag=True,
        help="Fractions exact to one record; rows may change their split when rows are added.",
    ),
    click.option(
        "--split-by", metavar="COLUMN",
        help="Rows with the same value stay together in one split; fractions are of the groups.",
    ),
    click.option(
        "--stratify", metavar="COLUMN",
        help="Fractions exact to one record within each class, the values of COLUMN.",
    ),
    click.option(
        "--split-column", metavar="COLUMN",
        help="COLUMN names the split of each row, one of --split NAME,NAME,... if that is given.",
    ),
    click.option(
        "--split-seed", metavar="N", type=_SEED,
        help="With fractions: another number draws other rows into each split. Default: 0.",
    ),
    click.option(
        "--key", metavar="COLUMN[,...]", type=COLUMNS, default=(),
        help="Columns that tell rows apart; shuffle and splits follow them, not file and row.",
    ),
    click.option(
        "--memory", metavar="SIZE", type=Parsed("size", parse_size),
        help="What shuffling and sorting may use; the rest goes to disk meanwhile. Default: a "
        "quarter of the machine's, 4GiB at most.",
    ),
)  # fmt: skip


def order_options(function: Function) -> Function:
    """The options of order and splits."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def share(split: Split, records: int) -> str:
    """Actual and asked share of a split, as ` (79.8%, asked 80%)`; empty where none was asked."""
    if split.asked is None or not records:
        return ""
    return f" ({100 * split.records / records:.4g}%, asked {100 * split.asked:.4g}%)"


def split_classes(splits: Sequence[Split]) -> list[str]:
    """Lines with the records of each class in each split, where classes were asked for."""
    if not splits or splits[0].classes is None:
        return []
    found = [
        (_shown(name), [(s.classes or {}).get(name, 0) for s in splits])
        for name in splits[0].classes
    ]
    if splits[0].classless is not None:
        found.append((NO_CLASS, [s.classless or 0 for s in splits]))
    lines = []
    for shown, counts in found[:SHOWN_CLASSES]:
        each = (f"{count:,} {s.name}" for count, s in zip(counts, splits, strict=True))
        lines.append(f"    {shown}: {', '.join(each)}")
    more = len(found) - SHOWN_CLASSES
    return [*lines, f"    … and {more:,} more classes"] if more > 0 else lines


def _shown(name: str) -> str:
    """The class in the summary; in quotes where it could be missed, or taken for no class."""
    return name if name.strip() and name != NO_CLASS else f'"{name}"'
