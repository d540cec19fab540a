"""The errors of tfrec, each with the exit code of its kind.

    TfrecError                1   the run failed
    ├── UsageError            2   wrong usage: options, arguments, DEST
    │   └── SchemaError       2   the schema file is wrong, or does not fit the source
    ├── SourceError           1   a source cannot be read
    │   └── CellError         1   one cell or row cannot become a record
    ├── RejectLimitError      1   more rows were rejected than --max-errors allows
    ├── DatasetError          1   the dataset cannot be written, or not be read
    ├── EngineError           1   tasks cannot be run where that was asked for
    └── DamageError           3   a dataset is damaged

A message says where, what was found, what was expected, and what to do, in one line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class TfrecError(Exception):
    """Any failure that tfrec foresaw. `str(error)` is one line for the user."""

    exit_code = 1


class UsageError(TfrecError):
    """Wrong options or arguments."""

    exit_code = 2


class SchemaError(UsageError):
    """A schema that is wrong in itself or does not fit its source."""


class SourceError(TfrecError):
    """A source that is missing, unreadable or not what it claims to be."""


class RejectLimitError(TfrecError):
    """More rows were rejected than allowed."""


class DatasetError(TfrecError):
    """A dataset that cannot be written or read as it was asked."""


class EngineError(TfrecError):
    """A cluster that does not answer, lacks what tasks need, or fails them."""


class DamageError(TfrecError):
    """A dataset that is not what its writer left."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Location:
    """Where a row came from: the file, its row (from 0, header not counted) and line (from 1)."""

    file: str
    row: int | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.line is not None:
            return f"{self.file}, line {self.line}"
        if self.row is not None:
            return f"{self.file}, row {self.row + 1}"
        return self.file


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of a batch that cannot become a record: `row` is its position in the batch, from 0.

    column, value, reason, hint: as in Reject. Whoever finds it keeps the row in place, with any
    values; whoever has the batch in hand drops it or fails.
    """

    row: int
    column: str | None
    value: str | None
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Reject:
    """One row that cannot become a record, and why.

    `column` is None where the row as a whole is wrong (too many cells, an unreadable file).
    `value` is the offending cell as text, None where there is none. `hint` says what to do.
    """

    where: Location
    column: str | None
    value: str | None
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        place = str(self.where) if self.column is None else f"{self.where}, column {self.column}"
        found = "" if self.value is None else f'"{shorten(self.value)}" '
        hint = f" {self.hint}" if self.hint else ""
        return f"{place}: {found}{self.reason}.{hint}"


class CellError(SourceError):
    """The first row, in source order, that cannot become a record."""

    def __init__(self, reject: Reject) -> None:
        # The reject itself is the argument, so that the error can be pickled.
        super().__init__(reject)
        self.reject = reject

    def __str__(self) -> str:
        return str(self.reject)


# So many keys that are called alike are named together.
_GROUP = 4


def shorten(text: str, limit: int = 80) -> str:
    """`text` on one line, cut to `limit` characters, control characters escaped."""
    return printable(text if len(text) <= limit else text[: limit - 1] + "…")


def abridge(text: str, limit: int = 80) -> str:
    """As `shorten`, but with both ends of the text, of which names that are alike differ in one."""
    end = (limit - 1) // 2
    return printable(text if len(text) <= limit else f"{text[: limit - 1 - end]}…{text[-end:]}")


def key_text(key: str, limit: int = 80) -> str:
    """The key of a feature, or several as `group_name` has them, for a table or a sentence: as
    `spelled` and `abridge` have it, and an empty one, which would not be seen, as `""`.
    """
    return abridge(spelled(key), limit) or '""'


def spelled(key: str) -> str:
    r"""A key in which bytes that are not UTF-8, which are surrogates, are escaped, `\xff`: its name
    in tables and JSON, and on a command line.
    """
    if key.isascii():
        return key
    return "".join(f"\\x{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else c for c in key)


def printable(text: str) -> str:
    """`text` with all that is no printable character escaped as Python does: line ends, the
    sequences that a terminal obeys, and what stands for bytes that are not UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def counted(number: int, noun: str) -> str:
    """`1 file`, `3 files`, `2 classes`."""
    plural = noun + ("es" if noun.endswith(("s", "x")) else "s")
    return f"{number:,} {noun if number == 1 else plural}"


def listed(items: Sequence[str], most: int) -> str:
    """`a, b, c and 4 more`: the first of `items`, `most` at most."""
    more = len(items) - most
    return ", ".join(items[:most]) + (f" and {more:,} more" if more > 0 else "")


def alike(keys: Iterable[str]) -> list[list[str]]:
    """Keys in groups, each in the order of its first: four or more that are called alike but for
    the number at their end are one group, in the order of their numbers.
    """
    stems: dict[str, list[str]] = {}
    for key in keys:
        stem = key.rstrip("0123456789")
        stems.setdefault(stem if stem != key else f"{key}\0", []).append(key)
    found: list[list[str]] = []
    for stem, members in stems.items():
        if len(members) < _GROUP:
            found += [[key] for key in members]
        else:
            found.append(sorted(members, key=lambda key: _number(key[len(stem) :])))
    return found


def _number(digits: str) -> tuple[int, str, str]:
    """A key to sort by that puts numbers of any length in their order."""
    plain = digits.lstrip("0")
    return len(plain), plain, digits


def group_name(keys: Sequence[str]) -> str:
    """`pixel0 … pixel783 (784)`."""
    return f"{keys[0]} … {keys[-1]} ({len(keys):,})"


def human_size(size: float) -> str:
    """Bytes as `12.3 MB` (powers of 1000)."""
    if round(size) < 1000:
        return "1 byte" if round(size) == 1 else f"{size:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        # What rounding makes a thousand is one of the next unit.
        if round(size, 1) < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"


def first_line(error: BaseException) -> str:
    """The first line of what an error says, without the full stop; its kind where it says nothing.

    For errors of other libraries, which become part of a sentence of ours.
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean "x"?` with a leading blank, or nothing where no known word is near."""
    choices = list(known)
    lower = {c.lower(): c for c in choices}
    near = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.6)
    return f' Did you mean "{lower[near[0]]}"?' if near else ""
