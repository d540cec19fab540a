"""What `--split` asks for, and which options of order and splits go together."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate

from tfrec_cli.dataset.naming import check_split
from tfrec_cli.errors import UsageError
from tfrec_cli.options import ConvertOptions

MOST_SPLITS = 100
# Digits of a fraction; Python reads no number of more than some thousands.
LONGEST_FRACTION = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """The value of `--split`: names, and with `NAME=FRACTION` what each of them gets."""

    names: tuple[str, ...] = ()
    fractions: tuple[Fraction, ...] = ()

    @property
    def cumulative(self) -> tuple[Fraction, ...]:
        """Where the share of each split ends, the last at 1."""
        return tuple(accumulate(self.fractions))


def parse_splits(text: str | None) -> Asked:
    """From `NAME`, `NAME,NAME,…` or `NAME=FRACTION,NAME=FRACTION,…`; None is nothing.

    Fractions are decimal numbers or percentages (`80%`) that add up to 1. Raises UsageError.
    """
    if text is None:
        return Asked()
    parts = [part.strip() for part in text.split(",")]
    names = tuple(check_split(part.partition("=")[0].strip()) for part in parts)
    if len(names) > MOST_SPLITS:
        raise UsageError(f"--split names {len(names)} splits, more than {MOST_SPLITS}.")
    if twins := alike(names):
        same = f"{twins[0]} is there twice"
        near = f"{twins[0]} and {twins[1]} differ in case only"
        raise UsageError(f"--split {text}: {same if twins[0] == twins[1] else near}.")
    if not any("=" in part for part in parts):
        return Asked(names)
    fractions = tuple(_fraction(text, part.partition("=")[2].strip()) for part in parts)
    total = sum(fractions)
    if total != 1:
        raise UsageError(
            f"--split {text}: the fractions add up to {float(total):g}, not 1. Give every row a "
            "split, as in train=0.8,test=0.2."
        )
    return Asked(names, fractions)


def alike(names: Sequence[str]) -> tuple[str, str] | None:
    """Two names that some file systems take for one, where there are such."""
    known: dict[str, str] = {}
    for name in names:
        if name.lower() in known:
            return known[name.lower()], name
        known[name.lower()] = name
    return None


def _fraction(text: str, word: str) -> Fraction:
    if len(word) > LONGEST_FRACTION:
        raise UsageError(
            f"--split: a fraction of {len(word):,} characters is more exact than rows can be "
            f"divided. Write it in {LONGEST_FRACTION} at most (a third is 1/3)."
        )
    if not re.fullmatch(r"(\d+(\.\d*)?|\.\d+)%?|\d+/[1-9]\d*", word) or not Fraction(
        word.rstrip("%")
    ):
        raise UsageError(
            f'--split {text}: "{word}" is not a fraction. Write each as NAME=FRACTION, as in '
            "train=0.8,test=0.2 (a third is 1/3)."
        )
    return Fraction(word.rstrip("%")) / (100 if word.endswith("%") else 1)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A combination that is refused: why, and where it is."""

    reason: str
    broken: Callable[[ConvertOptions, Asked], bool]


def _needs(*names: str) -> Callable[[ConvertOptions, Asked], bool]:
    """That the first option is given and none of the others is."""
    first, *others = names

    def broken(options: ConvertOptions, asked: Asked) -> bool:
        return _given(first, options, asked) and not any(_given(o, options, asked) for o in others)

    return broken


def _excludes(first: str, second: str) -> Callable[[ConvertOptions, Asked], bool]:
    """That both options are given."""
    return lambda options, asked: _given(first, options, asked) and _given(second, options, asked)


def _given(name: str, options: ConvertOptions, asked: Asked) -> bool:
    if name == "fractions":
        return bool(asked.fractions)
    if name == "names":
        return len(asked.names) > 1 and not asked.fractions
    value = getattr(options, name)
    return value is not None and value is not False and value != ()


# All forbidden combinations of the options of order and splits.
RULES = (
    _Rule("--seed needs --shuffle", _needs("seed", "shuffle")),
    _Rule(
        "--shuffle and --sort-by exclude each other: a sorted dataset has one order",
        _excludes("shuffle", "sort_by"),
    ),
    _Rule(
        "--split with several names needs a fraction for each (train=0.8,test=0.2), or "
        "--split-column COLUMN whose cells hold the names",
        _needs("names", "split_column"),
    ),
    _Rule(
        "--split-column and fractions exclude each other: the column decides",
        _excludes("split_column", "fractions"),
    ),
    _Rule(
        "--split-exact needs --split with fractions, as in train=0.8,test=0.2",
        _needs("split_exact", "fractions"),
    ),
    _Rule(
        "--split-by needs --split with fractions, as in train=0.8,test=0.2",
        _needs("split_by", "fractions"),
    ),
    _Rule(
        "--stratify needs --split with fractions, as in train=0.8,test=0.2",
        _needs("stratify", "fractions"),
    ),
    _Rule(
        "--split-seed needs --split with fractions, as in train=0.8,test=0.2",
        _needs("split_seed", "fractions"),
    ),
    _Rule(
        "--split-by and --stratify exclude each other: whole groups cannot be exact within classes",
        _excludes("split_by", "stratify"),
    ),
    _Rule(
        "--split-by and --split-exact exclude each other: whole groups cannot be exact",
        _excludes("split_by", "split_exact"),
    ),
    _Rule(
        "--stratify and --split-exact exclude each other: --stratify alone is exact, in each class",
        _excludes("stratify", "split_exact"),
    ),
    _Rule(
        "--key needs --shuffle, or --split with fractions: nothing else depends on it",
        _needs("key", "shuffle", "fractions"),
    ),
    _Rule(
        "--key and --split-by: the column of --split-by decides alone, so --key needs --shuffle",
        lambda options, _: bool(options.key and options.split_by and not options.shuffle),
    ),
)


def check_combinations(options: ConvertOptions, asked: Asked) -> None:
    """Raise UsageError where options of order and splits exclude each other."""
    for rule in RULES:
        if rule.broken(options, asked):
            raise UsageError(f"{rule.reason}.")
